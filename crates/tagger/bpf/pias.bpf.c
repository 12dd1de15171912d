// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The packet tagger of PIAS (Bai et al., ToN 2017, section IV-A1). `flowloom_tag` sees every packet that leaves a device and writes the
// class of the packet into its IP header. `flowloom_sweep` runs when somebody reads the sizes of messages. ../README.md has the rules.
//
// Two processors may handle packets of one flow at the same time. Then a few bytes may be counted twice or not at all; a lock per packet
// would cost more than that.

#include "common.h"

/* Sizes below 8 bytes have a bin each, larger ones eight bins to an octave. The last octave begins at 2^47 bytes. */
#define BINS (8 * 46)
#define LAST_OCTAVE 47
#define EXTENSION_HEADERS_MAX 4
#define ECT_0 2
/* What ends a message without another packet: a second of silence. */
#define SILENCE_NS 1000000000ull
/* The flags of a socket that has negotiated ECN: that of RFC 3168, and that of accurate ECN, which only newer kernels set. */
#define ECN_NEGOTIATED (1 | 1 << 4)

/* Userspace may change these at any time. A packet that sees some old and some new thresholds gets a class between the two. */
struct rules {
	__u64 thresholds[CLASSES - 1]; /* bytes, ascending; those that are not used are the largest number */
	__u64 idle_gap_ns;
	__u64 timeouts; /* a flow counts as new after so many consecutive timeouts; 0: never */
	__u64 keep_ecn; /* 1: leave the ECN field as it is in all packets */
};

/* IPv4 addresses are mapped (::ffff:a.b.c.d). Fragments have no ports: all those between two hosts are one flow. */
struct flow_key {
	__u8 source[16], destination[16];
	__be16 source_port, destination_port;
	__u32 protocol;
};

struct flow {
	__u64 sent;       /* bytes of the message; after timeouts, bytes since the flow counted as new */
	__u64 before;     /* bytes of the message before that */
	__u64 last_ns;    /* when the last packet with payload left */
	__u64 written_ns; /* TCP of this host: when `written` last changed */
	__u32 written;    /* TCP of this host: the end of what the application had written when the last packet left */
	__u32 next;       /* TCP: the sequence number after the last byte sent */
	__u32 timeouts;   /* TCP of this host: consecutive timeouts when the flow last counted as new */
	__u32 counted;    /* 1: the message has ended, and its size is in `sizes` */
};

struct counters {
	__u64 packets[CLASSES], bytes[CLASSES]; /* by class; packets and bytes on the wire, after segmentation */
	__u64 flows;    /* entries made in the table of flows */
	__u64 messages; /* begun, the first of each flow among them */
	__u64 aged;     /* flows that counted as new after timeouts */
	__u64 untagged; /* packets that are neither TCP nor UDP over IP */
};

/* What userspace must remember until it detaches the programs. The programs do not read it. */
struct attachment {
	__u64 words[8];
};

/* The fields that are needed of the kernel's sockets. The loader finds their places in the running kernel. */
struct inet_connection_sock {
	__u8 icsk_retransmits;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 write_seq, snd_una, delivered, app_limited;
	__u8 ecn_flags;
} __attribute__((preserve_access_index));

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*const bpf_for_each_map_elem)(void *map, void *function, void *context, __u64 flags) = (void *)BPF_FUNC_for_each_map_elem;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *socket) = (void *)BPF_FUNC_skc_to_tcp_sock;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

MAP(rules_map, BPF_MAP_TYPE_ARRAY, 1, __u32, struct rules);
MAP(flows, BPF_MAP_TYPE_LRU_HASH, 65536, struct flow_key, struct flow);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct counters);
MAP(sizes, BPF_MAP_TYPE_PERCPU_ARRAY, BINS, __u32, __u64);
MAP(attachment, BPF_MAP_TYPE_ARRAY, 1, __u32, struct attachment);

/* A packet, as far as its class depends on it. */
struct packet {
	struct flow_key key;
	__u64 payload;
	__u32 sequence; /* TCP: the number of the first byte of payload */
	__u8 syn, ends; /* TCP: the packet begins the connection; it ends it (FIN or RST) */
	struct tcp_sock *tcp; /* the socket of this host that sent it, if a connection of TCP did */
};

struct tcp_header {
	__be16 source, destination;
	__be32 sequence, acknowledgement;
	__u8 offset, flags;
	__be16 window;
};

struct udp_header {
	__be16 source, destination, length, checksum;
};

/* The bin of a size. */
inlined __u32 bin_of(__u64 size)
{
	__u32 octave = 0;

	if (size < 8)
		return size;
	if (size >> (LAST_OCTAVE + 1))
		return BINS - 1;
#pragma unroll
	for (int step = 32; step; step /= 2)
		if (size >> (octave + step))
			octave += step;
	return 8 * (octave - 2) + (size >> (octave - 3) & 7);
}

/* Counts the size of a message that has ended, once. */
inlined void end(struct flow *flow)
{
	__u64 size = flow->before + flow->sent;
	__u32 bin = bin_of(size);
	__u64 *count = bpf_map_lookup_elem(&sizes, &bin);

	if (!count || !size || flow->counted)
		return;
	*count += 1;
	flow->counted = 1;
}

inlined void begin(struct flow *flow, struct counters *count)
{
	flow->sent = flow->before = 0;
	flow->counted = 0;
	count->messages += 1;
}

/* The number of the IP header's bytes, and the packet's addresses; 0 if the packet is to stay as it is. */
inlined __u32 read_ipv4(struct __sk_buff *skb, struct packet *packet, __u32 *length, int *fragment)
{
	struct iphdr *ip = bytes(skb, 0, sizeof(*ip));
	__u8 *source = packet->key.source, *destination = packet->key.destination;

	if (!ip)
		return 0;
	source[10] = source[11] = destination[10] = destination[11] = 0xff;
	__builtin_memcpy(source + 12, &ip->saddr, 4);
	__builtin_memcpy(destination + 12, &ip->daddr, 4);
	packet->key.protocol = ip->protocol;
	*fragment = (ip->frag_off & network16(0x3fff)) != 0;
	*length = network16(ip->tot_len);
	return ip->ihl * 4;
}

inlined __u32 read_ipv6(struct __sk_buff *skb, struct packet *packet, __u32 *length, int *fragment)
{
	struct ipv6hdr *ip = bytes(skb, 0, sizeof(*ip));
	__u32 at = sizeof(*ip);
	__u8 next;

	if (!ip)
		return 0;
	__builtin_memcpy(packet->key.source, &ip->saddr, 16);
	__builtin_memcpy(packet->key.destination, &ip->daddr, 16);
	*length = ip->payload_len ? sizeof(*ip) + network16(ip->payload_len) : 0;
	next = ip->nexthdr;
#pragma unroll
	for (int i = 0; i < EXTENSION_HEADERS_MAX; i++) {
		__u8 *extension;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			break;
		extension = bytes(skb, at, 8);
		if (!extension)
			return 0;
		*fragment |= next == IPPROTO_FRAGMENT;
		at += next == IPPROTO_FRAGMENT ? 8 : (extension[1] + 1) * 8;
		next = extension[0];
	}
	packet->key.protocol = next;
	return at;
}

/* Reads a packet's headers; returns 0 if it is neither TCP nor UDP over IP. */
inlined int read(struct __sk_buff *skb, struct packet *packet)
{
	__u32 length = 0, at, frame;
	int fragment = 0;

	gather(skb, (skb->protocol == network16(ETH_P_IP) ? 20 : 40) + sizeof(struct udp_header));
	if (skb->protocol == network16(ETH_P_IP))
		at = read_ipv4(skb, packet, &length, &fragment);
	else if (skb->protocol == network16(ETH_P_IPV6))
		at = read_ipv6(skb, packet, &length, &fragment);
	else
		return 0;
	if (!at || (packet->key.protocol != IPPROTO_TCP && packet->key.protocol != IPPROTO_UDP))
		return 0;
	frame = skb->len > ETH_HLEN ? skb->len - ETH_HLEN : 0;
	/* Short frames are padded, so the IP header knows better; but bursts may be too long for it. */
	if (!length || length > frame || skb->gso_segs > 1)
		length = frame;
	if (fragment) {
		/* A part of a TCP segment has no sequence number, so it is counted like a datagram. */
		packet->key.protocol |= 0x100;
	} else if (packet->key.protocol == IPPROTO_TCP) {
		struct tcp_header *tcp = bytes(skb, at, sizeof(*tcp));

		if (!tcp)
			return 0;
		packet->key.source_port = tcp->source;
		packet->key.destination_port = tcp->destination;
		packet->syn = (tcp->flags & 2) != 0;
		/* A SYN takes a number of its own, and may carry data. */
		packet->sequence = network32(tcp->sequence) + packet->syn;
		packet->ends = (tcp->flags & 5) != 0;
		at += (tcp->offset >> 4) * 4;
	} else {
		struct udp_header *udp = bytes(skb, at, sizeof(*udp));

		if (!udp)
			return 0;
		packet->key.source_port = udp->source;
		packet->key.destination_port = udp->destination;
		at += sizeof(*udp);
	}
	packet->payload = length > at ? length - at : 0;
	return 1;
}

/* The socket of this host that sent a TCP packet, if one did. */
inlined struct tcp_sock *socket_of(struct __sk_buff *skb)
{
	struct bpf_sock *socket = skb->sk;

	return socket ? bpf_skc_to_tcp_sock(socket) : 0;
}

/* Whether more than a time has passed. Another processor may have noted a time that is later than ours. */
inlined int has_passed(__u64 since, __u64 now, __u64 gap)
{
	return (__s64)(now - since) > (__s64)gap;
}

/* Whether a flow has sent nothing for the idle gap. */
inlined int is_idle(const struct flow *flow, const struct rules *rules, __u64 now)
{
	return has_passed(flow->last_ns, now, rules->idle_gap_ns);
}

/*
 * Whether a TCP packet begins a message. Nothing may be in flight, and the latest write must have found the send buffer empty: only such a
 * write sets `app_limited` to `delivered`, and the next acknowledgement ends that. The gap counts from the time at which a packet first
 * showed what the application had written before.
 */
inlined int begins_message(const struct tcp_sock *tcp, const struct flow *flow, const struct rules *rules, __u32 sequence, __u64 now)
{
	return sequence == tcp->snd_una && tcp->app_limited == tcp->delivered &&
	       has_passed(flow->written_ns, now, rules->idle_gap_ns);
}

/* Counts a TCP packet with payload, FIN or RST; returns its offset in its message. */
inlined __u64 count_tcp(const struct packet *packet, struct flow *flow, const struct rules *rules, struct counters *count, __u64 now)
{
	struct tcp_sock *tcp = packet->tcp;
	__s32 ahead = packet->sequence - flow->next;
	__u64 offset;

	if (packet->payload && ahead >= 0) {
		if (flow->sent && (tcp ? begins_message(tcp, flow, rules, packet->sequence, now) : is_idle(flow, rules, now))) {
			end(flow);
			begin(flow, count);
		}
		offset = flow->sent;
		flow->sent += packet->payload;
		flow->next = packet->sequence + packet->payload;
	} else {
		/* A retransmission has its own offset, and only what was not sent before is counted. */
		__u64 behind = ahead < 0 ? -(__s64)ahead : 0;
		__s64 more = (__s64)packet->payload - (__s64)behind;

		offset = flow->sent > behind ? flow->sent - behind : 0;
		if (packet->payload && more > 0) {
			flow->sent += more;
			flow->next += more;
		}
	}
	if (tcp) {
		__u32 timeouts = tcp->inet_conn.icsk_retransmits, written = tcp->write_seq;

		if (timeouts < flow->timeouts)
			flow->timeouts = 0;
		if (packet->payload && rules->timeouts && timeouts >= flow->timeouts + rules->timeouts) {
			flow->timeouts = timeouts;
			flow->before += offset;
			flow->sent = packet->payload;
			flow->next = packet->sequence + packet->payload;
			offset = 0;
			count->aged += 1;
		}
		if (written != flow->written) {
			flow->written = written;
			flow->written_ns = now;
		}
	}
	return offset;
}

/* Counts a datagram or a fragment; returns its offset in its message. */
inlined __u64 count_datagram(const struct packet *packet, struct flow *flow, const struct rules *rules, struct counters *count, __u64 now)
{
	__u64 offset;

	if (flow->sent && is_idle(flow, rules, now)) {
		end(flow);
		begin(flow, count);
	}
	offset = flow->sent;
	flow->sent += packet->payload;
	return offset;
}

/* The offset of a packet in its message. It is 0 for those that carry no data: acknowledgements and requests for connections. */
inlined __u64 count_packet(const struct packet *packet, const struct rules *rules, struct counters *count)
{
	struct flow *flow;
	__u64 now, offset;

	/* FIN and RST must not overtake the data before them. */
	if (!packet->payload && !packet->ends && !packet->syn)
		return 0;
	now = bpf_ktime_get_ns();
	flow = bpf_map_lookup_elem(&flows, &packet->key);
	if (!flow) {
		struct flow fresh = { .last_ns = now, .written_ns = now, .next = packet->sequence };

		if (packet->ends && !packet->payload)
			return 0;
		bpf_map_update_elem(&flows, &packet->key, &fresh, BPF_ANY);
		count->flows += 1;
		count->messages += 1;
		flow = bpf_map_lookup_elem(&flows, &packet->key);
		if (!flow)
			return 0;
	} else if (packet->syn) {
		/* A new connection has the ports of an old one, or its request is repeated. */
		if (flow->sent) {
			end(flow);
			begin(flow, count);
		}
		flow->next = packet->sequence;
		flow->timeouts = 0;
	}
	if (packet->syn && !packet->payload)
		return 0;
	offset = packet->key.protocol == IPPROTO_TCP ? count_tcp(packet, flow, rules, count, now)
						     : count_datagram(packet, flow, rules, count, now);
	if (packet->payload)
		flow->last_ns = now;
	if (packet->ends)
		end(flow);
	return offset;
}

/*
 * Whether a packet may say that it is ECN-capable: its connection has negotiated ECN, and so somebody reacts to a mark. On a request for
 * a connection and on the answer, TCP itself decides. DCTCP makes them ECN-capable. From anybody else, a Linux listener refuses ECN then.
 */
inlined int is_capable(const struct packet *packet, const struct rules *rules)
{
	return !rules->keep_ecn && !packet->syn && packet->tcp && packet->tcp->ecn_flags & ECN_NEGOTIATED;
}

inlined __u8 tagged(__u8 tos, __u32 class, int capable)
{
	return (CLASSES - 1 - class) << 5 | (tos & 3 ?: (capable ? ECT_0 : 0));
}

/* Writes the class and the ECN field. */
inlined void write(struct __sk_buff *skb, __u32 class, int capable)
{
	if (skb->protocol == network16(ETH_P_IP)) {
		struct iphdr *ip = bytes(skb, 0, sizeof(*ip));
		__u32 sum;
		__u8 tos;

		if (!ip)
			return;
		tos = tagged(ip->tos, class, capable);
		/* RFC 1624, equation 3. The field is the second byte of its 16-bit word, in the order of the network. */
		sum = (__u16)~ip->check + (__u16)~network16(ip->tos) + network16(tos);
		sum = (sum & 0xffff) + (sum >> 16);
		ip->check = ~((sum & 0xffff) + (sum >> 16));
		ip->tos = tos;
	} else {
		__u8 *ip = bytes(skb, 0, sizeof(struct ipv6hdr));
		__u8 tos;

		if (!ip)
			return;
		tos = tagged(traffic_class(ip), class, capable);
		ip[0] = (ip[0] & 0xf0) | tos >> 4;
		ip[1] = (ip[1] & 0x0f) | tos << 4;
	}
}

section("classifier")
int flowloom_tag(struct __sk_buff *skb)
{
	struct packet packet = {};
	__u32 zero = 0, class = 0;
	struct rules *rules = bpf_map_lookup_elem(&rules_map, &zero);
	struct counters *count = bpf_map_lookup_elem(&counters, &zero);
	__u64 offset;

	if (!rules || !count)
		return NEXT;
	if (!read(skb, &packet)) {
		count->untagged += 1;
		return NEXT;
	}
	packet.tcp = socket_of(skb);
	offset = count_packet(&packet, rules, count);
#pragma unroll
	for (int i = 0; i < CLASSES - 1; i++)
		class += offset > rules->thresholds[i];
	if (class < CLASSES) {
		count->packets[class] += skb->gso_segs ?: 1;
		count->bytes[class] += skb->wire_len;
	}
	write(skb, class, is_capable(&packet, rules));
	return NEXT;
}

/* Ends the messages of flows that have sent nothing for a second. `skb` is no packet of the device. */
static long sweep_flow(void *map, const struct flow_key *key, struct flow *flow, __u64 *now)
{
	if (!flow->counted && has_passed(flow->last_ns, *now, SILENCE_NS))
		end(flow);
	return 0;
}

section("classifier")
int flowloom_sweep(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();

	return bpf_for_each_map_elem(&flows, sweep_flow, &now, 0);
}

/* The kernel lets only programs under the GPL read its sockets, so this file may be used under either licence. */
char LICENSE[] section("license") = "GPL";
