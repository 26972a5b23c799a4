/* SPDX-License-Identifier: Apache-2.0 */
/* Pools that are made of SpiderSubnets for a pod's application. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "spec/auto_pool.h"
#include "spec/pod_pools_priv.h"

int pod_pools_check_subnets(const struct pod_pools_facts *f, struct err *e)
{
	const struct labels *l = &f->pod->annotations;
	const char *key = labels_get(l, NOTE_SUBNETS)  ? NOTE_SUBNETS
			  : labels_get(l, NOTE_SUBNET) ? NOTE_SUBNET
						       : NULL;

	if (!key)
		return 0;
	if (f->conf.subnets && !f->conf.auto_pools)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': it's invalid to use '" NOTE_SUBNETS
				"' or '" NOTE_SUBNET
				"' annotation when Auto-Pool feature is disabled: name pools with "
				"annotation '" NOTE_IPPOOL "'",
				f->pod->ns, f->pod->name);
	if (!f->conf.subnets) {
		log_limited(LOG_WARN, 3, "an annotation does not count: SpiderSubnet is off",
			    LOG_S("namespace", f->pod->ns), LOG_S("pod", f->pod->name),
			    LOG_S("annotation", key));
		return 0;
	}
	if (!f->autos.app)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': SpiderSubnet feature doesn't support no-controller "
				"pod: annotation '%s' is for the template of a Deployment or the "
				"like",
				f->pod->ns, f->pod->name, key);
	return 1;
}

static int not_made(const struct pod_pools_facts *f, const struct auto_wish *w, const char *subnet,
		    const char *ifname, uint8_t family, struct err *e)
{
	const struct app_id *app = f->autos.app;

	if (!app_id_is_known(app) && !w->fixed)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s/%s/%s only supports fixed auto-created IPPool IP Number: give "
				"its template annotation '" AUTO_POOL_NUMBER "' with a number",
				app->kind, app->ns, app->name);
	if (!app_id_is_known(app))
		f->autos.make(f->autos.arg, app, subnet, ifname, family, w->number, w->reclaim);
	return err_kind(
		e, ERR_AGAIN, -EAGAIN,
		"no matching auto-created IPPool candidate with matchLables '" AUTO_POOL_OWNER
		"=%s," AUTO_POOL_UID "=%s," AUTO_POOL_IFNAME "=%s," AUTO_POOL_VERSION
		"=IPv%u': is there a SpiderSubnet '%s', and a controller that makes pools? "
		"See the events of %s '%s/%s'",
		subnet, app->uid, ifname, family, subnet, app->kind, app->ns, app->name);
}

static int made_for(const struct pod_pools_facts *f, const struct auto_wish *w, const char *subnet,
		    const char *ifname, uint8_t family, struct pod_wish *ret, struct err *e)
{
	auto_free char *key = NULL;
	const char *pool;

	if (!subnet || (family == 4 ? f->conf.no4 : f->conf.no6))
		return 0;
	key = auto_pool_key_of(subnet, f->autos.app->uid, ifname);
	pool = f->autos.find(f->autos.arg, key, family);
	if (!pool)
		return not_made(f, w, subnet, ifname, family, e);
	if (!app_id_is_known(f->autos.app) && w->fixed)
		f->autos.make(f->autos.arg, f->autos.app, subnet, ifname, family, w->number,
			      w->reclaim);
	if (family == 4)
		pod_names_add(&ret->pools4, &ret->n_pools4, pool);
	else
		pod_names_add(&ret->pools6, &ret->n_pools6, pool);
	return 0;
}

/* `subnet` is one pool for each interface that asks. */
static const struct auto_nic *nic_of(const struct auto_wish *w, const char *ifname)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->single || !strcmp(w->v[i].ifname, ifname))
			return &w->v[i];
	return NULL;
}

static int from_subnet(const struct pod_pools_facts *f, const struct auto_wish *w,
		       const struct pod_nic *nic, struct pod_wish *ret, struct err *e)
{
	const struct auto_nic *x = nic_of(w, nic->ifname);
	int r;

	if (!x)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': wrong input, annotation '" NOTE_SUBNETS
				"': interface %s must be specified: add an entry for it",
				f->pod->ns, f->pod->name, nic->ifname);
	ret->clean_gateway = nic->conf_clean;
	ret->from = "the pools made of SpiderSubnets";
	r = made_for(f, w, x->subnet4, x->ifname, 4, ret, e);
	if (r == 0)
		r = made_for(f, w, x->subnet6, x->ifname, 6, ret, e);
	return r;
}

int pod_pools_from_subnets(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
			   struct pod_wish *ret, struct err *e)
{
	struct auto_wish w = {0};
	int r = auto_wish_read(&f->pod->annotations, 0, &w, e);

	if (r < 0)
		return err_wrap(e, r, "pod '%s/%s': wrong input", f->pod->ns, f->pod->name);
	r = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		r = from_subnet(f, &w, &nics[i], &ret[i], e);
	auto_wish_done(&w);
	return r;
}
