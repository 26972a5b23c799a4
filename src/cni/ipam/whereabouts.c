/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/whereabouts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/protocol/ipam_call.h"

/* The whereabouts IPAM as a plugin of its own. */

/* A log that cannot be written must not fail the pod's ADD. */
static void open_log(const struct cni_ipam_call *call)
{
	auto_whereabouts_conf struct whereabouts_conf c;
	struct err e = ERR_INIT;
	struct log_conf l;

	whereabouts_conf_log(call, &c, &l);
	if (log_setup(&l, &e) < 0)
		log_warn("cannot open the log file, logging to stderr", LOG_S("error", e.text));
	log_context("container_id", call->call->container_id);
	log_context("ifname", call->ifname);
}

static int run(struct cni_call *c, struct err *e,
	       int (*verb)(const struct cni_ipam_call *call, struct err *e))
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return verb(&call, e);
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return whereabouts_add(&call, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_del);
}

static int check(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_check);
}

static int gc(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_gc);
}

static int status(struct cni_call *c, struct err *e)
{
	return run(c, e, whereabouts_status);
}

const struct cni_plugin cni_whereabouts = {
	.name = "whereabouts",
	.about = "CNI whereabouts plugin unirail",
	.keys = JSON_TABLES(&ipam_request_table),
	.ipam_keys = JSON_TABLES(&whereabouts_table),
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};

/* --- the whereabouts IPAM in process: the verbs over ipam/whereabouts' store --- */

static struct whereabouts_request request_of(const struct cni_ipam_call *call,
					     const struct whereabouts_conf *c)
{
	return (struct whereabouts_request){
		.owner = {.container_id = call->call->container_id,
			  .ifname = call->ifname,
			  .pod_namespace = c->args.pod_namespace,
			  .pod_name = c->args.pod_name,
			  .pod_uid = c->args.pod_uid,
			  .netns = call->call->netns,
			  .network = call->name},
		.network_name = c->network_name,
		.overlapping = c->overlapping,
		.ranges = c->ranges,
		.n_ranges = c->n_ranges,
	};
}

static int open_store(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
		      const struct whereabouts_request *a, struct whereabouts *w, struct err *e)
{
	return whereabouts_open(w, &call->call->root, c->keys.state_dir, a, e);
}

static int open_all(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
		    struct whereabouts *w, struct err *e)
{
	return whereabouts_open_all(w, &call->call->root, c->keys.state_dir, c->network_name, e);
}

/* Requires the pod's name, which identifies the owner as in the cluster's store. */
static int take_all(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
		    struct ipnet *got, struct err *e)
{
	auto_whereabouts struct whereabouts w = WHEREABOUTS_INIT;
	const struct whereabouts_request a = request_of(call, c);
	int r = 0;

	if (!a.owner.pod_name || !*a.owner.pod_name)
		return err_kind(e, ERR_ENV, -EINVAL,
				"IPAM client initialization error: no pod name");
	if (c->n_ranges > 0)
		r = open_store(call, c, &a, &w, e);
	if (r == 0 && c->n_ranges > 0)
		r = whereabouts_allocate(&w, &a, got, e);
	return r;
}

/* The ranges' addresses come before the fixed ones. */
static void fill(const struct whereabouts_conf *c, const struct ipnet *got, struct cni_result *out)
{
	struct cni_result r;

	cni_result_copy(&r, &c->fixed);
	r.n_ips = 0;
	for (size_t i = 0; i < c->n_ranges; i++) {
		struct cni_ip ip = {.address = got[i], .iface = -1};

		if (c->gateway.family == got[i].ip.family)
			ip.gateway = c->gateway;
		cni_result_ip(&r, &ip);
	}
	for (size_t i = 0; i < c->fixed.n_ips; i++)
		cni_result_ip(&r, &c->fixed.ips[i]);
	*out = r;
}

int whereabouts_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_whereabouts_conf struct whereabouts_conf c;
	auto_free struct ipnet *got = NULL;
	int r = whereabouts_conf_read(call, &c, e);

	if (r < 0)
		return r;
	got = xcalloc(c.n_ranges + 1, sizeof(*got));
	r = take_all(call, &c, got, e);
	if (r < 0)
		return err_wrap(e, r, "error at storage engine");
	fill(&c, got, out);
	return 0;
}

/*
 * Warns only, because an address in the cluster's store cannot be released here, and the DEL must
 * succeed nevertheless.
 */
static void warn_cluster(const struct whereabouts_conf *c)
{
	struct err e = ERR_INIT;

	if (whereabouts_no_cluster(c, &e) < 0)
		log_warn("this DEL releases no address in the cluster's IPPool objects",
			 LOG_S("error", e.text));
}

int whereabouts_del(const struct cni_ipam_call *call, struct err *e)
{
	auto_whereabouts struct whereabouts w = WHEREABOUTS_INIT;
	auto_whereabouts_conf struct whereabouts_conf c;
	int r;

	whereabouts_conf_store(call, &c);
	r = open_all(call, &c, &w, e);
	if (r == 0)
		r = whereabouts_release(&w, call->call->container_id, call->ifname, e);
	if (r == 0)
		warn_cluster(&c);
	return r < 0 ? r : 0;
}

static bool in_prev(const struct cni_result *prev, const struct ipaddr *ip)
{
	for (size_t i = 0; i < prev->n_ips; i++)
		if (ip_eq(&prev->ips[i].address.ip, ip))
			return true;
	return false;
}

/* CHECK: the attachment must have an address of each range, and prevResult, if there is one, must
 * contain all of them. */
static int check_held(const struct cni_ipam_call *call, const struct whereabouts_conf *c,
		      const struct ipnet *held, struct err *e)
{
	char net[IP_TEXT_MAX];

	for (size_t i = 0; i < c->n_ranges; i++) {
		if (held[i].ip.family == 0)
			return err_set(e, -ENOENT,
				       "whereabouts: container %s interface %s holds no address of "
				       "range %s",
				       call->call->container_id, call->ifname,
				       ipnet_str(&c->ranges[i].net, net));
		if (call->call->has_prev && !in_prev(&call->call->prev, &held[i].ip))
			return err_set(e, -ENOENT,
				       "whereabouts: %s holds %s, which is not in prevResult",
				       call->ifname, ipnet_str(&held[i], net));
	}
	return 0;
}

int whereabouts_check(const struct cni_ipam_call *call, struct err *e)
{
	auto_whereabouts struct whereabouts w = WHEREABOUTS_INIT;
	auto_whereabouts_conf struct whereabouts_conf c;
	auto_free struct ipnet *held = NULL;
	struct whereabouts_request a;
	int r = whereabouts_conf_read(call, &c, e);

	if (r < 0)
		return r;
	a = request_of(call, &c);
	held = xcalloc(c.n_ranges + 1, sizeof(*held));
	r = open_all(call, &c, &w, e);
	if (r == 0)
		r = whereabouts_held(&w, &a, held, e);
	return r < 0 ? r : check_held(call, &c, held, e);
}

int whereabouts_gc(const struct cni_ipam_call *call, struct err *e)
{
	const struct cni_call *p = call->call;
	auto_free struct ipam_valid *v = xcalloc(p->n_valid + 1, sizeof(*v));
	auto_whereabouts struct whereabouts w = WHEREABOUTS_INIT;
	auto_whereabouts_conf struct whereabouts_conf c;
	int r;

	whereabouts_conf_store(call, &c);
	r = whereabouts_no_cluster(&c, e);
	/* Without a list of valid attachments nothing is released. */
	if (r < 0 || !p->has_valid)
		return r;
	for (size_t i = 0; i < p->n_valid; i++)
		v[i] = (struct ipam_valid){p->valid[i].container_id, p->valid[i].ifname};
	r = open_all(call, &c, &w, e);
	if (r == 0)
		r = whereabouts_collect(&w, call->name, v, p->n_valid, e);
	return r < 0 ? r : 0;
}

/* STATUS: checks that the ADD of a pod could succeed. */
int whereabouts_status(const struct cni_ipam_call *call, struct err *e)
{
	auto_whereabouts struct whereabouts w = WHEREABOUTS_INIT;
	auto_whereabouts_conf struct whereabouts_conf c;
	struct whereabouts_request a;
	int r = whereabouts_conf_read(call, &c, e);

	if (r < 0 || c.n_ranges == 0)
		return r;
	a = request_of(call, &c);
	a.owner = (struct ipam_owner){.container_id = "", .ifname = ""};
	r = open_store(call, &c, &a, &w, e);
	if (r == 0)
		r = whereabouts_try(&w, &a, e);
	if (r < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return r;
}
