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
#include "base/paths.h"
#include "cli/cli.h"
#include "cli/doctor_fix.h"
#include "cli/doctor_node.h"
#include "cli/manifests.h"
#include "doctor/redact.h"
#include "doctor/snapshot.h"
#include "doctor/tree.h"
#include "doctor/would_run.h"
#include "host/dropin.h"
#include "ipam/ipam.h"
#include "wire/json/json.h"

/*
 * `unirail doctor`: options, sources of the facts (this host, a snapshot, the API server), and
 * output.
 */

enum { OUT_MAX = 16 << 20, NODE_MS = 20000, OPEN_MAX = 16 };

struct doctor_opts {
	const char *snapshot, *root, *unpack, *output;
	const char *cni_bin, *cni_conf, *pool_dir, *state_dir;
	const char *would_run, *with, *ns, *node_file;
	const char *node, *kubeconfig, *context;
	bool list, fix, dry_run;
};

#define AT(field) offsetof(struct doctor_opts, field), 0, 0
static const struct opt opts[] = {
	{"snapshot", 's', OPT_STR, "FILE", "write a snapshot of this host for a bug report to FILE",
	 AT(snapshot)},
	{"root", 0, OPT_STR, "DIR|FILE",
	 "read a snapshot, packed or unpacked, instead of this host", AT(root)},
	{"unpack", 0, OPT_STR, "DIR",
	 "unpack the snapshot of --root into DIR, which other commands accept as --root",
	 AT(unpack)},
	{"would-run", 0, OPT_STR, "FILE",
	 "list the errors that the pods of this manifest would have on this host; '-': standard "
	 "input",
	 AT(would_run)},
	{"with", 0, OPT_STR, "FILE,...",
	 "with --would-run: manifests of the networks, pools and namespaces that the pods refer to",
	 AT(with)},
	{"namespace", 'n', OPT_STR, "NS",
	 "with --would-run: namespace of pods whose manifest names none (default: 'default')",
	 AT(ns)},
	{"node-file", 0, OPT_STR, "FILE",
	 "this host's Node object (kubectl get node NAME -o json), for the checks that need it",
	 AT(node_file)},
	{"fix", 0, OPT_FLAG, NULL,
	 "show and carry out the steps of 'unirail host' that mend the findings (problems and "
	 "notes); 'unirail host undo' reverts them",
	 AT(fix)},
	{"dry-run", 0, OPT_FLAG, NULL, "with --fix: only show the steps", AT(dry_run)},
	{"node", 0, OPT_STR, "NAME",
	 "diagnose the node NAME instead of this host, by its Node object in the API server and "
	 "the events of unirail's daemons",
	 AT(node)},
	{"kubeconfig", 0, OPT_STR, "FILE", "with --node: kubeconfig for the API server",
	 AT(kubeconfig)},
	{"context", 0, OPT_STR, "NAME", "with --node: context of the kubeconfig", AT(context)},
	{"list", 'l', OPT_FLAG, NULL, "print the name of each check and what it verifies",
	 AT(list)},
	{"cni-bin", 0, OPT_STR, "DIR", "directory of CNI plugins (" PATH_CNI_BIN ")", AT(cni_bin)},
	{"cni-conf", 0, OPT_STR, "DIR", "directory of CNI configurations (" PATH_CNI_CONF ")",
	 AT(cni_conf)},
	{"pool-dir", 0, OPT_STR, "DIR", "directory of pools (" PATH_POOLS ")", AT(pool_dir)},
	{"state-dir", 0, OPT_STR, "DIR", "directory of the IPAM journal (" PATH_IPAM_STATE ")",
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

/* If --node-file is given, replaces the Node object of the facts with the one in that file. */
static int read_node(const struct doctor_opts *o, struct host_facts *f, struct err *e)
{
	auto_objects struct objects l = {0};
	auto_buf struct buf b = {0};
	struct json_out out;
	int r = o->node_file ? manifests_read(&l, o->node_file, "", e) : 0;

	if (r < 0 || !o->node_file)
		return r;
	if (l.n != 1 || strcmp(l.v[0].kind, "Node") != 0)
		return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not one object of kind Node",
				o->node_file);
	buf_init(&b, HOST_NODE_MAX);
	jo_init(&out, &b, 0);
	jo_val(&out, l.v[0].v, false);
	json_free(f->node);
	f->node = NULL;
	return json_parse(&f->node, buf_span(&b), HOST_NODE_MAX, e);
}

/* Adds the Node object to the snapshot; secrets are redacted, as in every file of a snapshot. */
static void put_node(const struct host_facts *f, struct buf *b)
{
	auto_buf struct buf text = {0}, clean = {0};
	struct json_out o;

	if (!f->node)
		return;
	buf_init(&text, HOST_NODE_MAX);
	buf_init(&clean, 2 * (size_t)HOST_NODE_MAX);
	jo_init(&o, &text, 0);
	jo_val(&o, json_root(f->node), false);
	if (redact_json(buf_span(&text), &clean) == 0)
		tree_put_file(b, HOST_NODE, buf_span(&clean));
}

/*
 * Takes a snapshot of the host. If a source of its facts cannot be read, the snapshot has a comment
 * about it; only an invalid --node-file is an error.
 */
static int picture(const struct doctor_opts *o, const struct root *root, struct buf *b,
		   struct snapshot *s, struct err *e)
{
	auto_host_facts struct host_facts f = {0};
	const struct host_source src = {.root = root, .record = b};
	struct err unread = ERR_INIT;
	int r = read_node(o, &f, e);

	if (r < 0)
		return r;
	put_about(b);
	put_node(&f, b);
	host_facts_done(&f);
	if (host_facts_read(&f, &src, &unread) < 0)
		tree_put_comment(b, unread.text);
	*s = (struct snapshot){.root = root, .out = b};
	snapshot_take(s);
	return 0;
}

static int write_snapshot(const struct doctor_opts *o, const struct root *root, struct err *e)
{
	const char *file = o->snapshot;
	auto_free char *path = path_absolute(file);
	auto_buf struct buf b = {0};
	struct snapshot s;
	int r;

	buf_init(&b, SNAPSHOT_MAX);
	r = picture(o, root, &b, &s, e);
	if (r < 0)
		return r;
	if (b.over)
		return err_set(e, -EFBIG, "the snapshot is larger than %d MiB", SNAPSHOT_MAX >> 20);
	r = file_replace(root, path, buf_span(&b), 0600, e);
	if (r < 0)
		return err_wrap(e, r, "write snapshot");
	printf("%s: %zu files and netlink's answers in %zu KiB; it contains names and addresses of "
	       "this host, but no secrets\n",
	       file, s.n_files, b.len >> 10);
	return 0;
}

/* --- options, and unpacking of a snapshot --- */

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

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int check_args(const struct doctor_opts *o, struct err *e)
{
	if (o->snapshot && o->root)
		return err_set(e, -EINVAL, "--snapshot describes this host: use it without --root");
	if (o->dry_run && !o->fix)
		return err_set(e, -EINVAL, "--dry-run needs --fix");
	if (o->fix && (o->snapshot || strcmp(o->output, "json") == 0))
		return err_set(e, -EINVAL,
			       "--fix prints steps as text: use it without --snapshot and -o json");
	if (o->node && (o->root || o->fix || o->snapshot || o->would_run || o->node_file))
		return err_set(e, -EINVAL,
			       "--node reads only the API server: use it without options other "
			       "than --kubeconfig, --context and -o");
	if (o->with && !o->would_run)
		return err_set(e, -EINVAL, "--with needs --would-run");
	if (o->unpack && (!o->root || is_dir(o->root)))
		return err_set(e, -EINVAL, "--unpack needs --root with the file of a snapshot");
	return 0;
}

static int unpack_for_user(const struct doctor_opts *o, struct err *e)
{
	int r;

	if (mkdir(o->unpack, 0755) < 0)
		return err_sys(e, -errno, "create directory '%s'", o->unpack);
	r = unpack(o->root, o->unpack, e);
	if (r == 0)
		printf("%s: other commands accept this directory as --root\n", o->unpack);
	return r;
}

/* --- checks --- */

static int put_findings(const struct doctor_opts *o, const struct host_facts *f,
			const struct findings *l)
{
	auto_buf struct buf b = {0};

	if (strcmp(o->output, "json")) {
		doctor_show_text(f, l, !o->would_run, stdout);
	} else {
		buf_init(&b, OUT_MAX);
		doctor_show_json(f, l, &b);
		opt_print(&b);
	}
	return findings_count(l, FINDING_PROBLEM) ? 1 : 0;
}

static int run_would(const struct doctor_opts *o, struct doctor *d, struct err *e)
{
	struct span rest = span_of(o->with ? o->with : ""), file;
	auto_objects struct objects in = {0};
	int r = manifests_read(&in, o->would_run, o->ns, e);

	while (r == 0 && rest.n && span_cut(&rest, ',', &file)) {
		auto_free char *path = span_dup(file);

		r = manifests_read(&in, path, o->ns, e);
	}
	if (r < 0)
		return r;
	objects_sort(&in);
	if (!would_run(d, &in))
		return err_kind(e, ERR_CONF, -EINVAL,
				"'%s' contains neither a Pod nor an object "
				"with a pod template",
				o->would_run);
	return 0;
}

static int diagnose(const struct doctor_opts *o, struct doctor *d, struct err *e)
{
	if (o->would_run)
		return run_would(o, d, e);
	doctor_run(d);
	return 0;
}

/* Runs the commands that mend the findings (problems and notes). With --dry-run, or for the
 * files of another host, only prints them and their steps. */
static int mend(const struct doctor_opts *o, const struct host_facts *f, const struct findings *l,
		struct err *e)
{
	auto_host_conf struct host_conf conf;
	auto_fix struct fix_commands fixes = {0};
	int r;

	host_conf_init(&conf);
	if (!l->n) {
		printf("no check has a finding: nothing to fix\n");
		return 0;
	}
	r = host_dropin_read(&conf, f->root, HOST_CONF, false, e);
	if (r < 0)
		return r;
	fix_collect(l, &conf, &fixes);
	return fix_run(&fixes, f->dir, o->dry_run || f->dir);
}

/* Reads the host again after --fix, to report the remaining findings. */
static int check_again(const struct doctor_opts *o, struct doctor *d, const struct host_source *src,
		       struct err *e)
{
	struct host_facts *f = (struct host_facts *)d->f;
	int r;

	findings_done(d->out);
	host_facts_done(f);
	r = host_facts_read(f, src, e);
	if (r >= 0)
		r = read_node(o, f, e);
	return r < 0 ? r : diagnose(o, d, e);
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

	if (r >= 0)
		r = read_node(o, &f, e);
	if (r >= 0)
		r = diagnose(o, &d, e);
	if (r >= 0 && o->fix) {
		r = mend(o, &f, &found, e);
		if (r == 0 && !o->dry_run && !dir)
			r = check_again(o, &d, &src, e);
		else if (r >= 0)
			return r ? r : findings_count(&found, FINDING_PROBLEM) ? 1 : 0;
	}
	return r < 0 ? r : put_findings(o, &f, &found);
}

static int check_packed(const struct doctor_opts *o, struct err *e)
{
	char dir[] = "/tmp/unirail-doctor.XXXXXX";
	struct root root;
	int r;

	if (!mkdtemp(dir))
		return err_sys(e, -errno, "create a directory in /tmp");
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

static void doctor_show_findings(const struct findings *l, struct buf *b);

/* Diagnoses a node by its objects in the API server; the facts of this host are not read. */
static int check_node(const struct doctor_opts *o, struct err *e)
{
	const struct doctor_node_access access = {o->kubeconfig, o->context, o->node, NODE_MS};
	auto_json struct json_doc *events = NULL;
	auto_findings struct findings found = {0};
	auto_host_facts struct host_facts f = {0};
	struct doctor d = {.f = &f, .out = &found};
	auto_buf struct buf b;
	struct root root;
	int r = doctor_node_read(&access, &f.node, &events, e);

	buf_init(&b, OUT_MAX);
	if (r == 0)
		r = root_open(&root, NULL, e);
	if (r < 0)
		return r;
	f.root = &root;
	doctor_node_report(&d, events ? json_root(events) : NULL, now_real_ms());
	if (strcmp(o->output, "json"))
		doctor_show_findings(&found, &b);
	else
		doctor_show_json(NULL, &found, &b);
	root_close(&root);
	r = opt_print(&b);
	return r ? r : findings_count(&found, FINDING_PROBLEM) ? 1 : 0;
}

static void doctor_list_json(struct buf *b);

static void doctor_list_text(FILE *out);

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
	if (o->node)
		return check_node(o, e);
	if (o->unpack)
		return unpack_for_user(o, e);
	if (o->root && !is_dir(o->root))
		return check_packed(o, e);
	r = root_open(&root, o->root, e);
	if (r < 0)
		return r;
	r = o->snapshot ? write_snapshot(o, &root, e)
			: check(o, &root, root.host ? NULL : o->root, e);
	root_close(&root);
	return r;
}

int doctor_main(int argc, char **argv)
{
	struct doctor_opts o = {.output = "text",
				.cni_bin = PATH_CNI_BIN,
				.cni_conf = PATH_CNI_CONF,
				.pool_dir = PATH_POOLS,
				.state_dir = PATH_IPAM_STATE,
				.ns = "default"};
	struct err e = ERR_INIT;
	int r = opt_parse(doctor_cmds, "unirail doctor", argc - 1, argv + 1, &o, &e);

	if (r >= 0)
		r = check_args(&o, &e);
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
	return l == FINDING_PROBLEM ? "problem" : l == FINDING_REMARK ? "note" : "skipped";
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
			fprintf(out, "%-7s  %s: %s: %s\n", level_name(level), l->v[i].subject,
				l->v[i].what, l->v[i].remedy);
}

static void doctor_show_findings(const struct findings *l, struct buf *b)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%-7s  %s: %s: %s\n", level_name(l->v[i].level), l->v[i].subject,
			   l->v[i].what, l->v[i].remedy);
	buf_printf(b, "%zu problems, %zu notes\n", findings_count(l, FINDING_PROBLEM),
		   findings_count(l, FINDING_REMARK));
}

void doctor_show_text(const struct host_facts *f, const struct findings *l, bool checked, FILE *out)
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
	put_level(l, FINDING_REMARK, out);
	put_level(l, FINDING_SKIPPED, out);
	if (checked)
		fprintf(out, "%zu checks: ", count_checks());
	fprintf(out, "%zu problems, %zu notes", findings_count(l, FINDING_PROBLEM),
		findings_count(l, FINDING_REMARK));
	if (skipped)
		fprintf(out, ", %zu skipped", skipped);
	fputc('\n', out);
}

static void put_host(struct json_out *o, const struct host_facts *f)
{
	size_t pfs, vfs;
	char kernel[128];

	count_functions(f, &pfs, &vfs);
	put_kernel(f, kernel, sizeof(kernel));
	jo_kstr(o, "kernel", kernel);
	jo_kstr(o, "rdmaMode", mode_name(f));
	jo_kint(o, "rdmaDevices", (int64_t)f->n_rdma);
	jo_kint(o, "pfs", (int64_t)pfs);
	jo_kint(o, "vfs", (int64_t)vfs);
}

void doctor_show_json(const struct host_facts *f, const struct findings *l, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", !findings_count(l, FINDING_PROBLEM));
	if (f)
		put_host(&o, f);
	jo_key(&o, "findings");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "check", l->v[i].check);
		jo_kstr(&o, "level", level_name(l->v[i].level));
		jo_kstr(&o, "subject", l->v[i].subject);
		jo_kstr(&o, "what", l->v[i].what);
		jo_kstr(&o, "remedy", l->v[i].remedy);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

/* `--list`: the name of each check and what it verifies. */
static void doctor_list_text(FILE *out)
{
	for (const struct doctor_check *c = doctor_checks; c->name; c++)
		fprintf(out, "%-14s  %s\n", c->name, c->about);
}

static void doctor_list_json(struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		jo_obj(&o);
		jo_kstr(&o, "check", c->name);
		jo_kstr(&o, "description", c->about);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	buf_char(b, '\n');
}
