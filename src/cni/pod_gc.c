/* SPDX-License-Identifier: Apache-2.0 */
/* GC of the networks that pods have in the cluster. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/all_in_one.h"
#include "cni/cni_call.h"
#include "cni/multus_private.h"
#include "cni/pod_note.h"
#include "cni/pod_verbs.h"

enum { DOC_MAX = 16 << 20 };

/* A network whose plugins are to collect. */
struct known {
	char *key;  /* its definition and name */
	char *text; /* as one of unirail-cni's configuration */
};

struct collecting {
	const struct cni_call *call;
	struct pod_conf conf;
	struct known *nets;
	size_t n_nets;
	/* Every attachment that a network may have of a container that lives. */
	struct cni_attachment *valid;
	size_t n_valid;
	char **names; /* what these point to */
	size_t n_names;
	const char *unknown; /* a container that lives, of which nothing is noted; NULL: none */
	struct err first;    /* what failed first */
};

static void collecting_done(struct collecting *g)
{
	for (size_t i = 0; i < g->n_nets; i++) {
		free(g->nets[i].key);
		free(g->nets[i].text);
	}
	for (size_t i = 0; i < g->n_names; i++)
		free(g->names[i]);
	free(g->nets);
	free(g->valid);
	free(g->names);
}

static void note_failure(struct collecting *g, int r, const struct err *why)
{
	if (r >= 0 || g->first.code)
		return;
	g->first = *why;
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

/* --- networks --- */

static bool is_known(const struct collecting *g, const char *key)
{
	for (size_t i = 0; i < g->n_nets; i++)
		if (strcmp(g->nets[i].key, key) == 0)
			return true;
	return false;
}

/* `text` is taken over. */
static void add_known(struct collecting *g, const char *nad, const char *name, char *text)
{
	char *key = xasprintf("%s %s", nad ? nad : "", name ? name : "");

	if (is_known(g, key)) {
		free(key);
		free(text);
		return;
	}
	VEC_PUSH(g->nets, g->n_nets) = (struct known){key, text};
}

static void take_noted(struct collecting *g, const struct multus *m)
{
	for (size_t i = 0; i < m->n_nets; i++) {
		auto_json struct json_doc *d = NULL;
		const char *name = multus_conf_name(m->nets[i].conf, &d);
		struct err why = ERR_INIT;
		struct json_out o;
		struct buf b;

		buf_init(&b, DOC_MAX);
		jo_init(&o, &b, 0);
		if (pod_note_put_network(&o, &m->nets[i], false, &why) >= 0 && !b.over)
			add_known(g, m->nets[i].name ? m->nets[i].name : name, name, buf_take(&b));
		else
			buf_done(&b);
	}
}

/* What the netconf has itself. */
static void take_own(struct collecting *g, struct cni_call *c, bool multus)
{
	struct cni_call own = {0};
	struct err why = ERR_INIT;
	const struct json *list;

	if (!pod_conf_own(&g->conf))
		return;
	if (pod_own_networks(c, multus, &g->conf, &own, &why) < 0) {
		log_warn("ignoring the networks of the netconf", LOG_S("error", why.text));
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

/* --- containers --- */

/* What is noted of a container that the runtime does not name goes. What fails stays as it was. */
static int delete_noted(const struct collecting *g, const char *id, struct err *e)
{
	auto_pod_note struct pod_note note = {0};
	struct cni_call gone = *g->call;

	gone.container_id = id;
	gone.netns = gone.args_text = "";
	gone.ifname = *g->call->ifname ? g->call->ifname : "eth0";
	gone.has_prev = false;
	gone.prev = (struct cni_result){0};
	if (pod_note_read(&gone, g->conf.cni_dir, g->conf.bin_dir, &note) != POD_NOTE_OURS)
		return 0;
	log_warn("a container is gone without a DEL", LOG_S("container_id", id));
	return pod_note_del(&note, e);
}

/* Which interface a first network without a name of its own has. */
static const char *ifname_of(const struct cni_call *c, const char *id)
{
	for (size_t i = 0; i < c->n_valid; i++)
		if (strcmp(c->valid[i].container_id, id) == 0 && *c->valid[i].ifname)
			return c->valid[i].ifname;
	return *c->ifname ? c->ifname : "eth0";
}

/* Notes of another network, and Multus' own, are not ours to delete: they count as valid. */
static void look_at(struct collecting *g, const char *id)
{
	struct cni_call call = *g->call;
	auto_multus struct multus m = {.call = &call, .dir = g->conf.cni_dir};
	struct err why = ERR_INIT;
	int r = 0;

	call.container_id = id;
	call.ifname = ifname_of(g->call, id);
	multus_find(&m);
	if (multus_is_own(&m)) {
		take_noted(g, &m);
		if (!cni_is_valid(g->call, id, NULL)) {
			r = delete_noted(g, id, &why);
			note_failure(g, r, &why);
			if (r >= 0)
				return;
		}
	}
	/* A note that cannot be read, of a container that is gone. */
	if (m.found && !m.n_delegates && !cni_is_valid(g->call, id, NULL))
		return;
	protect_all(g, &m);
	if (!m.n_nets && cni_is_valid(g->call, id, NULL))
		g->unknown = keep(g, id);
}

static bool is_note(const struct collecting *g, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", g->conf.cni_dir, name);
	struct stat st;

	return cni_name_ok(name) && file_lstat(&g->call->root, path, &st, NULL) >= 0 &&
	       S_ISREG(st.st_mode);
}

static bool has_note(char *const *names, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], id) == 0)
			return true;
	return false;
}

/* Each once, although the runtime may name several interfaces of it. */
static void look_at_valid(struct collecting *g, char *const *names, size_t n)
{
	const struct cni_call *c = g->call;

	for (size_t i = 0; i < c->n_valid; i++) {
		bool seen = has_note(names, n, c->valid[i].container_id);

		protect(g, c->valid[i].container_id, c->valid[i].ifname);
		for (size_t k = 0; k < i && !seen; k++)
			seen = strcmp(c->valid[k].container_id, c->valid[i].container_id) == 0;
		if (!seen)
			look_at(g, c->valid[i].container_id);
	}
}

/* --- GC of a network --- */

static int make_document(const struct collecting *g, const struct known *net, struct json_doc **ret,
			 struct err *e)
{
	auto_json struct json_doc *one = NULL;
	auto_buf struct buf b;
	struct json_out o;
	int r = json_parse(&one, span_of(net->text), DOC_MAX, e);

	if (r < 0)
		return r;
	buf_init(&b, DOC_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "binDir", g->conf.bin_dir);
	jo_key(&o, "networks");
	jo_arr(&o);
	jo_val(&o, json_root(one), false);
	jo_end_arr(&o);
	jo_end_obj(&o);
	return b.over ? err_set(e, -E2BIG, "too much configuration")
		      : json_parse(ret, buf_span(&b), DOC_MAX, e);
}

static int gc_network(const struct collecting *g, const struct known *net, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct cni_call call = *g->call;
	auto_aio struct aio x = {0};
	int r = make_document(g, net, &doc, e);

	if (r < 0)
		return r;
	call.doc = doc;
	call.conf = json_root(doc);
	call.valid = g->valid;
	call.n_valid = g->n_valid;
	call.container_id = call.ifname = "";
	r = aio_read(&call, &x, e);
	if (r < 0)
		return r;
	aio_read_rails(&x);
	return aio_gc(&x, e);
}

/*
 * A container that lives, and of which nothing is known, may have an address of any network under any
 * name: rather none is collected than its.
 */
static void gc_networks(struct collecting *g)
{
	if (g->unknown) {
		log_warn("networks are not collected: nothing is noted of a container that lives",
			 LOG_S("container_id", g->unknown), LOG_S("folder", g->conf.cni_dir));
		return;
	}
	for (size_t i = 0; i < g->n_nets; i++) {
		struct err why = ERR_INIT;
		int r = gc_network(g, &g->nets[i], &why);

		if (r < 0)
			log_warn("GC", LOG_S("error", why.text));
		note_failure(g, r, &why);
	}
}

int pod_gc(struct cni_call *c, bool multus, struct err *e)
{
	struct collecting g = {.call = c};
	char **names = NULL;
	size_t n = 0, kept = 0;

	if (!c->has_valid)
		return 0;
	pod_conf_or_default(c, multus, &g.conf);
	dir_list(&c->root, g.conf.cni_dir, &names, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		char *name = names[i];

		if (is_note(&g, name)) {
			names[i] = names[kept];
			names[kept++] = name;
		}
	}
	for (size_t i = 0; i < kept; i++)
		look_at(&g, names[i]);
	look_at_valid(&g, names, kept);
	take_own(&g, c, multus);
	gc_networks(&g);
	str_list_free(names, n);
	if (e && g.first.code)
		*e = g.first;
	collecting_done(&g);
	return g.first.code;
}
