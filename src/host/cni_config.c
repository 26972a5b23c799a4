/* SPDX-License-Identifier: Apache-2.0 */
/* The files of CNI's folder: what each is, and writing ours. What has to be done: cni_config_plan.c. */
#include "host/cni_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

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

/* As libcni.ConfFiles: hidden files count. */
static bool is_conf(const char *name)
{
	return is_list(name) || ends_with(name, ".conf") || ends_with(name, ".json");
}

/* --- what a file is --- */

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

static enum cni_config_kind list_kind(const struct json *conf, const char **why)
{
	const struct json *list = json_get_go(conf, "plugins");
	struct json_walk w = json_walk_start(list);
	const struct json *p;

	if (json_kind(list) != JSON_ARRAY && json_kind(list) != JSON_NULL) {
		*why = "plugins is no array";
		return CNI_CONFIG_INVALID;
	}
	if (json_len(list) == 0)
		return CNI_CONFIG_EMPTY;
	while ((p = json_walk_next(&w, NULL)))
		if (!type_of(p)) {
			*why = "a plugin has no type";
			return CNI_CONFIG_INVALID;
		}
	return kind_of_type(conf, type_of(json_at(list, 0)));
}

static enum cni_config_kind conf_kind(const char *name, const struct json *conf, const char **why)
{
	if (json_kind(conf) != JSON_OBJECT) {
		*why = "it is no object";
		return CNI_CONFIG_INVALID;
	}
	if (is_list(name))
		return list_kind(conf, why);
	if (!type_of(conf)) {
		*why = "type is missing";
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

static bool is_folder(const struct root *r, const char *path)
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
		struct json_doc *doc, const char *why)
{
	VEC_PUSH(l->v, l->n) = (struct cni_config_file){
		.name = xstrdup(name), .kind = kind, .doc = doc, .why = why ? xstrdup(why) : NULL};
}

static void read_one(const struct root *r, const char *dir, const char *name,
		     struct cni_config_files *l)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	struct json_doc *doc = NULL;
	const char *why = NULL;
	struct err e = ERR_INIT;
	enum cni_config_kind kind;

	if (is_folder(r, path))
		return;
	if (load(r, path, &doc, &e) < 0) {
		/* Gone since the folder was listed: its change is told once more. */
		if (is_conf(name) && (e.code != -ENOENT || is_link(r, path)))
			add(l, name, CNI_CONFIG_INVALID, NULL, e.text);
		return;
	}
	if (is_conf(name)) {
		kind = conf_kind(name, json_root(doc), &why);
	} else {
		if (list_kind(json_root(doc), &why) != CNI_CONFIG_GENERATED) {
			json_free(doc);
			return;
		}
		kind = CNI_CONFIG_IGNORED;
	}
	add(l, name, kind, doc, why);
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
		free(l->v[i].why);
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
				"invalid name '%s' of a CNI configuration: expected NAME.conflist",
				name);
	return 0;
}
