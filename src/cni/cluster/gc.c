/* SPDX-License-Identifier: Apache-2.0 */
/* GC of the pods' networks in the cluster. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "cni/cluster/del.h"
#include "cni/cluster/internal.h"
#include "cni/cluster/network_record.h"
#include "cni/multi/multi.h"
#include "cni/multus/internal.h"
#include "cni/protocol/cni_call.h"

enum { DOC_MAX = 16 << 20 };

/* A network whose GC is called. */
struct known {
	char *key;  /* key of the network: its definition and name */
	char *text; /* the network as in unirail-cni's configuration */
};

struct collecting {
	const struct cni_call *call;
	struct pod_conf conf;
	struct known **nets; /* networks of the cache entries, then of the netconf */
	size_t n_nets;
	void *by_key; /* the same networks as a tree (tsearch), by key */
	struct network_record *records;
	size_t n_records;
	char **noted; /* file names of the cache entries, sorted */
	size_t n_noted;
	/* The attachments that the runtime lists as valid, sorted by container. */
	const struct cni_attachment **lives;
	/* The attachments that the GC of each network gets as valid. */
	struct cni_attachment *valid;
	size_t n_valid;
	char **names; /* strings to which `valid` points */
	size_t n_names;
	/* a running container without a readable cache entry; NULL: none */
	const char *unknown;
	struct err first; /* the first failure */
};

static void keep_nothing(void *p)
{
	(void)p;
}

static void collecting_done(struct collecting *g)
{
	tdestroy(g->by_key, keep_nothing);
	for (size_t i = 0; i < g->n_nets; i++) {
		free(g->nets[i]->key);
		free(g->nets[i]->text);
		free(g->nets[i]);
	}
	network_records_free(g->records, g->n_records);
	free(g->lives);
	for (size_t i = 0; i < g->n_names; i++)
		free(g->names[i]);
	free(g->nets);
	free(g->valid);
	free(g->names);
}

static void keep_first_error(struct collecting *g, int r, const struct err *reason)
{
	if (r >= 0 || g->first.code)
		return;
	g->first = *reason;
	g->first.code = r;
}

static const char *keep(struct collecting *g, const char *name)
{
	return VEC_PUSH(g->names, g->n_names) = xstrdup(name);
}

static void protect(struct collecting *g, const char *id, const char *ifname)
{
	const struct cni_attachment one = {keep(g, id), keep(g, ifname)};

	VEC_PUSH(g->valid, g->n_valid) = one;
}

static void protect_all(struct collecting *g, const struct multus *m)
{
	for (size_t i = 0; i < m->n_nets; i++)
		protect(g, m->call->container_id, m->nets[i].ifname);
}

/* --- networks whose GC is called --- */

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->key, ((const struct known *)b)->key);
}

/* Returns the network with a key, NULL: none; frees `key`. */
static struct known *find_known(const struct collecting *g, char *key)
{
	auto_free char *keep_key = key;
	const struct known want = {.key = keep_key};
	struct known *const *found = tfind(&want, &g->by_key, by_key);

	return found ? *found : NULL;
}

static char *key_of(const char *nad, const char *name)
{
	return xasprintf("%s %s", nad ? nad : "", name ? name : "");
}

/* Adds a network; takes ownership of `text`. */
static void add_known(struct collecting *g, const char *nad, const char *name, char *text)
{
	struct known *one;

	if (find_known(g, key_of(nad, name))) {
		free(text);
		return;
	}
	one = xcalloc(1, sizeof(*one));
	*one = (struct known){.key = key_of(nad, name), .text = text};
	VEC_PUSH(g->nets, g->n_nets) = one;
	xtsearch(one, &g->by_key, by_key);
}

static void take_noted(struct collecting *g, const struct multus *m)
{
	for (size_t i = 0; i < m->n_nets; i++) {
		auto_json struct json_doc *d = NULL;
		const char *name = multus_conf_name(m->nets[i].conf, &d);
		struct err reason = ERR_INIT;
		struct json_out o;
		struct buf b;

		buf_init(&b, DOC_MAX);
		jo_init(&o, &b, 0);
		if (multus_cache_put_network(&o, &m->nets[i], false, &reason) >= 0 && !b.over)
			add_known(g, m->nets[i].name ? m->nets[i].name : name, name, buf_take(&b));
		else
			buf_done(&b);
	}
}

/* Adds the networks that the netconf itself lists. */
static void take_own(struct collecting *g, struct cni_call *c, bool multus)
{
	struct cni_call own = {0};
	struct err reason = ERR_INIT;
	const struct json *list;

	if (!pod_conf_networks(&g->conf))
		return;
	if (pod_own_networks(c, multus, &g->conf, &own, &reason) < 0) {
		log_warn("ignoring the networks of the netconf", LOG_S("error", reason.text));
		return;
	}
	list = json_get(own.conf, "networks");
	for (size_t i = 0; i < json_len(list); i++) {
		const struct json *v = json_at(list, i);
		struct json_out o;
		struct buf b;

		buf_init(&b, DOC_MAX);
		jo_init(&o, &b, 0);
		jo_val(&o, v, false);
		add_known(g, json_string(json_get_go(v, "nad")),
			  json_string(json_get_go(v, "name")), buf_take(&b));
	}
	json_free(own.doc);
}

/* --- containers and their cache entries --- */

/* Sorts attachments by container; those of one container stay in the order of the runtime. */
static int by_container(const void *a, const void *b)
{
	const struct cni_attachment *x = *(const struct cni_attachment *const *)a;
	const struct cni_attachment *y = *(const struct cni_attachment *const *)b;
	int d = strcmp(x->container_id, y->container_id);

	return d ? d : (x > y) - (x < y);
}

static void sort_valid(struct collecting *g)
{
	size_t n = g->call->n_valid;

	g->lives = xcalloc(n, sizeof(*g->lives));
	for (size_t i = 0; i < n; i++)
		g->lives[i] = &g->call->valid[i];
	if (n)
		qsort(g->lives, n, sizeof(*g->lives), by_container);
}

/* Returns the position of the container's first attachment, or where it would be inserted. */
static size_t first_of(const struct collecting *g, const char *id)
{
	return LOWER_BOUND(i, g->call->n_valid, strcmp(g->lives[i]->container_id, id) < 0);
}

static bool is_at(const struct collecting *g, size_t i, const char *id)
{
	return i < g->call->n_valid && strcmp(g->lives[i]->container_id, id) == 0;
}

static bool is_living(const struct collecting *g, const char *id)
{
	return is_at(g, first_of(g, id), id);
}

/* Deletes the recorded networks of a container that the runtime does not list. After a failure the
 * entry remains. */
static int delete_noted(const struct collecting *g, const char *id, struct err *e)
{
	auto_multus_cache_entry struct multus_cache_entry entry = {0};
	struct cni_call call = *g->call;

	call.container_id = id;
	call.netns = call.args_text = "";
	call.ifname = *g->call->ifname ? g->call->ifname : "eth0";
	call.has_prev = false;
	call.prev = (struct cni_result){0};
	if (multus_cache_read(&call, g->conf.cni_dir, g->conf.bin_dir, &entry) != MULTUS_CACHE_OWN)
		return 0;
	log_warn("a container was deleted without a DEL, deleting its networks",
		 LOG_S("container_id", id));
	return multus_cache_del(&entry, e);
}

/* Returns the interface name of a container's first network, for a cache entry that records
 * none: the name in the runtime's list of attachments, otherwise that of the call, otherwise
 * "eth0". */
static const char *ifname_of(const struct collecting *g, const char *id)
{
	for (size_t i = first_of(g, id); is_at(g, i, id); i++)
		if (*g->lives[i]->ifname)
			return g->lives[i]->ifname;
	return *g->call->ifname ? g->call->ifname : "eth0";
}

/* Reads a container's cache entry. Deletes the networks of an entry of this netconf whose container
 * the runtime does not list. Otherwise, or if the deletion fails, the entry's attachments count
 * as valid, also those of an entry of another netconf or of Multus. */
static void inspect_at(struct collecting *g, const char *id)
{
	struct cni_call call = *g->call;
	auto_multus struct multus m = {.call = &call, .dir = g->conf.cni_dir};
	struct err reason = ERR_INIT;
	int r = 0;

	call.container_id = id;
	call.ifname = ifname_of(g, id);
	multus_find(&m);
	if (multus_is_own(&m)) {
		take_noted(g, &m);
		if (!is_living(g, id)) {
			r = delete_noted(g, id, &reason);
			keep_first_error(g, r, &reason);
			if (r >= 0)
				return;
		}
	}
	/* An unreadable entry of a container that the runtime does not list protects no
	 * attachment. */
	if (m.found && !m.n_delegates && !is_living(g, id))
		return;
	protect_all(g, &m);
	if (!m.n_nets && is_living(g, id))
		g->unknown = keep(g, id);
}

static bool is_entry(const struct collecting *g, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", g->conf.cni_dir, name);
	struct stat st;

	return cni_name_ok(name) && file_lstat(&g->call->root, path, &st, NULL) >= 0 &&
	       S_ISREG(st.st_mode);
}

static bool has_entry(const struct collecting *g, const char *id)
{
	return g->n_noted && bsearch(&id, g->noted, g->n_noted, sizeof(*g->noted), str_order);
}

/* Adds each attachment in the runtime's list to the valid ones. Inspects each listed container
 * that has no cache entry, once even if the runtime lists several of its interfaces. */
static void inspect_valid(struct collecting *g)
{
	for (size_t i = 0; i < g->call->n_valid; i++) {
		const char *id = g->lives[i]->container_id;

		protect(g, id, g->lives[i]->ifname);
		if (!(i && is_at(g, i - 1, id)) && !has_entry(g, id))
			inspect_at(g, id);
	}
}

/* --- GC of a network --- */

static int make_document(const struct collecting *g, const char *text, struct json_doc **ret,
			 struct err *e)
{
	auto_json struct json_doc *one = NULL;
	auto_buf struct buf b;
	struct json_out o;
	int r = json_parse(&one, span_of(text), DOC_MAX, e);

	buf_init(&b, DOC_MAX);
	if (r < 0)
		return r;
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "binDir", g->conf.bin_dir);
	jo_key(&o, "networks");
	jo_arr(&o);
	jo_val(&o, json_root(one), false);
	jo_end_arr(&o);
	jo_end_obj(&o);
	return b.over ? err_set(e, -E2BIG, "the network's configuration exceeds %d MiB",
				DOC_MAX >> 20)
		      : json_parse(ret, buf_span(&b), DOC_MAX, e);
}

static int gc_network(const struct collecting *g, const char *text, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct cni_call call = *g->call;
	auto_multi struct multi x = {0};
	int r = make_document(g, text, &doc, e);

	if (r < 0)
		return r;
	call.doc = doc;
	call.conf = json_root(doc);
	call.valid = g->valid;
	call.n_valid = g->n_valid;
	call.container_id = call.ifname = "";
	r = multi_read(&call, &x, e);
	if (r < 0)
		return r;
	multi_read_rails(&x);
	return multi_gc(&x, e);
}

/* `trusted` false: a failure is only logged. Otherwise a tenant's invalid definition would make
 * every GC fail, even if no pod uses its network any more. */
static int collect(struct collecting *g, const char *text, bool trusted)
{
	struct err reason = ERR_INIT;
	int r = gc_network(g, text, &reason);

	if (r < 0)
		log_warn("GC of a network failed", LOG_S("error", reason.text));
	if (trusted)
		keep_first_error(g, r, &reason);
	return r;
}

/* --- GC of recorded networks --- */

/* Checks an untrusted definition again, and writes the network's configuration as ADD does for a
 * pod whose annotation requests no address, MAC or device. */
static int put_recorded(const struct collecting *g, const struct network_record *rec, struct buf *b,
			struct err *e)
{
	const struct pod_nets p = {
		.call = g->call,
		.conf_dir = g->conf.conf_dir,
		.bin_dir = g->conf.bin_dir,
		.agent = g->conf.agent,
		.state_dir = rec->state_dir,
	};
	auto_json struct json_doc *keep_conf = NULL;
	struct pod_net net = rec->net;
	struct json_out o;
	int r = pod_net_check(&p, &net, &keep_conf, e);

	jo_init(&o, b, 0);
	if (r >= 0)
		r = pod_net_put(&o, &p, &net, 0, e);
	return r >= 0 && b->over ? err_set(e, -E2BIG, "the network's configuration exceeds %d MiB",
					   DOC_MAX >> 20)
				 : r;
}

/* Returns the key of the network as pod_net_put() writes it. */
static char *recorded_key(const struct network_record *rec)
{
	const char *name = json_string(json_get_go(rec->net.config, "name"));

	name = name && *name ? name : rec->net.name;
	return key_of(rec->net.nad ? rec->net.nad : name, name);
}

/* Calls GC of a recorded network. Returns whether the network cannot have resources any more, so
 * that its record may be removed. */
static bool gc_recorded(struct collecting *g, const struct network_record *rec)
{
	const struct known *noted = find_known(g, recorded_key(rec));
	struct err reason = ERR_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, DOC_MAX);
	r = put_recorded(g, rec, &b, &reason);
	/* The GC calls for the cache entries included this network, unless its definition was
	 * changed after the entries were written. */
	if (noted) {
		if (r >= 0 && strcmp(noted->text, b.p) != 0)
			collect(g, b.p, rec->net.trusted);
		return false;
	}
	if (r >= 0)
		return collect(g, b.p, rec->net.trusted) >= 0;
	log_warn("GC of a recorded network failed", LOG_S("file", rec->file),
		 LOG_S("error", reason.text));
	return false;
}

/* Returns whether no cache entry was added after the entries were read: the pod of a new entry may
 * use the network of a record. */
static bool is_unchanged(void *arg)
{
	const struct collecting *g = arg;
	char **names = NULL;
	size_t n = 0;
	bool same = dir_list(&g->call->root, g->conf.cni_dir, &names, &n, NULL) >= 0;

	for (size_t i = 0; i < n && same; i++)
		same = has_entry(g, names[i]) || !is_entry(g, names[i]);
	str_list_free(names, n);
	return same;
}

static void gc_records(struct collecting *g)
{
	auto_free const char **files = NULL;
	size_t n = 0;

	network_records_read(g->call, &g->conf, &g->records, &g->n_records);
	for (size_t i = 0; i < g->n_records; i++)
		if (gc_recorded(g, &g->records[i]))
			VEC_PUSH(files, n) = g->records[i].file;
	network_records_remove(g->call, &g->conf, files, n, is_unchanged, g);
}

/* If a running container has no readable cache entry, calls GC of no network, because the
 * container may have addresses of any network. */
static void gc_networks(struct collecting *g)
{
	if (g->unknown) {
		log_warn("GC skips all networks: a running container has no readable cache entry",
			 LOG_S("container_id", g->unknown), LOG_S("directory", g->conf.cni_dir));
		return;
	}
	for (size_t i = 0; i < g->n_nets; i++)
		collect(g, g->nets[i]->text, true);
	gc_records(g);
}

int pod_gc(struct cni_call *c, bool multus, struct err *e)
{
	struct collecting g = {.call = c};
	char **names = NULL;
	size_t n = 0;

	if (!c->has_valid)
		return 0;
	pod_conf_or_default(c, multus, &g.conf);
	sort_valid(&g);
	dir_list(&c->root, g.conf.cni_dir, &names, &n, NULL);
	g.noted = names;
	for (size_t i = 0; i < n; i++) {
		char *name = names[i];

		if (is_entry(&g, name)) {
			names[i] = names[g.n_noted];
			names[g.n_noted++] = name;
		}
	}
	for (size_t i = 0; i < g.n_noted; i++)
		inspect_at(&g, names[i]);
	inspect_valid(&g);
	take_own(&g, c, multus);
	gc_networks(&g);
	str_list_free(names, n);
	if (e && g.first.code)
		*e = g.first;
	collecting_done(&g);
	return g.first.code;
}
