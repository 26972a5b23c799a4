/* SPDX-License-Identifier: Apache-2.0 */
#include "host/model/kind.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

enum { FILE_MAX = 1 << 20, LINE_MAX_BYTES = 4096, ROW_MAX = 4096 };

/* --- the host --- */

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Returns whether the root is that of the running host, wherever it is mounted: its /proc has the
 * boot_id of this kernel. */
static bool is_running(const struct root *root)
{
	char here[64], there[64];
	struct root self;
	bool same;

	if (root->host)
		return true;
	if (root_open(&self, NULL, NULL) < 0)
		return false;
	same = file_read_line(&self, BOOT_ID, here, sizeof(here), NULL) >= 0 &&
	       file_read_line(root, BOOT_ID, there, sizeof(there), NULL) >= 0 &&
	       strcmp(here, there) == 0;
	root_close(&self);
	return same;
}

int host_open(struct host *h, const char *dir, struct err *e)
{
	int r;

	*h = (struct host){.dir = dir, .root.fd = -1};
	r = root_open(&h->root, dir, e);
	if (r < 0)
		return r;
	h->recorded = !h->root.host && file_exists(&h->root, "/unirail/about");
	h->kernel = !h->recorded && is_running(&h->root);
	return 0;
}

void host_close(struct host *h)
{
	host_net_forget(h);
	nl_wire_close(h->route);
	h->route = NULL;
	root_close(&h->root);
}

/* --- links, addresses, routes, rules --- */

void host_net_forget(struct host *h)
{
	struct host_net *n = h->net;

	if (!n)
		return;
	free(n->links);
	free(n->addrs);
	route_list_free(n->routes, n->n_routes);
	free(n->rules);
	free(n);
	h->net = NULL;
}

int host_route_wire(struct host *h, struct nl_wire **ret, struct err *e)
{
	int r = h->route ? 0 : nl_open(&h->route, NL_ROUTE, -1, e);

	*ret = h->route;
	return r;
}

static int read_links(struct nl_wire *w, struct host_net *n, struct err *e)
{
	return link_list(w, &n->links, &n->n_links, e);
}

static int read_addrs(struct nl_wire *w, struct host_net *n, struct err *e)
{
	return addr_list(w, 0, 0, &n->addrs, &n->n_addrs, e);
}

static int read_routes(struct nl_wire *w, struct host_net *n, struct err *e)
{
	return route_list(w, 0, 0, &n->routes, &n->n_routes, e);
}

static int read_rules(struct nl_wire *w, struct host_net *n, struct err *e)
{
	return rule_list(w, 0, &n->rules, &n->n_rules, e);
}

/* Each row reads one part of struct host_net; doctor/facts.c records the netlink messages of
 * each part in a snapshot, file HOST_RECORDED/NAME.nl. */
static const struct {
	const char *name;
	int (*read)(struct nl_wire *w, struct host_net *n, struct err *e);
} parts[] = {
	{"links", read_links},
	{"addresses", read_addrs},
	{"routes", read_routes},
	{"rules", read_rules},
};

static int replay(const struct host *h, size_t i, struct host_net *n, struct err *e)
{
	auto_free char *rel = xasprintf(HOST_RECORDED "/%s.nl", parts[i].name);
	auto_free char *path = xasprintf("%s%s", h->dir, rel);
	auto_nl struct nl_wire *w = NULL;
	int r;

	if (!file_exists(&h->root, rel))
		return 0;
	r = nl_open_replay(&w, path, e);
	return r < 0 ? r : parts[i].read(w, n, e);
}

int host_net_read(struct host *h, const struct host_net **ret, struct err *e)
{
	struct nl_wire *w = NULL;
	int r = 0;

	if (h->net) {
		*ret = h->net;
		return 0;
	}
	h->net = xcalloc(1, sizeof(*h->net));
	if (h->kernel)
		r = host_route_wire(h, &w, e);
	for (size_t i = 0; i < ARRAY_LEN(parts) && r >= 0; i++) {
		if (h->kernel)
			r = parts[i].read(w, h->net, e);
		else if (h->recorded)
			r = replay(h, i, h->net, e);
	}
	if (r < 0) {
		host_net_forget(h);
		return r;
	}
	*ret = h->net;
	return 0;
}

const struct link *host_link(const struct host_net *n, const char *name)
{
	return link_find(n->links, n->n_links, name);
}

int host_no_link(const struct host_net *n, const char *name, struct err *e)
{
	auto_free const char **names = xcalloc(n->n_links, sizeof(*names));
	const char *near;

	for (size_t i = 0; i < n->n_links; i++)
		names[i] = n->links[i].name;
	near = opt_suggest(name, names, n->n_links);
	return err_kind(e, ERR_CONF, -ENODEV, "interface '%s' does not exist%s%s%s", name,
			near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* --- files --- */

static bool is_text(struct span s)
{
	auto_buf struct buf b;
	auto_json struct json_doc *doc = NULL;
	struct json_out o;

	buf_init(&b, 8 * (size_t)FILE_MAX);
	if (memchr(s.p, '\0', s.n))
		return false;
	/* The JSON writer replaces invalid UTF-8, so the journal could not restore the text. */
	jo_init(&o, &b, 0);
	jo_str(&o, s.p);
	return json_parse(&doc, buf_span(&b), b.len, NULL) >= 0 &&
	       span_eq(s, json_string(json_root(doc)));
}

int host_file_read(const struct host *h, const char *path, struct host_file *ret, struct err *e)
{
	auto_buf struct buf b;
	struct stat st;
	int r;

	ret->path = xstrdup(path);
	buf_init(&b, FILE_MAX);
	if (!file_exists(&h->root, path))
		return 0;
	r = file_read(&h->root, path, FILE_MAX, &b, e);
	if (r >= 0)
		r = file_lstat(&h->root, path, &st, e);
	if (r < 0)
		return r;
	if (b.len && !is_text(buf_span(&b)))
		return err_kind(e, ERR_CONF, -EINVAL,
				"file '%s' is not UTF-8 text and cannot be journaled; move it away",
				path);
	ret->mode = st.st_mode & 07777;
	ret->text = b.len ? buf_take(&b) : xstrdup("");
	return 0;
}

char *host_link_read(const struct host *h, const char *path)
{
	char target[PATH_MAX];

	return link_read(&h->root, path, target, sizeof(target), NULL) < 0 ? NULL : xstrdup(target);
}

char *host_attr_read(const struct host *h, const char *path)
{
	char line[LINE_MAX_BYTES];

	return file_read_line(&h->root, path, line, sizeof(line), NULL) < 0 ? NULL : xstrdup(line);
}

/* --- rows --- */

void host_rows_add(struct host_rows *r, const char *subject, const char *property, const char *fmt,
		   ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, ROW_MAX);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	VEC_PUSH(r->v, r->n) = (struct host_row){.kind = r->kind,
						 .subject = xstrdup(subject),
						 .property = xstrdup(property),
						 .value = buf_take(&b)};
}

void host_rows_done(struct host_rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].subject);
		free(r->v[i].property);
		free(r->v[i].value);
	}
	free(r->v);
	*r = (struct host_rows){0};
}
