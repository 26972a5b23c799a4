/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/multus/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "cni/multus/internal.h"
#include "cni/protocol/chain.h"
#include "cni/protocol/cni_call.h"

/* State of the DEL of one network. */
struct deletion {
	/* the environment of the network's plugins; call.doc is the network's configuration */
	struct cni_call call;
	const char *network;
	struct cni_result prev;
	bool has_prev;
	const struct json *runtime;
};

/* Returns the plugin of this type if it runs in this process, otherwise NULL. unirail-cni as a
 * delegate runs as a process of its own, which finds in Multus' file that it is a delegate. */
static const struct cni_plugin *builtin(const char *type)
{
	static const struct cni_plugin *const plugins[] = {
		&cni_macvlan,  &cni_ipvlan,   &cni_vlan,	&cni_host_device, &cni_sriov,
		&cni_ipoib,    &cni_ib_sriov, &cni_coordinator, &cni_tuning,	  &cni_sbr,
		&cni_loopback, &cni_ifacer,   &cni_rdma};

	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (strcmp(plugins[i]->name, type) == 0)
			return plugins[i];
	return NULL;
}

static int in_process(const struct cni_plugin *p, const struct chain_call *chain, struct err *e)
{
	struct cni_call c = *chain->call;
	auto_buf struct buf text;
	int r;

	buf_init(&text, MULTUS_CONF_MAX);
	r = chain_conf(chain, false, &text, e);
	if (r < 0)
		return r;
	c.plugin = p;
	c.doc = NULL;
	c.has_prev = false;
	c.prev = (struct cni_result){0};
	c.stdin_text = buf_span(&text);
	r = cni_conf_read(&c, e);
	if (r >= 0)
		r = cni_conf_version(&c, p->versions ? p->versions : (1U << CNI_VERSIONS) - 1, e);
	if (r >= 0)
		r = cni_conf_prev(&c, e);
	if (r >= 0)
		r = p->del(&c, e);
	cni_result_done(&c.prev);
	json_free(c.doc);
	return r;
}

static int delete_plugin(const struct deletion *d, const struct json *plugin, struct err *e)
{
	const char *type = json_string(json_get_go(plugin, "type"));
	const struct chain_call chain = {
		.call = &d->call,
		.plugin = plugin,
		.type = type,
		.network = d->network,
		.ifname = d->call.ifname,
		.prev = d->has_prev ? &d->prev : NULL,
		.runtime = d->runtime,
	};

	if (!type || !*type)
		return err_kind(e, ERR_CONF, -EINVAL, "the configuration has no 'type'");
	return builtin(type) ? in_process(builtin(type), &chain, e) : chain_run(&chain, "DEL", e);
}

static void keep_first(struct err *first, int r, const struct err *reason)
{
	if (r >= 0 || first->code)
		return;
	*first = *reason;
	first->code = r;
}

/* Runs DEL of the plugins of a list, in reverse order, or of the single plugin. Continues after a
 * failure and returns the first failure. */
static int delete_plugins(const struct deletion *d, struct err *e)
{
	const struct json *list = json_get_go(d->call.conf, "plugins");
	struct err first = ERR_INIT;
	int r;

	if (json_kind(list) != JSON_ARRAY)
		return delete_plugin(d, d->call.conf, e);
	for (size_t i = json_len(list); i-- > 0;) {
		struct err reason = ERR_INIT;

		r = delete_plugin(d, json_at(list, i), &reason);
		keep_first(&first, r, &reason);
	}
	if (e && first.code)
		*e = first;
	return first.code;
}

/* A list without a version gets the version of its caller, as in Multus; a plugin without one has
 * 0.1.0, as in libcni. A version that unirail does not support becomes that of the caller. */
static enum cni_version version_of(const struct json *conf, enum cni_version own_version)
{
	const char *text = json_string(json_get_go(conf, "cniVersion"));
	enum cni_version v = json_get_go(conf, "plugins") ? own_version : CNI_0_1_0;

	if (text && *text && cni_version_parse(text, &v) < 0)
		v = own_version;
	return v;
}

/* DEL gets a prevResult since CNI 0.4.0. An unreadable result is treated as absent. */
static void find_prev(struct deletion *d, const struct network *net)
{
	const struct libcni_cached *c = net->file ? &net->file->cached : NULL;

	if (!c || !c->doc)
		return;
	d->runtime = c->runtime;
	if (d->call.version < CNI_0_4_0 || json_kind(c->result) != JSON_OBJECT)
		return;
	d->has_prev = cni_result_parse(c->doc, c->result, d->call.version, &d->prev, NULL) >= 0;
}

static int delete_network(const struct multus *m, const struct network *net, struct err *e)
{
	struct deletion d = {.call = *m->call};
	auto_json struct json_doc *doc = NULL;
	const char *name;
	int r;

	if (!net->conf.n)
		return err_kind(e, ERR_DECODE, -EINVAL, "the configuration cannot be read");
	r = json_parse(&doc, net->conf, MULTUS_CONF_MAX, e);
	if (r < 0)
		return r;
	d.call.doc = doc;
	d.call.conf = json_root(doc);
	d.call.ifname = net->ifname;
	d.call.args_text = m->args;
	d.call.version = version_of(d.call.conf, m->call->version);
	name = json_string(json_get_go(d.call.conf, "name"));
	d.network = name && *name ? name : net->name;
	find_prev(&d, net);
	r = delete_plugins(&d, e);
	cni_result_done(&d.prev);
	return r;
}

static bool has_type(const struct json *conf, const char *type)
{
	const struct json *list = json_get_go(conf, "plugins");
	const char *its = json_string(json_get_go(conf, "type"));

	for (size_t i = 0; json_kind(list) == JSON_ARRAY && i < json_len(list); i++)
		if (has_type(json_at(list, i), type))
			return true;
	return its && strcmp(its, type) == 0;
}

/* Returns whether Multus executed this plugin as one of its delegates: then the scratch file,
 * which Multus removes only after all delegates are deleted, lists this network. If so, this
 * call must not delete the other delegates. */
static bool is_delegate(const struct multus *m)
{
	const struct cni_call *c = m->call;

	for (size_t i = 0; i < m->n_nets; i++) {
		auto_json struct json_doc *d = NULL;
		const char *name = multus_conf_name(m->nets[i].conf, &d);

		if (strcmp(name, c->name) == 0 && strcmp(m->nets[i].ifname, c->ifname) == 0 && d &&
		    has_type(json_root(d), "unirail-cni"))
			return true;
	}
	return false;
}

static void remove_file(const struct multus *m, const char *path)
{
	struct err reason = ERR_INIT;

	if (file_remove(&m->call->root, path, &reason) < 0)
		log_warn("cannot remove a file that records an attachment",
			 LOG_S("error", reason.text));
}

static void remove_device_file(const struct multus *m, const struct network *net)
{
	auto_free char *path = NULL, *name = net->device ? xstrdup(net->device) : NULL;

	if (!name)
		return;
	for (char *at = name; (at = strchr(at, '/'));)
		*at = '-';
	path = xasprintf("%s/%s-%s_%s", PATH_DEVINFO_CNI, name, m->call->container_id, net->ifname);
	remove_file(m, path);
}

static void delete_one(struct multus *m, const struct network *net)
{
	struct err reason = ERR_INIT;
	int r = delete_network(m, net, &reason);

	if (r >= 0) {
		remove_device_file(m, net);
		if (net->file)
			remove_file(m, net->file->path);
		return;
	}
	err_wrap(&reason, r, "network '%s' that Multus attached as '%s'",
		 net->name ? net->name : "", net->ifname);
	log_warn("failed to delete an attachment that Multus made", LOG_S("error", reason.text));
	keep_first(&m->first, r, &reason);
	if (!net->file || !net->file->cached.conf)
		m->forgotten = true;
}

static const struct json_field fields[] = {
	{.name = "multusCniDir",
	 .type = J_STR,
	 JSON_OWN(PATH_MULTUS,
		  "directory in which Multus recorded the attachments of pods; a DEL also "
		  "deletes the attachments recorded there for its pod; ignored if cniDir is "
		  "given; empty: none")},
	{0},
};
const struct json_table multus_import_table = {fields, JSON_GO, 0};

/* Returns the directory of Multus' state; NULL: do not search. */
static const char *cni_dir(const struct cni_call *c)
{
	const struct json *own = json_get_go(c->conf, "cniDir");
	const struct json *v = own ? own : json_get_go(c->conf, fields[0].name);
	const char *dir = v ? json_string(v) : PATH_MULTUS;

	if (dir && *dir == '/')
		return dir;
	if (!dir || *dir)
		log_warn("conf.multusCniDir is not an absolute path: this DEL does not delete "
			 "networks that Multus attached");
	return NULL;
}

int multus_del(const struct cni_call *c, struct err *e)
{
	const char *dir = cni_dir(c);

	return dir ? multus_del_in(c, dir, e) : 0;
}

int multus_del_in(const struct cni_call *c, const char *dir, struct err *e)
{
	auto_multus struct multus m = {.call = c, .dir = dir};

	m.args = xasprintf("IgnoreUnknown=true%s%s", *c->args_text ? ";" : "", c->args_text);
	multus_find(&m);
	if (multus_is_own(&m) || is_delegate(&m))
		return 0;
	for (size_t i = m.n_nets; i-- > 0;)
		delete_one(&m, &m.nets[i]);
	if (m.found && !m.forgotten)
		remove_file(&m, m.scratch);
	if (e && m.first.code)
		*e = m.first;
	return m.first.code ? m.first.code : m.n_nets > 0;
}

static void multus_find_scratch(struct multus *m);

bool multus_has(const struct cni_call *c, const char *dir)
{
	auto_multus struct multus m = {.call = c, .dir = dir};
	auto_free char *path = xasprintf("%s/%s", dir, c->container_id);

	if (!file_exists(&c->root, path))
		return false;
	multus_find_scratch(&m);
	return !multus_is_own(&m);
}

static void multus_find_cache(struct multus *m);

void multus_forget(const struct cni_call *c, const char *dir)
{
	auto_multus struct multus m = {.call = c, .dir = dir};

	multus_find_scratch(&m);
	if (!multus_is_own(&m))
		return;
	multus_find_cache(&m);
	for (size_t i = 0; i < m.n_files; i++)
		if (!m.files[i].taken)
			remove_file(&m, m.files[i].path);
	remove_file(&m, m.scratch);
}

/* --- the networks of a pod, from Multus' scratch file and libcni's cache --- */

enum { FILE_MAX = 4 << 20 };

void multus_done(struct multus *m)
{
	for (size_t i = 0; i < m->n_files; i++) {
		free(m->files[i].path);
		free(m->files[i].name);
		libcni_cached_done(&m->files[i].cached);
	}
	for (size_t i = 0; i < m->n_nets; i++)
		free(m->nets[i].ifname);
	multus_delegates_free(m->delegates, m->n_delegates);
	free(m->files);
	free(m->nets);
	free(m->scratch);
	free(m->args);
}

static void read_scratch(struct multus *m)
{
	struct err reason = ERR_INIT;
	auto_buf struct buf text;
	int r;

	buf_init(&text, FILE_MAX);
	r = file_read(&m->call->root, m->scratch, FILE_MAX, &text, &reason);
	if (r == -ENOENT)
		return;
	m->found = true;
	if (r >= 0)
		r = multus_delegates_parse(buf_span(&text), &m->delegates, &m->n_delegates,
					   &reason);
	if (r < 0)
		log_warn("Multus' file cannot be read, a DEL deletes only the networks in "
			 "libcni's cache",
			 LOG_S("file", m->scratch), LOG_S("error", reason.text));
}

static void read_cache_file(struct multus *m, struct cache_file *f)
{
	struct err reason = ERR_INIT;
	auto_buf struct buf text;
	int r;

	buf_init(&text, FILE_MAX);
	r = file_read(&m->call->root, f->path, FILE_MAX, &text, &reason);
	if (r >= 0)
		r = libcni_cached_parse(buf_span(&text), &f->cached, &reason);
	if (r < 0)
		log_warn("libcni's file cannot be read", LOG_S("file", f->path),
			 LOG_S("error", reason.text));
}

/* Reads the cache files "<network>-<containerID>-<interface>" of the container. Names and ids may
 * contain '-', so the container id in the file's content decides. */
static void multus_find_cache(struct multus *m)
{
	auto_free char *dir = xasprintf("%s/results", m->dir);
	auto_free char *middle = xasprintf("-%s-", m->call->container_id);
	char **names = NULL;
	size_t n = 0;

	if (dir_list(&m->call->root, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct cache_file *f;

		if (!strstr(names[i], middle))
			continue;
		f = &VEC_PUSH(m->files, m->n_files);
		f->name = xstrdup(names[i]);
		f->path = xasprintf("%s/%s", dir, names[i]);
		read_cache_file(m, f);
		/* Skips a file of another container, although the file's name contains this
		 * container's id. */
		f->taken = f->cached.container_id &&
			   strcmp(f->cached.container_id, m->call->container_id) != 0;
	}
	str_list_free(names, n);
}

const char *multus_conf_name(struct span conf, struct json_doc **keep)
{
	const char *name = NULL;

	if (conf.n && json_parse(keep, conf, MULTUS_CONF_MAX, NULL) >= 0)
		name = json_string(json_get_go(json_root(*keep), "name"));
	return name ? name : "";
}

static struct cache_file *file_of(struct multus *m, struct span conf, const char *ifname)
{
	auto_json struct json_doc *d = NULL;
	const char *network = multus_conf_name(conf, &d);
	auto_free char *name = xasprintf("%s-%s-%s", network, m->call->container_id, ifname);

	for (size_t i = 0; i < m->n_files; i++) {
		struct cache_file *f = &m->files[i];
		const char *its = f->cached.ifname;

		if (f->taken)
			continue;
		/* A delegate without a readable configuration is matched by its interface. */
		if (strcmp(f->name, name) == 0 || (!conf.n && its && strcmp(its, ifname) == 0))
			return f;
	}
	return NULL;
}

static char *delegate_ifname(const struct multus *m, size_t i)
{
	if (m->delegates[i].ifname)
		return xstrdup(m->delegates[i].ifname);
	return i ? xasprintf("net%zu", i) : xstrdup(m->call->ifname);
}

static void list_delegates(struct multus *m)
{
	for (size_t i = 0; i < m->n_delegates; i++) {
		const struct multus_delegate *d = &m->delegates[i];
		struct network *net = &VEC_PUSH(m->nets, m->n_nets);

		net->name = d->name;
		net->ifname = delegate_ifname(m, i);
		net->conf = (struct span){d->conf, d->conf_len};
		net->device = d->device_id ? d->name : NULL;
		net->args = d->args;
		net->version = d->version;
		net->file = file_of(m, net->conf, net->ifname);
		if (!net->file)
			continue;
		net->file->taken = true;
		if (!net->conf.n)
			net->conf =
				(struct span){net->file->cached.conf, net->file->cached.conf_len};
	}
}

/* Sorts the pod's default interface first, as in an ADD, then net1, net2 ... net10. */
static int by_ifname(const char *a, const char *b, const char *first)
{
	size_t na = strlen(a), nb = strlen(b);
	bool fa = strcmp(a, first) == 0, fb = strcmp(b, first) == 0;

	if (fa != fb)
		return fa ? -1 : 1;
	return na == nb ? strcmp(a, b) : na < nb ? -1 : 1;
}

/* Adds the networks of cache files that belong to no delegate. There are few, so each is inserted
 * in order. */
static void list_others(struct multus *m)
{
	size_t from = m->n_nets;

	for (size_t i = 0; i < m->n_files; i++) {
		struct cache_file *f = &m->files[i];
		const struct libcni_cached *c = &f->cached;
		struct network net = {.name = c->network, .file = f};
		size_t k = m->n_nets;

		if (f->taken || !c->conf || !c->network || !c->ifname)
			continue;
		net.ifname = xstrdup(c->ifname);
		net.conf = (struct span){c->conf, c->conf_len};
		VEC_PUSH(m->nets, m->n_nets) = net;
		for (;
		     k > from && by_ifname(m->nets[k - 1].ifname, net.ifname, m->call->ifname) > 0;
		     k--)
			m->nets[k] = m->nets[k - 1];
		m->nets[k] = net;
	}
}

/* Reads only the scratch file: sets m->found and m->delegates. */
static void multus_find_scratch(struct multus *m)
{
	m->scratch = xasprintf("%s/%s", m->dir, m->call->container_id);
	read_scratch(m);
}

bool multus_is_own(const struct multus *m)
{
	const char *keeper = m->n_delegates ? m->delegates[0].keeper : NULL;

	return keeper && strcmp(keeper, m->call->name) == 0;
}

void multus_find(struct multus *m)
{
	multus_find_scratch(m);
	multus_find_cache(m);
	list_delegates(m);
	list_others(m);
}
