/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo/demo.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/option.h"
#include "wire/json/json.h"

volatile sig_atomic_t demo_stop;

static const struct opt options[] = {
	{"rails", 'n', OPT_INT, "N", "number of rails (8)", offsetof(struct demo_options, rails), 1,
	 DEMO_RAILS_MAX},
	{"plan", 'p', OPT_CHOICE, "shared|exclusive",
	 "address plan: one subnet per rail (shared), or one per rail and node (exclusive)",
	 offsetof(struct demo_options, plan), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct demo_options, output), 0, 0},
	{"keep", 'k', OPT_FLAG, NULL, "keep the pods attached, with their namespaces in /run/netns",
	 offsetof(struct demo_options, keep), 0, 0},
	{"clean", 0, OPT_FLAG, NULL, "remove the pods and namespaces of an earlier run with --keep",
	 offsetof(struct demo_options, clean), 0, 0},
	{0}};

const struct cmd demo_cmds[] = {{NULL, NULL,
				 "attach two pods to N rails (--rails), verify the result, "
				 "detach them",
				 options, 0, 0},
				{0}};

void demo_problem(struct demo *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	VEC_PUSH(d->problems, d->n_problems) = xvasprintf(fmt, ap);
	va_end(ap);
}

static void demo_progress(struct demo *d, const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r\033[K", stderr);
	if (fmt) {
		fprintf(stderr, "[%d/%d] ", ++d->step, d->steps);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
	}
	fflush(stderr);
}

static void on_signal(int sig)
{
	demo_stop = sig;
}

/* SA_RESTART is not set, so that a signal interrupts a wait at once, and the cleanup runs. */
static void catch_signals(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal};

	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		sigaction(sigs[i], &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int stopped(struct err *e)
{
	return demo_stop ? err_set(e, -EINTR, "stopped by signal %d", (int)demo_stop) : 0;
}

static int demo_conf_pools(const struct demo *d, struct err *e);

static int build(struct demo *d, struct err *e)
{
	int r;

	demo_progress(d, "create fabric, node and pods");
	r = demo_place_open(d, e);
	if (r == 0)
		r = demo_fabric_build(d, e);
	if (r == 0)
		r = demo_conf_pools(d, e);
	return r < 0 ? r : demo_facts_remember(d, e);
}

static int demo_run(struct demo *d, size_t pod, const char *command, struct demo_call *ret,
		    struct err *e);

static int attach(struct demo *d, size_t pod, struct err *e)
{
	struct demo_pod *p = &d->pods[pod];
	int r = stopped(e);

	if (r < 0)
		return r;
	demo_progress(d, "attach %s to %d rails", p->name, (int)d->opt.rails);
	r = demo_run(d, pod, "ADD", &p->add, e);
	if (r == 0)
		r = demo_facts_read(d->ns[NS_POD + pod], &p->facts, e);
	if (r < 0)
		return err_wrap(e, r, "attach %s", p->name);
	demo_facts_expect(d, pod);
	return 0;
}

static int detach(struct demo *d, size_t pod, struct err *e)
{
	struct demo_pod *p = &d->pods[pod];
	int r = stopped(e);

	if (r < 0)
		return r;
	demo_progress(d, "detach %s", p->name);
	r = demo_run(d, pod, "DEL", &p->del, e);
	return r < 0 ? err_wrap(e, r, "detach %s", p->name) : 0;
}

static int ping(struct demo *d, struct err *e)
{
	int r = stopped(e);

	demo_progress(d, "ping gateways and pods through every rail");
	return r < 0 ? r : demo_ping_all(d, e);
}

static int events(struct demo *d, struct err *e)
{
	int r = build(d, e);

	for (size_t i = 0; r == 0 && i < DEMO_PODS; i++)
		r = attach(d, i, e);
	if (r == 0)
		r = ping(d, e);
	if (d->opt.keep)
		return r < 0 ? r : stopped(e);
	for (size_t i = 0; r == 0 && i < DEMO_PODS; i++)
		r = detach(d, i, e);
	if (r == 0)
		r = stopped(e);
	demo_progress(d, "compare the state with the state before the attachment");
	return r < 0 ? r : demo_facts_compare(d, e);
}

static void show(const struct demo *d)
{
	if (strcmp(d->opt.output, "json") == 0) {
		demo_json(d);
		return;
	}
	demo_show_head(d);
	for (size_t i = 0; i < DEMO_PODS; i++)
		demo_show_pod(d, i);
	demo_show_pings(d);
	demo_show_end(d);
}

static void done(struct demo *d)
{
	for (size_t i = 0; i < DEMO_PODS; i++) {
		demo_facts_done(&d->pods[i].facts);
		free(d->pods[i].add.output);
		free(d->pods[i].del.output);
	}
	for (size_t i = 0; i < NS_COUNT; i++)
		str_list_free(d->before[i], d->n_before[i]);
	str_list_free(d->problems, d->n_problems);
	free(d->pings);
	root_close(&d->root);
}

static int run(struct demo *d, struct err *e)
{
	int r;

	demo_plan(d);
	d->steps = d->opt.keep ? 4 : 7;
	r = events(d, e);
	demo_progress(d, NULL);
	/* Ctrl-C also ends the plugin, whose error is then not reported. */
	if (demo_stop)
		r = stopped(e);
	if (r == 0)
		show(d);
	/* after an error --keep does not apply; problems found are no error */
	if (r < 0 || !d->opt.keep)
		demo_place_close(d);
	return r;
}

static int clean(struct demo *d, struct err *e)
{
	int r = demo_place_clean(d, e);

	if (r >= 0)
		printf("removed %d objects of an earlier run with --keep\n", r);
	return r < 0 ? r : 0;
}

int demo_main(int argc, char **argv)
{
	struct demo d = {.opt = {.rails = 8, .plan = "shared", .output = "text"}};
	struct err e = ERR_INIT;
	int r = opt_parse(demo_cmds, "unirail demo", argc - 1, argv + 1, &d.opt, &e);

	if (r < 0)
		return opt_exit("unirail demo", r, &e);
	catch_signals();
	r = root_open(&d.root, NULL, &e);
	if (r == 0)
		r = d.opt.clean ? clean(&d, &e) : run(&d, &e);
	if (r < 0)
		fprintf(stderr, "unirail demo: %s\n", e.text);
	r = demo_stop ? 128 + demo_stop : r < 0 || d.n_problems ? 1 : 0;
	done(&d);
	return r;
}

/* --- calls of a CNI plugin as a container runtime makes them: in the node's namespace, with
 * CNI_* in the environment and the netconf on stdin; the results are stdout and the exit status
 * --- */

enum { ENV_VARS = 6, OUTPUT_MAX = 1 << 20 };

static int file_of(const char *name, struct span data, struct err *e)
{
	auto_fd int fd = memfd_create(name, MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "create a memory file");
	r = fd_write_all(fd, data.p, data.n, e);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, -errno, "rewind a memory file");
	return take_fd(&fd);
}

static void environment(const struct demo *d, size_t pod, const char *command, char **env)
{
	const struct demo_pod *p = &d->pods[pod];

	env[0] = xasprintf("CNI_COMMAND=%s", command);
	env[1] = xasprintf("CNI_CONTAINERID=%s", p->container_id);
	env[2] = xasprintf("CNI_NETNS=%s", d->ns_path[NS_POD + pod]);
	env[3] = xasprintf("CNI_IFNAME=%s", d->nics[0].pod_if);
	env[4] = xasprintf("CNI_PATH=/opt/cni/bin");
	env[5] = xasprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=%s;"
			   "K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%.8s",
			   p->name, p->container_id, p->container_id);
	env[ENV_VARS] = NULL;
}

static _Noreturn void become_plugin(int node_ns, int in, int out, char *const env[])
{
	char *argv[] = {"unirail-cni", NULL};

	/* No plugin may outlive the demo. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	if (setns(node_ns, CLONE_NEWNET) == 0 && dup2(in, STDIN_FILENO) >= 0 &&
	    dup2(out, STDOUT_FILENO) >= 0)
		execve("/proc/self/exe", argv, env);
	_exit(127);
}

/* Waits for the plugin; a signal that stops the demo also ends the plugin. */
static int wait_for(pid_t child, struct demo_call *ret, struct err *e)
{
	struct rusage ru;
	int status;

	while (wait4(child, &status, 0, &ru) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "wait for unirail-cni");
		if (demo_stop)
			kill(child, SIGKILL);
	}
	ret->cpu_us = (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000LL + ru.ru_utime.tv_usec +
		      ru.ru_stime.tv_usec;
	ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return 0;
}

static int spawn(struct demo *d, int in, int out, char *const env[], struct demo_call *ret,
		 struct err *e)
{
	int64_t start = now_mono_us();
	pid_t child;
	int r;

	fflush(NULL);
	child = fork();
	if (child == 0)
		become_plugin(d->ns[NS_NODE], in, out, env);
	if (child < 0)
		return err_sys(e, -errno, "start unirail-cni");
	r = wait_for(child, ret, e);
	ret->wall_us = now_mono_us() - start;
	return r;
}

/* Sets the error: the signal that ended the plugin, or its exit status and the message of the
 * error object that it wrote to stdout. */
static int failed(const char *command, const struct demo_call *c, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const char *msg = NULL, *details = NULL;

	if (c->status > 128)
		return err_set(e, -EINTR, "unirail-cni %s: ended by signal %d", command,
			       c->status - 128);
	if (json_parse(&doc, (struct span){c->output, c->n}, OUTPUT_MAX, NULL) == 0) {
		msg = json_string(json_get(json_root(doc), "msg"));
		details = json_string(json_get(json_root(doc), "details"));
	}
	return err_set(e, -EIO, "unirail-cni %s: exit status %d: %s%s%s", command, c->status,
		       msg ? msg : "no error object", details ? ": " : "", details ? details : "");
}

static int demo_conf_net(const struct demo *d, struct span prev, struct buf *b, struct err *e);

/* command: "ADD" or "DEL". Fails if the plugin cannot be run or returns an error. */
static int demo_run(struct demo *d, size_t pod, const char *command, struct demo_call *ret,
		    struct err *e)
{
	const struct demo_call *add = &d->pods[pod].add;
	struct span prev = {0};
	auto_buf struct buf conf, output;
	auto_fd int in = -1, out = -1;
	char *env[ENV_VARS + 1];
	int r;

	if (strcmp(command, "DEL") == 0)
		prev = (struct span){add->output, add->n};
	buf_init(&conf, OUTPUT_MAX);
	buf_init(&output, OUTPUT_MAX);
	r = demo_conf_net(d, prev, &conf, e);
	if (r < 0)
		return r;
	in = file_of("netconf", buf_span(&conf), e);
	out = file_of("result", (struct span){"", 0}, e);
	if (in < 0 || out < 0)
		return -EIO;
	environment(d, pod, command, env);
	r = spawn(d, in, out, env, ret, e);
	for (size_t i = 0; i < ENV_VARS; i++)
		free(env[i]);
	if (r < 0)
		return r;
	lseek(out, 0, SEEK_SET);
	r = fd_read_all(out, OUTPUT_MAX, &output, e);
	if (r < 0)
		return r;
	ret->n = output.len;
	ret->output = buf_take(&output);
	return ret->status ? failed(command, ret, e) : 0;
}

/*
 * The configuration that an administrator writes: a pools file and a netconf. configs/shared and
 * configs/exclusive contain such files, one directory for each address plan.
 */

enum { CONF_MAX = 1 << 20 };

static void subnet_part(struct buf *b, const char *name, size_t nic, int base, int bits)
{
	int gateway = base + 1, first = base + (bits == 24 ? 10 : 3);
	int last = base + (1 << (32 - bits)) - (bits == 24 ? 6 : 2);

	buf_printf(b,
		   "[pool %s]\n"
		   "subnet  = 172.16.%zu.%d/%d\n"
		   "ips     = 172.16.%zu.%d-172.16.%zu.%d\n"
		   "gateway = 172.16.%zu.%d\n\n",
		   name, nic, base, bits, nic, first, nic, last, nic, gateway);
}

/*
 * Writes for each of eight nodes a pool with a /27. The demo's node uses the first /27, because the
 * subnet of this pool contains the master's address.
 */
static void exclusive_rail(struct buf *b, const struct demo_nic *n, size_t nic)
{
	for (int node = 0; node < 8; node++) {
		char name[48];

		snprintf(name, sizeof(name), "%s-node%d", n->name, node + 1);
		subnet_part(b, name, nic, node * 32, 27);
	}
}

static int demo_conf_pools(const struct demo *d, struct err *e)
{
	auto_buf struct buf b;
	char dir[96], path[128];
	int r;

	buf_init(&b, CONF_MAX);
	for (size_t i = 0; i < d->n_nics; i++) {
		if (d->nics[i].node.len == 24)
			subnet_part(&b, d->nics[i].name, i, 0, 24);
		else
			exclusive_rail(&b, &d->nics[i], i);
	}
	snprintf(dir, sizeof(dir), "%s/pools", d->dir);
	snprintf(path, sizeof(path), "%s/rails.conf", dir);
	r = dir_make(&d->root, dir, 0755, e);
	return r < 0 ? r : file_replace(&d->root, path, buf_span(&b), 0644, e);
}

static void ipam(const struct demo *d, const struct demo_nic *n, struct json_out *o)
{
	char path[96];

	jo_key(o, "ipam");
	jo_obj(o);
	jo_kstr(o, "type", "spiderpool");
	jo_key(o, "default_ipv4_ippool");
	jo_arr(o);
	jo_str(o, n->pool);
	jo_end_arr(o);
	if (strchr(n->pool, '*'))
		jo_kbool(o, "match_master_subnet", true);
	snprintf(path, sizeof(path), "%s/pools", d->dir);
	jo_kstr(o, "pool_dir", path);
	snprintf(path, sizeof(path), "%s/state", d->dir);
	jo_kstr(o, "state_dir", path);
	/*
	 * Names a directory of the demo instead of the host's own host-local directory, whose
	 * addresses do not concern the demo.
	 */
	snprintf(path, sizeof(path), "%s/host-local", d->dir);
	jo_kstr(o, "hostlocal_dir", path);
	jo_kbool(o, "enable_gateway_detection", true);
	jo_kbool(o, "enable_ip_conflict_detection", true);
	jo_end_obj(o);
}

static void network(const struct demo *d, const struct demo_nic *n, struct json_out *o)
{
	jo_obj(o);
	jo_kstr(o, "name", n->name);
	jo_kstr(o, "ifname", n->pod_if);
	jo_key(o, "plugins");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "type", "macvlan");
	jo_kstr(o, "master", n->name);
	jo_kstr(o, "mode", "bridge");
	ipam(d, n, o);
	jo_end_obj(o);
	jo_obj(o);
	jo_kstr(o, "type", "coordinator");
	jo_kstr(o, "mode", "underlay");
	jo_end_obj(o);
	jo_end_arr(o);
	jo_end_obj(o);
}

/* prev: the result of ADD, which a runtime passes to DEL; empty: no result. */
static int demo_conf_net(const struct demo *d, struct span prev, struct buf *b, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct json_out o;
	int r = prev.n ? json_parse(&doc, prev, CONF_MAX, e) : 0;

	if (r < 0)
		return err_wrap(e, r, "read the result of ADD");
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", "1.1.0");
	jo_kstr(&o, "name", "rails");
	jo_kstr(&o, "type", "unirail-cni");
	/* The key is empty: Multus attached none of the demo's pods, and an unprivileged user
	 * may have no access to Multus's directory. */
	jo_kstr(&o, "multusCniDir", "");
	jo_key(&o, "networks");
	jo_arr(&o);
	for (size_t i = 0; i < d->n_nics; i++)
		network(d, &d->nics[i], &o);
	jo_end_arr(&o);
	if (doc) {
		jo_key(&o, "prevResult");
		jo_val(&o, json_root(doc), false);
	}
	jo_end_obj(&o);
	return 0;
}
