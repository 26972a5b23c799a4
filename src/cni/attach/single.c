/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one attachment per process, with the functions that attach several. */
#include <errno.h>

#include "cni/attach/rdma_info.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/protocol/ipam_call.h"

/* For ADD, CHECK and STATUS. CNI_ARGS are parsed only for drivers with RAIL_READS_ARGS: other
 * drivers accept invalid CNI_ARGS. */
static int read_conf(struct cni_call *c, struct rail_conf *ret, struct err *e)
{
	const struct link_driver *k = c->plugin->kind;
	struct rail_source s = {.doc = c->doc, .conf = c->conf};
	auto_buf struct buf keep;
	struct cni_args args = {0};
	int r = 0;

	buf_init(&keep, 1 << 16);
	if (k->flags & RAIL_READS_ARGS)
		r = cni_args_parse(c->args_text, &args, &keep, e);
	if (r < 0)
		return r;
	s.args_mac = args.mac;
	return k->read(&s, ret, e);
}

static struct rail rail_of(const struct cni_call *c)
{
	const struct link_driver *k = c->plugin->kind;

	if (k->start)
		k->start(c);
	return (struct rail){.kind = k, .ifname = c->ifname, .ipam = cni_ipam_call_of(c)};
}

static void read_what_is_there(struct cni_call *c, struct rail *rail)
{
	const struct rail_source s = {.doc = c->doc, .conf = c->conf};

	attach_read_conf(rail, &s);
}

int single_add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct rail rail = rail_of(c);
	auto_attach struct attach a = ATTACH_INIT;
	int r = read_conf(c, &rail.conf, e);

	if (r >= 0 && rail.kind->chained && c->has_prev)
		r = rail.kind->chained(&c->prev, &rail, e);
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
	rdma_info_wait(&a);
	rdma_info_add(&rail, out);
	rails_write(&a);
	attach_done(&a);
	return 0;
}

/* Deletes the link before its address is released, so that no other pod gets the address while the
 * link uses it. */
int single_del(struct cni_call *c, struct err *e)
{
	struct rail rail = rail_of(c);
	auto_attach struct attach a = ATTACH_INIT;
	int r = attach_open(&a, c, true, e);

	read_what_is_there(c, &rail);
	rails_forget(c, &rail.ifname, 1);
	if (r >= 0)
		r = attach_remove(&a, &rail, 1, NULL, 0, e);
	if (r >= 0 && rail_has_ipam(&rail))
		r = cni_ipam_del(&rail.ipam, 1, e);
	return r;
}

static int check_link(struct attach *a, struct rail *rail, struct err *e)
{
	struct attach_seen seen = {0};
	int r = attach_inspect(a, &seen, e);

	if (r >= 0)
		r = attach_check_rail(a, &seen, rail, e);
	if (r >= 0)
		r = attach_check_routes(&seen, &a->call->prev, rail->ifname, e);
	attach_seen_done(&seen);
	return r;
}

int single_check(struct cni_call *c, struct err *e)
{
	struct rail rail = rail_of(c);
	auto_attach struct attach a = ATTACH_INIT;
	int r = read_conf(c, &rail.conf, e);

	if (r >= 0)
		r = attach_open(&a, c, false, e);
	if (r >= 0 && rail_has_ipam(&rail))
		r = cni_ipam_check(&rail.ipam, 1, e);
	if (r >= 0 && !c->has_prev)
		r = err_kind(e, ERR_CONF, -EINVAL, "required prevResult missing");
	return r < 0 ? r : check_link(&a, &rail, e);
}

int single_gc(struct cni_call *c, struct err *e)
{
	struct rail rail = rail_of(c);
	int r;

	read_what_is_there(c, &rail);
	rails_gc(c);
	r = attach_gc(c, &rail, e);
	if (r >= 0 && rail_has_ipam(&rail))
		r = cni_ipam_gc(&rail.ipam, 1, e);
	return r;
}

/*
 * Succeeds if an ADD could succeed: the link's requirements are met and the IPAM's STATUS succeeds.
 */
int single_status(struct cni_call *c, struct err *e)
{
	struct rail rail = rail_of(c);
	auto_nl struct nl_wire *w = NULL;
	int r = read_conf(c, &rail.conf, e);

	if (r >= 0)
		r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = attach_status(w, &c->root, &rail, e);
	if (r >= 0 && rail_has_ipam(&rail))
		r = cni_ipam_status(&rail.ipam, 1, e);
	return r;
}
