/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_conf.h"
#include "cni/device/vf_rail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_claim.h"

static struct vf_rail *vf_rail_new(void)
{
	struct vf_rail *v = xcalloc(1, sizeof(*v));

	v->lock = v->node_lock = -1;
	return v;
}

void vf_rail_free(struct vf_rail *v)
{
	if (!v)
		return;
	cleanup_fd(&v->node_lock);
	cleanup_fd(&v->lock);
	vf_record_done(&v->record);
	free(v);
}

/* Locks all VFs in one call, because the locks have an order. */
int vf_rail_lock(struct attach *a, const struct link_driver *k,
		 const char *(*id)(const struct rail *), struct err *e)
{
	auto_free const char **bdfs = xcalloc(a->n_rails, sizeof(*bdfs));
	auto_free int *fds = xcalloc(a->n_rails, sizeof(*fds));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < a->n_rails; i++)
		if (a->rails[i].kind == k)
			bdfs[n++] = id(&a->rails[i]);
	r = vf_lock(&a->call->root, bdfs, n, fds, e);
	if (r < 0)
		return r;
	for (size_t i = 0, at = 0; i < a->n_rails; i++) {
		if (a->rails[i].kind != k)
			continue;
		a->rails[i].vf = vf_rail_new();
		a->rails[i].vf->lock = fds[at++];
	}
	return 0;
}

static char *pod_name(const char *args_text)
{
	struct cni_args args = {0};
	auto_buf struct buf keep;

	buf_init(&keep, 1 << 16);
	if (cni_args_parse(args_text, &args, &keep, NULL) < 0 || !args.pod_name)
		return NULL;
	return xasprintf("%s/%s", args.pod_namespace ? args.pod_namespace : "", args.pod_name);
}

static void fill_netdev(const struct link *l, struct vf_record *rec)
{
	str_copy(rec->name, sizeof(rec->name), l->name);
	str_copy(rec->alias, sizeof(rec->alias), l->alias);
	rec->mac = l->mac;
	rec->link_mtu = l->mtu;
	rec->up = link_is_up(l);
}

void vf_rail_record(const struct attach *a, const struct rail *rail, unsigned int requested)
{
	struct vf_rail *v = rail->vf;
	struct vf_record *rec = &v->record;
	char boot[40], instance[24];

	vf_record_boot(&a->call->root, boot);
	vf_record_instance(&a->call->root, v->place.pci.bdf, instance);
	rec->by_unirail = true;
	rec->container = xstrdup(a->call->container_id);
	rec->ifname = xstrdup(rail->ifname);
	rec->netns = xstrdup(a->call->netns);
	rec->pod = pod_name(a->call->args_text);
	rec->boot = xstrdup(boot);
	rec->instance = xstrdup(instance);
	rec->network = xstrdup(rail->ipam.name ? rail->ipam.name : "");
	str_copy(rec->device, sizeof(rec->device), v->place.pci.bdf);
	str_copy(rec->pf, sizeof(rec->pf), v->place.pf.name);
	rec->was = v->now;
	rec->was.vf = v->place.number;
	rec->requested = requested;
	rec->dpdk = v->place.dpdk;
	if (!rec->dpdk)
		fill_netdev(&rail->master, rec);
}

int vf_conf_link_state(const char *text, uint32_t *ret, struct err *e)
{
	static const char *const names[] = {"auto", "enable", "disable"};

	for (uint32_t i = 0; i < 3; i++)
		if (strcmp(names[i], text) == 0) {
			*ret = i;
			return 0;
		}
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"invalid link_state value: %s (conf.link_state: expected auto, enable or disable)",
		text);
}

const char *vf_rail_hint(int code)
{
	return code == -EEXIST ? "the pod already has a link with the VF's name or one of the "
				 "VF's alternative names"
			       : NULL;
}

void vf_record_put_inner(struct json_out *o, const char *key, const char *inner, const char *s)
{
	jo_key(o, key);
	jo_obj(o);
	jo_kstr_if_set(o, inner, s);
	jo_end_obj(o);
}

int vf_record_take_names(struct vf_record *r, const char *device, const char *key, const char *name,
			 const char *pf, struct err *e)
{
	if (!device || !pci_bdf_ok(device))
		return err_set(e, -EINVAL, "deviceID is '%s', expected a PCI address",
			       device ? device : "");
	if (name && *name && !link_name_ok(name))
		return err_set(e, -EINVAL, "%s is '%s', which is not a link's name", key, name);
	if (pf && *pf && !link_name_ok(pf))
		return err_set(e, -EINVAL, "Master is '%s', which is not a link's name", pf);
	str_copy(r->device, sizeof(r->device), device);
	str_copy(r->name, sizeof(r->name), name ? name : "");
	str_copy(r->pf, sizeof(r->pf), pf ? pf : "");
	return 0;
}
