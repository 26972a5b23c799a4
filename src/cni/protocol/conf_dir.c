/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/conf_dir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"

enum { CONF_MAX = 1 << 20 };

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n > k && strcmp(s + n - k, end) == 0;
}

static bool is_conf(const char *file)
{
	return *file != '.' && (ends_with(file, ".conf") || ends_with(file, ".json") ||
				ends_with(file, ".conflist"));
}

static int load(const struct root *r, const char *path, struct json_doc **ret, struct err *e)
{
	auto_buf struct buf text;
	int n;

	buf_init(&text, CONF_MAX);
	n = file_read(r, path, CONF_MAX, &text, e);
	if (n >= 0)
		n = json_parse(ret, buf_span(&text), CONF_MAX, e);
	return n < 0 ? err_wrap(e, n, "network configuration '%s'", path) : 0;
}

static bool is_self(const struct json *conf)
{
	static const char *const types[] = {"multus", "multus-shim", "unirail-cni"};
	const struct json *list = json_get_go(conf, "plugins");
	const char *type = json_string(json_get_go(conf, "type"));

	if (!type && json_kind(list) == JSON_ARRAY && json_len(list))
		type = json_string(json_get_go(json_at(list, 0), "type"));
	for (size_t i = 0; type && i < ARRAY_LEN(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

/* Returns whether the configuration has this name (NULL: any) and is not one of Multus or
 * unirail-cni. */
static bool is_it(const struct json *conf, const char *name)
{
	const char *its = json_string(json_get_go(conf, "name"));

	return !is_self(conf) && (!name || (its && strcmp(its, name) == 0));
}

/* Returns the first matching configuration; NULL: the directory has none. */
static struct json_doc *search(const struct root *r, const char *dir, char *const *files, size_t n,
			       const char *name)
{
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, files[i]);
		struct json_doc *d = NULL;
		struct err reason = ERR_INIT;

		if (!is_conf(files[i]))
			continue;
		if (load(r, path, &d, &reason) < 0) {
			log_warn("skipping a CNI configuration file", LOG_S("error", reason.text));
			continue;
		}
		if (is_it(json_root(d), name))
			return d;
		json_free(d);
	}
	return NULL;
}

static int find(const struct root *r, const char *dir, const char *name, struct json_doc **ret,
		struct err *e)
{
	char **files = NULL;
	size_t n = 0;
	int k = dir_list(r, dir, &files, &n, e);

	if (k < 0) {
		err_default_kind(e, ERR_CONF);
		return k;
	}
	*ret = search(r, dir, files, n, name);
	str_list_free(files, n);
	return *ret ? 0 : -ENOENT;
}

int conf_dir_load(const struct root *r, const char *dir, const char *name, struct json_doc **ret,
		  struct err *e)
{
	struct err reason = ERR_INIT;
	int n = find(r, dir, name, ret, &reason);

	if (n == 0)
		return 0;
	return err_kind(e, ERR_CONF, n,
			"no network configuration of this name in '%s': one is required if the "
			"name has no NetworkAttachmentDefinition, or the definition has no "
			"spec.config%s%s",
			dir, reason.code ? ": " : "", reason.text);
}

int conf_path_load(const struct root *r, const char *path, struct json_doc **ret, struct err *e)
{
	struct stat st;
	int n;

	if (file_lstat(r, path, &st, e) < 0 || !S_ISDIR(st.st_mode)) {
		err_clear(e);
		n = load(r, path, ret, e);
	} else {
		n = find(r, path, NULL, ret, e);
		if (n == -ENOENT && e && !e->code)
			err_set(e, n, "no network configuration in '%s'", path);
	}
	err_default_kind(e, ERR_CONF);
	return n;
}
