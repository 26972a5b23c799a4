/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/attach/attach.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cni/attach/internal.h"
#include "cni/attach/rdma_info.h"
#include "cni/device/vf_rail.h"
#include "kern/sys/netns.h"

static int open_netns(struct attach *a, bool deleted_ok, struct err *e)
{
	struct err reason = ERR_INIT;
	int r;

	if (!*a->call->netns) {
		if (deleted_ok)
			return 0;
		return err_kind(e, ERR_ENV, -EINVAL,
				"CNI_NETNS is empty, expected the pod's network namespace");
	}
	r = netns_open(a->call->netns, &a->netns, &reason);
	if (r >= 0)
		return 0;
	a->netns = -1;
	/* -EINVAL: when a bind-mounted namespace is deleted, an empty file remains at its path. */
	if (deleted_ok && (r == -ENOENT || r == -ENOTDIR || r == -EINVAL))
		return 0;
	if (e)
		*e = reason;
	return err_wrap(e, r, ORIG("failed to open netns '%s'"), a->call->netns);
}

int attach_open(struct attach *a, const struct cni_call *c, bool deleted_ok, struct err *e)
{
	int r;

	a->call = c;
	r = open_netns(a, deleted_ok, e);
	if (r < 0)
		return r;
	r = nl_open(&a->host, NL_ROUTE, -1, e);
	if (r >= 0 && a->netns >= 0)
		r = nl_open(&a->pod, NL_ROUTE, a->netns, e);
	return r < 0 ? r : 0;
}

static void rail_done(struct rail *r)
{
	vf_rail_free(r->vf);
	str_list_free(r->altnames, r->n_altnames);
	free(r->nets);
	free(r->conflict_free);
	cni_result_done(&r->got);
}

void attach_close(struct attach *a)
{
	undo_disarm(&a->undo);
	if (a->plan)
		a->plan_free(a->plan);
	for (size_t i = 0; i < a->n_rails; i++)
		rail_done(&a->rails[i]);
	free(a->pod_links);
	free(a->host_addrs);
	nl_cleanup(&a->marks);
	nl_cleanup(&a->pod);
	nl_cleanup(&a->host);
	cleanup_fd(&a->netns);
	*a = (struct attach)ATTACH_INIT;
}

int attach_rails(struct attach *a, struct err *e)
{
	int r = attach_facts(a, e);

	return r < 0 ? r : attach_make(a, e);
}

static int attach_ipam(struct attach *a, struct err *e);

int attach_make(struct attach *a, struct err *e)
{
	int r = attach_ipam(a, e);

	if (r >= 0)
		r = attach_prepare(a, e);
	if (r >= 0)
		r = attach_links(a, e);
	if (r >= 0)
		r = attach_sysctls(a, e);
	if (r >= 0)
		r = attach_detect(a, e);
	if (r >= 0)
		r = attach_configure(a, e);
	return r;
}

/* Opens new netlink sockets, because the present ones may be the cause of the failure (an
 * incomplete dump, a lost reply). */
void attach_rollback(struct attach *a)
{
	if (!a->undo.n)
		return;
	nl_reopen(a->host, -1, NULL);
	nl_reopen(a->pod, a->netns, NULL);
	undo_run(&a->undo);
}

void attach_done(struct attach *a)
{
	undo_disarm(&a->undo);
}

int rail_err(const struct rail *rail, int code, struct err *e)
{
	return rail->label ? err_wrap(e, code, "%s", rail->label) : code;
}

int attach_list_pod(struct attach *a, struct err *e)
{
	struct link *links;
	size_t n;
	int r = link_list(a->pod, &links, &n, e);

	if (r < 0)
		return r;
	free(a->pod_links);
	a->pod_links = links;
	a->n_pod_links = n;
	return 0;
}

int attach_host_addrs(struct attach *a, struct err *e)
{
	int r;

	if (a->have_host_addrs)
		return 0;
	r = addr_list(a->host, 0, 0, &a->host_addrs, &a->n_host_addrs, e);
	a->have_host_addrs = r >= 0;
	return r < 0 ? r : 0;
}

int attach_result(const struct attach *a, const struct rail *rail, struct cni_result *out,
		  struct err *e)
{
	char mac[MAC_TEXT_MAX];

	cni_result_iface(out, rail->ifname,
			 rail->no_link && !rail->mac.len ? NULL : mac_str(&rail->mac, mac),
			 a->call->netns)
		->mtu = rail->mtu;
	for (size_t i = 0; i < rail->got.n_ips; i++) {
		struct cni_ip ip = rail->got.ips[i];

		ip.iface = 0;
		cni_result_ip(out, &ip);
	}
	for (size_t i = 0; i < rail->got.n_routes; i++)
		cni_result_route(out, &rail->got.routes[i]);
	return cni_dns_read(rail->ipam.doc, rail->conf.dns, &out->dns, e);
}

/* --- IPAM: the addresses of all attachments --- */

/* Sets *ret to the calls for the attachments that have an IPAM plugin and returns their number; the
 * caller frees *ret. */
static size_t ipam_calls(struct attach *a, struct cni_ipam_call **ret)
{
	struct cni_ipam_call *calls = xcalloc(a->n_rails + 1, sizeof(*calls));
	size_t n = 0;

	for (size_t i = 0; i < a->n_rails; i++)
		if (rail_has_ipam(&a->rails[i]))
			calls[n++] = a->rails[i].ipam;
	*ret = calls;
	return n;
}

static int undo_ipam(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	auto_free struct cni_ipam_call *calls = NULL;
	size_t n = ipam_calls(a, &calls);

	return cni_ipam_del(calls, n, e);
}

static int check_addresses(const struct rail *rail, struct err *e)
{
	if (!rail_has_ipam(rail) || rail->got.n_ips)
		return 0;
	err_kind(e, ERR_CONF, -ENODATA, "IPAM plugin returned missing IP config");
	return rail_err(rail, -ENODATA, e);
}

static int attach_ipam(struct attach *a, struct err *e)
{
	auto_free struct cni_ipam_call *calls = NULL;
	size_t n;
	int r;

	for (size_t i = 0; i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];

		if (rail->given && !rail_has_ipam(rail))
			cni_result_copy(&rail->got, rail->given);
		rail->ipam.out = &rail->got;
		rail->ipam.flags = &rail->flags;
	}
	n = ipam_calls(a, &calls);
	r = n ? cni_ipam_add(calls, n, e) : 0;
	if (r >= 0 && n)
		undo_push(&a->undo, "release addresses", undo_ipam, &a, sizeof(a));
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++)
		r = check_addresses(&a->rails[i], e);
	return r;
}

int attach_detect_again(struct rail *rail, struct err *e)
{
	int r;

	cni_result_done(&rail->got);
	r = cni_ipam_add(&rail->ipam, 1, e);
	return r < 0 ? r : check_addresses(rail, e);
}

/* --- STATUS: checks of the devices and link types that an attachment needs --- */

int attach_kind_known(struct nl_wire *w, const struct link_driver *k, struct err *e)
{
	int r = k->module ? link_kind_known(w, k->type, e) : 1;

	if (r > 0)
		return 0;
	if (r < 0)
		return err_wrap(e, r, "create %s", k->type);
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"create %s: Operation not supported (EOPNOTSUPP): the kernel lacks %s: load module %s",
		k->type, k->type, k->module);
}

static int status_made(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e)
{
	int r = attach_kind_known(w, rail->kind, e);

	/* A master in the pod's namespace cannot be checked, because STATUS has no pod. */
	if (r < 0 || rail->conf.in_container)
		return r;
	r = attach_master(w, &rail->conf, &rail->master, e);
	if (r >= 0 && rail->kind->fits)
		r = rail->kind->fits(&rail->conf, &rail->master, e);
	if (r >= 0)
		rdma_info_status(w, root, rail);
	return r;
}

int attach_status(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e)
{
	int r = link_driver_moves(rail->kind) ? rail->kind->status(root, rail, e)
					      : status_made(w, root, rail, e);

	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_UNAVAILABLE);
	return rail_err(rail, r, e);
}
