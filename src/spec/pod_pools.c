/* SPDX-License-Identifier: Apache-2.0 */
/* Which source of pools counts for a pod's interfaces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/opt.h"
#include "spec/pod_pools_priv.h"

void pod_wish_done(struct pod_wish *w)
{
	str_list_free(w->pools4, w->n_pools4);
	str_list_free(w->pools6, w->n_pools6);
	*w = (struct pod_wish){0};
}

void pod_wish_put(const struct pod_wish *w, struct ipam_ask *a)
{
	a->pools4 = (const char *const *)w->pools4;
	a->n_pools4 = w->n_pools4;
	a->pools6 = (const char *const *)w->pools6;
	a->n_pools6 = w->n_pools6;
	a->no4 = w->no4;
	a->no6 = w->no6;
	a->clean_gateway = w->clean_gateway;
}

static void copy(char ***v, size_t *n, const char *const *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (*from[i])
			pod_names_add(v, n, from[i]);
}

/* --- annotations of the pod --- */

static int position_of(const struct pod_pools_facts *f, const struct pod_nic *nic)
{
	for (size_t i = 0; i < f->n_names; i++)
		if (strcmp(f->names[i], nic->ifname) == 0)
			return (int)i;
	return nic->position;
}

static const struct pod_entry *entry_named(const struct pod_entries *l, const char *ifname)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].ifname, ifname) == 0)
			return &l->v[i];
	return NULL;
}

static int not_named(const struct pod_note *n, const struct pod_entries *l, const char *ifname,
		     struct err *e)
{
	auto_free const char **names = xcalloc(l->n, sizeof(*names));
	const char *near;

	for (size_t i = 0; i < l->n; i++)
		names[i] = l->v[i].ifname;
	near = opt_nearest(ifname, names, l->n);
	if (near)
		return pod_note_wrong(
			n, e,
			"interface %s must be specified: is '%s' meant for it? Else add "
			"an entry for it",
			ifname, near);
	return pod_note_wrong(n, e, "interface %s must be specified: add an entry for it", ifname);
}

static int entry_for(const struct pod_pools_facts *f, const struct pod_note *n,
		     const struct pod_entries *l, const struct pod_nic *nic,
		     const struct pod_entry **ret, struct err *e)
{
	int at = position_of(f, nic);

	if (l->each || (!l->v[0].ifname && l->n == 1 && at < 0)) {
		*ret = &l->v[0];
		return 0;
	}
	if (l->v[0].ifname) {
		*ret = entry_named(l, nic->ifname);
		return *ret ? 0 : not_named(n, l, nic->ifname, e);
	}
	if (at < 0)
		return pod_note_wrong(
			n, e,
			"which of its %zu entries is for interface %s cannot be told: "
			"give each entry its \"interface\"",
			l->n, nic->ifname);
	if ((size_t)at >= l->n)
		return pod_note_wrong(
			n, e,
			"it has %zu entries, and interface %s is the pod's number %d that "
			"gets addresses: add an entry for it",
			l->n, nic->ifname, at + 1);
	*ret = &l->v[at];
	return 0;
}

static void warn_strangers(const struct pod_pools_facts *f, const struct pod_note *n,
			   const struct pod_entries *l)
{
	for (size_t i = 0; i < l->n && f->n_names > 0 && l->v[0].ifname; i++) {
		size_t k = 0;

		while (k < f->n_names && strcmp(f->names[k], l->v[i].ifname) != 0)
			k++;
		if (k == f->n_names)
			log_limited(
				LOG_WARN, 3,
				"an annotation has pools for an interface that the pod does not have",
				LOG_S("namespace", n->ns), LOG_S("pod", n->name),
				LOG_S("annotation", n->key), LOG_S("interface", l->v[i].ifname));
	}
}

static int from_entries(const struct pod_pools_facts *f, const struct pod_entries *l,
			const struct pod_nic *nics, size_t n, struct pod_wish *ret, struct err *e)
{
	bool list = labels_get(&f->pod->annotations, NOTE_IPPOOLS) != NULL;
	struct pod_note note = {list ? NOTE_IPPOOLS : NOTE_IPPOOL, NULL, false, f->pod->ns,
				f->pod->name};

	warn_strangers(f, &note, l);
	for (size_t i = 0; i < n; i++) {
		const struct pod_entry *x;
		int r = entry_for(f, &note, l, &nics[i], &x, e);

		if (r < 0)
			return r;
		copy(&ret[i].pools4, &ret[i].n_pools4, (const char *const *)x->wish.pools4,
		     x->wish.n_pools4);
		copy(&ret[i].pools6, &ret[i].n_pools6, (const char *const *)x->wish.pools6,
		     x->wish.n_pools6);
		ret[i].clean_gateway = l->each ? nics[i].conf_clean : x->wish.clean_gateway;
		ret[i].from = list ? "annotation " NOTE_IPPOOLS : "annotation " NOTE_IPPOOL;
	}
	return 0;
}

/* --- the namespace, the configuration --- */

static int from_namespace(const struct pod_pools_facts *f, struct pod_wish *ret, struct err *e)
{
	struct pod_note n = {NOTE_DEFAULT4, labels_get(f->ns_annotations, NOTE_DEFAULT4), true,
			     f->pod->ns, f->pod->name};
	int r = n.value ? pod_names_read(&n, &ret->pools4, &ret->n_pools4, e) : 0;

	n.key = NOTE_DEFAULT6;
	n.value = labels_get(f->ns_annotations, NOTE_DEFAULT6);
	if (r == 0 && n.value)
		r = pod_names_read(&n, &ret->pools6, &ret->n_pools6, e);
	ret->from = "annotations " NOTE_DEFAULT4 " and " NOTE_DEFAULT6 " of the namespace";
	return r;
}

static int from_others(const struct pod_pools_facts *f, const struct pod_nic *nic,
		       struct pod_wish *ret, struct err *e)
{
	int r;

	if (!f->ns_annotations)
		return err_kind(
			e, ERR_AGAIN, -EAGAIN,
			"pod '%s/%s': its namespace is not known yet, which may have pools for "
			"interface %s",
			f->pod->ns, f->pod->name, nic->ifname);
	r = from_namespace(f, ret, e);
	ret->clean_gateway = nic->conf_clean;
	if (r < 0 || ret->n_pools4 + ret->n_pools6 > 0)
		return r;
	copy(&ret->pools4, &ret->n_pools4, nic->conf4, nic->n_conf4);
	copy(&ret->pools6, &ret->n_pools6, nic->conf6, nic->n_conf6);
	ret->from = ret->n_pools4 + ret->n_pools6 > 0 ? "the network's configuration"
						      : "the default pools";
	return 0;
}

/* --- all --- */

static void drop(char ***v, size_t *n)
{
	str_list_free(*v, *n);
	*v = NULL;
	*n = 0;
}

/* A family that is off is not asked for; nothing left must not turn into the defaults. */
static int drop_families(const struct pod_pools_facts *f, const struct pod_nic *nic,
			 struct pod_wish *w, struct err *e)
{
	bool listed = w->n_pools4 + w->n_pools6 > 0;

	w->no4 = f->conf.no4;
	w->no6 = f->conf.no6;
	if (w->no4)
		drop(&w->pools4, &w->n_pools4);
	if (w->no6)
		drop(&w->pools6, &w->n_pools6);
	if (!listed || w->n_pools4 + w->n_pools6 > 0)
		return 0;
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"pod '%s/%s': interface %s: %s names pools of IPv%d only, which is off in this "
		"cluster",
		f->pod->ns, f->pod->name, nic->ifname, w->from, w->no4 ? 4 : 6);
}

static int ask(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
	       struct pod_wish *ret, struct err *e)
{
	struct pod_entries l = {0};
	int made = pod_pools_check_subnets(f, e), r = made;

	if (r == 0)
		r = pod_entries_read(f->pod, &l, e);
	if (made == 1)
		r = pod_pools_from_subnets(f, nics, n, ret, e);
	else if (r == 0 && l.n > 0)
		r = from_entries(f, &l, nics, n, ret, e);
	else
		for (size_t i = 0; i < n && r == 0; i++)
			r = from_others(f, &nics[i], &ret[i], e);
	for (size_t i = 0; i < n && r == 0; i++)
		r = drop_families(f, &nics[i], &ret[i], e);
	pod_entries_done(&l);
	return r;
}

int pod_pools_ask(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
		  struct pod_wish *ret, struct err *e)
{
	auto_free struct pod_wish *v = xcalloc(n + 1, sizeof(*v));
	int r = ask(f, nics, n, v, e);

	for (size_t i = 0; i < n; i++)
		if (r < 0)
			pod_wish_done(&v[i]);
		else
			ret[i] = v[i];
	return r;
}

int pod_nic_position(const char *const *held, size_t n, const char *ifname)
{
	size_t i = 0;

	while (i < n && strcmp(held[i], ifname) != 0)
		i++;
	return (int)i;
}

int pod_check_alive(const struct pod_facts *p, struct err *e)
{
	if (!p->deleting && !p->finished)
		return 0;
	return err_kind(e, ERR_AGAIN, -ESHUTDOWN,
			"dead Pod %s/%s, we cannot allocate IP addresees to it: it is %s", p->ns,
			p->name, p->deleting ? "being deleted" : "finished");
}
