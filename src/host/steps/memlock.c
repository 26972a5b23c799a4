/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/steps.h"

/*
 * The limit of locked memory of containers, for processes that are not root and so cannot use
 * CAP_IPC_LOCK. For containerd it is set in a drop-in of its unit (a container inherits this limit
 * if its runtime has no base_runtime_spec) and in the rlimits of the base_runtime_spec files that
 * containerd's configuration names; for CRI-O in default_ulimits. Running containers keep their
 * limit; a remark of the plan lists processes of pods whose limit is lower.
 */

#define DROPIN	   "/etc/systemd/system/containerd.service.d/90-unirail-memlock.conf"
#define CRIO_CONF  "/etc/crio/crio.conf.d/90-unirail-memlock.conf"
#define CONTAINERD "/etc/containerd/config.toml"

enum { SPECS_MAX = 8, TEXT_MAX = 1 << 20, LIMITS_MAX = 8192, CGROUP_MAX = 4096, NAMES_MAX = 8 };

struct want {
	struct host_want head;
	const char *limit;
};

static const struct opt keys[] = {
	{"limit", 0, OPT_STR, "BYTES", "unlimited or a number of bytes",
	 offsetof(struct want, limit), 0, 0},
	{0},
};

struct found {
	bool containerd, crio;
	struct host_file dropin, conf, specs[SPECS_MAX];
	size_t n_specs;
	char *old; /* "PID (NAME)" of processes of pods whose limit is lower, at most NAMES_MAX */
	size_t n_old; /* number of all these processes */
};

/* Parses "unlimited" or "infinity", both UINT64_MAX, or a number of bytes. */
static int limit_of(const char *text, uint64_t *ret)
{
	if (strcmp(text, "unlimited") == 0 || strcmp(text, "infinity") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	return num_u64(span_of(text), 1, UINT64_MAX - 1, ret);
}

static int check(void *want, struct err *e)
{
	const char *limit = ((struct want *)want)->limit;
	uint64_t n;

	if (!limit || limit_of(limit, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"limit is '%s', expected unlimited or a number of bytes",
				limit ? limit : "");
	return 0;
}

/* --- state of container runtimes and processes --- */

/* Reads the files that containerd's configuration names for its runtimes, by lines such as
 * `base_runtime_spec = "/etc/containerd/cri-base.json"`; at most SPECS_MAX. */
static int read_specs(const struct host *h, struct found *f, struct err *e)
{
	static const char key[] = "base_runtime_spec";
	struct host_file conf = {0};
	int r = host_file_read(h, CONTAINERD, &conf, e);
	struct span rest = span_of(conf.text), line, path;

	while (r >= 0 && conf.text && f->n_specs < SPECS_MAX && span_cut(&rest, '\n', &line)) {
		auto_free char *name = NULL;

		line = span_trim(line);
		if (!span_has_prefix(line, key) || !memchr(line.p, '=', line.n))
			continue;
		span_cut(&line, '=', &path);
		path = span_trim(line);
		if (path.n < 3 || (path.p[0] != '"' && path.p[0] != '\''))
			continue;
		name = span_dup((struct span){path.p + 1, path.n - 2});
		if (name[0] == '/')
			r = host_file_read(h, name, &f->specs[f->n_specs++], e);
	}
	host_file_done(&conf);
	return r;
}

/* Sets *ret to the soft limit in the line "Max locked memory", in bytes; returns a negative number
 * if it is unknown. */
static int memlock_of(const struct host *h, const char *pid, uint64_t *ret)
{
	auto_free char *path = xasprintf("/proc/%s/limits", pid);
	static const char head[] = "Max locked memory";
	auto_buf struct buf b;
	struct span rest, line, word;

	buf_init(&b, LIMITS_MAX);
	if (file_read(&h->root, path, LIMITS_MAX, &b, NULL) < 0)
		return -1;
	rest = buf_span(&b);
	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = NULL;

		if (!span_has_prefix(line, head))
			continue;
		line = span_trim(
			(struct span){line.p + sizeof(head) - 1, line.n - (sizeof(head) - 1)});
		if (!span_cut(&line, ' ', &word))
			return -1;
		text = span_dup(word);
		return limit_of(text, ret);
	}
	return -1;
}

static bool is_pods(const struct host *h, const char *pid)
{
	auto_free char *path = xasprintf("/proc/%s/cgroup", pid);
	auto_buf struct buf b;

	buf_init(&b, CGROUP_MAX);
	return file_read(&h->root, path, CGROUP_MAX, &b, NULL) >= 0 && b.len &&
	       strstr(b.p, "kubepods");
}

static void read_processes(const struct host *h, uint64_t limit, struct found *f)
{
	char **names = NULL;
	struct buf b;
	size_t n = 0;

	buf_init(&b, CGROUP_MAX);
	if (dir_list(&h->root, "/proc", &names, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("/proc/%s/comm", names[i]), *comm = NULL;
		uint64_t pid, has;

		if (num_u64(span_of(names[i]), 1, UINT32_MAX, &pid) < 0 || !is_pods(h, names[i]) ||
		    memlock_of(h, names[i], &has) < 0 || has >= limit)
			continue;
		comm = host_attr_read(h, path);
		if (f->n_old++ < NAMES_MAX)
			buf_printf(&b, "%s%s (%s)", f->n_old > 1 ? ", " : "", names[i],
				   comm ? comm : "?");
	}
	str_list_free(names, n);
	f->old = buf_take(&b);
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));
	uint64_t limit = UINT64_MAX;
	int r;

	*found = f;
	f->containerd = file_exists(&h->root, "/etc/containerd") ||
			file_exists(&h->root, "/lib/systemd/system/containerd.service");
	f->crio = file_exists(&h->root, "/etc/crio");
	r = host_file_read(h, DROPIN, &f->dropin, e);
	if (r >= 0)
		r = host_file_read(h, CRIO_CONF, &f->conf, e);
	if (r >= 0)
		r = read_specs(h, f, e);
	if (w->n)
		(void)limit_of(((const struct want *)w->v[0])->limit, &limit);
	read_processes(h, limit, f);
	return r;
}

static void forget(void *found)
{
	struct found *f = found;

	if (!f)
		return;
	host_file_done(&f->dropin);
	host_file_done(&f->conf);
	for (size_t i = 0; i < f->n_specs; i++)
		host_file_done(&f->specs[i]);
	free(f->old);
	free(f);
}

/* --- plan of the files with the limit --- */

static void write_limit(struct json_out *o, uint64_t limit)
{
	jo_obj(o);
	jo_kstr(o, "type", "RLIMIT_MEMLOCK");
	jo_kuint(o, "hard", limit);
	jo_kuint(o, "soft", limit);
	jo_end_obj(o);
}

static void write_limits(struct json_out *o, const struct json *old, uint64_t limit)
{
	jo_arr(o);
	for (size_t i = 0; i < json_len(old); i++) {
		const struct json *one = json_at(old, i);
		const char *type = json_string(json_get(one, "type"));

		if (!type || strcmp(type, "RLIMIT_MEMLOCK") != 0)
			jo_val(o, one, false);
	}
	write_limit(o, limit);
	jo_end_arr(o);
}

/* Copies the object `process`, except for its member `rlimits`, which write_limits() writes. */
static void write_process(struct json_out *o, const struct json *process, uint64_t limit)
{
	struct json_walk w = json_walk_start(process);
	const struct json *one;
	const char *key;

	jo_obj(o);
	while ((one = json_walk_next(&w, &key))) {
		if (strcmp(key, "rlimits") == 0)
			continue;
		jo_key(o, key);
		jo_val(o, one, false);
	}
	jo_key(o, "rlimits");
	write_limits(o, json_get(process, "rlimits"), limit);
	jo_end_obj(o);
}

static bool has_limit(const struct json *spec, uint64_t limit)
{
	const struct json *all = json_get(json_get(spec, "process"), "rlimits");
	auto_free char *wanted = xasprintf("%llu", (unsigned long long)limit);

	for (size_t i = 0; i < json_len(all); i++) {
		const struct json *one = json_at(all, i);
		const char *type = json_string(json_get(one, "type"));
		auto_buf struct buf b;
		struct json_out o;

		buf_init(&b, 256);
		if (!type || strcmp(type, "RLIMIT_MEMLOCK") != 0)
			continue;
		jo_init(&o, &b, 0);
		jo_val(&o, json_get(one, "soft"), false);
		return b.len && strcmp(b.p, wanted) == 0;
	}
	return false;
}

static int plan_spec(const struct host_file *file, uint64_t limit, struct host_plan *p,
		     struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct json_walk w;
	struct json_out o;
	const struct json *one;
	const char *key;
	auto_buf struct buf b;
	int r;

	buf_init(&b, TEXT_MAX);
	if (!file->text)
		return err_kind(
			e, ERR_CONF, -ENOENT,
			"base_runtime_spec '%s' does not exist; make it with 'ctr oci spec >%s'",
			file->path, file->path);
	r = json_parse(&doc, span_of(file->text), TEXT_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "base_runtime_spec '%s'", file->path);
	if (has_limit(json_root(doc), limit))
		return 0;
	jo_init(&o, &b, 4);
	jo_obj(&o);
	w = json_walk_start(json_root(doc));
	while ((one = json_walk_next(&w, &key))) {
		jo_key(&o, key);
		if (strcmp(key, "process") == 0)
			write_process(&o, one, limit);
		else
			jo_val(&o, one, false);
	}
	jo_end_obj(&o);
	buf_char(&b, '\n');
	host_plan_file(p, "memlock", "containerd", file, b.p, file->mode);
	return 0;
}

static void remark_restart(struct host_plan *p, const char *runtime)
{
	host_plan_remark(p, "memlock", runtime,
			 "the limit applies to new containers after 'systemctl daemon-reload && "
			 "systemctl restart %s'",
			 runtime);
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	const char *limit = w->n ? ((const struct want *)w->v[0])->limit : NULL;
	auto_free char *dropin = NULL, *conf = NULL, *number = NULL;
	uint64_t n = UINT64_MAX;
	size_t before = p->n;
	int r = 0;

	if (!limit)
		return 0;
	if (!f->containerd && !f->crio)
		return err_kind(e, ERR_CONF, -ENOENT,
				"neither containerd nor CRI-O is on this host");
	(void)limit_of(limit, &n);
	number = xasprintf("%llu", (unsigned long long)n);
	dropin = xasprintf("# written by 'unirail host memlock'\n[Service]\nLimitMEMLOCK=%s\n",
			   n == UINT64_MAX ? "infinity" : number);
	conf = xasprintf(
		"# written by 'unirail host memlock'\n[crio.runtime]\ndefault_ulimits = [\"memlock=%s:%s\"]\n",
		n == UINT64_MAX ? "-1" : number, n == UINT64_MAX ? "-1" : number);
	if (f->containerd)
		host_plan_file(p, "memlock", "containerd", &f->dropin, dropin, 0644);
	for (size_t i = 0; i < f->n_specs && r >= 0; i++)
		r = plan_spec(&f->specs[i], n, p, e);
	if (p->n > before)
		remark_restart(p, "containerd");
	before = p->n;
	if (f->crio)
		host_plan_file(p, "memlock", "crio", &f->conf, conf, 0644);
	if (p->n > before)
		remark_restart(p, "crio");
	if (r >= 0 && f->n_old)
		host_plan_remark(
			p, "memlock", "host",
			"%zu processes of pods have a lower limit until their pods are recreated: %s%s",
			f->n_old, f->old, f->n_old > NAMES_MAX ? ", ..." : "");
	return r;
}

static void show(const void *found, struct host_rows *rows)
{
	const struct found *f = found;

	host_rows_add(rows, "host", "runtimes", "%s%s", f->containerd ? "containerd " : "",
		      f->crio ? "crio" : "");
	host_rows_add(rows, "host", "processes of pods with a lower limit", "%zu", f->n_old);
}

const struct host_kind host_memlock = {
	.name = "memlock",
	.section = "memlock",
	.help = "limit of locked memory of containers, also for users other than root",
	.keys = keys,
	.size = sizeof(struct want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.show = show,
};
