/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "cli/demo/demo.h"
#include "wire/json/json.h"

/*
 * One CNI call as a container runtime makes it: the program in the node's namespace, CNI_* in
 * its environment, the netconf on stdin, the result on stdout, its exit status.
 */

enum { ENV_VARS = 6, OUTPUT_MAX = 1 << 20 };

static int file_of(const char *name, struct span data, struct err *e)
{
	auto_fd int fd = memfd_create(name, MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "make a memory file");
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

	/* A runtime outlives its plugins; nothing of this demo may outlive it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	if (setns(node_ns, CLONE_NEWNET) == 0 && dup2(in, STDIN_FILENO) >= 0 &&
	    dup2(out, STDOUT_FILENO) >= 0)
		execve("/proc/self/exe", argv, env);
	_exit(127);
}

/* Waits; a signal that asks us to stop ends the plugin too. */
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

/* The error object on stdout, in one line. */
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

int demo_run(struct demo *d, size_t pod, const char *command, struct demo_call *ret, struct err *e)
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
