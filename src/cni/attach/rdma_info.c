/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/attach/rdma_info.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/device/rdma_move.h"
#include "kern/pci/pci.h"
#include "kern/rdma/gid.h"

enum { FIRST_PAUSE_MS = 2, LONGEST_PAUSE_MS = 40, CHAIN_MAX = 4 };

#define CLASS "/sys/class/infiniband"

/* Results of lookups that one ADD does only once. */
struct finder {
	struct attach *a;
	struct link *links; /* links of the node */
	size_t n_links;
	bool have_links;
	char **soft; /* RDMA devices without hardware, such as soft-RoCE */
	size_t n_soft;
	bool have_soft;
	struct root pod; /* the pod's sysfs; fd -1: not opened */
};

/* An attachment's RDMA device, and the sysfs from which its GIDs are read. */
struct wanted {
	struct rail *rail;
	const struct root *sys;
	const char *dir;
	char device[RDMA_NAME_MAX];
	struct ipaddr address;
	bool found;
};

static void finder_done(struct finder *f)
{
	free(f->links);
	str_list_free(f->soft, f->n_soft);
	if (f->pod.fd >= 0)
		root_close(&f->pod);
}

static const struct link *node_link(struct finder *f, int index)
{
	if (!f->have_links && link_list(f->a->host, &f->links, &f->n_links, NULL) < 0)
		f->n_links = 0;
	f->have_links = true;
	return link_find_index(f->links, f->n_links, index);
}

/* Finds the RDMA device of a PCI function; false unless there is exactly one, since no known
 * hardware has two. */
static bool rdma_of(const struct root *root, const char *device, char ret[static RDMA_NAME_MAX])
{
	char **names = NULL;
	size_t n = 0;
	bool one;

	if (!*device || pci_children(root, device, PCI_RDMA, &names, &n, NULL) < 0)
		return false;
	one = n == 1 && str_copy(ret, RDMA_NAME_MAX, names[0]);
	str_list_free(names, n);
	return one;
}

static void list_soft(struct finder *f)
{
	const struct root *root = &f->a->call->root;
	char **names = NULL, path[RDMA_NAME_MAX + 64];
	size_t n = 0;

	f->have_soft = true;
	if (dir_list(root, CLASS, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), CLASS "/%.63s/device", names[i]);
		if (!file_exists(root, path))
			VEC_PUSH(f->soft, f->n_soft) = xstrdup(names[i]);
	}
	str_list_free(names, n);
}

static bool soft_of(struct finder *f, const char *netdev, char ret[static RDMA_NAME_MAX])
{
	char name[GID_NDEV_MAX];

	if (!f->have_soft)
		list_soft(f);
	for (size_t i = 0; i < f->n_soft; i++)
		if (gid_netdev(&f->a->call->root, "/sys", f->soft[i], name) &&
		    strcmp(name, netdev) == 0)
			return str_copy(ret, RDMA_NAME_MAX, f->soft[i]);
	return false;
}

/* Finds the RDMA device of a bond, which the driver registers on the PCI function of one of the
 * bond's port links. */
static bool rdma_of_ports(struct finder *f, const struct link *bond, char ret[static RDMA_NAME_MAX])
{
	for (size_t i = 0; i < f->n_links; i++)
		if (f->links[i].master == bond->index &&
		    rdma_of(&f->a->call->root, f->links[i].device, ret))
			return true;
	return false;
}

static bool rdma_of_link(struct finder *f, const struct link *l, char ret[static RDMA_NAME_MAX])
{
	if (rdma_of(&f->a->call->root, l->device, ret) || soft_of(f, l->name, ret))
		return true;
	if (strcmp(l->kind, "bond") != 0)
		return false;
	(void)node_link(f, l->index);
	return rdma_of_ports(f, l, ret);
}

/* Finds the RDMA device of the master, or of a link below it if the master is a VLAN or macvlan. */
static bool device_below(struct finder *f, const struct link *master,
			 char ret[static RDMA_NAME_MAX])
{
	const struct link *l = master;

	for (int i = 0; i < CHAIN_MAX && l; i++) {
		if (rdma_of_link(f, l, ret))
			return true;
		l = l->parent && l->parent_netnsid < 0 ? node_link(f, l->parent) : NULL;
	}
	return false;
}

static bool made_device(struct finder *f, struct wanted *w)
{
	w->sys = &f->a->call->root;
	w->dir = "/sys";
	return !w->rail->conf.in_container && device_below(f, &w->rail->master, w->device);
}

/* Finds the RDMA device of a moved NIC: on the node, or in the pod if the RDMA device was moved,
 * too. */
static bool moved_device(struct finder *f, struct wanted *w)
{
	const struct root *root = &f->a->call->root;
	const struct link *l = link_find_index(f->a->pod_links, f->a->n_pod_links, w->rail->index);
	const char *device = l && *l->device ? l->device : w->rail->master.device;
	struct err reason = ERR_INIT;

	w->sys = root;
	w->dir = "/sys";
	if (!*device)
		return false;
	if (rdma_of(root, device, w->device))
		return true;
	if (!rdma_move_name(root, device, w->device))
		return false;
	if (f->pod.fd < 0 && netns_sysfs(f->a->netns, &f->pod, &reason) < 0) {
		log_debug(
			"cannot read sysfs of the pod, not waiting for the GIDs of an RDMA device",
			LOG_S("rail", w->rail->ifname), LOG_S("error", reason.text));
		return false;
	}
	w->sys = &f->pod;
	w->dir = "";
	return true;
}

/* Prefers IPv4 to IPv6, as NCCL does. */
static bool pick_address(const struct rail *rail, struct ipaddr *ret)
{
	ret->family = 0;
	for (size_t i = 0; i < rail->got.n_ips; i++) {
		const struct ipaddr *ip = &rail->got.ips[i].address.ip;

		if (!ret->family || (ret->family == 6 && ip->family == 4))
			*ret = *ip;
	}
	return ret->family != 0;
}

/* Returns whether pods can use an RDMA device that stays on the node. They cannot if the RDMA
 * subsystem is in exclusive mode; e then names the remedy. */
static bool is_shared(struct err *e)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;

	return rdma_netns_mode_get(&mode, NULL) < 0 ||
	       rdma_move_mode_fits(mode, RDMA_NETNS_SHARED, "RDMA on this rail", e) >= 0;
}

/* Logs only a warning, because no netconf key shows whether the pod needs RDMA. Logs nothing for a
 * NIC that a plugin in its own process moved: the plugin rdma may follow in the chain. */
static void warn_not_shared(const struct rail *rail, const char *device, const struct err *reason)
{
	bool moved = link_driver_moves(rail->kind);

	if (moved && !rail->label)
		return;
	log_warn("no RDMA for the pod: the RDMA device stays on the node",
		 LOG_S("rail", rail->ifname ? rail->ifname : ""), LOG_S("device", device),
		 LOG_S("reason",
		       moved ? "the RDMA subsystem is in exclusive mode, and no plugin 'rdma' "
			       "later in the chain moves the device (ib-sriov: nor does "
			       "conf.rdmaIsolation)"
			     : reason->text));
}

static size_t choose(struct finder *f, struct wanted *list)
{
	struct err reason = ERR_INIT;
	int shared = -1;
	size_t n = 0;

	for (size_t i = 0; i < f->a->n_rails; i++) {
		struct wanted w = {.rail = &f->a->rails[i]};
		bool moves = link_driver_moves(w.rail->kind), stays;

		if (w.rail->no_link || !pick_address(w.rail, &w.address) ||
		    !(moves ? moved_device(f, &w) : made_device(f, &w)))
			continue;
		stays = w.sys == &f->a->call->root;
		if (stays && shared < 0)
			shared = is_shared(&reason);
		if (!stays || shared > 0)
			list[n++] = w;
		else
			warn_not_shared(w.rail, w.device, &reason);
	}
	return n;
}

static void take_gid(struct wanted *w, const struct gid *g)
{
	struct cni_rdma *r = &w->rail->rdma;
	char text[IP_TEXT_MAX];

	str_copy(r->device, sizeof(r->device), g->device);
	str_copy(r->gid, sizeof(r->gid), gid_str(&g->address, text));
	r->port = g->port;
	r->gid_index = g->index;
	w->found = true;
}

/* Looks up the GIDs that are still missing; returns the number of GIDs that were not found. */
static size_t inspect(struct wanted *list, size_t n)
{
	size_t missing = 0;
	struct gid g;

	for (size_t i = 0; i < n; i++) {
		struct wanted *w = &list[i];

		if (w->found)
			continue;
		if (gid_find(w->sys, w->dir, w->device, &w->address, w->rail->ifname, &g, NULL) > 0)
			take_gid(w, &g);
		else
			missing++;
	}
	return missing;
}

static void wait_for_gids(struct wanted *list, size_t n)
{
	int64_t end = now_mono_ms() + GIDS_LIMIT_MS;
	int pause = FIRST_PAUSE_MS;

	while (inspect(list, n) && now_mono_ms() < end) {
		const struct timespec t = {.tv_nsec = pause * 1000000L};

		nanosleep(&t, NULL);
		pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS;
	}
}

void rdma_info_wait(struct attach *a)
{
	__attribute__((cleanup(finder_done))) struct finder f = {.a = a, .pod.fd = -1};
	auto_free struct wanted *list = NULL;
	char text[IP_TEXT_MAX];
	size_t n;

	if (!a->n_rails || !file_exists(&a->call->root, CLASS))
		return;
	list = xcalloc(a->n_rails, sizeof(*list));
	n = choose(&f, list);
	if (n)
		wait_for_gids(list, n);
	for (size_t i = 0; i < n; i++)
		if (!list[i].found)
			log_warn(
				"the RDMA device has no GID of the rail's address: RDMA will not work on this rail (is the GID table full?)",
				LOG_S("rail", list[i].rail->ifname),
				LOG_S("device", list[i].device),
				LOG_S("address", ip_str(&list[i].address, text)));
}

void rdma_info_status(struct nl_wire *host, const struct root *root, struct rail *rail)
{
	const struct cni_call call = {.root = *root};
	struct attach a = {.call = &call, .netns = -1, .host = host};
	__attribute__((cleanup(finder_done))) struct finder f = {.a = &a, .pod.fd = -1};
	struct wanted w = {.rail = rail};
	struct err reason = ERR_INIT;

	if (file_exists(root, CLASS) && made_device(&f, &w) && !is_shared(&reason))
		warn_not_shared(rail, w.device, &reason);
}

void rdma_info_add(const struct rail *rail, struct cni_result *r)
{
	int i = cni_result_pod_iface(r, rail->ifname);

	if (i >= 0)
		r->ifaces[i].rdma = rail->rdma;
}

/* --- files of a pod's attachments, which the pod can mount --- */

enum { FILE_MODE = 0644, DIR_MODE = 0755, LOCK_MS = 2000, NAME_MAX_BYTES = 255 };

static bool name_ok(const char *s)
{
	size_t n = strlen(s);

	return n && n <= NAME_MAX_BYTES && s[0] != '.' && !strchr(s, '/');
}

/* Returns the directory of the pod; the caller frees it. */
static char *dir_of(const struct cni_call *c)
{
	auto_buf struct buf keep;
	struct cni_args args = {0};
	const char *name = c->container_id;

	buf_init(&keep, 1 << 16);
	if (cni_args_parse(c->args_text, &args, &keep, NULL) >= 0 && args.pod_uid &&
	    name_ok(args.pod_uid))
		name = args.pod_uid;
	return xasprintf(RAILS_DIR "/%s", name);
}

static int load(const struct root *r, const char *dir, struct rails_list *ret, struct err *e)
{
	auto_free char *path = xasprintf("%s/rails.json", dir);
	auto_buf struct buf text;
	int code;

	buf_init(&text, RAILS_TEXT_MAX + 1);
	code = file_read(r, path, RAILS_TEXT_MAX, &text, e);
	if (code >= 0)
		code = rails_parse(buf_span(&text), ret, e);
	return code < 0 ? err_wrap(e, code, "read '%s'", path) : 0;
}

static int replace(const struct root *r, const char *dir, const char *name, const struct buf *b,
		   struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	return file_replace(r, path, buf_span(b), FILE_MODE, e);
}

static int save(const struct root *r, const char *dir, const struct rails_list *l, struct err *e)
{
	auto_buf struct buf json, env;
	int code = dir_make(r, dir, DIR_MODE, e);

	buf_init(&json, RAILS_TEXT_MAX);
	buf_init(&env, RAILS_TEXT_MAX);
	rails_print_json(l, &json);
	rails_print_env(l, &env);
	if (code >= 0)
		code = replace(r, dir, "rails.env", &env, e);
	return code < 0 ? code : replace(r, dir, "rails.json", &json, e);
}

/* Removes the files and the directory. The directory remains if it cannot be removed, for
 * example because it contains another file. */
static void remove_all(const struct root *r, const char *dir)
{
	/* rails.json is removed last: after an interrupted removal, rails_gc() still finds its
	 * entries. */
	static const char *const names[] = {"rails.env", "rails.json"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		file_sweep(r, path);
		(void)file_remove(r, path, NULL);
	}
	(void)unlinkat(r->fd, dir + 1, AT_REMOVEDIR);
}

static int lock(const struct root *r, int *fd, struct err *e)
{
	int code = dir_make(r, RAILS_DIR, DIR_MODE, e);

	return code < 0 ? code : lock_take(r, RAILS_DIR "/.lock", LOCK_MS, fd, e);
}

static void report_error(const char *dir, const struct err *reason)
{
	log_warn("cannot update the pod's rails files", LOG_S("directory", dir),
		 LOG_S("error", reason->text));
}

static bool entry_of(const struct attach *a, const struct rail *rail, struct rails_entry *ret)
{
	const char *network = rail->ipam.name ? rail->ipam.name : "";

	*ret = (struct rails_entry){.rdma = rail->rdma};
	return *rail->rdma.device && str_copy(ret->ifname, sizeof(ret->ifname), rail->ifname) &&
	       str_copy(ret->network, sizeof(ret->network), network) &&
	       str_copy(ret->container, sizeof(ret->container), a->call->container_id);
}

void rails_write(const struct attach *a)
{
	const struct root *r = &a->call->root;
	auto_free char *dir = dir_of(a->call);
	auto_rails struct rails_list l = {0}, mine = {0};
	struct err reason = ERR_INIT;
	struct rails_entry one;
	auto_fd int fd = -1;

	for (size_t i = 0; i < a->n_rails; i++)
		if (entry_of(a, &a->rails[i], &one))
			rails_put(&mine, &one);
	if (!mine.n)
		return;
	if (lock(r, &fd, &reason) < 0) {
		report_error(dir, &reason);
		return;
	}
	/* An unreadable file counts as empty and is replaced. */
	(void)load(r, dir, &l, NULL);
	for (size_t i = 0; i < mine.n; i++)
		rails_put(&l, &mine.v[i]);
	if (save(r, dir, &l, &reason) < 0)
		report_error(dir, &reason);
}

static void update(const struct root *r, const char *dir, const struct rails_list *l)
{
	struct err reason = ERR_INIT;

	if (!l->n)
		remove_all(r, dir);
	else if (save(r, dir, l, &reason) < 0)
		report_error(dir, &reason);
}

void rails_forget(const struct cni_call *c, const char *const *ifnames, size_t n)
{
	auto_rails struct rails_list l = {0};
	auto_free char *dir = NULL;
	auto_fd int fd = -1;
	size_t before;

	if (!file_exists(&c->root, RAILS_DIR))
		return;
	dir = dir_of(c);
	if (!file_exists(&c->root, dir) || lock(&c->root, &fd, NULL) < 0)
		return;
	if (load(&c->root, dir, &l, NULL) < 0) {
		remove_all(&c->root, dir);
		return;
	}
	before = l.n;
	for (size_t i = 0; i < n; i++)
		rails_drop(&l, c->container_id, ifnames[i]);
	if (l.n != before)
		update(&c->root, dir, &l);
}

static void rails_drop_at(struct rails_list *l, size_t i)
{
	memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof(*l->v));
	l->n--;
}

static void gc_dir(const struct cni_call *c, const char *dir)
{
	auto_rails struct rails_list l = {0};
	size_t before;

	int code;

	/* Removes the temporary files of interrupted writes. No other process writes one in dir,
	 * because this process has the lock. */
	file_sweep_dir(&c->root, dir);
	code = load(&c->root, dir, &l, NULL);
	if (code == -ENOENT)
		remove_all(&c->root, dir);
	if (code < 0)
		return;
	before = l.n;
	for (size_t i = l.n; i-- > 0;)
		if (strcmp(l.v[i].network, c->name) == 0 &&
		    !cni_is_valid(c, l.v[i].container, l.v[i].ifname))
			rails_drop_at(&l, i);
	if (l.n != before)
		update(&c->root, dir, &l);
}

void rails_gc(const struct cni_call *c)
{
	auto_fd int fd = -1;
	char **names = NULL;
	size_t n = 0;

	if (!c->has_valid || !file_exists(&c->root, RAILS_DIR) || lock(&c->root, &fd, NULL) < 0 ||
	    dir_list(&c->root, RAILS_DIR, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *dir = xasprintf(RAILS_DIR "/%s", names[i]);

		if (names[i][0] != '.')
			gc_dir(c, dir);
	}
	str_list_free(names, n);
}

/* --- contents of rails.json and rails.env --- */

struct raw_entry {
	const char *ifname, *device, *gid, *network, *container;
	int64_t port, index;
};

struct raw {
	int64_t version;
	struct json_list rails;
};

#define STR(key, member) JSON_FIELD(key, J_STR, struct raw_entry, member)
#define INT(key, member)                                                                           \
	JSON_FIELD(key, J_INT, struct raw_entry, member, .min = 0, .max = INT32_MAX)

static const struct json_field entry_fields[] = {
	STR("ifname", ifname),
	STR("device", device),
	INT("port", port),
	INT("gidIndex", index),
	STR("gid", gid),
	STR("network", network),
	STR("containerID", container),
	{0},
};
static const struct json_table entry_table = {entry_fields, 0, sizeof(struct raw_entry)};
static const struct json_field fields[] = {
	JSON_FIELD("version", J_INT, struct raw, version),
	JSON_FIELD("rails", J_OBJS, struct raw, rails, .sub = &entry_table),
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct raw)};

void rails_list_done(struct rails_list *l)
{
	free(l->v);
	*l = (struct rails_list){0};
}

static void put_entry(struct json_out *o, const struct rails_entry *e)
{
	jo_obj(o);
	jo_kstr(o, "ifname", e->ifname);
	jo_kstr(o, "device", e->rdma.device);
	jo_kint(o, "port", e->rdma.port);
	jo_kint(o, "gidIndex", e->rdma.gid_index);
	jo_kstr(o, "gid", e->rdma.gid);
	jo_kstr(o, "network", e->network);
	jo_kstr(o, "containerID", e->container);
	jo_end_obj(o);
}

void rails_print_json(const struct rails_list *l, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kint(&o, "version", RAILS_VERSION);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++)
		put_entry(&o, &l->v[i]);
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

bool rails_is_repeated(const struct rails_list *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->v[k].rdma.device, l->v[i].rdma.device) == 0 &&
		    l->v[k].rdma.port == l->v[i].rdma.port)
			return true;
	return false;
}

static void put_hcas(const struct rails_list *l, struct buf *b)
{
	buf_str(b, "NCCL_IB_HCA=");
	for (size_t i = 0; i < l->n; i++)
		if (!rails_is_repeated(l, i))
			buf_printf(b, "%s%s:%u", i ? "," : "=", l->v[i].rdma.device,
				   l->v[i].rdma.port);
	buf_char(b, '\n');
}

static void put_variable(struct buf *b, const char *prefix, const char *ifname)
{
	buf_str(b, prefix);
	for (const char *p = ifname; *p; p++)
		buf_char(b, isalnum((unsigned char)*p) ? *p : '_');
	buf_char(b, '=');
}

void rails_print_env(const struct rails_list *l, struct buf *b)
{
	bool same = l->n > 0;

	if (!l->n)
		return;
	put_hcas(l, b);
	for (size_t i = 1; i < l->n; i++)
		same &= l->v[i].rdma.gid_index == l->v[0].rdma.gid_index;
	if (same)
		buf_printf(b, "NCCL_IB_GID_INDEX=%d\n", l->v[0].rdma.gid_index);
	for (size_t i = 0; i < l->n; i++) {
		const struct rails_entry *e = &l->v[i];

		put_variable(b, "UNIRAIL_RDMA_DEVICE_", e->ifname);
		buf_printf(b, "%s:%u\n", e->rdma.device, e->rdma.port);
		put_variable(b, "UNIRAIL_GID_INDEX_", e->ifname);
		buf_printf(b, "%d\n", e->rdma.gid_index);
	}
}

static bool copy(char *to, size_t size, const char *from)
{
	return str_copy(to, size, from ? from : "");
}

static bool take_entry(const struct raw_entry *raw, struct rails_entry *ret)
{
	*ret = (struct rails_entry){
		.rdma = {.port = (uint32_t)raw->port, .gid_index = (int)raw->index}};
	return copy(ret->ifname, sizeof(ret->ifname), raw->ifname) &&
	       copy(ret->rdma.device, sizeof(ret->rdma.device), raw->device) &&
	       copy(ret->rdma.gid, sizeof(ret->rdma.gid), raw->gid) &&
	       copy(ret->network, sizeof(ret->network), raw->network) &&
	       copy(ret->container, sizeof(ret->container), raw->container);
}

int rails_parse(struct span text, struct rails_list *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	auto_rails struct rails_list l = {0};
	const struct raw_entry *v;
	struct raw raw = {0};

	if (json_parse(&d, text, RAILS_TEXT_MAX, e) < 0 ||
	    json_read(d, json_root(d), &table, &raw, "rails", e) < 0)
		return -EINVAL;
	if (raw.version != RAILS_VERSION)
		return err_set(e, -EINVAL, "version is %lld, expected %d", (long long)raw.version,
			       RAILS_VERSION);
	v = raw.rails.v;
	for (size_t i = 0; i < raw.rails.n; i++) {
		struct rails_entry one;

		if (!take_entry(&v[i], &one))
			return err_set(e, -EINVAL, "rails[%zu] contains a value that is too long",
				       i);
		VEC_PUSH(l.v, l.n) = one;
	}
	*ret = l;
	l = (struct rails_list){0};
	return 0;
}

void rails_put(struct rails_list *l, const struct rails_entry *e)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].ifname, e->ifname) != 0)
			continue;
		l->v[i] = *e;
		return;
	}
	VEC_PUSH(l->v, l->n) = *e;
}

void rails_drop(struct rails_list *l, const char *container, const char *ifname)
{
	for (size_t i = l->n; i-- > 0;)
		if (strcmp(l->v[i].container, container) == 0 &&
		    (!ifname || strcmp(l->v[i].ifname, ifname) == 0))
			rails_drop_at(l, i);
}
