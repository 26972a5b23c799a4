/* SPDX-License-Identifier: Apache-2.0 */
/* Mode, first NIC and table number, and what counts as a link or an address. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cni/plugins/coordinator/coordinator_private.h"

bool co_hidden(const struct co_facts *f, int index)
{
	for (size_t i = 0; i < f->n_hidden; i++)
		if (f->hidden[i] == index)
			return true;
	return false;
}

const struct link *co_link(const struct co_facts *f, const char *name)
{
	const struct link *l = link_find(f->links, f->n_links, name);

	return l && !co_hidden(f, l->index) ? l : NULL;
}

unsigned int co_family_bit(const struct ipaddr *a)
{
	return a->family == 4 ? CO_V4 : a->family == 6 ? CO_V6 : 0;
}

bool co_ip_usable(const struct ipaddr *a)
{
	return a->family && !ip_is_link_local(a) && !ip_is_multicast(a) && !ip_is_loopback(a);
}

size_t co_link_ips(const struct co_facts *f, int index, unsigned int families, struct ipaddr **ret)
{
	struct ipaddr *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < f->n_addrs; i++) {
		const struct ipaddr *ip = &f->addrs[i].net.ip;

		if (f->addrs[i].index == index && co_ip_usable(ip) &&
		    (families & co_family_bit(ip)))
			VEC_PUSH(list, n) = *ip;
	}
	*ret = list;
	return n;
}

/* The original's patterns; the last is `^cilium*`, which is "ciliu" and any number of m. */
bool co_host_link_counts(const char *name)
{
	static const char *const prefixes[] = {"docker", "cbr",	      "dummy",	       "virbr",
					       "lxcbr",	 "veth",      "cali",	       "flannel",
					       "cni",	 "kube-ipvs", "vx-submariner", "ciliu"};

	if (strcmp(name, "lo") == 0)
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return false;
	return true;
}

void co_host_veth_name(const char *container_id, char ret[static LINK_NAME_MAX])
{
	snprintf(ret, LINK_NAME_MAX, "veth%.11s", container_id);
}

/* The links that the original counts to number its tables. */
static unsigned int count_links(const struct co_facts *f)
{
	const uint32_t want = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
	unsigned int n = 0;

	for (size_t i = 0; i < f->n_links; i++)
		if ((f->links[i].flags & want) == want && !co_hidden(f, f->links[i].index))
			n++;
	return n;
}

static int stage_underlay(const struct co_conf *c, const struct co_facts *f, const char *ifname,
			  struct co_stage *ret, struct err *e)
{
	ret->mode = CO_UNDERLAY;
	ret->first = strcmp(ifname, c->default_nic) == 0;
	if (!ret->first && !co_link(f, CO_VETH))
		return err_kind(e, ERR_CONF, -ENODEV,
				"underlay mode needs '" CO_VETH "', and no coordinator has made it "
				"for '%s'; please enable coordinator plugin in previous interface",
				c->default_nic);
	/* veth0, eth0 and net1 are three: net1 has table 101, as eth0 had. */
	ret->table = ret->first ? CO_FIRST_NIC_TABLE + 1 : count_links(f) + 98;
	return 0;
}

static int stage_overlay(const struct co_conf *c, const struct co_facts *f, const char *ifname,
			 struct co_stage *ret, struct err *e)
{
	ret->mode = CO_OVERLAY;
	if (strcmp(ifname, c->default_nic) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"overlay mode is for NICs beside '%s', not for '%s' itself (use "
				"underlay, or conf.podDefaultCniNic)",
				c->default_nic, ifname);
	if (co_link(f, CO_VETH))
		return err_kind(e, ERR_CONF, -EEXIST,
				"overlay mode, but '" CO_VETH "' shows that an earlier NIC of the "
				"pod uses underlay mode");
	ret->first = count_links(f) == 2;
	ret->table = ret->first ? CO_FIRST_NIC_TABLE + 1 : count_links(f) + 99;
	return 0;
}

int co_stage(const struct co_conf *c, const struct co_facts *f, const char *ifname,
	     struct co_stage *ret, struct err *e)
{
	enum co_mode mode = c->mode;

	if (mode == CO_AUTO)
		mode = strcmp(ifname, c->default_nic) == 0 || co_link(f, CO_VETH) ? CO_UNDERLAY
										  : CO_OVERLAY;
	if (mode == CO_UNDERLAY)
		return stage_underlay(c, f, ifname, ret, e);
	return stage_overlay(c, f, ifname, ret, e);
}

bool co_wants_veth(const struct co_nic *nics, size_t n, size_t *at)
{
	for (size_t i = 0; i < n; i++) {
		const struct co_conf *c = nics[i].conf;

		if (c && (c->mode == CO_AUTO || c->mode == CO_UNDERLAY) &&
		    strcmp(nics[i].ifname, c->default_nic) == 0) {
			*at = i;
			return true;
		}
	}
	return false;
}
