/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_record.h"
#include "kern/net/altname.h"
#include "kern/sys/netns.h"

/* host-device: restores a device to the node. */

/* --- alternative names that were renamed because of a conflict --- */

/* Makes the name "<name on the node>.altname.<alternative name>"; returns false if it is too long.
 * A conflicting alternative name equals a link's name, so its new name is short enough. */
static bool aside_name(const char *link, const char *altname, char ret[static ALTNAME_MAX])
{
	return snprintf(ret, ALTNAME_MAX, "%s.altname.%s", link, altname) < ALTNAME_MAX;
}

/* Adds the new name before it removes the old one, so that a process that is killed in between
 * leaves both names. */
void host_device_rename_conflicting(const struct link *l, const char *altname, struct nl_batch *b)
{
	char aside[ALTNAME_MAX];

	if (aside_name(l->name, altname, aside))
		altname_add(b, l->index, l->name, aside);
	altname_del(b, l->index, l->name, altname);
}

static void warn_lost(const char *link, const char *altname, const char *reason)
{
	log_warn("an alternative name of the device is lost", LOG_S("link", link),
		 LOG_S("altname", altname), LOG_S("reason", reason));
}

static void restore_altname(struct nl_wire *w, const struct link *l, const char *aside,
			    const char *altname, bool there)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err reason = ERR_INIT;

	if (!there)
		altname_add(b, l->index, l->name, altname);
	altname_del(b, l->index, l->name, aside);
	if (nl_batch_commit(w, b, &reason) < 0)
		warn_lost(l->name, altname, reason.text);
}

/* Restores renamed alternative names of a device that is back on the node. A name that another link
 * has taken is lost. */
static int restore_altnames(struct nl_wire *w, const char *name, struct err *e)
{
	char prefix[ALTNAME_MAX], **names = NULL;
	struct link l;
	size_t n = 0, len;
	int r = link_get(w, name, &l, e);

	if (r >= 0)
		r = altname_list(w, l.index, &names, &n, e);
	if (r < 0)
		return r;
	(void)aside_name(l.name, "", prefix);
	len = strlen(prefix);
	for (size_t i = 0; i < n; i++)
		if (strncmp(names[i], prefix, len) == 0 && names[i][len])
			restore_altname(w, &l, names[i], names[i] + len,
					str_list_has(names, n, names[i] + len));
	str_list_free(names, n);
	return 0;
}

/* --- move of the device back to the node --- */

/* Moves a device from the pod to the node: l is a link of the pod. */
static int move_to_host(struct attach *a, const struct link *l, const char *name, const char *alias,
			struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.name = name,
		.alias = alias,
	};
	auto_fd int host_netns = -1;
	int r = netns_current(&host_netns, e);

	if (r < 0)
		return r;
	c.netns_fd = host_netns;
	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(a->pod, b, e);
}

/* Finds the device in the pod, even if the kernel carried out only a part of the message that moved
 * it. */
static const struct link *in_pod(const struct attach *a, const struct rail *rail)
{
	for (size_t i = 0; i < a->n_pod_links; i++) {
		const struct link *l = &a->pod_links[i];

		if (strcmp(l->name, rail->ifname) == 0 && strcmp(l->alias, rail->master.name) == 0)
			return l;
		if (strcmp(l->name, rail->master.name) == 0 && mac_eq(&l->mac, &rail->master.mac))
			return l;
	}
	return NULL;
}

static int host_device_restore(struct attach *a, const char *ifname, struct err *e);

int host_device_undo(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link_change up = {.set = LINK_SET_UP};
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct link *l;
	int r = attach_list_pod(a, e);

	if (r < 0)
		return r;
	l = in_pod(a, rail);
	if (l)
		r = move_to_host(a, l, rail->master.name, rail->master.alias, e);
	if (r >= 0)
		r = restore_altnames(a->host, rail->master.name, e);
	if (r < 0 || !l)
		return r;
	if (link_is_up(&rail->master)) {
		link_set(b, 0, rail->master.name, &up);
		r = nl_batch_commit(a->host, b, e);
	}
	if (r >= 0)
		r = host_device_restore(a, rail->ifname, e);
	return r;
}

/* Fails if another link of the node has the device's name on the node: a later DEL would not
 * find the device if this DEL moved it back under a different name. */
static int name_is_free(struct attach *a, const struct link *l, struct err *e)
{
	struct link other;

	if (link_get(a->host, l->alias, &other, NULL) < 0)
		return 0;
	return err_set(
		e, -EEXIST,
		"move '%s' back to the node as '%s': File exists (EEXIST): the node has another link of that name "
		"(rename that link; the runtime then retries DEL)",
		l->name, l->alias);
}

/* Sets the link down before it renames the link: Linux before 6.2 does not rename a link that is
 * up. */
static int rename_restored(struct attach *a, const struct link *l, struct err *e)
{
	const struct link_change down = {.set = LINK_SET_DOWN};
	const struct link_change name = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS, .name = l->alias, .alias = ""};
	auto_batch struct nl_batch *b = nl_batch_new();

	if (link_is_up(l))
		link_set(b, l->index, l->name, &down);
	link_set(b, l->index, l->name, &name);
	return nl_batch_commit(a->host, b, e);
}

static void host_device_restore_lost(struct attach *a, const struct rail *rail);

/* Restores the names of the configured device after the kernel returned it to the node, or after a
 * process was killed while it moved the device. */
static int restore_names(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct host_device_conf *c = &rail->conf.host_device;
	auto_host_device struct host_device_files f = {0};
	auto_free struct link *links = NULL;
	const struct link *stranded, *device;
	size_t n;
	int r;

	/* Succeeds if the device does not exist, because it has no names to restore. */
	if (host_device_read(&a->call->root, c, &f, NULL) < 0)
		return 0;
	r = link_list(a->host, &links, &n, e);
	if (r < 0)
		return r;
	stranded = host_device_stranded(c, &f, *rail->ifname ? rail->ifname : NULL, links, n);
	device = stranded ? NULL : host_device_pick(c, &f, links, n);
	if (stranded)
		r = rename_restored(a, stranded, e);
	if (r >= 0 && (stranded || device))
		r = restore_altnames(a->host, stranded ? stranded->alias : device->name, e);
	return r;
}

/* Restores the names of the configured device if the kernel returned it to the node. Then
 * restores recorded states: DEL (container_id is set) restores the state that this attachment's
 * ADD recorded; GC restores those of all devices of the network that have no valid attachment,
 * even if the configured device does not exist. */
int host_device_gc(struct attach *a, const struct rail *rail, struct err *e)
{
	int r = restore_names(a, rail, e);

	if (r >= 0 && *a->call->container_id)
		r = host_device_restore(a, rail->ifname, e);
	else if (r >= 0)
		host_device_restore_lost(a, rail);
	return r < 0 ? r : 0;
}

int host_device_del(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link *l = NULL;
	int r = a->pod ? attach_list_pod(a, e) : 0;

	if (r < 0)
		return r;
	if (a->pod)
		l = link_find(a->pod_links, a->n_pod_links, rail->ifname);
	if (!l)
		return host_device_gc(a, rail, e);
	if (!host_device_is_moved(l)) {
		/* The original fails here. So with the original, if ADD fails because the pod has a
		 * link of this name, each DEL fails as well. */
		log_warn("leaving a link in the pod: its alias is missing or not an interface "
			 "name, so it is not a device of the node",
			 LOG_S("link", l->name));
		return 0;
	}
	r = name_is_free(a, l, e);
	if (r >= 0)
		r = move_to_host(a, l, l->alias, "", e);
	if (r >= 0)
		r = restore_altnames(a->host, l->alias, e);
	if (r >= 0)
		r = host_device_restore(a, rail->ifname, e);
	return r;
}

/*
 * host-device: the record of a device's state on the node, from ADD until the device is restored.
 */

#define DIR "/var/lib/cni/host-device"

enum { RECORD_MAX = 256 << 10, RECORD_VERSION = 1, FILE_MODE = 0600, DIR_MODE = 0700 };

struct raw_addr {
	const char *address;
	bool no_prefix_route;
};

struct raw {
	int64_t version, mtu;
	const char *network, *container, *ifname, *boot, *link, *device, *alias, *mac;
	struct json_list addresses;
	bool up;
};

#define FIELD(of, key, kind, member, ...) JSON_FIELD(key, kind, struct of, member, ##__VA_ARGS__)

static const struct json_field addr_fields[] = {
	FIELD(raw_addr, "address", J_STR, address),
	FIELD(raw_addr, "noPrefixRoute", J_BOOL, no_prefix_route),
	{0},
};
static const struct json_table addr_table = {addr_fields, 0, sizeof(struct raw_addr)};

static const struct json_field fields[] = {
	FIELD(raw, "version", J_INT, version, .min = 0, .max = INT32_MAX),
	FIELD(raw, "network", J_STR, network),
	FIELD(raw, "container", J_STR, container),
	FIELD(raw, "ifname", J_STR, ifname),
	FIELD(raw, "boot", J_STR, boot),
	FIELD(raw, "link", J_STR, link),
	FIELD(raw, "device", J_STR, device),
	FIELD(raw, "alias", J_STR, alias),
	FIELD(raw, "mac", J_STR, mac),
	FIELD(raw, "mtu", J_INT, mtu, .min = 0, .max = UINT32_MAX),
	FIELD(raw, "up", J_BOOL, up),
	FIELD(raw, "addresses", J_OBJS, addresses, .sub = &addr_table),
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct raw)};

/* The parsed record; `raw` is borrowed from the document. */
struct record {
	struct json_doc *doc;
	struct raw raw;
	bool read; /* the file was read, so an error concerns its content */
};

static void record_done(struct record *r)
{
	json_free(r->doc);
}
#define auto_record __attribute__((cleanup(record_done)))

static char *path_of(const char *container, const char *ifname)
{
	return xasprintf(DIR "/%s-%s", container, ifname);
}

static int load(const struct root *root, const char *path, struct record *ret, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, RECORD_MAX + 1);
	r = file_read(root, path, RECORD_MAX, &text, e);
	ret->read = r >= 0;
	if (r >= 0)
		r = json_parse(&ret->doc, buf_span(&text), RECORD_MAX, e);
	if (r >= 0)
		r = json_read(ret->doc, json_root(ret->doc), &table, &ret->raw, "record", e);
	if (r < 0)
		return r;
	if (ret->raw.version != RECORD_VERSION)
		return err_set(e, -EPROTO, "record.version is %lld, expected %d",
			       (long long)ret->raw.version, RECORD_VERSION);
	if (!ret->raw.link || !link_name_ok(ret->raw.link) || !ret->raw.container ||
	    !ret->raw.ifname)
		return err_set(
			e, -EINVAL,
			"record lacks 'container' or 'ifname', or 'link' is missing or not an interface name");
	return 0;
}

static void forget(const struct root *root, const char *path)
{
	struct err reason = ERR_INIT;

	if (file_remove(root, path, &reason) < 0)
		log_warn("cannot remove the obsolete record of a device of a deleted pod",
			 LOG_S("error", reason.text));
}

/* Returns whether the link is the recorded device. The name alone does not show this: another
 * device may have taken it. */
static bool is_same(const struct raw *r, const struct link *l)
{
	struct mac mac = {0};

	if (r->device && *r->device && *l->device)
		return strcmp(r->device, l->device) == 0;
	if (!r->mac || mac_parse(span_of(r->mac), &mac) < 0)
		return false;
	return mac_eq(&mac, &l->mac) || mac_eq(&mac, &l->perm);
}

/* --- ADD: write of the record --- */

/* Returns whether the record contains the address, so that it is restored later. The record
 * contains neither addresses with a lifetime (DHCP, router advertisements) nor IPv6 link-local
 * addresses, which the kernel adds itself. */
static bool is_lasting(const struct addr *a)
{
	return addr_is_permanent(a) && !(a->net.ip.family == 6 && ip_is_link_local(&a->net.ip));
}

static void put_addresses(const struct attach *a, int index, struct json_out *o)
{
	char text[IP_TEXT_MAX];

	jo_key(o, "addresses");
	jo_arr(o);
	for (size_t i = 0; i < a->n_host_addrs; i++) {
		const struct addr *at = &a->host_addrs[i];

		if (at->index != index || !is_lasting(at))
			continue;
		jo_obj(o);
		jo_kstr(o, "address", ipnet_str(&at->net, text));
		if (addr_has_no_prefix_route(at))
			jo_kbool(o, "noPrefixRoute", true);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_record(const struct attach *a, const struct rail *rail, struct buf *b)
{
	const struct link *l = &rail->master;
	char boot[40], mac[MAC_TEXT_MAX];
	struct json_out o;

	vf_record_boot(&a->call->root, boot);
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kint(&o, "version", RECORD_VERSION);
	jo_kstr(&o, "network", rail->ipam.name);
	jo_kstr(&o, "container", a->call->container_id);
	jo_kstr(&o, "ifname", rail->ifname);
	jo_kstr(&o, "boot", boot);
	jo_kstr(&o, "link", l->name);
	jo_kstr(&o, "device", l->device);
	jo_kstr(&o, "alias", l->alias);
	jo_kstr(&o, "mac", mac_str(&l->mac, mac));
	jo_kint(&o, "mtu", l->mtu);
	jo_kbool(&o, "up", link_is_up(l));
	put_addresses(a, l->index, &o);
	jo_end_obj(&o);
}

typedef void (*record_fn)(void *arg, const char *path, const struct record *r);

/* Calls fn for each record that can be read. */
static void each(const struct root *root, record_fn fn, void *arg)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(root, DIR, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf(DIR "/%s", names[i]);
		auto_record struct record rec = {0};

		if (*names[i] != '.' && load(root, path, &rec, NULL) >= 0)
			fn(arg, path, &rec);
	}
	str_list_free(names, n);
}

struct obsolete {
	const struct root *root;
	const struct link *link;
	const char *keep;
};

static void remove_obsolete(void *arg, const char *path, const struct record *r)
{
	const struct obsolete *o = arg;

	if (strcmp(r->raw.link, o->link->name) == 0 && is_same(&r->raw, o->link) &&
	    strcmp(path, o->keep) != 0)
		forget(o->root, path);
}

struct undo_record {
	const struct root *root;
	const char *container, *ifname;
};

static int undo_record(void *arg, struct err *e)
{
	const struct undo_record *u = arg;
	auto_free char *path = path_of(u->container, u->ifname);

	return file_remove(u->root, path, e);
}

static int save(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct undo_record u = {&a->call->root, a->call->container_id, rail->ifname};
	auto_free char *path = path_of(u.container, u.ifname);
	auto_buf struct buf text;
	int r;

	buf_init(&text, RECORD_MAX);
	put_record(a, rail, &text);
	if (text.over)
		return err_set(e, -E2BIG, "'%s' has too many addresses to record",
			       rail->master.name);
	r = dir_make(u.root, DIR, DIR_MODE, e);
	if (r < 0)
		return r;
	undo_push(&a->undo, "remove the record of a device", undo_record, &u, sizeof(u));
	r = file_replace(u.root, path, buf_span(&text), FILE_MODE, e);
	/* The device is on the node, so older records of it are obsolete. */
	if (r >= 0)
		each(u.root, remove_obsolete, &(struct obsolete){u.root, &rail->master, path});
	return r < 0 ? r : 0;
}

int host_device_prepare(struct attach *a, struct err *e)
{
	int r = attach_host_addrs(a, e);

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];

		if (rail->kind != &host_device_kind || rail->no_link)
			continue;
		r = save(a, rail, e);
		if (r < 0)
			return rail_err(rail, err_wrap(e, r, "record '%s'", rail->master.name), e);
	}
	return r < 0 ? r : 0;
}

/* --- restore of the recorded state --- */

/* Restores the link's attributes. The link is down while its MAC changes, because some drivers
 * refuse the change on a link that is up. */
static int restore_link(struct attach *a, const struct raw *r, const struct link *l, struct err *e)
{
	struct link_change c = {.mtu = (uint32_t)r->mtu, .alias = r->alias ? r->alias : ""};
	const struct link_change up = {.set = LINK_SET_UP}, down = {.set = LINK_SET_DOWN};
	auto_batch struct nl_batch *b = nl_batch_new();

	if (r->mac && mac_parse(span_of(r->mac), &c.mac) >= 0 && !mac_eq(&c.mac, &l->mac))
		c.set |= LINK_SET_MAC;
	if (r->mtu && c.mtu != l->mtu)
		c.set |= LINK_SET_MTU;
	if (*c.alias && strcmp(c.alias, l->alias) != 0)
		c.set |= LINK_SET_ALIAS;
	if ((c.set & LINK_SET_MAC) && link_is_up(l))
		link_set(b, l->index, l->name, &down);
	if (c.set)
		link_set(b, l->index, l->name, &c);
	if (r->up && (!link_is_up(l) || (c.set & LINK_SET_MAC)))
		link_set(b, l->index, l->name, &up);
	return nl_batch_commit(a->host, b, e);
}

static void restore_address(struct attach *a, const struct raw_addr *raw, const struct link *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err reason = ERR_INIT;
	struct ipnet net;
	int r;

	if (!raw->address || ipnet_parse(span_of(raw->address), &net) < 0)
		return;
	addr_add(b, l->index, l->name, &net, raw->no_prefix_route ? ADDR_NOPREFIXROUTE : 0);
	r = nl_batch_commit(a->host, b, &reason);
	/* The node's network manager may have added the address first. */
	if (r < 0 && r != -EEXIST)
		log_warn("an address of the device is not restored", LOG_S("link", l->name),
			 LOG_S("address", raw->address), LOG_S("error", reason.text));
}

/* Returns whether the error r would occur again on a retry. Such an error is only logged,
 * because it must not prevent the deletion of a pod. */
static bool is_final(int r)
{
	return r == -EOPNOTSUPP || r == -EINVAL || r == -ERANGE || r == -EPERM || r == -EACCES;
}

/* Returns 1 if the device was restored or the error is final, 0 if the device is not on the node, a
 * negative errno if a retry may succeed. */
static int restore(struct attach *a, const struct raw *r, struct err *e)
{
	const struct raw_addr *addrs = r->addresses.v;
	struct link l = {0};
	int n = link_get(a->host, r->link, &l, e);

	if (n == -ENODEV || (n >= 0 && !is_same(r, &l))) {
		err_clear(e);
		return 0;
	}
	if (n < 0)
		return err_wrap(e, n, "restore the state that '%s' had before the pod used it",
				r->link);
	n = restore_link(a, r, &l, e);
	if (n < 0 && !is_final(n))
		return err_wrap(e, n, "restore the state that '%s' had before the pod used it",
				r->link);
	if (n < 0)
		log_warn("cannot restore the state that a device had before a pod used it",
			 LOG_S("link", l.name), LOG_S("error", e ? e->text : ""));
	err_clear(e);
	for (size_t i = 0; i < r->addresses.n; i++)
		restore_address(a, &addrs[i], &l);
	return 1;
}

/* Returns whether the record is from before a reboot: then the node has initialized the device
 * itself. */
static bool is_past(const struct root *root, const struct raw *r)
{
	char boot[40];

	vf_record_boot(root, boot);
	return r->boot && *r->boot && *boot && strcmp(r->boot, boot) != 0;
}

/* Reads this attachment's record. If the device is back on the node, restores its recorded state
 * and deletes the record. The record stays while the device is not on the node, and after an
 * error if a retry may succeed. A record from before a reboot is only deleted. A record with
 * invalid content is logged and deleted. */
static int host_device_restore(struct attach *a, const char *ifname, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_free char *path = path_of(a->call->container_id, ifname);
	auto_record struct record rec = {0};
	int r;

	file_sweep(root, path);
	r = load(root, path, &rec, e);
	if (r == -ENOENT && !rec.read) {
		err_clear(e);
		return 0;
	}
	if (r < 0 && !rec.read)
		return r;
	if (r < 0) {
		log_warn("the record of a device is not valid and is deleted", LOG_S("file", path),
			 LOG_S("error", e ? e->text : ""));
		err_clear(e);
		return file_remove(root, path, e);
	}
	r = is_past(root, &rec.raw) ? 1 : restore(a, &rec.raw, e);
	return r <= 0 ? r : file_remove(root, path, e);
}

struct collecting {
	struct attach *a;
	const struct cni_call *call;
	const char *network;
};

static void collect(void *arg, const char *path, const struct record *r)
{
	const struct collecting *c = arg;
	struct err reason = ERR_INIT;
	int n = 1;

	if (!r->raw.network || strcmp(r->raw.network, c->network) != 0 ||
	    cni_is_valid(c->call, r->raw.container, r->raw.ifname))
		return;
	if (!is_past(&c->call->root, &r->raw))
		n = restore(c->a, &r->raw, &reason);
	if (n < 0)
		log_warn("cannot restore a device of a deleted pod: the next GC tries again",
			 LOG_S("file", path), LOG_S("error", reason.text));
	else if (n > 0)
		forget(&c->call->root, path);
}

/* GC: restores devices by the records of the network's attachments that are not in CNI's list of
 * valid attachments. */
static void host_device_restore_lost(struct attach *a, const struct rail *rail)
{
	struct collecting c = {a, a->call, rail->ipam.name};

	each(&a->call->root, collect, &c);
}
