/* tc: the packets of an interface take a detour through two veths, between whose other ends a program emulates a link, and go on from
 * where they were taken. An object of its own: it measures nothing.
 *
 * What comes back carries a mark, or it would be taken again. Only IP is taken, and no frame with a VLAN's tag, which a program at the
 * other end would not see. The marks of others do not pass the veths, as they do not leave a host. */
#include "kernel.h"
#include <linux/if_ether.h>

/* Set before loading: the interface, the ends of the two veths beside it, and the mark. */
volatile const __u32 INTERFACE = 0;
volatile const __u32 INNER = 0;
volatile const __u32 OUTER = 0;
volatile const __u32 MARK = 0;

enum { NEXT = -1, DROP = 2 };

static long (*const redirect)(__u32 interface, __u64 flags) = (void *)BPF_FUNC_redirect;

INLINE bool is_ip(const struct __sk_buff *packet)
{
	return packet->protocol == __builtin_bswap16(ETH_P_IP) || packet->protocol == __builtin_bswap16(ETH_P_IPV6);
}

INLINE int take(struct __sk_buff *packet, __u32 to)
{
	if (packet->mark == MARK) {
		packet->mark = 0;
		return NEXT;
	}
	return is_ip(packet) && !packet->vlan_present ? redirect(to, 0) : NEXT;
}

INLINE int put_back(struct __sk_buff *packet, __u64 flags)
{
	if (!is_ip(packet))
		return DROP;
	packet->mark = MARK;
	return redirect(INTERFACE, flags);
}

/* At the interface. */
SEC("classifier")
int leaves(struct __sk_buff *packet)
{
	return take(packet, INNER);
}

SEC("classifier")
int arrives(struct __sk_buff *packet)
{
	return take(packet, OUTER);
}

/* At the veths, where packets come out of the emulated link. */
SEC("classifier")
int has_left(struct __sk_buff *packet)
{
	return put_back(packet, 0);
}

SEC("classifier")
int has_arrived(struct __sk_buff *packet)
{
	return put_back(packet, BPF_F_INGRESS);
}
