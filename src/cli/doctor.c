/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "doctor/snapshot.h"
#include "doctor/tree.h"
#include "ipam/ipam.h"
#include "wire/json/json.h"

/* `unirail doctor`: options, where the facts come from, and printing. */

enum { OUT_MAX = 16 << 20, OPEN_MAX = 16 };

struct doctor_opts {
	const char *snapshot, *root, *unpack, *output;
	const char *cni_bin, *cni_conf, *pool_dir, *state_dir;
	bool list;
};

#define AT(field) offsetof(struct doctor_opts, field), 0, 0
static const struct opt opts[] = {
	{"snapshot", 's', OPT_STR, "FILE", "write a snapshot of this host for a bug report to FILE",
	 AT(snapshot)},
	{"root", 0, OPT_STR, "DIR|FILE",
	 "read a snapshot, packed or unpacked, instead of this host", AT(root)},
	{"unpack", 0, OPT_STR, "DIR",
	 "unpack the snapshot of --root into DIR, which other tools take as --root", AT(unpack)},
	{"list", 'l', OPT_FLAG, NULL, "print the name of each check and what it verifies",
	 AT(list)},
	{"cni-bin", 0, OPT_STR, "DIR", "directory of CNI plugins (/opt/cni/bin)", AT(cni_bin)},
	{"cni-conf", 0, OPT_STR, "DIR", "directory of CNI configurations (/etc/cni/net.d)",
	 AT(cni_conf)},
	{"pool-dir", 0, OPT_STR, "DIR", "directory of pools (" IPAM_POOL_DIR ")", AT(pool_dir)},
	{"state-dir", 0, OPT_STR, "DIR", "directory of the journal (" IPAM_STATE_DIR ")",
	 AT(state_dir)},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)},
	{0}};

const struct cmd doctor_cmds[] = {{NULL, NULL, "diagnose problems of this host", opts, 0, 0}, {0}};

/* --- snapshot --- */

static void put_about(struct buf *b)
{
	auto_free char *text =
		xasprintf("snapshot of a host by unirail %s, %lld s since the epoch; "
			  "'unirail doctor --root FILE' reads it",
			  unirail_version(), (long long)(now_real_ms() / 1000));

	tree_put_comment(b, text);
	tree_put_file(b, HOST_ABOUT, span_of(text));
}

/* What cannot be read is worth a line in a bug report, no failure of it. */
static void picture(const struct root *root, struct buf *b, struct snapshot *s)
{
	auto_host_facts struct host_facts f = {0};
	const struct host_source src = {.root = root, .record = b};
	struct err e = ERR_INIT;

	put_about(b);
	if (host_facts_read(&f, &src, &e) < 0)
		tree_put_comment(b, e.text);
	*s = (struct snapshot){.root = root, .out = b};
	snapshot_take(s);
}

static int write_snapshot(const struct root *root, const char *file, struct err *e)
{
	auto_free char *path = path_absolute(file);
	auto_buf struct buf b = {0};
	struct snapshot s;
	int r;

	buf_init(&b, SNAPSHOT_MAX);
	picture(root, &b, &s);
	if (b.over)
		return err_set(e, -EFBIG, "take a snapshot: it is larger than %d MiB",
			       SNAPSHOT_MAX >> 20);
	r = file_replace(root, path, buf_span(&b), 0600, e);
	if (r < 0)
		return err_wrap(e, r, "write snapshot");
	printf("%s: %zu files and netlink's answers in %zu KiB; secrets are left out, names and "
	       "addresses of this host are in it\n",
	       file, s.n_files, b.len >> 10);
	return 0;
}

/* --- another host's root --- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	remove(path);
	return 0;
}

static int unpack(const char *file, const char *dir, struct err *e)
{
	auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
	auto_buf struct buf b = {0};
	struct root into;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "open snapshot '%s'", file);
	buf_init(&b, TREE_TEXT_MAX);
	r = fd_read_all(fd, TREE_TEXT_MAX, &b, e);
	if (r == 0)
		r = root_open(&into, dir, e);
	if (r < 0)
		return err_wrap(e, r, "read snapshot '%s'", file);
	r = tree_unpack(&into, buf_span(&b), file, e);
	root_close(&into);
	return r;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int check_words(const struct doctor_opts *o, struct err *e)
{
	if (o->snapshot && o->root)
		return err_set(e, -EINVAL, "--snapshot is of this host: not with --root");
	if (o->unpack && (!o->root || is_folder(o->root)))
		return err_set(e, -EINVAL, "--unpack wants a snapshot's file in --root");
	return 0;
}

static int unpack_for_user(const struct doctor_opts *o, struct err *e)
{
	int r;

	if (mkdir(o->unpack, 0755) < 0)
		return err_sys(e, -errno, "make folder '%s'", o->unpack);
	r = unpack(o->root, o->unpack, e);
	if (r == 0)
		printf("%s: take it as --root of any command\n", o->unpack);
	return r;
}

/* --- checks --- */

static int put_findings(const struct doctor_opts *o, const struct host_facts *f,
			const struct findings *l)
{
	auto_buf struct buf b = {0};

	if (strcmp(o->output, "json")) {
		doctor_show_text(f, l, stdout);
	} else {
		buf_init(&b, OUT_MAX);
		doctor_show_json(f, l, &b);
		opt_print(&b);
	}
	return findings_count(l, FINDING_PROBLEM) ? 1 : 0;
}

static int check(const struct doctor_opts *o, const struct root *root, const char *dir,
		 struct err *e)
{
	auto_host_facts struct host_facts f = {0};
	auto_findings struct findings found = {0};
	const struct host_source src = {.root = root, .dir = dir};
	struct doctor d = {.f = &f,
			   .cni_bin = o->cni_bin,
			   .cni_conf = o->cni_conf,
			   .pool_dir = o->pool_dir,
			   .state_dir = o->state_dir,
			   .out = &found};
	int r = host_facts_read(&f, &src, e);

	if (r < 0)
		return r;
	doctor_run(&d);
	return put_findings(o, &f, &found);
}

static int check_packed(const struct doctor_opts *o, struct err *e)
{
	char dir[] = "/tmp/unirail-doctor.XXXXXX";
	struct root root;
	int r;

	if (!mkdtemp(dir))
		return err_sys(e, -errno, "make a folder in /tmp");
	r = unpack(o->root, dir, e);
	if (r == 0)
		r = root_open(&root, dir, e);
	if (r == 0) {
		r = check(o, &root, dir, e);
		root_close(&root);
	}
	nftw(dir, remove_one, OPEN_MAX, FTW_DEPTH | FTW_PHYS);
	return r;
}

static int list_checks(const struct doctor_opts *o)
{
	auto_buf struct buf b = {0};

	if (strcmp(o->output, "json")) {
		doctor_list_text(stdout);
		return 0;
	}
	buf_init(&b, OUT_MAX);
	doctor_list_json(&b);
	return opt_print(&b);
}

static int run(const struct doctor_opts *o, struct err *e)
{
	struct root root;
	int r;

	if (o->list)
		return list_checks(o);
	if (o->unpack)
		return unpack_for_user(o, e);
	if (o->root && !is_folder(o->root))
		return check_packed(o, e);
	r = root_open(&root, o->root, e);
	if (r < 0)
		return r;
	r = o->snapshot ? write_snapshot(&root, o->snapshot, e)
			: check(o, &root, root.host ? NULL : o->root, e);
	root_close(&root);
	return r;
}

int doctor_main(int argc, char **argv)
{
	struct doctor_opts o = {.output = "text",
				.cni_bin = "/opt/cni/bin",
				.cni_conf = "/etc/cni/net.d",
				.pool_dir = IPAM_POOL_DIR,
				.state_dir = IPAM_STATE_DIR};
	struct err e = ERR_INIT;
	int r = opt_parse(doctor_cmds, "unirail doctor", argc - 1, argv + 1, &o, &e);

	if (r >= 0)
		r = check_words(&o, &e);
	if (r < 0)
		return opt_exit("unirail doctor", r, &e);
	r = run(&o, &e);
	if (r >= 0)
		return r;
	fprintf(stderr, "unirail doctor: %s\n", e.text);
	return 1;
}

static const char *level_name(enum finding_level l)
{
	return l == FINDING_PROBLEM ? "problem" : l == FINDING_NOTE ? "note" : "skipped";
}

static void count_functions(const struct host_facts *f, size_t *pfs, size_t *vfs)
{
	*pfs = *vfs = 0;
	for (size_t i = 0; i < f->n_pci; i++) {
		bool network = f->pci[i].class >> 16 == 0x02;

		*pfs += network && f->pci[i].is_pf;
		*vfs += network && f->pci[i].physfn[0];
	}
}

static size_t count_checks(void)
{
	size_t n = 0;

	while (doctor_checks[n].name)
		n++;
	return n;
}

static const char *mode_name(const struct host_facts *f)
{
	if (!f->has_rdma)
		return NULL;
	return f->mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";
}

static void put_kernel(const struct host_facts *f, char *ret, size_t size)
{
	if (file_read_line(f->root, "/proc/sys/kernel/osrelease", ret, size, NULL) < 0)
		str_copy(ret, size, "unknown");
}

static void put_level(const struct findings *l, enum finding_level level, FILE *out)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].level == level)
			fprintf(out, "%-7s  %s: %s: %s\n", level_name(level), l->v[i].where,
				l->v[i].what, l->v[i].remedy);
}

void doctor_show_text(const struct host_facts *f, const struct findings *l, FILE *out)
{
	size_t skipped = findings_count(l, FINDING_SKIPPED);
	size_t pfs, vfs;
	char kernel[128];

	count_functions(f, &pfs, &vfs);
	put_kernel(f, kernel, sizeof(kernel));
	fprintf(out, "kernel %s; ", kernel);
	if (f->has_rdma)
		fprintf(out, "RDMA devices: %zu (%s mode)", f->n_rdma, mode_name(f));
	else
		fputs("no RDMA", out);
	fprintf(out, "; PFs: %zu, VFs: %zu; links: %zu\n", pfs, vfs, f->n_links);
	put_level(l, FINDING_PROBLEM, out);
	put_level(l, FINDING_NOTE, out);
	put_level(l, FINDING_SKIPPED, out);
	fprintf(out, "%zu checks: %zu problems, %zu notes", count_checks(),
		findings_count(l, FINDING_PROBLEM), findings_count(l, FINDING_NOTE));
	if (skipped)
		fprintf(out, ", %zu skipped", skipped);
	fputc('\n', out);
}

void doctor_show_json(const struct host_facts *f, const struct findings *l, struct buf *b)
{
	size_t pfs, vfs;
	struct json_out o;
	char kernel[128];

	count_functions(f, &pfs, &vfs);
	put_kernel(f, kernel, sizeof(kernel));
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", !findings_count(l, FINDING_PROBLEM));
	jo_kstr(&o, "kernel", kernel);
	jo_kstr(&o, "rdmaMode", mode_name(f));
	jo_kint(&o, "rdmaDevices", (int64_t)f->n_rdma);
	jo_kint(&o, "pfs", (int64_t)pfs);
	jo_kint(&o, "vfs", (int64_t)vfs);
	jo_key(&o, "findings");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "check", l->v[i].check);
		jo_kstr(&o, "level", level_name(l->v[i].level));
		jo_kstr(&o, "where", l->v[i].where);
		jo_kstr(&o, "what", l->v[i].what);
		jo_kstr(&o, "remedy", l->v[i].remedy);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

void doctor_list_text(FILE *out)
{
	for (const struct doctor_check *c = doctor_checks; c->name; c++)
		fprintf(out, "%-13s  %s\n", c->name, c->about);
}

void doctor_list_json(struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		jo_obj(&o);
		jo_kstr(&o, "check", c->name);
		jo_kstr(&o, "about", c->about);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	buf_char(b, '\n');
}
