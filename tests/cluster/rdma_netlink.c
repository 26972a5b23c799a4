/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: rdma_netlink FOLDER COMMAND...
 * Simulates RDMA netlink for COMMAND on a kernel without RDMA: the RDMA netlink sockets of COMMAND
 * and of its children are connected to a process of this program (by seccomp user notification);
 * all other system calls reach the kernel. The process answers requests for devices, ports, queue
 * pairs and contexts with the messages of drivers/infiniband/core/nldev.c, and any other request
 * with EOPNOTSUPP.
 *
 * The state is read from FOLDER at each request: `devices` has lines of "INDEX NAME STATE" (STATE 4: the device's port is active, 1: the port is down),
 * `objects` lines of "qp|ctx INDEX PID".
 *
 * The process needs CAP_SYS_PTRACE (it writes the address that getsockname() returns), and ends with the last process of COMMAND.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <rdma/rdma_netlink.h>

enum {
	/* lowest descriptor of COMMAND's RDMA netlink sockets; COMMAND's other descriptors are
	 * lower */
	FD_FIRST = 500,
	SOCKETS_MAX = 16,
	OBJECTS_MAX = 64,
	BUF_MAX = 16384,
	LINE_MAX_LEN = 128,
	PORT = 1,
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "rdma_netlink: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- state --- */

struct device {
	uint32_t index;
	char name[32];
	uint8_t state;
};

struct object {
	char kind[8];
	uint32_t index, pid;
};

static const char *folder;

static FILE *open_state(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "re");
}

static size_t read_devices(struct device *v)
{
	FILE *f = open_state("devices");
	char line[LINE_MAX_LEN];
	size_t n = 0;

	while (f && n < OBJECTS_MAX && fgets(line, sizeof(line), f))
		if (sscanf(line, "%u %31s %hhu", &v[n].index, v[n].name, &v[n].state) == 3)
			n++;
	if (f)
		fclose(f);
	return n;
}

static size_t read_objects(struct object *v)
{
	FILE *f = open_state("objects");
	char line[LINE_MAX_LEN];
	size_t n = 0;

	while (f && n < OBJECTS_MAX && fgets(line, sizeof(line), f))
		if (sscanf(line, "%7s %u %u", v[n].kind, &v[n].index, &v[n].pid) == 3)
			n++;
	if (f)
		fclose(f);
	return n;
}

/* --- messages --- */

struct out {
	uint8_t p[BUF_MAX];
	size_t n;
};

static void put(struct out *o, const void *p, size_t n)
{
	static const uint8_t zeros[NLA_ALIGNTO];
	size_t pad = NLA_ALIGN(n) - n;

	if (o->n + n + pad > sizeof(o->p)) {
		errno = EMSGSIZE;
		fail("answer");
	}
	memcpy(o->p + o->n, p, n);
	memcpy(o->p + o->n + n, zeros, pad);
	o->n += n + pad;
}

static void attr(struct out *o, uint16_t type, const void *p, size_t n)
{
	const struct nlattr a = {(uint16_t)(NLA_HDRLEN + n), type};

	put(o, &a, sizeof(a));
	put(o, p, n);
}

static void attr_u8(struct out *o, uint16_t type, uint8_t v)
{
	attr(o, type, &v, sizeof(v));
}

static void attr_u32(struct out *o, uint16_t type, uint32_t v)
{
	attr(o, type, &v, sizeof(v));
}

static void attr_string(struct out *o, uint16_t type, const char *s)
{
	attr(o, type, s, strlen(s) + 1);
}

static size_t nest(struct out *o, uint16_t type)
{
	attr(o, type | NLA_F_NESTED, NULL, 0);
	return o->n - NLA_HDRLEN;
}

static void nest_end(struct out *o, size_t at)
{
	((struct nlattr *)(void *)(o->p + at))->nla_len = (uint16_t)(o->n - at);
}

static size_t begin(struct out *o, uint16_t type, uint16_t flags, uint32_t seq)
{
	const struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq};

	put(o, &h, sizeof(h));
	return o->n - sizeof(h);
}

static void end(struct out *o, size_t at)
{
	((struct nlmsghdr *)(void *)(o->p + at))->nlmsg_len = (uint32_t)(o->n - at);
}

/* --- answers --- */

static void put_devices(struct out *o, const struct nlmsghdr *req)
{
	struct device v[OBJECTS_MAX];

	for (size_t i = 0, n = read_devices(v); i < n; i++) {
		size_t at = begin(o, req->nlmsg_type, NLM_F_MULTI, req->nlmsg_seq);

		attr_u32(o, RDMA_NLDEV_ATTR_DEV_INDEX, v[i].index);
		attr_string(o, RDMA_NLDEV_ATTR_DEV_NAME, v[i].name);
		attr_u32(o, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
		attr_u8(o, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, 1);
		attr_string(o, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
		end(o, at);
	}
}

static void put_port(struct out *o, const struct nlmsghdr *req, uint32_t index)
{
	struct device v[OBJECTS_MAX];

	for (size_t i = 0, n = read_devices(v); i < n; i++) {
		size_t at;

		if (v[i].index != index)
			continue;
		at = begin(o, req->nlmsg_type, NLM_F_MULTI, req->nlmsg_seq);
		attr_u32(o, RDMA_NLDEV_ATTR_DEV_INDEX, index);
		attr_string(o, RDMA_NLDEV_ATTR_DEV_NAME, v[i].name);
		attr_u32(o, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
		attr_u8(o, RDMA_NLDEV_ATTR_PORT_STATE, v[i].state);
		end(o, at);
	}
}

static void put_objects(struct out *o, const struct nlmsghdr *req, uint32_t index, bool are_qps)
{
	struct object v[OBJECTS_MAX];
	size_t at = begin(o, req->nlmsg_type, NLM_F_MULTI, req->nlmsg_seq), list;

	attr_u32(o, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	list = nest(o, are_qps ? RDMA_NLDEV_ATTR_RES_QP : RDMA_NLDEV_ATTR_RES_CTX);
	for (size_t i = 0, n = read_objects(v); i < n; i++) {
		size_t entry;

		if (v[i].index != index || strcmp(v[i].kind, are_qps ? "qp" : "ctx") != 0)
			continue;
		entry = nest(o, are_qps ? RDMA_NLDEV_ATTR_RES_QP_ENTRY
					: RDMA_NLDEV_ATTR_RES_CTX_ENTRY);
		attr_u32(o, are_qps ? RDMA_NLDEV_ATTR_RES_LQPN : RDMA_NLDEV_ATTR_RES_CTXN,
			 (uint32_t)i + 1);
		attr_u32(o, RDMA_NLDEV_ATTR_RES_PID, v[i].pid);
		nest_end(o, entry);
	}
	nest_end(o, list);
	end(o, at);
}

static void put_error(struct out *o, const struct nlmsghdr *req, int code)
{
	const struct nlmsgerr e = {.error = -code, .msg = *req};
	size_t at = begin(o, NLMSG_ERROR, 0, req->nlmsg_seq);

	put(o, &e, sizeof(e));
	end(o, at);
}

static uint32_t index_of(const struct nlmsghdr *req, size_t n)
{
	const uint8_t *p = (const uint8_t *)NLMSG_DATA(req);
	struct nlattr a;
	uint32_t index = 0;

	for (int left = (int)n - NLMSG_HDRLEN; left >= NLA_HDRLEN + (int)sizeof(index);) {
		memcpy(&a, p, sizeof(a));
		if (a.nla_type == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, p + NLA_HDRLEN, sizeof(index));
		if (a.nla_len < NLA_HDRLEN || NLA_ALIGN(a.nla_len) > left)
			break;
		p += NLA_ALIGN(a.nla_len);
		left -= NLA_ALIGN(a.nla_len);
	}
	return index;
}

/* Writes to o the answer to one request: the content of one datagram. */
static void answer(const struct nlmsghdr *req, size_t n, struct out *o)
{
	const int done = 0;
	size_t at;

	o->n = 0;
	switch (RDMA_NL_GET_OP(req->nlmsg_type)) {
	case RDMA_NLDEV_CMD_GET: put_devices(o, req); break;
	case RDMA_NLDEV_CMD_PORT_GET: put_port(o, req, index_of(req, n)); break;
	case RDMA_NLDEV_CMD_RES_QP_GET: put_objects(o, req, index_of(req, n), true); break;
	case RDMA_NLDEV_CMD_RES_CTX_GET: put_objects(o, req, index_of(req, n), false); break;
	default: put_error(o, req, EOPNOTSUPP); return;
	}
	at = begin(o, NLMSG_DONE, NLM_F_MULTI, req->nlmsg_seq);
	put(o, &done, sizeof(done));
	end(o, at);
}

/* --- the sockets of COMMAND --- */

/* [0]: the seccomp listener, which notifies of system calls; the others: this program's ends of the socket pairs whose other ends
 * are RDMA netlink sockets of COMMAND. */
static struct pollfd fds[1 + SOCKETS_MAX];
static size_t n_fds = 1;

static void respond(uint64_t id, int error)
{
	struct seccomp_notif_resp resp = {.id = id, .error = -error};

	/* ENOENT: the process was killed meanwhile */
	if (ioctl(fds[0].fd, SECCOMP_IOCTL_NOTIF_SEND, &resp) < 0 && errno != ENOENT)
		fail("respond");
}

static void open_socket(uint64_t id)
{
	static uint32_t count;
	struct seccomp_notif_addfd add = {.id = id,
					  .flags = SECCOMP_ADDFD_FLAG_SETFD |
						   SECCOMP_ADDFD_FLAG_SEND,
					  .newfd = FD_FIRST + count++ % SOCKETS_MAX,
					  .newfd_flags = O_CLOEXEC};
	int pair[2];

	if (n_fds == 1 + SOCKETS_MAX) {
		respond(id, EMFILE);
		return;
	}
	/* A SEQPACKET socket keeps datagrams apart and ignores the address that libnl passes to sendto(). */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		fail("socketpair");
	add.srcfd = (uint32_t)pair[1];
	if (ioctl(fds[0].fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 && errno != ENOENT)
		fail("add a descriptor");
	close(pair[1]);
	fds[n_fds++] = (struct pollfd){.fd = pair[0], .events = POLLIN};
}

static void name_socket(const struct seccomp_notif *req)
{
	const struct sockaddr_nl local = {.nl_family = AF_NETLINK, .nl_pid = req->pid};
	char path[64];
	int fd, error = 0;

	snprintf(path, sizeof(path), "/proc/%u/mem", req->pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, &local, sizeof(local), (off_t)req->data.args[1]) < 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	respond(req->id, error);
}

static void notified(void)
{
	struct seccomp_notif req = {0};

	if (ioctl(fds[0].fd, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0) {
		if (errno != ENOENT && errno != EINTR)
			fail("receive a notification");
		return;
	}
	switch (req.data.nr) {
	case SYS_socket: open_socket(req.id); break;
	case SYS_getsockname: name_socket(&req); break;
	default: /* bind */ respond(req.id, 0);
	}
}

/* Receives and answers one request. Returns false if COMMAND has closed the socket. */
static bool requested(int fd)
{
	static struct out o;
	static union {
		struct nlmsghdr header;
		uint8_t p[BUF_MAX];
	} req;
	ssize_t n = recv(fd, &req, sizeof(req), 0);

	if (n < (ssize_t)sizeof(req.header))
		return false;
	answer(&req.header, (size_t)n, &o);
	return send(fd, o.p, o.n, MSG_NOSIGNAL) >= 0;
}

static void serve(int listener)
{
	fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
	while (poll(fds, n_fds, -1) > 0 || errno == EINTR) {
		if (fds[0].revents & POLLHUP)
			return;
		for (size_t i = n_fds - 1; i > 0; i--)
			if (fds[i].revents && !requested(fds[i].fd)) {
				close(fds[i].fd);
				fds[i] = fds[--n_fds];
			}
		if (fds[0].revents & POLLIN)
			notified();
	}
}

/* --- start --- */

#define ARG(i)	     (offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t))
#define LOAD(at)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define IF_NOT(v, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), 0, (n))
#define IF(v, n)     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (n), 0)

static int install(void)
{
	struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		IF(SYS_bind, 6),
		IF(SYS_getsockname, 5),
		IF_NOT(SYS_socket, 7),
		LOAD(ARG(0)),
		IF_NOT(AF_NETLINK, 5),
		LOAD(ARG(2)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_RDMA, 2, 3),
		LOAD(ARG(0)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FD_FIRST, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("no_new_privs");
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &program);
	if (fd < 0)
		fail("seccomp");
	return fd;
}

static void send_descriptor(int socket, int fd)
{
	union {
		struct cmsghdr align;
		char p[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.p,
			   .msg_controllen = sizeof(control.p)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(socket, &m, 0) < 0)
		fail("send the listener");
}

static int receive_descriptor(int socket)
{
	union {
		struct cmsghdr align;
		char p[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.p,
			   .msg_controllen = sizeof(control.p)};
	int fd;

	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) <= 0 || !CMSG_FIRSTHDR(&m))
		fail("receive the listener");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* The serving process is no child of COMMAND, so COMMAND's wait() does not return it. */
static void start_server(int socket)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child > 0) {
		waitpid(child, NULL, 0);
		return;
	}
	if (fork() == 0)
		serve(receive_descriptor(socket));
	_exit(0);
}

int main(int argc, char **argv)
{
	int pair[2];

	if (argc < 3) {
		fprintf(stderr, "usage: rdma_netlink FOLDER COMMAND...\n");
		return 2;
	}
	folder = argv[1];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		fail("socketpair");
	start_server(pair[1]);
	send_descriptor(pair[0], install());
	execvp(argv[2], argv + 2);
	fail(argv[2]);
}
