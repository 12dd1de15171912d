/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What the programs share: how a packet's headers are read, and how maps and functions of the kernel are declared. */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#define CLASSES 8
/* What is brought into one piece of memory if headers are not. This copies, so it is done only then. */
#define PULLED 256
/* The ECN field of a packet that was marked. */
#define CE 3
/* Programs that others have attached to the device come next. */
#define NEXT TC_ACT_UNSPEC

#define inlined static __attribute__((always_inline))
#define section(name) __attribute__((section(name), used))

/* The order of bytes in the network; BPF machines with its order exist, but nobody has tried the programs on one. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the objects are for little-endian machines");
#define network16(number) __builtin_bswap16(number)
#define network32(number) __builtin_bswap32(number)

/* The form in which loaders find the definition of a map in the types of the object (BTF). */
#define MAP(name, kind, entries, key_type, value_type) \
	struct { \
		int (*type)[kind]; \
		int (*max_entries)[entries]; \
		key_type *key; \
		value_type *value; \
	} name section(".maps")

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const bpf_skb_pull_data)(struct __sk_buff *skb, __u32 length) = (void *)BPF_FUNC_skb_pull_data;

/* A part of the packet behind the Ethernet header; 0 if the packet ends before, or its bytes are not in one piece of memory. */
inlined void *bytes(struct __sk_buff *skb, __u32 at, __u32 length)
{
	void *begin = (void *)(long)skb->data + ETH_HLEN + at;

	return begin + length <= (void *)(long)skb->data_end ? begin : 0;
}

/* Brings so many bytes behind the Ethernet header into one piece of memory, if the packet has them. */
inlined void gather(struct __sk_buff *skb, __u32 length)
{
	if (!bytes(skb, 0, length))
		bpf_skb_pull_data(skb, skb->len < PULLED ? skb->len : PULLED);
}

/* The byte of DSCP and ECN in an IPv6 header: the traffic class. */
inlined __u8 traffic_class(const __u8 *ip)
{
	return ip[0] << 4 | ip[1] >> 4;
}
