/* SPDX-License-Identifier: Apache-2.0 */
/* The host-local IPAM plugin: the verbs over ipam/hostlocal's folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/protocol/cni_call.h"
#include "cni/ipam/host_local_conf.h"

static struct hostlocal_owner owner_of(const struct cni_ipam_call *call)
{
	return (struct hostlocal_owner){call->call->container_id, call->ifname};
}

static int open_store(const struct cni_ipam_call *call, const struct host_local_conf *c,
		      bool create, struct hostlocal *h, struct err *e)
{
	/* The network's name becomes a folder's. */
	if (!cni_name_ok(call->name))
		return err_kind(e, ERR_CONF, -EINVAL, "network name '%s' is no name of a folder",
				call->name);
	return hostlocal_open(h, &call->call->root, c->data_dir, call->name, create, e);
}

/* The first address asked for that lies in this set, off the list. */
static bool pick_wanted(struct host_local_conf *c, const struct hostlocal_set *s,
			struct ipaddr *ret)
{
	for (size_t i = 0; i < c->n_wanted; i++)
		if (hostlocal_set_find(s, &c->wanted[i])) {
			*ret = c->wanted[i];
			c->n_wanted--;
			memmove(&c->wanted[i], &c->wanted[i + 1],
				(c->n_wanted - i) * sizeof(*c->wanted));
			return true;
		}
	return false;
}

static int take_set(const struct cni_ipam_call *call, struct host_local_conf *c, size_t i,
		    struct hostlocal *h, struct cni_result *r, struct err *e)
{
	const struct hostlocal_owner who = owner_of(call);
	struct cni_ip ip = {.iface = -1};
	struct ipaddr want;
	bool wanted = pick_wanted(c, &c->sets[i], &want);
	int n = hostlocal_take(h, &c->sets[i], i, &who, wanted ? &want : NULL, &ip.address,
			       &ip.gateway, e);

	if (n < 0)
		return err_wrap(e, n, "failed to allocate for range %zu", i);
	cni_result_ip(r, &ip);
	return 0;
}

static int unfulfilled(const struct host_local_conf *c, struct err *e)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	for (size_t i = 0; i < c->n_wanted; i++)
		buf_printf(&b, " %s", ip_str(&c->wanted[i], text));
	return err_kind(e, ERR_CONF, -EINVAL, "failed to allocate all requested IPs:%s", b.p);
}

/* One address a range set, all or none. Only what this call took is given back: the original
 * frees whatever (container, interface) has, an earlier ADD's addresses among it. */
static int take_all(const struct cni_ipam_call *call, struct host_local_conf *c,
		    struct hostlocal *h, struct cni_result *r, struct err *e)
{
	int n = 0;

	for (size_t i = 0; i < c->n_sets && n == 0; i++)
		n = take_set(call, c, i, h, r, e);
	if (n == 0 && c->n_wanted)
		n = unfulfilled(c, e);
	for (size_t i = 0; n < 0 && i < r->n_ips; i++)
		hostlocal_free(h, &r->ips[i].address.ip, NULL);
	return n;
}

int host_local_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	auto_result struct cni_result r = {0};
	int n = host_local_conf_read(call, &c, e);

	/* What may be wrong with the configuration comes before anything is taken. */
	if (n == 0)
		n = cni_result_read_routes(call->doc, c.routes, "conf.ipam.routes", &r, e);
	if (n == 0 && c.resolv_conf)
		n = host_local_dns(&call->call->root, c.resolv_conf, &r.dns, e);
	if (n == 0)
		n = open_store(call, &c, true, &h, e);
	if (n == 0)
		n = take_all(call, &c, &h, &r, e);
	if (n < 0)
		return n;
	*out = r;
	r = (struct cni_result){0};
	return 0;
}

/*
 * Without reading the folder: the addresses that prevResult names, each if its file is ours.
 * True when that is all there can be, one a range set.
 */
static bool del_known(const struct cni_ipam_call *call, struct hostlocal *h, size_t n_sets)
{
	const struct hostlocal_owner who = owner_of(call);
	const struct cni_result *prev = &call->call->prev;
	size_t freed = 0;

	for (size_t i = 0; i < prev->n_ips; i++) {
		const struct ipaddr *ip = &prev->ips[i].address.ip;
		struct hostlocal_record rec;

		if (hostlocal_look(h, ip, &rec, NULL) < 0)
			continue;
		if (hostlocal_is_of(&rec, &who) && hostlocal_free(h, ip, NULL) == 0)
			freed++;
		hostlocal_record_done(&rec);
	}
	return n_sets > 0 && freed == n_sets;
}

static size_t count_sets(const struct cni_ipam_call *call)
{
	auto_host_local_conf struct host_local_conf c;

	return host_local_conf_read(call, &c, NULL) < 0 ? 0 : c.n_sets;
}

int host_local_del(const struct cni_ipam_call *call, struct err *e)
{
	const struct hostlocal_owner who = owner_of(call);
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_store(call, &c, e);

	if (n < 0)
		return n;
	n = open_store(call, &c, false, &h, e);
	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n < 0 || (call->call->has_prev && del_known(call, &h, count_sets(call))))
		return n;
	n = hostlocal_release(&h, &who, e);
	return n < 0 ? n : 0;
}

static void warn_empty(const struct hostlocal *h)
{
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < h->n; i++)
		if (!*h->v[i].container_id)
			log_warn(
				"address file without an owner, as a power loss leaves it: remove it "
				"when no pod has the address",
				LOG_S("folder", h->dir), LOG_S("ip", ip_str(&h->v[i].ip, ip)));
}

/* An address of the pod that lies in our ranges must be the pod's here too. */
static int check_prev(const struct cni_ipam_call *call, const struct host_local_conf *c,
		      const struct hostlocal *h, struct err *e)
{
	const struct hostlocal_owner who = owner_of(call);
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < h->n; i++) {
		const struct hostlocal_record *rec = &h->v[i];
		bool in_prev = false, ours = false;

		for (size_t j = 0; j < call->call->prev.n_ips; j++)
			in_prev |= ip_eq(&call->call->prev.ips[j].address.ip, &rec->ip);
		for (size_t j = 0; j < c->n_sets; j++)
			ours |= hostlocal_set_find(&c->sets[j], &rec->ip) != NULL;
		if (in_prev && ours && rec->ifname &&
		    strcmp(rec->container_id, who.container_id) != 0)
			return err_set(e, -EEXIST,
				       "host-local: address %s of container %s belongs to %s %s",
				       ip_str(&rec->ip, ip), who.container_id, rec->container_id,
				       rec->ifname);
	}
	return 0;
}

static bool has_any(const struct hostlocal *h, const struct hostlocal_owner *who)
{
	for (size_t i = 0; i < h->n; i++)
		if (hostlocal_is_of(&h->v[i], who) ||
		    (!h->v[i].ifname && strcmp(h->v[i].container_id, who->container_id) == 0))
			return true;
	return false;
}

int host_local_check(const struct cni_ipam_call *call, struct err *e)
{
	const struct hostlocal_owner who = owner_of(call);
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_read(call, &c, e);

	if (n == 0)
		n = open_store(call, &c, false, &h, e);
	if (n == 0)
		n = hostlocal_records(&h, e);
	if (n < 0 && n != -ENOENT)
		return n;
	warn_empty(&h);
	if (!has_any(&h, &who))
		return err_set(e, -ENOENT,
			       "host-local: Failed to find address added by container %s",
			       who.container_id);
	return check_prev(call, &c, &h, e);
}

int host_local_gc(const struct cni_ipam_call *call, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_store(call, &c, e);

	if (n < 0 || !call->call->has_valid)
		return n;
	n = open_store(call, &c, false, &h, e);
	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n == 0)
		n = hostlocal_records(&h, e);
	for (size_t i = h.n; n == 0 && i-- > 0;) {
		const struct hostlocal_record *rec = &h.v[i];
		struct ipaddr ip = rec->ip;

		if (*rec->container_id && !cni_is_valid(call->call, rec->container_id, rec->ifname))
			n = hostlocal_free(&h, &ip, e);
	}
	warn_empty(&h);
	return n;
}

/* Able to ADD: a configuration that can be read, a folder that can be written. */
int host_local_status(const struct cni_ipam_call *call, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_read(call, &c, e);

	if (n < 0)
		return n;
	n = open_store(call, &c, true, &h, e);
	if (n < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return n;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_add(&call, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_del(&call, e);
}

static int check(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_check(&call, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_gc(&call, e);
}

static int status(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_status(&call, e);
}

const struct cni_plugin cni_host_local = {
	.name = "host-local",
	.about = "CNI host-local plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
