/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cni/cni_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

/* The functions up to cni_config_check_name() read the directory of CNI configurations and write
 * the generated file; those after it are pure. */

enum { CONF_MAX = 1 << 20, FILES_MAX = 256 };

#define DAEMON_CONFIG "multus.d/daemon-config.json"

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_list(const char *name)
{
	return ends_with(name, ".conflist");
}

/* Returns whether a runtime reads a file of this name; hidden files count, as in
 * libcni.ConfFiles. */
static bool is_conf(const char *name)
{
	return is_list(name) || ends_with(name, ".conf") || ends_with(name, ".json");
}

/* --- classification of a file --- */

static const char *type_of(const struct json *plugin)
{
	const char *type = json_string(json_get_go(plugin, "type"));

	return type && *type ? type : NULL;
}

static enum cni_config_kind kind_of_type(const struct json *conf, const char *type)
{
	if (strcmp(type, "multus") == 0 || strcmp(type, "multus-shim") == 0)
		return CNI_CONFIG_MULTUS;
	if (strcmp(type, "unirail-cni") != 0)
		return CNI_CONFIG_OTHER;
	return json_bool(json_get(conf, CNI_CONFIG_MARK)) ? CNI_CONFIG_GENERATED
							  : CNI_CONFIG_WRITTEN;
}

static enum cni_config_kind list_kind(const struct json *conf, const char **reason)
{
	const struct json *list = json_get_go(conf, "plugins");
	struct json_walk w = json_walk_start(list);
	const struct json *p;

	if (json_kind(list) != JSON_ARRAY && json_kind(list) != JSON_NULL) {
		*reason = "plugins is not an array";
		return CNI_CONFIG_INVALID;
	}
	if (json_len(list) == 0)
		return CNI_CONFIG_EMPTY;
	while ((p = json_walk_next(&w, NULL)))
		if (!type_of(p)) {
			*reason = "a plugin has no type";
			return CNI_CONFIG_INVALID;
		}
	return kind_of_type(conf, type_of(json_at(list, 0)));
}

static enum cni_config_kind conf_kind(const char *name, const struct json *conf,
				      const char **reason)
{
	if (json_kind(conf) != JSON_OBJECT) {
		*reason = "the file is not a JSON object";
		return CNI_CONFIG_INVALID;
	}
	if (is_list(name))
		return list_kind(conf, reason);
	if (!type_of(conf)) {
		*reason = "type is missing";
		return CNI_CONFIG_INVALID;
	}
	return kind_of_type(conf, type_of(conf));
}

/* --- reading --- */

static int load(const struct root *r, const char *path, struct json_doc **ret, struct err *e)
{
	auto_buf struct buf b;
	int n;

	buf_init(&b, CONF_MAX);
	n = file_read(r, path, CONF_MAX, &b, e);
	return n < 0 ? n : json_parse(ret, buf_span(&b), CONF_MAX, e);
}

static bool is_dir(const struct root *r, const char *path)
{
	struct stat st;

	return file_lstat(r, path, &st, NULL) == 0 && S_ISDIR(st.st_mode);
}

static bool is_link(const struct root *r, const char *path)
{
	struct stat st;

	return file_lstat(r, path, &st, NULL) == 0 && S_ISLNK(st.st_mode);
}

static void add(struct cni_config_files *l, const char *name, enum cni_config_kind kind,
		struct json_doc *doc, const char *reason)
{
	VEC_PUSH(l->v, l->n) = (struct cni_config_file){.name = xstrdup(name),
							.kind = kind,
							.doc = doc,
							.reason = reason ? xstrdup(reason) : NULL};
}

static void read_one(const struct root *r, const char *dir, const char *name,
		     struct cni_config_files *l)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	struct json_doc *doc = NULL;
	const char *reason = NULL;
	struct err e = ERR_INIT;
	enum cni_config_kind kind;

	if (is_dir(r, path))
		return;
	if (load(r, path, &doc, &e) < 0) {
		/* A file that was removed after the directory was listed (-ENOENT) is not
		 * invalid: the agent's inotify watch reports the removal, and the directory is
		 * read again. A link without a target is invalid. */
		if (is_conf(name) && (e.code != -ENOENT || is_link(r, path)))
			add(l, name, CNI_CONFIG_INVALID, NULL, e.text);
		return;
	}
	if (is_conf(name)) {
		kind = conf_kind(name, json_root(doc), &reason);
	} else {
		if (list_kind(json_root(doc), &reason) != CNI_CONFIG_GENERATED) {
			json_free(doc);
			return;
		}
		kind = CNI_CONFIG_IGNORED;
	}
	add(l, name, kind, doc, reason);
}

static bool is_listed(const char *name)
{
	return is_conf(name) || ends_with(name, ".cilium_bak");
}

int cni_config_read(const struct root *r, const char *dir, struct cni_config_files *ret,
		    struct err *e)
{
	auto_free char *daemon = xasprintf("%s/" DAEMON_CONFIG, dir);
	char **names = NULL;
	size_t n = 0;
	int k;

	*ret = (struct cni_config_files){0};
	k = dir_list(r, dir, &names, &n, e);
	for (size_t i = 0; k >= 0 && i < n; i++) {
		if (!is_listed(names[i]))
			continue;
		if (ret->n == FILES_MAX)
			k = err_kind(e, ERR_CONF, -E2BIG,
				     "more than %d CNI configurations in '%s': remove those that "
				     "are not used",
				     FILES_MAX, dir);
		else
			read_one(r, dir, names[i], ret);
	}
	str_list_free(names, n);
	if (k < 0) {
		cni_config_done(ret);
		return k;
	}
	(void)load(r, daemon, &ret->daemon, NULL);
	return 0;
}

void cni_config_done(struct cni_config_files *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].reason);
		json_free(l->v[i].doc);
	}
	free(l->v);
	json_free(l->daemon);
	*l = (struct cni_config_files){0};
}

/* --- writing --- */

int cni_config_apply(const struct root *r, const char *dir, const char *name,
		     const struct cni_config_plan *p, struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	int n = 0;

	if (p->write)
		n = file_replace(r, path, buf_span(&p->text), 0600, e);
	else if (p->remove)
		n = file_remove(r, path, e);
	return n < 0 ? err_wrap(e, n, "CNI configuration") : 0;
}

int cni_config_remove(const struct root *r, const char *dir, const struct cni_config_files *files,
		      const char *except, struct err *e)
{
	int n = 0;

	for (size_t i = 0; i < files->n; i++) {
		const struct cni_config_file *f = &files->v[i];
		auto_free char *path = xasprintf("%s/%s", dir, f->name);
		int k;

		if ((f->kind != CNI_CONFIG_GENERATED && f->kind != CNI_CONFIG_IGNORED) ||
		    (except && strcmp(f->name, except) == 0))
			continue;
		k = file_remove(r, path, e);
		if (k < 0)
			return err_wrap(e, k, "CNI configuration");
		n++;
	}
	return n;
}

int cni_config_check_name(const char *name, struct err *e)
{
	if (!is_list(name) || strchr(name, '/') || strlen(name) <= strlen(".conflist") ||
	    strlen(name) > 200)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid name '%s' of a CNI configuration: expected "
				"NAME.conflist, at most 200 bytes, without '/'",
				name);
	return 0;
}

/* --- decision on the content of the generated file; pure functions --- */

enum { TEXT_MAX = 1 << 18, CAPABILITIES_MAX = 64 };

#define NETWORK "unirail"

/* --- the wrapped network --- */

struct wrapped {
	const struct cni_config_file *file; /* NULL: none */
	const struct json *multus;	    /* settings of a Multus configuration; NULL: none */
	const struct json *daemon;	    /* settings that override `multus`; NULL: none */
	/* value of clusterNetwork; NULL: the path of `file` */
	const char *name;
};

static const struct json *main_plugin(const struct json *conf)
{
	const struct json *list = json_get_go(conf, "plugins");

	return json_kind(list) == JSON_ARRAY && json_len(list) ? json_at(list, 0) : conf;
}

static const struct json *setting(const struct wrapped *w, const char *key)
{
	const struct json *v = json_get_go(w->daemon, key);

	return json_kind(v) != JSON_NULL ? v : json_get_go(w->multus, key);
}

static struct wrapped find_network(const struct cni_config_files *l)
{
	struct wrapped w = {0};
	const char *type;

	for (size_t i = 0; i < l->n; i++) {
		const struct cni_config_file *f = &l->v[i];

		if (f->kind == CNI_CONFIG_OTHER && !w.file)
			w.file = f;
		if (f->kind == CNI_CONFIG_MULTUS && !w.multus)
			w.multus = main_plugin(json_root(f->doc));
	}
	type = json_string(json_get_go(w.multus, "type"));
	if (type && strcmp(type, "multus-shim") == 0 && l->daemon)
		w.daemon = json_root(l->daemon);
	w.name = json_string(setting(&w, "clusterNetwork"));
	/* Ignores a clusterNetwork that is a path (it may be valid only in the container of Multus'
	 * daemon) or the name of the generated network (Multus writes it if the generated file was
	 * the first one). */
	if (w.name && (!*w.name || strchr(w.name, '/') || strcmp(w.name, NETWORK) == 0))
		w.name = NULL;
	return w;
}

/* --- text of the generated file --- */

/* Returns the cniVersion of the wrapped configuration (without one: of Multus' configuration) if
 * it is in known[], which begins with 0.3.0, the first version with lists of plugins; otherwise
 * 0.3.1. */
static const char *version_of(const struct wrapped *w)
{
	static const char *const known[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
	const char *its = w->file ? json_string(json_get_go(json_root(w->file->doc), "cniVersion"))
				  : json_string(json_get_go(w->multus, "cniVersion"));

	for (size_t i = 0; its && i < ARRAY_LEN(known); i++)
		if (strcmp(its, known[i]) == 0)
			return known[i];
	return "0.3.1";
}

struct capabilities {
	const char *v[CAPABILITIES_MAX];
	size_t n;
};

static void add_capabilities(struct capabilities *c, const struct json *plugin)
{
	struct json_walk w = json_walk_start(json_get_go(plugin, "capabilities"));
	const struct json *v;
	const char *key;
	size_t i;

	while ((v = json_walk_next(&w, &key))) {
		if (!key || !json_bool(v))
			continue;
		for (i = 0; i < c->n && strcmp(c->v[i], key) != 0; i++)
			;
		if (i == c->n && c->n < CAPABILITIES_MAX)
			c->v[c->n++] = key;
	}
}

/* Writes the capabilities of all plugins of the network, so that the runtime passes the arguments
 * that they accept. */
static void put_capabilities(struct json_out *o, const struct wrapped *w)
{
	const struct json *conf = w->file ? json_root(w->file->doc) : w->multus, *p;
	struct json_walk list = json_walk_start(json_get_go(conf, "plugins"));
	struct capabilities c = {0};

	add_capabilities(&c, conf);
	while ((p = json_walk_next(&list, NULL)))
		add_capabilities(&c, p);
	if (c.n == 0)
		return;
	jo_key(o, "capabilities");
	jo_obj(o);
	for (size_t i = 0; i < c.n; i++)
		jo_kbool(o, c.v[i], true);
	jo_end_obj(o);
}

static void put_multus(struct json_out *o, const struct wrapped *w)
{
	static const char *const keys[] = {"namespaceIsolation", "globalNamespaces",
					   "systemNamespaces", "multusNamespace",
					   "defaultNetworks"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct json *v = setting(w, keys[i]);

		if (json_kind(v) == JSON_NULL)
			continue;
		jo_key(o, keys[i]);
		jo_val(o, v, false);
	}
}

static void put_plugin(struct json_out *o, const struct wrapped *w, const char *dir,
		       const char *socket)
{
	auto_free char *path = w->file ? xasprintf("%s/%s", dir, w->file->name) : NULL;

	jo_obj(o);
	jo_kstr(o, "type", "unirail-cni");
	put_capabilities(o, w);
	jo_kstr(o, "agent", socket);
	jo_kstr(o, "clusterNetwork", w->name ? w->name : path);
	jo_kstr(o, "confDir", dir);
	put_multus(o, w);
	jo_end_obj(o);
}

/* Plugins that other programs have appended to the generated file are preserved. */
static void put_appended(struct json_out *o, const struct cni_config_file *generated)
{
	struct json_walk w =
		json_walk_start(generated && generated->kind == CNI_CONFIG_GENERATED
					? json_get(json_root(generated->doc), "plugins")
					: NULL);
	const struct json *p = json_walk_next(&w, NULL);

	while (p && (p = json_walk_next(&w, NULL)))
		jo_val(o, p, false);
}

static void write_text(struct buf *b, const struct wrapped *w, const char *dir, const char *socket,
		       const struct cni_config_file *generated)
{
	struct json_out o;

	jo_init(&o, b, 2);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", version_of(w));
	jo_kstr(&o, "name", NETWORK);
	jo_kbool(&o, CNI_CONFIG_MARK, true);
	if (w->file && json_bool(json_get_go(json_root(w->file->doc), "disableCheck")))
		jo_kbool(&o, "disableCheck", true);
	jo_key(&o, "plugins");
	jo_arr(&o);
	put_plugin(&o, w, dir, socket);
	put_appended(&o, generated);
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

/* Returns whether the generated file already has this content; the order of keys and whitespace do
 * not matter. */
static bool is_so(const struct cni_config_file *generated, const struct buf *text)
{
	auto_json struct json_doc *doc = NULL;

	return generated && generated->kind == CNI_CONFIG_GENERATED &&
	       json_parse(&doc, buf_span(text), TEXT_MAX, NULL) == 0 &&
	       json_same(json_root(doc), json_root(generated->doc));
}

/* --- the plan --- */

/* Returns the file that a runtime uses if the generated one does not exist; NULL: none. */
static const struct cni_config_file *first_of(const struct cni_config_files *l)
{
	for (size_t i = 0; i < l->n; i++)
		switch (l->v[i].kind) {
		case CNI_CONFIG_GENERATED:
		case CNI_CONFIG_IGNORED:
		case CNI_CONFIG_EMPTY: break;
		default: return &l->v[i];
		}
	return NULL;
}

static const struct cni_config_file *find(const struct cni_config_files *l, const char *name,
					  enum cni_config_kind kind)
{
	for (size_t i = 0; i < l->n; i++)
		if (name ? strcmp(l->v[i].name, name) == 0 : l->v[i].kind == kind)
			return &l->v[i];
	return NULL;
}

static void take_state(struct cni_config_plan *p, enum cni_config_state state,
		       const struct cni_config_file *f)
{
	p->state = state;
	p->file = f ? f->name : NULL;
	p->reason = f ? f->reason : NULL;
	p->multus = f && f->kind == CNI_CONFIG_MULTUS;
}

void cni_config_plan(const struct cni_config_files *files, const char *dir, const char *name,
		     const char *socket, struct cni_config_plan *ret)
{
	const struct cni_config_file *first = first_of(files), *generated = find(files, name, 0),
				     *written = find(files, NULL, CNI_CONFIG_WRITTEN);
	bool is_generated = generated && generated->kind == CNI_CONFIG_GENERATED;
	bool behind = first && strcmp(first->name, name) <= 0;
	struct wrapped w = find_network(files);

	*ret = (struct cni_config_plan){.remove = is_generated};
	buf_init(&ret->text, TEXT_MAX);
	if (written) {
		ret->written = first != written;
		take_state(ret, first == written ? CNI_CONFIG_IS_WRITTEN : CNI_CONFIG_IS_BEHIND,
			   first);
		return;
	}
	/* A Multus configuration with embedded networks (delegates) cannot be wrapped, so the
	 * runtime continues to use it. */
	if (behind || (first && first->kind == CNI_CONFIG_MULTUS && !w.file && !w.name))
		take_state(ret, CNI_CONFIG_IS_BEHIND, first);
	else if (!w.file && !w.name)
		take_state(ret, CNI_CONFIG_NO_NETWORK, first);
	else
		take_state(ret, CNI_CONFIG_IS_FIRST, w.file);
	if ((!w.file && !w.name) || (behind && first->kind == CNI_CONFIG_MULTUS) ||
	    (generated && !is_generated))
		return;
	write_text(&ret->text, &w, dir, socket, generated);
	if (ret->text.over) {
		/* The appended plugins do not fit into the file, so they are dropped. */
		buf_done(&ret->text);
		buf_init(&ret->text, TEXT_MAX);
		write_text(&ret->text, &w, dir, socket, NULL);
	}
	ret->remove = false;
	ret->write = !is_so(generated, &ret->text);
}

void cni_config_plan_done(struct cni_config_plan *p)
{
	buf_done(&p->text);
}

void cni_config_describe(const struct cni_config_plan *p, const char *dir, const char *name,
			 struct buf *b)
{
	if (p->state == CNI_CONFIG_NO_NETWORK)
		buf_printf(b,
			   "'%s' has no CNI configuration of the cluster's network%s%s%s: '%s' is "
			   "written as soon as there is one",
			   dir, p->reason ? " (" : "", p->reason ? p->reason : "",
			   p->reason ? ")" : "", name);
	if (p->state != CNI_CONFIG_IS_BEHIND)
		return;
	buf_printf(b, "the container runtime uses '%s/%s'", dir, p->file);
	if (p->reason)
		buf_printf(b, ", which is not valid (%s)", p->reason);
	if (p->written)
		buf_str(b, ", not the configuration of unirail-cni that was written by hand: pods "
			   "get no rails; rename one of the two files so that the one written by "
			   "hand sorts first, or remove the one written by hand");
	else if (p->multus)
		buf_printf(
			b,
			", which is a Multus configuration, instead of '%s': pods get rails from "
			"unirail only if the program 'multus' is a link to unirail; remove that "
			"file and the DaemonSet that writes it",
			name);
	else
		buf_printf(b,
			   ", not '%s': pods get no rails; remove that file, or give '%s' a name "
			   "that sorts before it (setting cni-conf-name)",
			   name, name);
}
