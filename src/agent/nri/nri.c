/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nri/nri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/nri/message.h"
#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "wire/ttrpc/ttrpc.h"

#define SERVICE	 "nri.pkg.api.v1alpha1.Plugin"
#define RUNTIME	 "nri.pkg.api.v1alpha1.Runtime"
#define REGISTER "RegisterPlugin"

enum {
	FIRST_RETRY_MS = 500,
	READ_SIZE = 64 << 10,
};

struct nri {
	struct nri_conf conf;
	struct backoff backoff;
	struct loop_fd *watch;
	struct loop_alarm retry;
	struct ttrpc *ttrpc;
	int fd;
	bool writable_wanted, absent_logged;
	struct nri_counters counters;
};

static void connect_later(struct nri *n);

static void close_connection(struct nri *n)
{
	loop_del_fd(n->watch);
	n->watch = NULL;
	ttrpc_free(n->ttrpc);
	n->ttrpc = NULL;
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	n->writable_wanted = n->counters.connected = false;
}

static void lose(struct nri *n, const char *cause)
{
	bool was = n->counters.connected;

	close_connection(n);
	if (was || n->conf.fd >= 0)
		log_warn("the NRI connection to the container runtime ended: new containers with "
			 "RDMA devices keep the runtime's memlock limit until unirail's NRI "
			 "plugin is connected again",
			 LOG_S("socket", n->conf.socket), LOG_S("error", cause));
	if (n->conf.fd < 0)
		connect_later(n);
	else if (n->conf.ended)
		n->conf.ended(n->conf.arg);
}

/* --- requests of the container runtime --- */

/* Reads the pod's rails.json; a missing file means that the pod has no rail with an RDMA device. */
static int read_rails(struct nri *n, const char *uid, struct rails_list *ret, struct err *e)
{
	auto_free char *path = NULL;
	auto_buf struct buf text;
	int r;

	buf_init(&text, RAILS_TEXT_MAX);
	if (!*uid || *uid == '.' || strchr(uid, '/'))
		return 0;
	path = xasprintf("%s/%s/rails.json", RAILS_DIR, uid);
	r = file_read(n->conf.root, path, RAILS_TEXT_MAX, &text, e);
	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r == 0)
		r = rails_parse(buf_span(&text), ret, e);
	return r < 0 ? err_wrap(e, r, "%s", path) : 0;
}

static void log_adjusted(const struct nri_create *c, const struct nri_adjustment *a)
{
	log_info("container adjusted", LOG_S("pod", nri_create_pod(c)),
		 LOG_S("container", nri_create_name(c)),
		 a->memlock == NRI_UNLIMITED ? LOG_S("memlock", "unlimited")
					     : LOG_I("memlock", (int64_t)a->memlock),
		 LOG_I("variables", (int64_t)a->n_env));
}

static void log_mixed_gid(const struct nri_create *c)
{
	log_limited(LOG_WARN, 1,
		    "the rails of a pod have different GID indices, so unirail does not set "
		    "NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX and NVSHMEM_IB_GID_INDEX: give the "
		    "pod's rails the same number of addresses, or set NCCL_IB_HCA to rails with "
		    "the same GID index, and NCCL_IB_GID_INDEX to that index",
		    LOG_S("pod", nri_create_pod(c)));
}

/* Adjusts a container. If rails.json cannot be read, the container starts without the environment
 * of its rails. */
static int create_container(struct nri *n, struct span message, struct buf *reply, struct err *e)
{
	auto_nri_create struct nri_create *c = NULL;
	auto_nri_adjustment struct nri_adjustment a = {0};
	auto_rails struct rails_list rails = {0};
	struct err cause = ERR_INIT;
	int r = nri_create_decode(&c, message, e);

	if (r < 0)
		return r;
	if (!nri_has_rdma(nri_create_container(c)))
		return 0;
	if (read_rails(n, nri_create_pod_uid(c), &rails, &cause) < 0)
		log_limited(LOG_WARN, 1, "a container starts without the environment of its rails",
			    LOG_S("pod", nri_create_pod(c)), LOG_S("error", cause.text));
	nri_adjust(nri_create_container(c), &rails, &n->conf.policy, &a);
	if (a.mixed_gid)
		log_mixed_gid(c);
	if (!a.memlock && !a.n_env)
		return 0;
	nri_put_adjustment(reply, &a);
	n->counters.adjusted++;
	log_adjusted(c, &a);
	return 0;
}

static int configure(struct nri *n, struct span message, struct buf *reply, struct err *e)
{
	struct nri_runtime runtime = {0};
	int r = nri_configure_decode(message, &runtime, e);

	if (r < 0)
		return r;
	nri_put_events(reply, 1U << (NRI_CREATE_CONTAINER - 1));
	n->counters.connected = true;
	n->absent_logged = false;
	backoff_reset(&n->backoff);
	log_info("NRI plugin registered", LOG_S("runtime", runtime.name),
		 LOG_S("version", runtime.version));
	return 0;
}

static int synchronize(struct nri *n, struct span message, struct buf *reply, struct err *e)
{
	bool more = false;
	int r = nri_synchronize_decode(message, &more, e);

	(void)n;
	if (r == 0)
		nri_put_synchronized(reply, more);
	return r;
}

/* Answers events of either protocol generation that unirail did not subscribe to, and Shutdown. */
static int ignore(struct nri *n, struct span message, struct buf *reply, struct err *e)
{
	(void)n, (void)message, (void)reply, (void)e;
	return 0;
}

static const struct {
	const char *method;
	int (*serve)(struct nri *n, struct span message, struct buf *reply, struct err *e);
} methods[] = {
	{"Configure", configure},
	{"Synchronize", synchronize},
	{"CreateContainer", create_container},
	{"StateChange", ignore},
	{"Shutdown", ignore},
	{"RunPodSandbox", ignore},
	{"StopPodSandbox", ignore},
	{"RemovePodSandbox", ignore},
	{"UpdatePodSandbox", ignore},
	{"PostUpdatePodSandbox", ignore},
	{"PostCreateContainer", ignore},
	{"StartContainer", ignore},
	{"PostStartContainer", ignore},
	{"UpdateContainer", ignore},
	{"PostUpdateContainer", ignore},
	{"StopContainer", ignore},
	{"RemoveContainer", ignore},
};

/* Answers one request of the runtime: ttrpc_ops.request, arg is a struct nri. */
static int nri_request(void *arg, const char *service, const char *method, struct span message,
		       struct buf *reply, struct err *e)
{
	if (strcmp(service, SERVICE) == 0)
		for (size_t i = 0; i < ARRAY_LEN(methods); i++)
			if (strcmp(method, methods[i].method) == 0)
				return methods[i].serve(arg, message, reply, e);
	return err_set(e, -EOPNOTSUPP, "%s/%s is not served by unirail", service, method);
}

static void on_response(void *arg, uint32_t stream, int status, struct span message,
			const char *text)
{
	struct nri *n = arg;

	(void)stream, (void)message;
	if (status)
		log_error("the container runtime refuses unirail's NRI plugin",
			  LOG_S("socket", n->conf.socket), LOG_I("status", status),
			  LOG_S("error", text));
}

/* --- connection to the container runtime --- */

static int flush(struct nri *n, struct err *e)
{
	struct span out = ttrpc_out(n->ttrpc);
	bool wanted;

	while (out.n) {
		ssize_t k = send(n->fd, out.p, out.n, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			break;
		if (k < 0)
			return err_sys(e, -errno, "write");
		ttrpc_sent(n->ttrpc, (size_t)k);
		out = ttrpc_out(n->ttrpc);
	}
	wanted = out.n > 0;
	if (wanted == n->writable_wanted)
		return 0;
	n->writable_wanted = wanted;
	return loop_set_events(n->watch, EPOLLIN | (wanted ? EPOLLOUT : 0), e);
}

/* Reads once per loop iteration, so that other parts of the agent are not delayed. */
static int receive(struct nri *n, struct err *e)
{
	auto_free char *bytes = xmalloc(READ_SIZE);
	ssize_t k = recv(n->fd, bytes, READ_SIZE, 0);

	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (k < 0)
		return err_sys(e, -errno, "read");
	if (k == 0)
		return err_set(e, -EPIPE, "end of the connection");
	return ttrpc_in(n->ttrpc, (struct span){bytes, (size_t)k}, e);
}

static void on_ready(void *arg, uint32_t events)
{
	struct nri *n = arg;
	struct err e = ERR_INIT;
	int r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = receive(n, &e);
	if (r == 0)
		r = flush(n, &e);
	if (r < 0)
		lose(n, e.text);
}

static int begin(struct nri *n, struct err *e)
{
	static const struct ttrpc_ops ops = {nri_request, on_response};
	auto_buf struct buf m;
	int r = loop_add_fd(n->conf.loop, n->fd, EPOLLIN, on_ready, n, &n->watch, e);

	buf_init(&m, 256);
	if (r < 0)
		return r;
	n->ttrpc = ttrpc_new(&ops, n);
	nri_put_registration(&m, NRI_NAME, NRI_INDEX);
	ttrpc_call(n->ttrpc, RUNTIME, REGISTER, buf_span(&m));
	return flush(n, e);
}

static int open_socket(struct nri *n, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	auto_fd int fd = -1;

	if (!str_copy(a.sun_path, sizeof(a.sun_path), n->conf.socket))
		return err_set(e, -ENAMETOOLONG, "socket '%s': the limit is %zu characters",
			       n->conf.socket, sizeof(a.sun_path) - 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, -errno, "open a socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, -errno, "connect to '%s'", n->conf.socket);
	n->fd = take_fd(&fd);
	return 0;
}

static void on_retry(void *arg)
{
	struct nri *n = arg;
	struct err e = ERR_INIT;
	int r;

	r = open_socket(n, &e);
	if (r == 0)
		r = begin(n, &e);
	if (r == 0)
		return;
	close_connection(n);
	if (!n->absent_logged) {
		log_info("cannot connect to the container runtime's NRI socket: containers with "
			 "RDMA devices keep the runtime's memlock limit; NRI is disabled by "
			 "default in containerd 1.7, and enabled by default in containerd 2.0 and "
			 "CRI-O",
			 LOG_S("socket", n->conf.socket), LOG_S("error", e.text));
		n->absent_logged = true;
	}
	connect_later(n);
}

static void connect_later(struct nri *n)
{
	int64_t wait = n->absent_logged ? NRI_RETRY_MS : backoff_next(&n->backoff);

	loop_alarm_set(&n->retry, wait);
}

struct nri *nri_new(const struct nri_conf *c)
{
	struct nri *n = xcalloc(1, sizeof(*n));
	struct err e = ERR_INIT;

	*n = (struct nri){.conf = *c,
			  .fd = c->fd,
			  .retry = LOOP_ALARM(c->loop, on_retry, n),
			  .backoff = {.base = FIRST_RETRY_MS, .most = NRI_RETRY_MS}};
	if (c->fd < 0)
		loop_alarm_set(&n->retry, 0);
	else if (begin(n, &e) < 0)
		lose(n, e.text);
	return n;
}

void nri_free(struct nri *n)
{
	if (!n)
		return;
	loop_alarm_cancel(&n->retry);
	close_connection(n);
	free(n);
}

void nri_settings(struct nri *n, const struct nri_policy *p)
{
	n->conf.policy = *p;
}

struct nri_counters nri_count(const struct nri *n)
{
	return n->counters;
}
