// The control: completion times of ns-3's own TCP with selective acknowledgement, flow by flow, for benches/ns3_fct.py, which runs Flowloom on the
// same flows.
//
// A star: hosts around one switch, 10 Gb/s, 10 us per link. Every port, the hosts' own too, is a drop-tail queue of the same size in bytes; the
// packet on the wire does not count. A data packet takes 1500 B on a link: 1458 B of payload, 40 B of headers, 2 B of point-to-point framing. Every
// packet is acknowledged. Each flow opens a connection of its own, which takes a round trip.
//
// Reads lines of "start_s,src,dst,bytes" and prints lines of "id,fct_us,timeouts,recoveries": until the last byte is at the receiver.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace {

constexpr uint32_t PAYLOAD = 1458;
constexpr uint16_t FIRST_PORT = 1000;
constexpr const char* RATE = "10Gbps";

struct FlowState
{
    double start_s = 0;
    uint32_t src = 0;
    uint32_t dst = 0;
    uint64_t bytes = 0;
    uint64_t received = 0;
    uint32_t timeouts = 0;
    uint32_t recoveries = 0;
    double fct_us = -1;
};

std::vector<FlowState> g_flows;
uint32_t g_finished = 0;

void Receives(uint32_t id, Ptr<const Packet> packet, const Address&)
{
    FlowState& flow = g_flows[id];
    flow.received += packet->GetSize();
    if (flow.received >= flow.bytes && flow.fct_us < 0)
    {
        flow.fct_us = (Simulator::Now().GetSeconds() - flow.start_s) * 1e6;
        if (++g_finished == g_flows.size())
        {
            Simulator::Stop();
        }
    }
}

void ChangesState(uint32_t id, TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    g_flows[id].timeouts += now == TcpSocketState::CA_LOSS;
    g_flows[id].recoveries += now == TcpSocketState::CA_RECOVERY;
}

void Watch(uint32_t id, Ptr<BulkSendApplication> source)
{
    source->GetSocket()->TraceConnectWithoutContext("CongState", MakeBoundCallback(&ChangesState, id));
}

void ReadFlows(const std::string& file)
{
    std::ifstream lines(file);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line))
    {
        FlowState flow;
        char comma = 0;
        std::istringstream(line) >> flow.start_s >> comma >> flow.src >> comma >> flow.dst >> comma >> flow.bytes;
        g_flows.push_back(flow);
    }
}

} // namespace

int main(int argc, char* argv[])
{
    std::string file;
    std::string recovery = "TcpClassicRecovery";
    uint32_t hosts = 16;
    uint32_t buffer = 360000;
    uint32_t nic = 360000;
    uint32_t initial_window = 10;
    double rto_ms = 10;
    CommandLine command;
    command.AddValue("flows", "CSV of flows", file);
    command.AddValue("recovery", "TcpClassicRecovery or TcpPrrRecovery", recovery);
    command.AddValue("hosts", "how many", hosts);
    command.AddValue("buffer", "of a switch's port, in bytes", buffer);
    command.AddValue("nic", "of a host's port, in bytes", nic);
    command.AddValue("initial-window", "in packets", initial_window);
    command.AddValue("rto-ms", "the least timeout", rto_ms);
    command.Parse(argc, argv);
    ReadFlows(file);

    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(PAYLOAD));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initial_window));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(rto_ms)));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(rto_ms)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MilliSeconds(rto_ms)));

    NodeContainer nodes(hosts);
    NodeContainer star(1);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    for (uint32_t host = 0; host < hosts; ++host)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", StringValue(RATE));
        link.SetChannelAttribute("Delay", StringValue("10us"));
        const NetDeviceContainer pair = link.Install(nodes.Get(host), star.Get(0));
        for (uint32_t end = 0; end < 2; ++end)
        {
            const std::string room = std::to_string(end == 0 ? nic : buffer) + "B";
            DynamicCast<PointToPointNetDevice>(pair.Get(end))->GetQueue()->SetMaxSize(QueueSize(room));
        }
        addresses.Assign(pair);
        addresses.NewNetwork();
        TrafficControlHelper().Uninstall(pair);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    for (uint32_t id = 0; id < g_flows.size(); ++id)
    {
        const FlowState& flow = g_flows[id];
        const Ptr<Node> to = nodes.Get(flow.dst);
        const uint16_t port = FIRST_PORT + id;
        const InetSocketAddress address(to->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal(), port);
        const ApplicationContainer sink = PacketSinkHelper("ns3::TcpSocketFactory", address).Install(to);
        sink.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Receives, id));
        BulkSendHelper source("ns3::TcpSocketFactory", address);
        source.SetAttribute("SendSize", UintegerValue(PAYLOAD));
        source.SetAttribute("MaxBytes", UintegerValue(flow.bytes));
        ApplicationContainer sender = source.Install(nodes.Get(flow.src));
        sender.Start(Seconds(flow.start_s));
        Simulator::Schedule(Seconds(flow.start_s) + NanoSeconds(1), &Watch, id, DynamicCast<BulkSendApplication>(sender.Get(0)));
    }

    Simulator::Run();
    std::printf("id,fct_us,timeouts,recoveries\n");
    for (uint32_t id = 0; id < g_flows.size(); ++id)
    {
        std::printf("%u,%.3f,%u,%u\n", id, g_flows[id].fct_us, g_flows[id].timeouts, g_flows[id].recoveries);
    }
    Simulator::Destroy();
    return 0;
}
