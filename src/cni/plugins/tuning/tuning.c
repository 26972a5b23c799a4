/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/tuning/tuning.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

enum { SYSCTL_KEY_MAX = 256, SYSCTL_VALUE_MAX = 1024 };

/* --- sysctls --- */

struct old_sysctl {
	const struct root *root;
	int netns;
	char key[SYSCTL_KEY_MAX], value[SYSCTL_VALUE_MAX];
};

static int undo_sysctl(void *arg, struct err *e)
{
	const struct old_sysctl *old = arg;
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(old->netns, &v, e);

	if (r < 0)
		return r;
	r = sysctl_set(old->root, old->key, old->value, e);
	netns_leave(&v);
	return r;
}

static int set_sysctl(const struct chained_call *m, const struct tuning_sysctl *s, struct undo *u,
		      struct err *e)
{
	struct old_sysctl old = {.root = &m->call->root, .netns = m->netns};
	/* Some sysctls are write-only: their former value cannot be restored. */
	bool known = str_copy(old.key, sizeof(old.key), s->path) &&
		     sysctl_get(old.root, s->path, old.value, sizeof(old.value), NULL) >= 0;
	int r = sysctl_set(old.root, s->path, s->value, e);

	if (r < 0) {
		if (r == -ENOENT || r == -EINVAL)
			err_default_kind(e, ERR_CONF);
		return err_wrap(e, r, "set sysctl '%s' to '%s'", s->key, s->value);
	}
	if (known)
		undo_push(u, s->path, undo_sysctl, &old, sizeof(old));
	return 0;
}

static int set_sysctls(const struct chained_call *m, const struct tuning_conf *c, struct undo *u,
		       struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = c->n_sysctls ? netns_enter(m->netns, &v, e) : 0;

	for (size_t i = 0; r >= 0 && i < c->n_sysctls; i++)
		r = set_sysctl(m, &c->sysctls[i], u, e);
	netns_leave(&v);
	return r;
}

/* --- backup of the link's former attributes --- */

struct old_backup {
	const struct root *root;
	bool was_there;
	struct tuning_attrs attrs;
	char path[PATH_MAX];
};

static int tuning_backup_save(const struct root *root, const char *path,
			      const struct tuning_attrs *a, struct err *e);

static int undo_backup(void *arg, struct err *e)
{
	const struct old_backup *old = arg;

	if (old->was_there)
		return tuning_backup_save(old->root, old->path, &old->attrs, e);
	return file_remove(old->root, old->path, e);
}

static int tuning_backup_load(const struct root *root, const char *path, struct tuning_attrs *ret,
			      struct err *e);

static char *tuning_backup_path(const struct chained_call *m, const char *dir)
{
	return xasprintf("%s/%s_%s.json", dir, m->call->container_id, m->ifname);
}

/* The backup is written before the first change of the link, so that a DEL after a crash finds the
 * backup. */
static int save_backup(const struct chained_call *m, const struct tuning_conf *c,
		       const struct tuning_attrs *found, struct undo *u, struct err *e)
{
	auto_free char *path = tuning_backup_path(m, c->data_dir);
	struct old_backup old = {.root = &m->call->root};
	struct tuning_attrs keep = *found;
	struct err reason = ERR_INIT;
	int r;

	if (!str_copy(old.path, sizeof(old.path), path))
		return err_kind(e, ERR_CONF, -ENAMETOOLONG, "conf.dataDir is too long");
	r = tuning_backup_load(old.root, path, &old.attrs, &reason);
	old.was_there = r >= 0;
	if (old.was_there)
		keep = tuning_merge(&old.attrs, found);
	else if (r != -ENOENT)
		log_warn("replacing an unusable backup of the link's attributes",
			 LOG_S("error", reason.text));
	/* The undo is pushed before the write, because the file may exist even if the write fails
	 * at the fsync of the directory. */
	undo_push(u, "remove or restore the backup of the link's attributes", undo_backup, &old,
		  sizeof(old));
	return tuning_backup_save(old.root, path, &keep, e);
}

/* --- attributes of the link --- */

static int apply(struct nl_wire *w, int index, const char *name, const struct tuning_attrs *a,
		 struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change changes[TUNING_CHANGES];
	size_t n = tuning_changes(a, changes);

	for (size_t i = 0; i < n; i++)
		link_set(b, index, name, &changes[i]);
	return n ? nl_batch_commit(w, b, e) : 0;
}

struct old_link {
	struct nl_wire *w;
	int index;
	char name[LINK_NAME_MAX];
	struct tuning_attrs attrs;
};

static int undo_link(void *arg, struct err *e)
{
	const struct old_link *old = arg;

	return apply(old->w, old->index, old->name, &old->attrs, e);
}

static int set_link(const struct chained_call *m, const struct tuning_conf *c, const struct link *l,
		    struct undo *u, struct err *e)
{
	struct old_link old = {.w = m->pod, .index = l->index, .attrs = tuning_found(&c->want, l)};
	int r = save_backup(m, c, &old.attrs, u, e);

	if (r < 0)
		return r;
	str_copy(old.name, sizeof(old.name), l->name);
	/* The undo is pushed before the batch, because some changes may be made and others refused.
	 * */
	undo_push(u, "restore the link's attributes", undo_link, &old, sizeof(old));
	r = apply(m->pod, l->index, l->name, &c->want, e);
	if (r == -EINVAL || r == -EADDRNOTAVAIL)
		err_default_kind(e, ERR_CONF);
	return r;
}

/* If the result has an interface of this name in the pod, an interface of the same name on the
 * node stays unchanged. */
static void patch_mac(struct cni_result *r, const char *ifname, const char *mac)
{
	bool in_pod = cni_result_pod_iface(r, ifname) >= 0;

	for (size_t i = 0; i < r->n_ifaces; i++) {
		struct cni_iface *f = &r->ifaces[i];
		bool of_pod = cni_iface_in_pod(f);

		if (strcmp(f->name, ifname) != 0 || of_pod != in_pod)
			continue;
		free(f->mac);
		f->mac = xstrdup(mac);
	}
}

/* --- verbs of the plugin tuning --- */

static int no_prev(struct err *e)
{
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"Required prevResult missing (in a chain, tuning must follow the plugin that "
		"makes the interface)");
}

static int add(const struct chained_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	auto_tuning_conf struct tuning_conf c;
	struct link l;
	int r = tuning_conf_read(m, &c, e);

	if (r < 0)
		return r;
	r = tuning_allowed(&m->call->root, &c, e);
	if (r >= 0 && !m->has_prev)
		r = no_prev(e);
	if (r >= 0 && tuning_touches(&c.want))
		r = link_get(m->pod, m->ifname, &l, e);
	if (r >= 0)
		r = set_sysctls(m, &c, u, e);
	if (r < 0 || !tuning_touches(&c.want))
		return r;
	r = set_link(m, &c, &l, u, e);
	if (r >= 0 && c.mac_text)
		patch_mac(prev, m->ifname, c.mac_text);
	return r;
}

/* Restores the link; returns whether nothing is left to restore. */
static bool restore(const struct chained_call *m, const struct tuning_attrs *a)
{
	struct err reason = ERR_INIT;
	struct link l;
	int r = m->pod ? link_get(m->pod, m->ifname, &l, &reason) : -ENODEV;

	if (r == -ENODEV)
		return true;
	if (r >= 0)
		r = apply(m->pod, l.index, l.name, a, &reason);
	if (r < 0)
		log_warn("cannot restore the state of the interface", LOG_S("ifname", m->ifname),
			 LOG_S("error", reason.text));
	return r >= 0;
}

/* A failure to restore the link is only logged, so that it does not prevent the deletion of a
 * pod. */
static int del(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free char *path = tuning_backup_path(m, tuning_data_dir(m));
	const struct root *root = &m->call->root;
	struct err reason = ERR_INIT;
	struct tuning_attrs a = {0};
	int r;

	(void)prev, (void)e;
	file_sweep(root, path);
	r = tuning_backup_load(root, path, &a, &reason);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		log_warn("cannot use the backup of the link's attributes",
			 LOG_S("error", reason.text));
	if ((r >= 0 && restore(m, &a)) || r == -EINVAL)
		if (file_remove(root, path, &reason) < 0)
			log_warn("cannot remove the backup of the link's attributes",
				 LOG_S("error", reason.text));
	return 0;
}

static int check_sysctl(const struct chained_call *m, const struct tuning_sysctl *s, struct err *e)
{
	char now[SYSCTL_VALUE_MAX];
	int r = sysctl_get(&m->call->root, s->path, now, sizeof(now), e);

	if (r < 0)
		return err_wrap(e, r, "read sysctl '%s'", s->key);
	if (sysctl_same_value(now, s->value))
		return 0;
	return err_set(e, -EINVAL,
		       "Error: Tuning configured value of /proc/sys/%s is %s, current value is %s",
		       s->path, s->value, now);
}

static int check_sysctls(const struct chained_call *m, const struct tuning_conf *c, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = c->n_sysctls ? netns_enter(m->netns, &v, e) : 0;

	for (size_t i = 0; r >= 0 && i < c->n_sysctls; i++)
		r = check_sysctl(m, &c->sysctls[i], e);
	netns_leave(&v);
	return r;
}

static int check(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_tuning_conf struct tuning_conf c;
	struct link l;
	int r = tuning_conf_read(m, &c, e);

	(void)prev;
	if (r < 0)
		return r;
	if (!m->has_prev)
		return no_prev(e);
	r = check_sysctls(m, &c, e);
	if (r < 0)
		return r;
	r = link_get(m->pod, m->ifname, &l, e);
	if (r < 0)
		return err_wrap(e, r, "Cannot find container link %s", m->ifname);
	return tuning_check_link(&c, &l, e);
}

/* STATUS succeeds if the allowlist permits the sysctls and, if attributes are set, the backup's
 * directory exists or can be made. */
static int status(const struct chained_call *m, struct err *e)
{
	auto_tuning_conf struct tuning_conf c;
	int r = tuning_conf_read(m, &c, e);

	if (r < 0)
		return r;
	r = tuning_allowed(&m->call->root, &c, e);
	if (r < 0 || !tuning_touches(&c.want))
		return r;
	r = dir_make(&m->call->root, c.data_dir, 0700, e);
	if (r < 0)
		err_default_kind(e, ERR_UNAVAILABLE);
	return r;
}

/* No GC: CNI lists the valid attachments of one network, but neither name nor content of a backup
 * contains its network. */
const struct cni_meta chained_tuning = {
	.type = "tuning",
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_tuning = META_PLUGIN(tuning, &tuning_table, &tuning_top_table);

/* --- attributes of a link: to change, to store for DEL, to compare --- */

bool tuning_touches(const struct tuning_attrs *a)
{
	return a->mac.len || a->mtu || a->has_promisc || a->has_allmulti || a->has_txqlen;
}

struct tuning_attrs tuning_found(const struct tuning_attrs *want, const struct link *l)
{
	struct tuning_attrs a = *want;

	if (a.mac.len)
		a.mac = l->mac;
	if (a.mtu)
		a.mtu = l->mtu;
	a.promisc = a.has_promisc && link_is_promisc(l);
	a.allmulti = a.has_allmulti && link_is_allmulti(l);
	a.txqlen = a.has_txqlen ? l->txqlen : 0;
	return a;
}

struct tuning_attrs tuning_merge(const struct tuning_attrs *first, const struct tuning_attrs *then)
{
	struct tuning_attrs a = *first;

	if (!a.mac.len)
		a.mac = then->mac;
	if (!a.mtu)
		a.mtu = then->mtu;
	if (!a.has_promisc) {
		a.has_promisc = then->has_promisc;
		a.promisc = then->promisc;
	}
	if (!a.has_allmulti) {
		a.has_allmulti = then->has_allmulti;
		a.allmulti = then->allmulti;
	}
	if (!a.has_txqlen) {
		a.has_txqlen = then->has_txqlen;
		a.txqlen = then->txqlen;
	}
	return a;
}

size_t tuning_changes(const struct tuning_attrs *a, struct link_change ret[static TUNING_CHANGES])
{
	size_t n = 0;

	if (a->mac.len)
		ret[n++] = (struct link_change){.set = LINK_SET_MAC, .mac = a->mac};
	if (a->has_promisc)
		ret[n++] = (struct link_change){.set = LINK_SET_PROMISC, .promisc = a->promisc};
	if (a->mtu)
		ret[n++] = (struct link_change){.set = LINK_SET_MTU, .mtu = a->mtu};
	if (a->has_allmulti)
		ret[n++] = (struct link_change){.set = LINK_SET_ALLMULTI, .allmulti = a->allmulti};
	if (a->has_txqlen)
		ret[n++] = (struct link_change){.set = LINK_SET_TXQLEN, .txqlen = a->txqlen};
	return n;
}

static const char *word(bool b)
{
	return b ? "true" : "false";
}

int tuning_check_link(const struct tuning_conf *c, const struct link *l, struct err *e)
{
	const struct tuning_attrs *want = &c->want;
	char mac[MAC_TEXT_MAX];

	if (want->mac.len && !mac_eq(&want->mac, &l->mac))
		return err_set(e, -EINVAL,
			       "Error: Tuning configured Ethernet of %s is %s, current value is %s",
			       l->name, c->mac_text, mac_str(&l->mac, mac));
	if (want->promisc != link_is_promisc(l))
		return err_set(
			e, -EINVAL,
			"Error: Tuning link %s configured promisc is %s, current value is %d",
			l->name, word(want->promisc), link_is_promisc(l));
	if (want->mtu && want->mtu != l->mtu)
		return err_set(e, -EINVAL,
			       "Error: Tuning configured MTU of %s is %u, current value is %u",
			       l->name, want->mtu, l->mtu);
	if (want->has_allmulti && want->allmulti != link_is_allmulti(l))
		return err_set(e, -EINVAL,
			       "Error: Tuning configured all-multicast mode of %s is %s, current "
			       "value is %s",
			       l->name, word(want->allmulti), word(link_is_allmulti(l)));
	if (want->has_txqlen && want->txqlen != l->txqlen)
		return err_set(e, -EINVAL,
			       "Error: Tuning configured Transmit Queue Length of %s is %u, "
			       "current value is %u",
			       l->name, want->txqlen, l->txqlen);
	return 0;
}

/* --- backup file of the link's attributes, byte for byte as the original writes it --- */

enum { BACKUP_MAX = 64 << 10, BACKUP_MODE = 0600, BACKUP_DIR_MODE = 0700 };

struct raw {
	const char *mac;
	int64_t mtu, txqlen;
	bool promisc, allmulti, has_promisc, has_allmulti, has_txqlen;
};

static const struct json_field fields[] = {
	JSON_FIELD("mac", J_STR, struct raw, mac),
	JSON_FIELD("promisc", J_BOOL, struct raw, promisc,
		   .has = offsetof(struct raw, has_promisc)),
	JSON_FIELD("mtu", J_INT, struct raw, mtu, .max = INT32_MAX),
	JSON_FIELD("allmulti", J_BOOL, struct raw, allmulti,
		   .has = offsetof(struct raw, has_allmulti)),
	JSON_FIELD("txQLen", J_INT, struct raw, txqlen, .has = offsetof(struct raw, has_txqlen),
		   .max = INT32_MAX),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

void tuning_backup_print(const struct tuning_attrs *a, struct buf *b)
{
	char mac[MAC_TEXT_MAX];
	struct json_out o;

	jo_init(&o, b, 1);
	jo_obj(&o);
	if (a->mac.len)
		jo_kstr(&o, "mac", mac_str(&a->mac, mac));
	if (a->has_promisc)
		jo_kbool(&o, "promisc", a->promisc);
	if (a->mtu)
		jo_kint(&o, "mtu", a->mtu);
	if (a->has_allmulti)
		jo_kbool(&o, "allmulti", a->allmulti);
	if (a->has_txqlen)
		jo_kint(&o, "txQLen", a->txqlen);
	jo_end_obj(&o);
}

int tuning_backup_parse(struct span text, struct tuning_attrs *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct tuning_attrs a = {0};
	struct raw raw = {0};
	int r = json_parse(&d, text, BACKUP_MAX, e);

	if (r >= 0)
		r = json_read(d, json_root(d), &table, &raw, "backup", e);
	if (r >= 0 && raw.mac && *raw.mac)
		r = mac_parse(span_of(raw.mac), &a.mac) < 0
			    ? err_set(e, -EINVAL, "backup.mac is '%s', expected a MAC address",
				      raw.mac)
			    : 0;
	if (r < 0)
		return -EINVAL;
	a.mtu = (uint32_t)raw.mtu;
	a.has_promisc = raw.has_promisc;
	a.promisc = raw.promisc;
	a.has_allmulti = raw.has_allmulti;
	a.allmulti = raw.allmulti;
	a.has_txqlen = raw.has_txqlen;
	a.txqlen = (uint32_t)raw.txqlen;
	*ret = a;
	return 0;
}

/* Reads the backup. -ENOENT (e set): there is none; -EINVAL: its content is invalid. */
static int tuning_backup_load(const struct root *root, const char *path, struct tuning_attrs *ret,
			      struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, BACKUP_MAX);
	r = file_read(root, path, BACKUP_MAX, &text, e);
	if (r < 0)
		return r;
	r = tuning_backup_parse(buf_span(&text), ret, e);
	return r < 0 ? err_wrap(e, r, "read '%s'", path) : 0;
}

static int tuning_backup_save(const struct root *root, const char *path,
			      const struct tuning_attrs *a, struct err *e)
{
	auto_buf struct buf text;
	int r = dir_make_parent(root, path, BACKUP_DIR_MODE, e);

	buf_init(&text, BACKUP_MAX);
	tuning_backup_print(a, &text);
	if (r >= 0)
		r = file_replace(root, path, buf_span(&text), BACKUP_MODE, e);
	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_IO);
	return err_wrap(e, r, "save the state of the interface (conf.dataDir)");
}
