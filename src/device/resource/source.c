/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

/* --- files and mounted ConfigMaps --- */

struct reading_sources {
	const struct root *root;
	const struct resource_defaults *defaults;
	struct resource_config *config;
	struct resource_messages *messages;
	size_t n; /* number of documents read */
};

static void read_file(struct reading_sources *x, const char *path)
{
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	int r;

	buf_init(&b, RESOURCE_TEXT_MAX);
	r = file_read(x->root, path, RESOURCE_TEXT_MAX, &b, &e);
	if (r >= 0)
		r = resource_config_add(x->config, buf_span(&b), path, x->defaults, x->messages,
					&e);
	if (r < 0) {
		resource_report(x->messages, MESSAGE_ERROR, NULL, "%s", e.text);
		x->config->n_invalid++;
	} else {
		x->n++;
	}
}

static void read_in(struct reading_sources *x, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	read_file(x, path);
}

static void read_dir(struct reading_sources *x, const char *dir, char *const *v, size_t n,
		     const char *node)
{
	size_t before = x->n, seen = 0;

	if (node && *node && *node != '.' && str_list_has(v, n, node)) {
		read_in(x, dir, node);
		return;
	}
	if (str_list_has(v, n, "config.json")) {
		read_in(x, dir, "config.json");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(v[i]);

		if (*v[i] == '.' || len < 5 || strcmp(v[i] + len - 5, ".json") != 0)
			continue;
		seen++;
		read_in(x, dir, v[i]);
	}
	if (x->n == before && !seen)
		resource_report(x->messages, MESSAGE_WARNING, NULL,
				"%s: no configuration: expected config.json, *.json%s%s", dir,
				node && *node ? " or the node's name " : "",
				node && *node ? node : "");
}

size_t resource_sources_read(const struct root *r, const char *const *paths, size_t n,
			     const char *node, bool optional, const struct resource_defaults *d,
			     struct resource_config *c, struct resource_messages *messages)
{
	struct reading_sources x = {r, d, c, messages, 0};

	for (size_t i = 0; i < n; i++) {
		char **names = NULL;
		size_t count = 0;
		int code = dir_list(r, paths[i], &names, &count, NULL);

		if (code >= 0)
			read_dir(&x, paths[i], names, count, node);
		else if (code != -ENOENT || !optional)
			read_file(&x, paths[i]);
		str_list_free(names, count);
	}
	return x.n;
}

/* --- command lines of the originals --- */

enum flag_type { FLAG_BOOL, FLAG_STR, FLAG_NUMBER };

struct flag {
	const char *name;
	enum flag_type type;
	size_t offset; /* offset in struct resource_flags; NO_OFFSET: parsed and ignored */
};

#define NO_OFFSET   ((size_t)-1)
#define INTO(field) offsetof(struct resource_flags, field)

static const struct flag shared_flags[] = {
	{"config-file", FLAG_STR, INTO(config_file)},
	{"use-cdi", FLAG_BOOL, INTO(use_cdi)},
	{"version", FLAG_BOOL, INTO(version)},
	{"v", FLAG_BOOL, INTO(version)},
	{"help", FLAG_BOOL, INTO(help)},
	{"h", FLAG_BOOL, INTO(help)},
	{NULL, FLAG_BOOL, 0},
};

static const struct flag sriov_flags[] = {
	{"config-file", FLAG_STR, INTO(config_file)},
	{"resource-prefix", FLAG_STR, INTO(prefix)},
	{"use-cdi", FLAG_BOOL, INTO(use_cdi)},
	{"help", FLAG_BOOL, INTO(help)},
	{"h", FLAG_BOOL, INTO(help)},
	/* flags of glog */
	{"v", FLAG_NUMBER, INTO(log_level)},
	{"logtostderr", FLAG_BOOL, NO_OFFSET},
	{"alsologtostderr", FLAG_BOOL, NO_OFFSET},
	{"stderrthreshold", FLAG_STR, NO_OFFSET},
	{"log_dir", FLAG_STR, NO_OFFSET},
	{"log_link", FLAG_STR, NO_OFFSET},
	{"logbuflevel", FLAG_STR, NO_OFFSET},
	{"log_backtrace_at", FLAG_STR, NO_OFFSET},
	{"vmodule", FLAG_STR, NO_OFFSET},
	/* flags that the entry point of the image accepts */
	{"log-dir", FLAG_STR, NO_OFFSET},
	{"log-level", FLAG_NUMBER, INTO(log_level)},
	{NULL, FLAG_BOOL, 0},
};

static const struct flag *flag_find(const struct flag *t, struct span name)
{
	while (t->name && !span_eq(name, t->name))
		t++;
	return t->name ? t : NULL;
}

static int set_bool(const struct flag *f, const char *value, void *into, struct err *e)
{
	static const char *const values[] = {"1", "t", "T", "true",  "TRUE",  "True",
					     "0", "f", "F", "false", "FALSE", "False"};
	size_t i = 0;

	if (!value)
		value = "true";
	while (i < ARRAY_LEN(values) && strcmp(values[i], value) != 0)
		i++;
	if (i == ARRAY_LEN(values))
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid boolean value \"%s\" for -%s: parse error", value,
				f->name);
	if (f->offset != NO_OFFSET)
		*(bool *)((char *)into + f->offset) = i < ARRAY_LEN(values) / 2;
	return 0;
}

static int set_value(const struct flag *f, const char *value, void *into, struct err *e)
{
	int64_t n;

	if (f->type == FLAG_NUMBER) {
		if (num_i64(span_of(value), INT32_MIN, INT32_MAX, &n) < 0)
			return err_kind(e, ERR_CONF, -EINVAL,
					"invalid value \"%s\" for flag -%s: parse error", value,
					f->name);
		if (f->offset != NO_OFFSET)
			*(int64_t *)((char *)into + f->offset) = n;
	} else if (f->offset != NO_OFFSET) {
		*(const char **)((char *)into + f->offset) = value;
	}
	return 0;
}

/* As in Go's flag package, flags end at the first word that is not a flag. */
int resource_flags_parse(enum resource_form form, int argc, char **argv, struct resource_flags *ret,
			 struct err *e)
{
	const struct flag *table = form == RESOURCE_SHARED ? shared_flags : sriov_flags;
	struct resource_flags f = {
		.config_file = form == RESOURCE_SHARED ? "/k8s-rdma-shared-dev-plugin/config.json"
						       : "/etc/pcidp/config.json",
		.log_level = -1};

	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];
		struct span rest = span_of(word), name;
		const struct flag *flag;
		int r;

		if (word[0] != '-' || !word[1] || strcmp(word, "--") == 0)
			break;
		rest.p += word[1] == '-' ? 2 : 1;
		rest.n -= word[1] == '-' ? 2 : 1;
		span_cut(&rest, '=', &name);
		if (!name.n || *name.p == '-')
			return err_kind(e, ERR_CONF, -EINVAL, "bad flag syntax: %s", word);
		flag = flag_find(table, name);
		if (!flag)
			return err_kind(e, ERR_CONF, -EINVAL,
					"flag provided but not defined: -%.*s", (int)name.n,
					name.p);
		if (flag->type == FLAG_BOOL) {
			r = set_bool(flag, rest.p, &f, e);
		} else if (!rest.p && i + 1 == argc) {
			return err_kind(e, ERR_CONF, -EINVAL, "flag needs an argument: -%s",
					flag->name);
		} else {
			r = set_value(flag, rest.p ? rest.p : argv[++i], &f, e);
		}
		if (r < 0)
			return r;
	}
	*ret = f;
	return 0;
}
