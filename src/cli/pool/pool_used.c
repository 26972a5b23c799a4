/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pool/pool_used.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"
#include "wire/json/json.h"

enum { FILE_MAX = 1 << 20 };

static const char *keep(struct pool_found *f, const char *s)
{
	return VEC_PUSH(f->texts, f->n_texts) = xstrdup(s ? s : "");
}

void pool_found_done(struct pool_found *f)
{
	str_list_free(f->texts, f->n_texts);
	free(f->v);
	*f = (struct pool_found){0};
}

static bool is_of_a_pod(const struct ipaddr *a)
{
	bool loopback = a->family == 4 ? a->b[0] == 127 : false;
	bool link = a->family == 4 ? a->b[0] == 169 && a->b[1] == 254
				   : a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;

	return !loopback && !link;
}

/* --- libcni's cache --- */

/* Adds one entry of the list `ips` of a cached result to f. Results of CNI versions before 0.3.0
 * have `ip4` and `ip6` instead of this list and are ignored. */
static void read_ip(struct pool_found *f, const struct json *file, const struct json *ip,
		    const struct json *ifaces)
{
	const char *address = json_string(json_get(ip, "address"));
	const char *ifname = json_string(json_get(file, "ifName")), *sandbox = NULL;
	struct ipnet net;
	int64_t at;

	if (!address || ipnet_parse(span_of(address), &net) < 0 || !is_of_a_pod(&net.ip))
		return;
	if (json_int(json_get(ip, "interface"), &at) == 0 && at >= 0 &&
	    (size_t)at < json_len(ifaces)) {
		const struct json *iface = json_at(ifaces, (size_t)at);
		const char *name = json_string(json_get(iface, "name"));

		sandbox = json_string(json_get(iface, "sandbox"));
		ifname = name ? name : ifname;
	}
	VEC_PUSH(f->v, f->n) = (struct ipam_known){
		.address = net,
		.owner = {.container_id = keep(f, json_string(json_get(file, "containerId"))),
			  .ifname = keep(f, ifname),
			  .netns = keep(f, sandbox),
			  .network = keep(f, json_string(json_get(file, "networkName")))},
	};
}

/* Adds the addresses in one file of libcni's cache to f. */
static int pool_found_read(struct pool_found *f, struct span text, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *file, *ip;
	struct json_walk w;
	int r = json_parse(&doc, text, FILE_MAX, e);

	if (r < 0)
		return r;
	file = json_root(doc);
	w = json_walk_start(json_get(json_get(file, "result"), "ips"));
	while ((ip = json_walk_next(&w, NULL)))
		read_ip(f, file, ip, json_get(json_get(file, "result"), "interfaces"));
	return 0;
}

static void read_cache(struct pool_found *f, const struct root *r, const char *dir,
		       struct buf *messages)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(r, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);
		struct err e = ERR_INIT;
		auto_buf struct buf text;
		struct stat st;
		int code;

		/* opening a FIFO would block */
		if (file_lstat(r, path, &st, NULL) < 0 || !S_ISREG(st.st_mode))
			continue;
		buf_init(&text, FILE_MAX + 1);
		code = file_read(r, path, FILE_MAX, &text, &e);
		if (code == 0)
			code = pool_found_read(f, buf_span(&text), &e);
		if (code < 0)
			buf_printf(messages, "'%s' cannot be read: %s\n", path, e.text);
	}
	str_list_free(names, n);
}

/* --- network namespaces --- */

struct seen {
	dev_t dev;
	ino_t ino;
};

struct spaces {
	struct pool_found *f;
	struct buf *messages;
	/* namespaces to skip: those already inspected, and that of this process */
	struct seen *v;
	size_t n;
};

static bool is_new(struct spaces *x, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].dev == st.st_dev && x->v[i].ino == st.st_ino)
			return false;
	VEC_PUSH(x->v, x->n) = (struct seen){st.st_dev, st.st_ino};
	return true;
}

static int list_addresses(struct pool_found *f, int fd, const char *path, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	auto_free struct addr *v = NULL;
	size_t n = 0;
	int r = nl_open(&w, NL_ROUTE, fd, e);

	if (r == 0)
		r = addr_list(w, 0, 0, &v, &n, e);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct link l = {.name = ""};

		if (!is_of_a_pod(&v[i].net.ip))
			continue;
		(void)link_get_index(w, v[i].index, &l, NULL);
		VEC_PUSH(f->v, f->n) = (struct ipam_known){
			.address = v[i].net,
			.owner = {.container_id = "",
				  .ifname = keep(f, l.name),
				  .netns = keep(f, path)},
		};
	}
	return r;
}

static void inspect_netns(struct spaces *x, const char *path)
{
	struct err e = ERR_INIT;
	auto_fd int fd = -1;

	/* Skips the path if its process has ended, if the file is not a namespace, or if the
	 * namespace was already inspected or is that of this process. */
	if (netns_open(path, &fd, NULL) < 0 || !is_new(x, fd))
		return;
	x->f->netns++;
	if (list_addresses(x->f, fd, path, &e) < 0)
		buf_printf(x->messages, "addresses in '%s' cannot be read: %s\n", path, e.text);
}

static void inspect_netns_dir(struct spaces *x, const struct root *r, const char *dir,
			      const char *rest)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(r, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s%s", dir, names[i], rest);

		if (!*rest || (names[i][0] >= '0' && names[i][0] <= '9'))
			inspect_netns(x, path);
	}
	str_list_free(names, n);
}

void pool_find_used(struct pool_found *f, const struct root *r, struct buf *messages)
{
	struct spaces x = {.f = f, .messages = messages};
	int own;

	read_cache(f, r, PATH_CNI_CACHE "/results", messages);
	/* Multus' libcni caches its results here, and so does unirail-cni when it replaces
	 * Multus. */
	read_cache(f, r, PATH_MULTUS "/results", messages);
	/* Only a running host has network namespaces to inspect, a root of recorded files has
	 * none. */
	if (r->host && netns_current(&own, NULL) == 0) {
		(void)is_new(&x, own);
		close(own);
		inspect_netns_dir(&x, r, PATH_NETNS, "");
		inspect_netns_dir(&x, r, "/run/docker/netns", "");
		inspect_netns_dir(&x, r, "/proc", "/ns/net");
	}
	free(x.v);
	buf_printf(messages,
		   "%zu addresses found in libcni's cache and in %zu network namespaces\n", f->n,
		   f->netns);
}
