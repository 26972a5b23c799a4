/* SPDX-License-Identifier: Apache-2.0 */
/* The macvlan plugin: one rail, by the functions that attach all of them. */
#include "cni/macvlan.h"

#include <errno.h>
#include <stdlib.h>

#include "cni/attach.h"

/* CNI_ARGS counts for what it makes; a DEL that stumbles over it would leave things behind. */
static int read_conf(struct cni_call *c, struct macvlan_conf *ret, struct err *e)
{
	auto_buf struct buf keep;
	struct cni_args args = {0};
	int r;

	buf_init(&keep, 1 << 16);
	r = cni_args_parse(c->args_text, &args, &keep, e);
	if (r < 0)
		return r;
	return macvlan_conf_read(c->doc, NULL, c->conf, args.mac, ret, e);
}

static struct cni_ipam_call ipam_call(struct cni_call *c)
{
	return (struct cni_ipam_call){
		.call = c,
		.doc = c->doc,
		.conf = c->conf,
		.name = c->name,
		.ifname = c->ifname,
		.version = c->version,
	};
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct rail rail = {.ifname = c->ifname, .ipam = ipam_call(c)};
	auto_attach struct attach a = ATTACH_INIT;
	int r = read_conf(c, &rail.conf, e);

	if (r >= 0)
		r = attach_open(&a, c, false, e);
	if (r < 0)
		return r;
	a.rails = &rail;
	a.n_rails = 1;
	r = attach_rails(&a, e);
	if (r >= 0)
		r = attach_result(&a, &rail, out, e);
	if (r < 0) {
		attach_rollback(&a);
		return r;
	}
	attach_announce(&a);
	attach_done(&a);
	return 0;
}

/* The link first: while it is there, nobody else may have its address. */
static int del(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	const struct cni_ipam_call call = ipam_call(c);
	const char *name = c->ifname;
	int r = attach_open(&a, c, true, e);

	if (r >= 0)
		r = attach_delete(&a, &name, 1, e);
	if (r >= 0 && *cni_ipam_type(c->conf))
		r = cni_ipam_del(&call, 1, e);
	return r;
}

static int check_link(struct cni_call *c, struct attach *a, const struct macvlan_conf *conf,
		      struct err *e)
{
	struct attach_seen seen = {0};
	struct link master;
	int r = attach_master(conf->in_container ? a->pod : a->host, conf, &master, e);

	if (r >= 0)
		r = attach_look(a, &seen, e);
	if (r >= 0)
		r = attach_check(&seen, conf, master.index, &c->prev, c->ifname, c->netns, e);
	if (r >= 0)
		r = attach_check_routes(&seen, &c->prev, c->ifname, e);
	attach_seen_done(&seen);
	return r;
}

static int check(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	const struct cni_ipam_call call = ipam_call(c);
	struct macvlan_conf conf;
	int r = read_conf(c, &conf, e);

	if (r >= 0)
		r = attach_open(&a, c, false, e);
	if (r >= 0 && *cni_ipam_type(c->conf))
		r = cni_ipam_check(&call, 1, e);
	if (r >= 0 && !c->has_prev)
		r = err_kind(e, ERR_CONF, -EINVAL, "required prevResult missing");
	return r < 0 ? r : check_link(c, &a, &conf, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = ipam_call(c);

	return *cni_ipam_type(c->conf) ? cni_ipam_gc(&call, 1, e) : 0;
}

/* Whether an ADD could work: the master is there and takes the MTU, the IPAM says yes. */
static int status(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = ipam_call(c);
	auto_nl struct nl_wire *w = NULL;
	struct macvlan_conf conf;
	struct link master;
	int r = read_conf(c, &conf, e);

	if (r >= 0 && !conf.in_container) {
		r = nl_open(&w, NL_ROUTE, -1, e);
		if (r >= 0)
			r = attach_master(w, &conf, &master, e);
		if (r >= 0)
			r = macvlan_fits(&conf, &master, e);
		if (r < 0)
			err_default_kind(e, ERR_UNAVAILABLE);
	}
	if (r >= 0 && *cni_ipam_type(c->conf))
		r = cni_ipam_status(&call, 1, e);
	return r;
}

const struct cni_plugin cni_macvlan = {
	.name = "macvlan",
	.about = "CNI macvlan plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
