// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The marks of a switch port. `flowloom_port` sees every packet before it enters the queues of a device, and marks it CE if it finds more
// than a threshold there. It reads the backlog of the queues themselves, so it needs no model of them. ../README.md has the rules.

#include "common.h"

/* `flowloom deploy` gives the queue of class q the handle (10 + q):, and tc reads handles as hexadecimal numbers. */
#define QUEUE_0 0x10
/* The kernel's table of the queues of a device: its number of bits, and how many queues of a bucket are looked at. */
#define HASH_BITS 4
#define CHAIN_MAX 64

struct rules {
	__u64 above;    /* bytes */
	__u64 by_queue; /* 1: what waits in the queue of the packet's class counts, and not all that waits at the device */
	__u64 queues;   /* at most CLASSES; packets of later classes are in the last queue */
};

struct counters {
	__u64 packets[CLASSES], bytes[CLASSES]; /* by queue; packets and bytes on the wire, after segmentation */
	__u64 capable[CLASSES];                 /* packets that came with ECT(0), ECT(1) or CE */
	__u64 marked[CLASSES];                  /* packets that became CE here */
	__u64 queueless;                        /* packets whose queue was not found */
};

/* The fields that are needed of the kernel's structures. The loader finds their places in the running kernel. */
#define kernel_structure __attribute__((preserve_access_index))

struct hlist_node {
	struct hlist_node *next;
} kernel_structure;

struct hlist_head {
	struct hlist_node *first;
} kernel_structure;

struct gnet_stats_queue {
	__u32 backlog;
} kernel_structure;

struct Qdisc {
	__u32 handle;
	struct gnet_stats_queue qstats;
	struct hlist_node hash;
} kernel_structure;

struct net_device {
	struct Qdisc *qdisc;
	struct hlist_head qdisc_hash[1 << HASH_BITS];
} kernel_structure;

struct sk_buff {
	struct net_device *dev;
} kernel_structure;

static long (*const bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static long (*const bpf_skb_ecn_set_ce)(struct __sk_buff *skb) = (void *)BPF_FUNC_skb_ecn_set_ce;

MAP(rules_map, BPF_MAP_TYPE_ARRAY, 1, __u32, struct rules);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct counters);

/* Reads a field of a structure of the kernel; 0 if its memory cannot be read. */
#define field(pointer) \
	({ \
		typeof(*(pointer)) value = 0; \
		bpf_probe_read_kernel(&value, sizeof(value), pointer); \
		value; \
	})

/* The byte of DSCP and ECN; -1 for packets that are not IP. */
inlined int read(struct __sk_buff *skb)
{
	__u8 *ip;

	if (skb->protocol == network16(ETH_P_IP)) {
		gather(skb, sizeof(struct iphdr));
		ip = bytes(skb, 0, sizeof(struct iphdr));
		return ip ? ip[1] : -1;
	}
	if (skb->protocol == network16(ETH_P_IPV6)) {
		gather(skb, sizeof(struct ipv6hdr));
		ip = bytes(skb, 0, sizeof(struct ipv6hdr));
		return ip ? traffic_class(ip) : -1;
	}
	return -1;
}

/* Class c is sent as DSCP CS(7 - c). All else is in the last queue. */
inlined __u32 queue_of(int tos, const struct rules *rules)
{
	__u32 last = (rules->queues - 1) & (CLASSES - 1), class = CLASSES - 1 - (tos >> 5);

	return tos < 0 || tos & 0x1c || class > last ? last : class;
}

/* Finds the queue with a handle at a device, as the kernel does (qdisc_lookup). */
inlined struct Qdisc *find(struct net_device *device, __u32 handle)
{
	/* hash_32 of linux/hash.h */
	__u32 bucket = handle * 0x61C88647u >> (32 - HASH_BITS);
	struct hlist_head *heads = &device->qdisc_hash[0];
	struct hlist_node *node = field(&heads[bucket].first);

	for (int i = 0; node && i < CHAIN_MAX; i++) {
		struct Qdisc *qdisc = (void *)node - __builtin_preserve_field_info(((struct Qdisc *)0)->hash, 0);

		if (field(&qdisc->handle) == handle)
			return qdisc;
		node = field(&node->next);
	}
	return 0;
}

section("classifier")
int flowloom_port(struct __sk_buff *skb)
{
	__u32 zero = 0, packets = skb->gso_segs ?: 1, queue;
	struct rules *rules = bpf_map_lookup_elem(&rules_map, &zero);
	struct counters *count = bpf_map_lookup_elem(&counters, &zero);
	struct net_device *device;
	struct Qdisc *qdisc;
	int tos;

	if (!rules || !count)
		return NEXT;
	tos = read(skb);
	queue = queue_of(tos, rules);
	count->packets[queue] += packets;
	count->bytes[queue] += skb->wire_len;
	if (tos < 0 || !(tos & 3))
		return NEXT;
	count->capable[queue] += packets;
	if ((tos & 3) == CE)
		return NEXT;
	/* What the kernel gives to a program of this kind is its own structure, and probe_read_kernel reads it as such. */
	device = field(&((struct sk_buff *)(void *)skb)->dev);
	qdisc = rules->by_queue ? find(device, (QUEUE_0 + queue) << 16) : field(&device->qdisc);
	if (!qdisc) {
		count->queueless += packets;
		return NEXT;
	}
	if (field(&qdisc->qstats.backlog) + (__u64)skb->wire_len <= rules->above)
		return NEXT;
	/* The headers of a packet that a capture shares may not be written; this copies them. */
	bpf_skb_pull_data(skb, 0);
	if (bpf_skb_ecn_set_ce(skb))
		count->marked[queue] += packets;
	return NEXT;
}

/* The kernel lets only programs under the GPL read its memory, so this file may be used under either licence. */
char LICENSE[] section("license") = "GPL";
