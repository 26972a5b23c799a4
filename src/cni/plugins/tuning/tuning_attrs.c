/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a link as plain values: what to change, what to keep, what differs. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cni/plugins/tuning/tuning.h"

bool tuning_touches(const struct tuning_attrs *a)
{
	return a->mac.len || a->mtu || a->has_promisc || a->has_allmulti || a->has_txqlen;
}

struct tuning_attrs tuning_found(const struct tuning_attrs *want, const struct link *l)
{
	struct tuning_attrs a = *want;

	if (a.mac.len)
		a.mac = l->mac;
	if (a.mtu)
		a.mtu = l->mtu;
	a.promisc = a.has_promisc && link_is_promisc(l);
	a.allmulti = a.has_allmulti && link_is_allmulti(l);
	a.txqlen = a.has_txqlen ? l->txqlen : 0;
	return a;
}

struct tuning_attrs tuning_merge(const struct tuning_attrs *first, const struct tuning_attrs *then)
{
	struct tuning_attrs a = *first;

	if (!a.mac.len)
		a.mac = then->mac;
	if (!a.mtu)
		a.mtu = then->mtu;
	if (!a.has_promisc) {
		a.has_promisc = then->has_promisc;
		a.promisc = then->promisc;
	}
	if (!a.has_allmulti) {
		a.has_allmulti = then->has_allmulti;
		a.allmulti = then->allmulti;
	}
	if (!a.has_txqlen) {
		a.has_txqlen = then->has_txqlen;
		a.txqlen = then->txqlen;
	}
	return a;
}

size_t tuning_changes(const struct tuning_attrs *a, struct link_change ret[static TUNING_CHANGES])
{
	size_t n = 0;

	if (a->mac.len)
		ret[n++] = (struct link_change){.set = LINK_SET_MAC, .mac = a->mac};
	if (a->has_promisc)
		ret[n++] = (struct link_change){.set = LINK_SET_PROMISC, .promisc = a->promisc};
	if (a->mtu)
		ret[n++] = (struct link_change){.set = LINK_SET_MTU, .mtu = a->mtu};
	if (a->has_allmulti)
		ret[n++] = (struct link_change){.set = LINK_SET_ALLMULTI, .allmulti = a->allmulti};
	if (a->has_txqlen)
		ret[n++] = (struct link_change){.set = LINK_SET_TXQLEN, .txqlen = a->txqlen};
	return n;
}

static struct span next_word(const char **s)
{
	struct span word;

	*s += strspn(*s, " \t\n");
	word = (struct span){*s, strcspn(*s, " \t\n")};
	*s += word.n;
	return word;
}

bool tuning_same_value(const char *a, const char *b)
{
	for (;;) {
		struct span x = next_word(&a), y = next_word(&b);

		if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
			return false;
		if (x.n == 0)
			return true;
	}
}

static const char *word(bool b)
{
	return b ? "true" : "false";
}

int tuning_check_link(const struct tuning_conf *c, const struct link *l, struct err *e)
{
	const struct tuning_attrs *want = &c->want;
	char mac[MAC_TEXT_MAX];

	if (want->mac.len && !mac_eq(&want->mac, &l->mac))
		return err_set(e, -EINVAL,
			       "Error: Tuning configured Ethernet of %s is %s, current value is %s",
			       l->name, c->mac_text, mac_str(&l->mac, mac));
	if (want->promisc != link_is_promisc(l))
		return err_set(
			e, -EINVAL,
			"Error: Tuning link %s configured promisc is %s, current value is %d",
			l->name, word(want->promisc), link_is_promisc(l));
	if (want->mtu && want->mtu != l->mtu)
		return err_set(e, -EINVAL,
			       "Error: Tuning configured MTU of %s is %u, current value is %u",
			       l->name, want->mtu, l->mtu);
	if (want->has_allmulti && want->allmulti != link_is_allmulti(l))
		return err_set(e, -EINVAL,
			       "Error: Tuning configured all-multicast mode of %s is %s, current "
			       "value is %s",
			       l->name, word(want->allmulti), word(link_is_allmulti(l)));
	if (want->has_txqlen && want->txqlen != l->txqlen)
		return err_set(e, -EINVAL,
			       "Error: Tuning configured Transmit Queue Length of %s is %u, "
			       "current value is %u",
			       l->name, want->txqlen, l->txqlen);
	return 0;
}
