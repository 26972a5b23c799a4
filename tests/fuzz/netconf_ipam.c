/* SPDX-License-Identifier: Apache-2.0 */
#include "netconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/multi/multi.h"
#include "cni/ipam/host_local.h"
#include "cni/ipam/spiderpool/spiderpool.h"
#include "cni/ipam/whereabouts.h"
#include "cni/protocol/ipam_call.h"

enum { TEXT_MAX = 8 << 20, BESIDE = 64 };

static void check_range(const struct hostlocal_range *r)
{
	must(!ipnet_has_host_bits(&r->subnet));
	must(ipnet_contains(&r->subnet, &r->first) && ipnet_contains(&r->subnet, &r->last));
	must(ip_cmp(&r->first, &r->last) <= 0);
}

static bool sets_meet(const struct hostlocal_set *a, const struct hostlocal_set *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++)
			if (a->v[i].first.family == b->v[j].first.family &&
			    ip_cmp(&a->v[i].first, &b->v[j].last) <= 0 &&
			    ip_cmp(&b->v[j].first, &a->v[i].last) <= 0)
				return true;
	return false;
}

static void check_sets(const struct host_local_conf *c)
{
	auto_buf struct buf text;

	buf_init(&text, TEXT_MAX);
	must(c->n_sets > 0 && *c->data_dir == '/');
	for (size_t i = 0; i < c->n_sets; i++) {
		const struct hostlocal_set *s = &c->sets[i];

		for (size_t k = 0; k < s->n; k++) {
			check_range(&s->v[k]);
			must(s->v[k].first.family == s->v[0].first.family);
			must(k > BESIDE || hostlocal_set_find(s, &s->v[k].first) == &s->v[k]);
		}
		for (size_t k = i > BESIDE ? i - BESIDE : 0; k < i; k++)
			must(!sets_meet(&c->sets[k], s));
		hostlocal_set_str(s, &text);
	}
}

static int read_host_local(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_host_local_conf struct host_local_conf c = {0}, store = {0};
	int r = host_local_conf_read(call, &c, e);

	if (r < 0)
		return r;
	check_sets(&c);
	must(host_local_conf_store(call, &store, e) == 0);
	must(strcmp(c.data_dir, store.data_dir) == 0);
	for (size_t i = 0; i < c.n_sets; i++)
		cni_result_ip(out, &(struct cni_ip){.address = {c.sets[i].v[0].first,
								c.sets[i].v[0].subnet.len},
						    .gateway = c.sets[i].v[0].gateway,
						    .iface = -1});
	r = cni_result_read_routes(call->doc, c.routes, "conf.ipam.routes", out, e);
	if (r == 0 && c.resolv_conf)
		r = host_local_dns(&call->call->root, c.resolv_conf, &out->dns, e);
	return r;
}

static int read_static(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	int r = static_add(call, out, e);

	return r < 0 || strcmp(call->call->command, "CHECK") ? r : static_check(call, e);
}

static int read_spiderpool(const struct cni_ipam_call *call, struct err *e)
{
	struct spiderpool_conf c, store;
	struct log_conf log;
	int r = spiderpool_conf_read(call, &c, e);

	spiderpool_conf_store(call, &store);
	if (r < 0)
		return r;
	must(spiderpool_conf_log(&c, &log, e) == 0);
	must(log.max_bytes > 0 && log.max_files > 0);
	return 0;
}

static int read_whereabouts(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	struct whereabouts_conf c = {0};
	struct log_conf log = {0};
	int r = whereabouts_conf_read(call, &c, e);

	if (r == 0) {
		must(c.network_name && !strchr(c.network_name, '/'));
		cni_result_copy(out, &c.fixed);
		whereabouts_no_cluster(&c, NULL);
	}
	whereabouts_conf_done(&c);
	c = (struct whereabouts_conf){0};
	whereabouts_conf_store(call, &c);
	whereabouts_conf_done(&c);
	c = (struct whereabouts_conf){0};
	whereabouts_conf_log(call, &c, &log);
	whereabouts_conf_done(&c);
	return r;
}

static int read_any(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	const char *type = cni_ipam_type(call->conf);

	if (strcmp(type, "host-local") == 0)
		return read_host_local(call, out, e);
	if (strcmp(type, "static") == 0)
		return read_static(call, out, e);
	if (strcmp(type, "whereabouts") == 0)
		return read_whereabouts(call, out, e);
	return strcmp(type, "spiderpool") == 0 ? read_spiderpool(call, e) : 0;
}

/*
 * The IPAM plugin writes into an empty result, which is then merged into *out: *out may already
 * have interfaces.
 */
int netconf_ipam(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_result struct cni_result got = {0};
	int r = read_any(call, &got, e);

	if (r == 0)
		multi_merge(&got, out);
	return r;
}

int netconf_host_local(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return read_host_local(&call, out, e);
}

int netconf_static(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return read_static(&call, out, e);
}

int netconf_spiderpool(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	(void)out;
	return read_spiderpool(&call, e);
}

int netconf_whereabouts(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return read_whereabouts(&call, out, e);
}
