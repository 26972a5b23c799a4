/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/sys/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

enum {
	/* levels of directories to search: 4 that the kubelet may create
	 * (kubelet.slice/kubepods.slice/kubepods-burstable.slice/pod), and 2 in reserve */
	DEPTH_MAX = 6,
	/* further pods are ignored; a kubelet's limit is 110 by default, and rarely more than
	 * 500 */
	PODS_MAX = 4096,
	/* maximum size in bytes of rdma.max and rdma.current, which have one line per RDMA
	 * device */
	TEXT_MAX = 1 << 20
};

#define RDMA_V1 CGROUP_DIR "/rdma"

/* --- groups of pods --- */

static bool is_uid(const char *s, size_t n)
{
	static const char chars[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

	return n > 0 && n < CGROUP_UID_MAX && strspn(s, chars) >= n;
}

/* Reads the UID from "pod1f0c-..." or "kubepods-burstable-pod1f0c_....slice", in which the
 * kubelet has replaced '-' by '_'. */
static bool pod_of_name(const char *name, char ret[static CGROUP_UID_MAX])
{
	const char *slice = strstr(name, ".slice"), *at = strstr(name, "-pod");
	size_t n;

	if (strncmp(name, "pod", 3) == 0) {
		at = name + 3;
		n = strlen(at);
	} else if (at && slice && !slice[6] && at < slice) {
		at += 4;
		n = (size_t)(slice - at);
	} else {
		return false;
	}
	if (!is_uid(at, n))
		return false;
	memcpy(ret, at, n);
	ret[n] = '\0';
	for (char *c = ret; *c && slice; c++)
		if (*c == '_')
			*c = '-';
	return true;
}

static bool is_above_pods(const char *name)
{
	return strstr(name, "kube") || strcmp(name, "burstable") == 0 ||
	       strcmp(name, "besteffort") == 0;
}

/* Adds the groups of pods below `dir` to `ret`. Skips files: dir_list() fails for them. */
static void walk(const struct root *r, const char *dir, int depth, struct cgroup_pods *ret)
{
	char **names = NULL;
	size_t n = 0;

	if (depth == DEPTH_MAX || dir_list(r, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n && ret->n < PODS_MAX; i++) {
		struct cgroup_pod pod = {.path = xasprintf("%s/%s", dir, names[i])};

		if (pod_of_name(names[i], pod.uid)) {
			VEC_PUSH(ret->v, ret->n) = pod;
			continue;
		}
		/* on the first level, the directory may be the kubelet's cgroupRoot, which can have
		 * any name */
		if (depth == 0 || is_above_pods(names[i]))
			walk(r, pod.path, depth + 1, ret);
		free(pod.path);
	}
	str_list_free(names, n);
}

static int by_uid(const void *a, const void *b)
{
	return strcmp(((const struct cgroup_pod *)a)->uid, ((const struct cgroup_pod *)b)->uid);
}

int cgroup_pods_read(const struct root *r, const char *dir, struct cgroup_pods *ret, struct err *e)
{
	struct cgroup_pods p = {0};

	if (!file_exists(r, dir))
		return err_set(e, -ENOENT, "list the control groups of pods: '%s' does not exist",
			       dir);
	walk(r, dir, 0, &p);
	if (p.n)
		qsort(p.v, p.n, sizeof(*p.v), by_uid);
	*ret = p;
	return 0;
}

const struct cgroup_pod *cgroup_pods_find(const struct cgroup_pods *p, const char *uid)
{
	struct cgroup_pod key;

	str_copy(key.uid, sizeof(key.uid), uid);
	return p->n ? bsearch(&key, p->v, p->n, sizeof(key), by_uid) : NULL;
}

void cgroup_pods_done(struct cgroup_pods *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].path);
	free(p->v);
	*p = (struct cgroup_pods){0};
}

/* --- the controller "rdma" --- */

static bool has_word(const char *text, const char *word)
{
	struct span rest = span_of(text), w;

	while (span_cut(&rest, ' ', &w))
		if (span_eq(w, word))
			return true;
	return false;
}

int cgroup_rdma_dir(const struct root *r, const char **ret, struct err *e)
{
	char line[512] = "";

	if (file_exists(r, RDMA_V1 "/cgroup.procs")) {
		*ret = RDMA_V1;
		return 0;
	}
	if (file_read_line(r, CGROUP_DIR "/cgroup.controllers", line, sizeof(line), NULL) >= 0 &&
	    has_word(line, "rdma")) {
		*ret = CGROUP_DIR;
		return 0;
	}
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"the cgroup controller rdma is not mounted at '" RDMA_V1
			"' (cgroup v1) and not listed in '" CGROUP_DIR
			"/cgroup.controllers' (v2): use a kernel with CONFIG_CGROUP_RDMA, without "
			"cgroup_disable=rdma; with v1: mount -t cgroup -o rdma rdma " RDMA_V1);
}

/* Enables the controller in each group above `path`: in cgroup v2 a group has the files of a
 * controller only if cgroup.subtree_control of each group above enables it. */
static void enable(const struct root *r, const char *path)
{
	auto_free char *at = xstrdup(path);
	char *end = at + strlen(CGROUP_DIR);

	if (strncmp(path, CGROUP_DIR "/", strlen(CGROUP_DIR "/")) != 0 ||
	    strncmp(path, RDMA_V1 "/", strlen(RDMA_V1 "/")) == 0)
		return;
	for (; end; end = strchr(end + 1, '/')) {
		auto_free char *file = NULL;

		*end = '\0';
		file = xasprintf("%s/cgroup.subtree_control", at);
		file_write_attr(r, file, "+rdma", NULL);
		*end = '/';
	}
}

/* Parses "mlx5_0 hca_handle=2 hca_object=max". */
static bool parse_line(struct span line, const char *device, struct cgroup_rdma *ret)
{
	struct span word, key;

	if (!span_cut(&line, ' ', &word) || !span_eq(word, device))
		return false;
	*ret = (struct cgroup_rdma){CGROUP_RDMA_MAX, CGROUP_RDMA_MAX};
	while (span_cut(&line, ' ', &word)) {
		uint64_t n;

		if (!span_cut(&word, '=', &key) || !word.p ||
		    num_u64(word, 0, CGROUP_RDMA_MAX, &n) < 0)
			continue;
		if (span_eq(key, "hca_handle"))
			ret->handles = (uint32_t)n;
		if (span_eq(key, "hca_object"))
			ret->objects = (uint32_t)n;
	}
	return true;
}

static int read_device(const struct root *r, const char *file, const char *device,
		       struct cgroup_rdma *ret, struct err *e)
{
	auto_buf struct buf b;
	struct span rest, line;
	int code;

	buf_init(&b, TEXT_MAX);
	code = file_read(r, file, TEXT_MAX, &b, e);
	if (code < 0)
		return err_wrap(e, code, "read the limits or usage of RDMA device '%s'", device);
	rest = buf_span(&b);
	while (span_cut(&rest, '\n', &line))
		if (parse_line(line, device, ret))
			return 0;
	return err_set(e, -ENODEV, "'%s' has no RDMA device '%s'", file, device);
}

int cgroup_rdma_get(const struct root *r, const char *path, const char *device,
		    struct cgroup_rdma *ret, struct err *e)
{
	auto_free char *file = xasprintf("%s/rdma.max", path);

	if (!file_exists(r, file))
		enable(r, path);
	return read_device(r, file, device, ret, e);
}

int cgroup_rdma_usage(const struct root *r, const char *path, const char *device,
		      struct cgroup_rdma *ret, struct err *e)
{
	auto_free char *file = xasprintf("%s/rdma.current", path);

	return read_device(r, file, device, ret, e);
}

static void put_value(char ret[static 16], uint32_t n)
{
	snprintf(ret, 16, n >= CGROUP_RDMA_MAX ? "max" : "%u", n);
}

int cgroup_rdma_set(const struct root *r, const char *path, const char *device,
		    const struct cgroup_rdma *limit, struct err *e)
{
	auto_free char *file = xasprintf("%s/rdma.max", path), *text = NULL;
	char handles[16], objects[16];

	put_value(handles, limit->handles);
	put_value(objects, limit->objects);
	text = xasprintf("%s hca_handle=%s hca_object=%s", device, handles, objects);
	return file_write_attr(r, file, text, e);
}
