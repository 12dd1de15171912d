// The control: ns-3's own DCTCP at one bottleneck, for tests/python/test_ns3_dctcp.py, which runs Flowloom's in the same place.
//
// A dumbbell: N hosts on each side, 10 Gb/s everywhere, 16 us per link. Host i sends to host N + i as fast as DCTCP lets it, from i times
// 53 us on. A data packet takes 1500 B on a link: 1458 B of payload, 40 B of headers, 2 B of point-to-point framing. Every packet is
// acknowledged. The bottleneck marks above 65 packets, by the instant queue: RED whose thresholds are equal and whose average has no
// memory. Other ports have no discipline, and room for everything.
//
// RFC 8257 cuts the window at once. ns-3 does so with --recovery=TcpClassicRecovery; its default, proportional rate reduction, takes a round
// trip for it, in which the queue stays above the threshold, so that a second cut often follows.
//
// Prints one line of JSON: the bottleneck's backlog, averaged over time from warm-up on, and what it sent. The backlog is what waits in
// the queue discipline and in the device, whose queue holds one packet; the packet on the wire is not counted.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

using namespace ns3;

namespace {

constexpr uint32_t PAYLOAD = 1458;
constexpr uint16_t PORT = 9;
constexpr const char* RATE = "10Gbps";
constexpr const char* DELAY = "16us";
constexpr const char* ROOM = "100000p";

// A number that changes, and its integral over time from an instant on.
class Integral
{
  public:
    explicit Integral(Time from)
        : m_from(from)
    {
    }

    void Add(int64_t change)
    {
        Settle();
        m_value += change;
        m_most = Simulator::Now() >= m_from ? std::max(m_most, m_value) : 0;
    }

    double Mean()
    {
        Settle();
        return m_area / (Simulator::Now() - m_from).GetSeconds();
    }

    int64_t Most() const
    {
        return m_most;
    }

  private:
    void Settle()
    {
        const Time since = std::max(m_since, m_from);
        if (Simulator::Now() > since)
        {
            m_area += static_cast<double>(m_value) * (Simulator::Now() - since).GetSeconds();
        }
        m_since = Simulator::Now();
    }

    Time m_from;
    Time m_since;
    int64_t m_value = 0;
    int64_t m_most = 0;
    double m_area = 0;
};

struct Bottleneck
{
    Integral backlog;
    Time from;
    uint64_t bytes = 0;

    explicit Bottleneck(Time warm)
        : backlog(warm),
          from(warm)
    {
    }

    void Changes(uint32_t before, uint32_t after)
    {
        backlog.Add(static_cast<int64_t>(after) - static_cast<int64_t>(before));
    }

    void Sends(Ptr<const Packet> packet)
    {
        bytes += Simulator::Now() >= from ? packet->GetSize() : 0;
    }
};

// Connects two nodes with a network of their own; no queue disciplines.
NetDeviceContainer Connect(Ptr<Node> a, Ptr<Node> b, Ipv4AddressHelper& addresses, const std::string& room)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(RATE));
    link.SetChannelAttribute("Delay", StringValue(DELAY));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(room));
    const NetDeviceContainer pair = link.Install(a, b);
    addresses.Assign(pair);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(pair);
    return pair;
}

void SetDefaults(uint32_t initial_window, const std::string& recovery)
{
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpDctcp")));
    Config::SetDefault("ns3::TcpDctcp::DctcpShiftG", DoubleValue(1.0 / 16));
    Config::SetDefault("ns3::TcpDctcp::DctcpAlphaOnInit", DoubleValue(1));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(PAYLOAD));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initial_window));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
}

} // namespace

int main(int argc, char* argv[])
{
    uint32_t flows = 2;
    uint32_t threshold = 65;
    uint32_t initial_window = 10;
    double warm_ms = 25;
    double end_ms = 75;
    std::string recovery = "TcpClassicRecovery";
    CommandLine command;
    command.AddValue("flows", "how many", flows);
    command.AddValue("threshold", "a packet is marked that finds so many in the queue discipline", threshold);
    command.AddValue("initial-window", "in packets", initial_window);
    command.AddValue("recovery", "how a cut is made: TcpClassicRecovery at once, TcpPrrRecovery (ns-3's default) over a round trip", recovery);
    command.AddValue("warm-ms", "when measuring begins", warm_ms);
    command.AddValue("end-ms", "when the run ends", end_ms);
    command.Parse(argc, argv);
    SetDefaults(initial_window, recovery);

    NodeContainer hosts(2 * flows);
    NodeContainer switches(2);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    for (uint32_t host = 0; host < 2 * flows; ++host)
    {
        Connect(hosts.Get(host), switches.Get(host / flows), addresses, ROOM);
    }
    const NetDeviceContainer middle = Connect(switches.Get(0), switches.Get(1), addresses, "1p");

    TrafficControlHelper red;
    red.SetRootQueueDisc("ns3::RedQueueDisc",
                         "MaxSize", StringValue(ROOM),
                         "MinTh", DoubleValue(threshold),
                         "MaxTh", DoubleValue(threshold),
                         "QW", DoubleValue(1),
                         "Gentle", BooleanValue(false),
                         "UseEcn", BooleanValue(true),
                         "UseHardDrop", BooleanValue(false),
                         "LinkBandwidth", StringValue(RATE),
                         "LinkDelay", StringValue(DELAY));
    const Ptr<QueueDisc> discipline = red.Install(middle.Get(0)).Get(0);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Bottleneck bottleneck(MilliSeconds(warm_ms));
    const auto device = DynamicCast<PointToPointNetDevice>(middle.Get(0));
    discipline->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Bottleneck::Changes, &bottleneck));
    device->GetQueue()->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Bottleneck::Changes, &bottleneck));
    device->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Bottleneck::Sends, &bottleneck));

    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        const Ptr<Node> to = hosts.Get(flows + flow);
        const InetSocketAddress address(to->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal(), PORT);
        PacketSinkHelper("ns3::TcpSocketFactory", address).Install(to);
        BulkSendHelper source("ns3::TcpSocketFactory", address);
        source.SetAttribute("SendSize", UintegerValue(PAYLOAD));
        source.Install(hosts.Get(flow)).Start(MicroSeconds(53 * flow));
    }

    Simulator::Stop(MilliSeconds(end_ms));
    Simulator::Run();
    const double span_s = (end_ms - warm_ms) / 1e3;
    const QueueDisc::Stats stats = discipline->GetStats();
    std::printf("{\"flows\": %u, \"mean_packets\": %.3f, \"most_packets\": %lld, \"utilisation\": %.5f, \"marks\": %u, \"drops\": %u}\n",
                flows,
                bottleneck.backlog.Mean(),
                static_cast<long long>(bottleneck.backlog.Most()),
                8.0 * static_cast<double>(bottleneck.bytes) / 10e9 / span_s,
                stats.nTotalMarkedPackets,
                stats.nTotalDroppedPackets);
    Simulator::Destroy();
    return 0;
}
