/* SPDX-License-Identifier: Apache-2.0 */
#include "host/dropin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TEXT_MAX = 256 << 10 };

/* "/etc/unirail/host.d/interface-ens1.conf" */
static char *host_dropin_path(const struct host_kind *k, const struct host_want *w)
{
	char *path = xasprintf("%s/%s%s%s.conf", HOST_DROPIN_DIR, k->section, w->name ? "-" : "",
			       w->name ? w->name : "");

	for (char *p = path + strlen(HOST_DROPIN_DIR) + 1; *p; p++)
		if (*p == '/' || *p == ' ')
			*p = '_';
	return path;
}

static void put_key(struct buf *b, const struct opt *o, const void *want, const void *blank)
{
	const char *at = (const char *)want + o->offset, *was = (const char *)blank + o->offset;
	const char *text, *old;

	switch (o->type) {
	case OPT_FLAG:
		if (*(const bool *)at != *(const bool *)was)
			buf_printf(b, "%s = %s\n", o->name, *(const bool *)at ? "yes" : "no");
		return;
	case OPT_INT:
		if (*(const int64_t *)at != *(const int64_t *)was)
			buf_printf(b, "%s = %lld\n", o->name, (long long)*(const int64_t *)at);
		return;
	case OPT_DUR:
		if (*(const int64_t *)at != *(const int64_t *)was)
			buf_printf(b, "%s = %lldms\n", o->name, (long long)*(const int64_t *)at);
		return;
	case OPT_STR:
	case OPT_CHOICE:
	default:
		text = *(const char *const *)at;
		old = *(const char *const *)was;
		if (text && (!old || strcmp(text, old) != 0))
			buf_printf(b, "%s = %s\n", o->name, text);
		return;
	}
}

char *host_dropin_text(const struct host_kind *k, const struct host_want *w)
{
	auto_free void *blank = xcalloc(1, k->size);
	struct buf b;

	if (k->init)
		k->init(blank);
	buf_init(&b, TEXT_MAX);
	buf_printf(&b, "; written by 'unirail host %s'\n[%s%s%s]\n", k->name, k->section,
		   w->name ? " " : "", w->name ? w->name : "");
	for (const struct opt *o = k->keys; o && o->name; o++)
		put_key(&b, o, w, blank);
	for (size_t i = 0; i < w->n_pairs; i++)
		buf_printf(&b, "%s = %s\n", w->pairs[i].key, w->pairs[i].value);
	return buf_take(&b);
}

int host_dropin_plan(const struct host *h, const struct host_kind *k, const struct host_want *w,
		     struct host_plan *p, struct err *e)
{
	auto_free char *path = host_dropin_path(k, w), *text = host_dropin_text(k, w);
	struct host_file found = {0};
	int r = host_file_read(h, path, &found, e);

	if (r >= 0)
		host_plan_file(p, k->name, w->name ? w->name : "host", &found,
			       k->clears && k->clears(w) ? NULL : text, 0644);
	host_file_done(&found);
	return r;
}

static int read_dir(struct host_conf *c, const struct root *root, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int r = dir_list(root, HOST_DROPIN_DIR, &names, &n, e);

	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	for (size_t i = 0; i < n && r >= 0; i++) {
		size_t len = strlen(names[i]);
		auto_free char *path = xasprintf("%s/%s", HOST_DROPIN_DIR, names[i]);

		if (names[i][0] != '.' && len > 5 && strcmp(names[i] + len - 5, ".conf") == 0)
			r = host_conf_read(c, root, path, e);
	}
	str_list_free(names, n);
	return r;
}

int host_dropin_read(struct host_conf *c, const struct root *root, const char *path, bool must,
		     struct err *e)
{
	int r = host_conf_read(c, root, path, e);

	if (r == -ENOENT && !must) {
		err_clear(e);
		r = 0;
	}
	return r < 0 ? r : read_dir(c, root, e);
}
