/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/blocks/cni_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "wire/json/json.h"
#include "wire/tls/base64.h"

void cni_cache_done(struct cni_cache *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].file);
		free(c->v[i].ns);
		free(c->v[i].pod);
		free(c->v[i].uid);
		free(c->v[i].ifname);
	}
	free(c->v);
	*c = (struct cni_cache){0};
}

/* --- reading one file --- */

struct result_file {
	const char *file, *ns, *pod, *uid, *ifname;
	bool allocated;
};

/* args: the array cniArgs of the file, [["K8S_POD_NAME", "pod"], ...] */
static void read_args(struct result_file *f, const struct json *args)
{
	const struct {
		const char *name, **value;
	} v[] = {
		{"K8S_POD_NAMESPACE", &f->ns}, {"K8S_POD_NAME", &f->pod}, {"K8S_POD_UID", &f->uid}};
	struct json_walk w = json_walk_start(json_kind(args) == JSON_ARRAY ? args : NULL);
	const struct json *pair;

	while ((pair = json_walk_next(&w, NULL))) {
		bool whole = json_kind(pair) == JSON_ARRAY && json_len(pair) == 2;
		const char *name = whole ? json_string(json_at(pair, 0)) : NULL;

		for (size_t i = 0; name && i < ARRAY_LEN(v); i++)
			if (strcmp(name, v[i].name) == 0)
				*v[i].value = json_string(json_at(pair, 1));
	}
}

struct ipam_types {
	bool spiderpool, other;
};

static void add_type(struct ipam_types *t, const char *type)
{
	if (!type || !*type)
		return;
	if (strcmp(type, "spiderpool") == 0)
		t->spiderpool = true;
	else
		t->other = true;
}

/* Collects the IPAM types of all plugins at any depth, because the configuration of unirail-cni
 * contains the configurations of its networks. The parser limits the depth. */
static void find_types(struct ipam_types *t, const struct json *v)
{
	struct json_walk w;
	const struct json *member;
	const char *key = NULL;

	if (json_kind(v) != JSON_OBJECT && json_kind(v) != JSON_ARRAY)
		return;
	add_type(t, json_string(json_get_go(json_get_go(v, "ipam"), "type")));
	w = json_walk_start(v);
	while ((member = json_walk_next(&w, &key)))
		find_types(t, member);
}

static bool is_allocated(const char *config)
{
	auto_json struct json_doc *doc = NULL;
	auto_free char *text = NULL;
	struct ipam_types t = {0};

	if (!config || base64_decode(span_of(config), &text) < 0 ||
	    json_parse(&doc, span_of(text), CNI_CACHE_FILE_MAX, NULL) < 0)
		return false;
	find_types(&t, json_root(doc));
	return t.spiderpool && !t.other;
}

static int add(struct cni_cache *c, const struct result_file *f, const struct json *v,
	       struct err *e)
{
	const char *text = json_string(v);
	struct ipnet net;

	if (!text)
		return json_wants(v, "an address of the result", "a string", e);
	if (ipnet_parse_loose(span_of(text), &net) < 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "'%.60s' is not an address", text);
	if (c->n >= CNI_CACHE_ADDRESSES_MAX)
		return err_set(e, -E2BIG,
			       "the CNI result cache has more than %d addresses, "
			       "counted up to this file",
			       CNI_CACHE_ADDRESSES_MAX);
	VEC_PUSH(c->v, c->n) = (struct cni_cached){
		.file = xstrdup(f->file),
		.ns = xstrdup(f->ns ? f->ns : ""),
		.pod = xstrdup(f->pod ? f->pod : ""),
		.uid = xstrdup(f->uid ? f->uid : ""),
		.ifname = xstrdup(f->ifname ? f->ifname : ""),
		.ip = net.ip,
		.allocated = f->allocated,
	};
	return 0;
}

/* Results have "ips" since CNI 0.3.0, and "ip4" and "ip6" before. */
static int read_result(struct cni_cache *c, const struct result_file *f, const struct json *result,
		       struct err *e)
{
	static const char *const old[] = {"ip4", "ip6"};
	const struct json *ips = json_get(result, "ips"), *v;
	struct json_walk w;
	int r = 0;

	if (json_kind(ips) != JSON_NULL && json_kind(ips) != JSON_ARRAY)
		return json_wants(ips, "ips of the result", "an array", e);
	w = json_walk_start(ips);
	while (r == 0 && (v = json_walk_next(&w, NULL)))
		r = add(c, f, json_get(v, "address"), e);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(old); i++) {
		v = json_get(result, old[i]);
		if (json_kind(v) != JSON_NULL)
			r = add(c, f, json_get(v, "ip"), e);
	}
	return r;
}

int cni_cache_parse(struct cni_cache *ret, const char *file, struct span text, struct err *e)
{
	struct result_file f = {.file = file};
	auto_json struct json_doc *doc = NULL;
	const struct json *root;
	int r = json_parse(&doc, text, CNI_CACHE_FILE_MAX, e);

	if (r < 0)
		return r;
	root = json_root(doc);
	if (json_kind(root) != JSON_OBJECT)
		return json_wants(root, "the file", "an object", e);
	/* libcni 0.7 writes the result without the cache's envelope */
	if (json_kind(json_get(root, "kind")) == JSON_NULL)
		return read_result(ret, &f, root, e);
	f.ifname = json_string(json_get(root, "ifName"));
	f.allocated = is_allocated(json_string(json_get(root, "config")));
	read_args(&f, json_get(root, "cniArgs"));
	r = read_result(ret, &f, json_get(root, "result"), e);
	if (r == 0)
		r = read_result(ret, &f, json_get(json_get(root, "unirailResult"), "result"), e);
	return r;
}

/* --- reading one directory --- */

static bool is_roots(const struct stat *st)
{
	return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Returns 1 if the file does not exist any more. */
static int read_file(int dir, const char *name, size_t max, struct buf *into, struct err *e)
{
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, -errno, "open");
	if (!S_ISREG(st.st_mode) || !is_roots(&st))
		return err_set(e, -EPERM,
			       "expected a regular file that only root can write (chown root, "
			       "chmod go-w)");
	return fd_read_all(fd, max, into, e);
}

static int read_one(struct cni_cache *c, int dir_fd, const char *dir, const char *name,
		    size_t *left, struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	size_t max = *left < CNI_CACHE_FILE_MAX ? *left : CNI_CACHE_FILE_MAX;
	auto_buf struct buf text;
	int r;

	buf_init(&text, max + 1);
	r = read_file(dir_fd, name, max, &text, e);
	if (r == 0)
		r = cni_cache_parse(c, path, buf_span(&text), e);
	*left -= text.len < *left ? text.len : *left;
	return r < 0 ? err_wrap(e, r, "file '%s'", path) : 0;
}

static int open_dir(const struct root *r, const char *path, struct err *e)
{
	auto_fd int fd = file_open(r, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "stat '%s'", path);
	if (!is_roots(&st))
		return err_set(
			e, -EPERM,
			"directory '%s' is writable by users other than root (chown root, chmod "
			"go-w)",
			path);
	return take_fd(&fd);
}

static int read_dir(struct cni_cache *c, const struct root *r, const char *path, size_t *left,
		    struct err *e)
{
	auto_fd int fd = open_dir(r, path, e);
	char **names = NULL;
	size_t n = 0;
	int code;

	if (fd == -ENOENT) {
		err_clear(e);
		return 0;
	}
	c->n_dirs += fd >= 0;
	code = fd < 0 ? fd : dir_list(r, path, &names, &n, e);
	if (code == 0 && n > CNI_CACHE_FILES_MAX)
		code = err_set(e, -E2BIG, "directory '%s' has %zu files, the limit is %d", path, n,
			       CNI_CACHE_FILES_MAX);
	for (size_t i = 0; code == 0 && i < n; i++)
		if (*names[i] != '.')
			code = read_one(c, fd, path, names[i], left, e);
	str_list_free(names, n);
	return code;
}

/* --- all files of both directories --- */

static int compare(const struct cni_cached *x, const char *ns, const char *pod)
{
	int order = strcmp(x->ns, ns);

	return order ? order : strcmp(x->pod, pod);
}

static int by_pod(const void *a, const void *b)
{
	const struct cni_cached *y = b;

	return compare(a, y->ns, y->pod);
}

size_t cni_cache_find(const struct cni_cache *c, const char *ns, const char *pod)
{
	size_t low = LOWER_BOUND(i, c->n, compare(&c->v[i], ns, pod) < 0);

	return low < c->n && compare(&c->v[low], ns, pod) == 0 ? low : c->n;
}

int cni_cache_read(struct cni_cache *ret, const struct root *r, const char *dir, struct err *e)
{
	static const char *const dirs[] = {"/results", "/multus/results"};
	struct cni_cache c = {0};
	size_t left = CNI_CACHE_TOTAL_MAX;
	int code = 0;

	for (size_t i = 0; code == 0 && i < ARRAY_LEN(dirs); i++) {
		auto_free char *path = xasprintf("%s%s", dir, dirs[i]);

		code = read_dir(&c, r, path, &left, e);
	}
	if (code < 0) {
		cni_cache_done(&c);
		return code;
	}
	if (c.n > 1)
		qsort(c.v, c.n, sizeof(*c.v), by_pod);
	*ret = c;
	return 0;
}
