/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `unirail nri`: the NRI plugin without an agent. A container runtime starts it as
 * /opt/nri/plugins/NN-NAME and passes an open connection, whose descriptor number is in the
 * variable NRI_PLUGIN_SOCKET. If the variable is not set, the plugin connects to the runtime's
 * socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/nri/nri.h"
#include "base/num.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/daemon.h"

struct nri_opts {
	const char *socket, *log_level, *log_format, *primary, *nccl_net;
	const char *memlock;
	bool no_environment;
};

#define O(m) offsetof(struct nri_opts, m)
static const struct opt opts[] = {
	{"socket", 0, OPT_STR, "PATH", "path of the container runtime's NRI socket", O(socket), 0,
	 0},
	{"rdma-memlock", 0, OPT_STR, "BYTES",
	 "limit of locked memory: 'unlimited', a number of bytes, or 'no' (the limit is not "
	 "changed)",
	 O(memlock), 0, 0},
	{"no-environment", 0, OPT_FLAG, NULL,
	 "do not set the environment variables of NCCL (except NCCL_NET, see --nccl-net), UCX, "
	 "NVSHMEM, Gloo and unirail (UNIRAIL_*) in containers",
	 O(no_environment), 0, 0},
	{"nccl-net", 0, OPT_CHOICE, "auto|IB",
	 "IB: set NCCL_NET=IB in all containers with RDMA devices, so that NCCL fails instead of "
	 "using TCP; auto: only if the pod requests it by the annotation unirail.io/nccl-net",
	 O(nccl_net), 0, 0},
	{"primary-interface", 0, OPT_STR, "NAME", "interface of a pod's primary network",
	 O(primary), 0, 0},
	{"log-level", 0, OPT_STR, "LEVEL", "lowest level that is logged: debug, info, warn, error",
	 O(log_level), 0, 0},
	{"log-format", 0, OPT_CHOICE, "logfmt|json", "format of the log", O(log_format), 0, 0},
	{0},
};

const struct cmd nri_cmds[] = {
	{NULL, NULL,
	 "set environment variables and the limit of locked memory of containers that have RDMA "
	 "devices",
	 opts, 0, 0},
	{0},
};

/* Returns the descriptor of the connection that the runtime passes. Negative: the variable is
 * not set, or an error (only then e is set). */
static int inherited(struct err *e)
{
	const char *text = getenv(NRI_FD_VARIABLE);
	int64_t fd;

	if (!text)
		return -1;
	if (num_i64(span_of(text), 0, 1 << 20, &fd) < 0)
		return err_set(e, -EINVAL,
			       "variable " NRI_FD_VARIABLE " is '%.32s', expected a descriptor "
			       "number",
			       text);
	if (fcntl((int)fd, F_SETFL, O_NONBLOCK) < 0 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, -errno, "descriptor %d of " NRI_FD_VARIABLE, (int)fd);
	return (int)fd;
}

/* No settings file is read, so SIGHUP has no effect. */
static void reload(void *arg)
{
	(void)arg;
}

static void stop(void *arg)
{
	loop_stop(arg, 0);
}

static void confine(const struct root *root)
{
	struct confine c = {.root = root, .mode = SANDBOX_AGENT};
	char unconfined[256];

	dir_make(root, RAILS_DIR, 0755, NULL);
	confine_dir(&c, RAILS_DIR, SANDBOX_READ);
	confine_enter(&c, "on", unconfined, sizeof(unconfined));
}

static int serve(const struct nri_opts *o, int fd, struct err *e)
{
	static const struct daemon_ops ops = {reload, stop};
	struct nri_conf conf = {
		.socket = o->socket,
		.fd = fd,
		.policy = {.environment = !o->no_environment,
			   .nccl_net_ib = *o->nccl_net == 'I',
			   .primary = o->primary},
		.ended = stop,
	};
	struct loop *loop = NULL;
	struct daemon *daemon = NULL;
	struct root root = {.fd = -1};
	struct nri *n = NULL;
	int r = nri_memlock_parse(o->memlock, &conf.policy.memlock, e);

	if (r == 0)
		r = daemon_log(o->log_level, o->log_format, e);

	if (r == 0)
		r = root_open(&root, NULL, e);
	if (r == 0)
		r = loop_new(&loop, e);
	if (r == 0)
		r = daemon_new(&daemon, loop, &ops, loop, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0) {
		confine(&root);
		conf.loop = loop;
		conf.root = &root;
		conf.arg = loop;
		n = nri_new(&conf);
		r = loop_run(loop);
	}
	nri_free(n);
	daemon_free(daemon);
	loop_free(loop);
	if (root.fd >= 0)
		root_close(&root);
	return r;
}

int nri_main(int argc, char **argv)
{
	struct nri_opts o = {.socket = NRI_SOCKET,
			     .memlock = "unlimited",
			     .log_level = "info",
			     .log_format = "logfmt",
			     .primary = "eth0",
			     .nccl_net = "auto"};
	struct err e = ERR_INIT;
	int fd, r = opt_parse(&nri_cmds[0], "unirail nri", argc - 1, argv + 1, &o, &e);

	if (r < 0)
		return opt_exit("unirail nri", r, &e);
	fd = inherited(&e);
	if (e.code == 0)
		r = serve(&o, fd, &e);
	if (e.code == 0)
		return r;
	fprintf(stderr, "unirail nri: %s\n", e.text);
	return 1;
}
