// The yardstick: a leaf-spine network in ns-3 that carries about what pHost's default scenario carries, as cheaply as ns-3 can.
//
// 9 racks of 16 hosts, 4 spines, 10 and 40 Gb/s, 200 ns per link. Every host sends 1500 B packets to others, chosen anew for each
// packet, at Poisson times that load its link to 0.6; each packet is answered with one of 40 B, as a token goes with each of
// pHost's data packets. There are no flows, no transport, no tracing, no logging, and no queues but the devices' own, which count
// their packets anyway.
//
// Prints one line of JSON: packet-hops, and the user CPU time of Simulator::Run.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using namespace ns3;

namespace {

constexpr uint32_t RACKS = 9;
constexpr uint32_t HOSTS_PER_RACK = 16;
constexpr uint32_t HOSTS = RACKS * HOSTS_PER_RACK;
constexpr uint32_t SPINES = 4;
constexpr double LOAD = 0.6;
constexpr double HOST_BPS = 10e9;
constexpr uint16_t PORT = 9;
// What is left of 1500 B and of 40 B without the headers of IP and UDP.
constexpr uint32_t DATA_PAYLOAD = 1472;
constexpr uint32_t ANSWER_PAYLOAD = 12;
// Every link has a network of four addresses, the first 144 belong to the hosts' links, and the first address of a link to the host.
constexpr uint32_t FIRST_NETWORK = 0x0a000000;
constexpr const char* MASK = "255.255.255.252";

Ipv4Address HostAddress(uint32_t host)
{
    return Ipv4Address(FIRST_NETWORK + 4 * host + 1);
}

uint32_t HostNumber(Ipv4Address address)
{
    return (address.Get() - FIRST_NETWORK) / 4;
}

// Routes of a node in constant time. ns-3's own multipath routing, Ipv4GlobalRouting, searches a list of some hundred routes for every
// packet at every hop; that is a property of its tables, and would be measured here instead of the simulator.
class TableRouting : public Ipv4RoutingProtocol
{
  public:
    // By destination host, the interfaces to choose from; the node itself where there is none.
    std::vector<std::vector<uint32_t>> m_interfaces;

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return Route(m_interfaces[HostNumber(header.GetDestination())]);
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback deliver,
                    ErrorCallback) override
    {
        const std::vector<uint32_t>& choice = m_interfaces[HostNumber(header.GetDestination())];
        if (choice.empty())
        {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
        }
        else
        {
            forward(Route(choice), packet, header);
        }
        return true;
    }

    void NotifyInterfaceUp(uint32_t interface) override
    {
        const Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetGateway(Ipv4Address::GetZero());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        m_routes.resize(std::max<size_t>(m_routes.size(), interface + 1));
        m_routes[interface] = route;
    }

    void NotifyInterfaceDown(uint32_t) override
    {
    }

    void NotifyAddAddress(uint32_t interface, Ipv4InterfaceAddress) override
    {
        NotifyInterfaceUp(interface);
    }

    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
    {
    }

  private:
    Ptr<Ipv4Route> Route(const std::vector<uint32_t>& choice)
    {
        // Each packet the next one in turn.
        return m_routes[choice.size() == 1 ? choice[0] : choice[m_turn++ % choice.size()]];
    }

    Ptr<Ipv4> m_ipv4;
    // By interface.
    std::vector<Ptr<Ipv4Route>> m_routes;
    uint32_t m_turn = 0;
};

class TableRoutingHelper : public Ipv4RoutingHelper
{
  public:
    TableRoutingHelper* Copy() const override
    {
        return new TableRoutingHelper(*this);
    }

    Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override
    {
        return CreateObject<TableRouting>();
    }
};

// One host's traffic: sends at random times to random others, and answers what is sent to it.
class Host
{
  public:
    Host(Ptr<Node> node, uint32_t number)
        : m_number(number)
    {
        m_socket = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
        m_socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_socket->SetRecvCallback(MakeCallback(&Host::Receive, this));
        m_interval->SetAttribute("Mean", DoubleValue(1500 * 8 / (LOAD * HOST_BPS)));
        m_other->SetAttribute("Min", DoubleValue(0));
        m_other->SetAttribute("Max", DoubleValue(HOSTS - 2));
        ScheduleNext();
    }

  private:
    void ScheduleNext()
    {
        Simulator::Schedule(Seconds(m_interval->GetValue()), &Host::Send, this);
    }

    void Send()
    {
        const uint32_t to = (m_number + 1 + m_other->GetInteger()) % HOSTS;
        m_socket->SendTo(Create<Packet>(DATA_PAYLOAD), 0, InetSocketAddress(HostAddress(to), PORT));
        ScheduleNext();
    }

    void Receive(Ptr<Socket> socket)
    {
        Address from;
        while (const Ptr<Packet> packet = socket->RecvFrom(from))
        {
            if (packet->GetSize() == DATA_PAYLOAD)
            {
                socket->SendTo(Create<Packet>(ANSWER_PAYLOAD), 0, from);
            }
        }
    }

    uint32_t m_number;
    Ptr<Socket> m_socket;
    Ptr<ExponentialRandomVariable> m_interval = CreateObject<ExponentialRandomVariable>();
    Ptr<UniformRandomVariable> m_other = CreateObject<UniformRandomVariable>();
};

// Connects two nodes, and gives their new interfaces addresses of the next network.
void Connect(Ptr<Node> a, Ptr<Node> b, const std::string& rate, NetDeviceContainer& devices)
{
    static Ipv4AddressHelper addresses(Ipv4Address(FIRST_NETWORK), MASK);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue("200ns"));
    const NetDeviceContainer pair = link.Install(a, b);
    addresses.Assign(pair);
    addresses.NewNetwork();
    // With the addresses come queue disciplines, which no one needs here.
    TrafficControlHelper().Uninstall(pair);
    devices.Add(pair);
}

// Interface 0 is the loopback; then they are numbered in the order of their links.
void FillTables(const NodeContainer& hosts, const NodeContainer& leaves, const NodeContainer& spines)
{
    const auto table = [](Ptr<Node> node) -> auto& {
        auto routing = DynamicCast<TableRouting>(node->GetObject<Ipv4>()->GetRoutingProtocol());
        routing->m_interfaces.resize(HOSTS);
        return routing->m_interfaces;
    };
    std::vector<uint32_t> up;
    for (uint32_t spine = 0; spine < SPINES; ++spine)
    {
        up.push_back(HOSTS_PER_RACK + 1 + spine);
    }
    for (uint32_t to = 0; to < HOSTS; ++to)
    {
        const uint32_t rack = to / HOSTS_PER_RACK;
        for (uint32_t host = 0; host < HOSTS; ++host)
        {
            table(hosts.Get(host))[to] = host == to ? std::vector<uint32_t>{} : std::vector<uint32_t>{1};
        }
        for (uint32_t leaf = 0; leaf < RACKS; ++leaf)
        {
            table(leaves.Get(leaf))[to] = leaf == rack ? std::vector<uint32_t>{to % HOSTS_PER_RACK + 1} : up;
        }
        for (uint32_t spine = 0; spine < SPINES; ++spine)
        {
            table(spines.Get(spine))[to] = {rack + 1};
        }
    }
}

double UserSeconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6;
}

struct Counts
{
    uint64_t packetHops = 0;
    uint64_t drops = 0;
};

// What all devices' queues let go. Their counters have 32 bits: enough for seconds of simulated time.
Counts Count(const NetDeviceContainer& devices)
{
    Counts counts;
    for (auto device = devices.Begin(); device != devices.End(); ++device)
    {
        const auto queue = DynamicCast<PointToPointNetDevice>(*device)->GetQueue();
        counts.packetHops += queue->GetTotalReceivedPackets() - queue->GetNPackets();
        counts.drops += queue->GetTotalDroppedPackets();
    }
    return counts;
}

} // namespace

int main(int argc, char* argv[])
{
    double simulated_ms = 5;
    std::string routing = "table";
    std::string scheduler = "Map";
    CommandLine command;
    command.AddValue("simulated-ms", "for how long hosts send", simulated_ms);
    command.AddValue("routing", "table (constant time) or global (Ipv4GlobalRouting)", routing);
    command.AddValue("scheduler", "Map, Heap, Calendar or PriorityQueue", scheduler);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::Ipv4GlobalRouting::RandomEcmpRouting", BooleanValue(true));
    Simulator::SetScheduler(ObjectFactory("ns3::" + scheduler + "Scheduler"));

    NodeContainer hosts(HOSTS);
    NodeContainer leaves(RACKS);
    NodeContainer spines(SPINES);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    if (routing == "global")
    {
        stack.SetRoutingHelper(Ipv4GlobalRoutingHelper());
    }
    else
    {
        stack.SetRoutingHelper(TableRoutingHelper());
    }
    stack.InstallAll();

    NetDeviceContainer devices;
    for (uint32_t host = 0; host < HOSTS; ++host)
    {
        Connect(hosts.Get(host), leaves.Get(host / HOSTS_PER_RACK), "10Gbps", devices);
    }
    for (uint32_t leaf = 0; leaf < RACKS; ++leaf)
    {
        for (uint32_t spine = 0; spine < SPINES; ++spine)
        {
            Connect(leaves.Get(leaf), spines.Get(spine), "40Gbps", devices);
        }
    }
    if (routing == "global")
    {
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }
    else
    {
        FillTables(hosts, leaves, spines);
    }
    std::vector<Host> traffic;
    traffic.reserve(HOSTS);
    for (uint32_t host = 0; host < HOSTS; ++host)
    {
        traffic.emplace_back(hosts.Get(host), host);
    }

    Simulator::Stop(Seconds(simulated_ms / 1e3));
    const double before = UserSeconds();
    Simulator::Run();
    const double user_s = UserSeconds() - before;
    const Counts counts = Count(devices);
    std::printf("{\"routing\": \"%s\", \"scheduler\": \"%s\", \"packet_hops\": %llu, \"drops\": %llu, \"events\": %llu, "
                "\"simulated_s\": %g, \"user_s\": %.3f}\n",
                routing.c_str(),
                scheduler.c_str(),
                static_cast<unsigned long long>(counts.packetHops),
                static_cast<unsigned long long>(counts.drops),
                static_cast<unsigned long long>(Simulator::GetEventCount()),
                simulated_ms / 1e3,
                user_s);
    Simulator::Destroy();
    return 0;
}
