/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/verbs_dev.h"
#include "kern/rdma/verbs_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/loop.h"
#include "kern/rdma/internal.h"
#include "kern/rdma/rdma.h"

uint32_t verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

/* Returns the largest MTU that is not larger than `bytes`; IBV_MTU_256 if all are larger. */
static enum ibv_mtu verbs_mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

/* Opens the device node itself to find the reason: libibverbs tries other ways to find a device
 * node that it may not open, and then reports ENOENT. */
int verbs_explain_not_open(const struct ibv_device *dev, int code, char *ret, size_t size)
{
	char node[96];
	auto_fd int fd = -1;

	snprintf(node, sizeof(node), "/dev/infiniband/%s", dev->dev_name);
	fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		code = -errno;
	snprintf(
		ret, size, "open %s: %s%s", node, errno_text(code),
		code == -EACCES || code == -EPERM
			? " (file mode or device cgroup denies it: a device plugin or 'privileged' "
			  "allows it in a container)"
			: "");
	return code;
}

static int open_failed(const struct ibv_device *dev, int code, struct err *e)
{
	char reason[RDMA_REASON_MAX];

	code = verbs_explain_not_open(dev, code, reason, sizeof(reason));
	return err_kind(e, ERR_UNAVAILABLE, code, "RDMA device '%s': %s", dev->name, reason);
}

static int open_listed(struct ibv_device **list, int n, const char *name, struct ibv_context **ret,
		       struct err *e)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		*ret = ibv_open_device(list[i]);
		return *ret ? 0 : open_failed(list[i], errno ? -errno : -EIO, e);
	}
	return err_kind(
		e, ERR_UNAVAILABLE, -ENODEV,
		"open RDMA device '%s': libibverbs does not list it; 'unirail rdma list' shows "
		"the reason",
		name);
}

int verbs_open(struct verbs_dev **ret, const char *name, struct err *e)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	struct verbs_dev *d;
	int n = 0, r;

	list = ibv_get_device_list(&n);
	if (!list)
		return err_sys(e, errno ? -errno : -EIO, "list RDMA devices");
	r = open_listed(list, n, name, &ctx, e);
	ibv_free_device_list(list);
	if (r < 0)
		return r;
	d = xcalloc(1, sizeof(*d));
	d->ctx = ctx;
	str_copy(d->name, sizeof(d->name), name);
	*ret = d;
	return 0;
}

void verbs_close(struct verbs_dev *d)
{
	if (!d)
		return;
	ibv_close_device(d->ctx);
	free(d);
}

void verbs_cleanup(struct verbs_dev **d)
{
	verbs_close(*d);
	*d = NULL;
}

const char *verbs_name(const struct verbs_dev *d)
{
	return d->name;
}

int verbs_events_fd(struct verbs_dev *d, struct err *e)
{
	int flags = fcntl(d->ctx->async_fd, F_GETFL);

	if (flags < 0 || fcntl(d->ctx->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, -errno, "watch RDMA device '%s'", d->name);
	return d->ctx->async_fd;
}

static bool is_of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR;
}

int verbs_event_next(struct verbs_dev *d)
{
	struct ibv_async_event ev;

	for (;;) {
		errno = 0;
		if (ibv_get_async_event(d->ctx, &ev) < 0) {
			if (errno == EINTR)
				continue;
			/* a disassociated device returns end of file, without errno */
			return errno == EAGAIN ? 0 : -ENODEV;
		}
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL)
			return -ENODEV;
		if (is_of_port(ev.event_type))
			return 1;
	}
}

int verbs_port_get(struct verbs_dev *d, uint32_t port, struct verbs_port *ret, struct err *e)
{
	struct ibv_port_attr attr;
	int code = ibv_query_port(d->ctx, (uint8_t)port, &attr);

	if (code)
		return err_sys(e, -code, "query port %u of RDMA device '%s'", port, d->name);
	*ret = (struct verbs_port){
		.port = port,
		.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET,
		.state = (uint8_t)attr.state,
		.lid = attr.lid,
		.mtu = verbs_mtu_bytes(attr.active_mtu),
	};
	return 0;
}

ssize_t verbs_gid_table(struct ibv_context *ctx, int table_len, struct ibv_gid_entry **ret)
{
	/* ibv_query_gid_table() returns the entries of all ports of the device, and fails with
	 * EINVAL if the buffer is larger than UINT16_MAX bytes. */
	size_t most = UINT16_MAX / sizeof(struct ibv_gid_entry);
	size_t whole = RDMA_PORTS_MAX * (size_t)(table_len > 0 ? table_len : 1);
	size_t room = whole < most ? whole : most;
	auto_free struct ibv_gid_entry *all = xcalloc(room, sizeof(*all));
	ssize_t n = ibv_query_gid_table(ctx, all, room, 0);

	if (n >= 0)
		*ret = take(all);
	return n;
}

static enum verbs_gid_type type_of(const struct ibv_gid_entry *g)
{
	if (g->gid_type == IBV_GID_TYPE_ROCE_V2)
		return VERBS_GID_ROCE_V2;
	return g->gid_type == IBV_GID_TYPE_ROCE_V1 ? VERBS_GID_ROCE_V1 : VERBS_GID_IB;
}

int verbs_gids(struct verbs_dev *d, struct verbs_gid **ret, size_t *n, struct err *e)
{
	auto_free struct ibv_gid_entry *all = NULL;
	struct ibv_port_attr attr = {0};
	struct verbs_gid *list;
	ssize_t got;

	/* port 1 stands for all: drivers give tables of the same size to all ports */
	ibv_query_port(d->ctx, 1, &attr);
	got = verbs_gid_table(d->ctx, attr.gid_tbl_len, &all);
	if (got < 0)
		return err_sys(e, (int)got, "read the GIDs of RDMA device '%s'", d->name);
	list = xcalloc((size_t)got, sizeof(*list));
	for (ssize_t i = 0; i < got; i++) {
		list[i] = (struct verbs_gid){
			.index = all[i].gid_index,
			.port = all[i].port_num,
			.type = type_of(&all[i]),
			.ifindex = (int)all[i].ndev_ifindex,
		};
		memcpy(list[i].raw, all[i].gid.raw, sizeof(list[i].raw));
	}
	*ret = list;
	*n = (size_t)got;
	return 0;
}

const char *verbs_gid_type_name(enum verbs_gid_type t)
{
	static const char *const names[] = {"IB", "RoCE v1", "RoCE v2"};

	return names[t];
}

/* --- posting work to a queue pair, and polling its completions --- */

/* Polling time before the process sleeps: longer than a round trip on a NIC. */
enum { SPIN_US = 100 };

/* Sets e to the reason of a failed completion; returns a negative errno. */
static int verbs_work_failed(const struct verbs_qp *q, int status, struct err *e)
{
	static const struct {
		int status, code;
		const char *name, *means;
	} all[] = {
		{IBV_WC_RETRY_EXC_ERR, ETIMEDOUT, "RETRY_EXC_ERR",
		 "the peer does not respond: check that its link is up, that 'ping' passes "
		 "between these two addresses, also with the full MTU ('ping -M do -s'), that no "
		 "firewall drops UDP port 4791, and that the GIDs of both sides have the right "
		 "interface and type"},
		{IBV_WC_RNR_RETRY_EXC_ERR, ETIMEDOUT, "RNR_RETRY_EXC_ERR",
		 "the peer has posted no receive request"},
		{IBV_WC_REM_ACCESS_ERR, EACCES, "REM_ACCESS_ERR",
		 "the peer's device refused access to its memory"},
		{IBV_WC_REM_INV_REQ_ERR, EINVAL, "REM_INV_REQ_ERR",
		 "the peer's device does not support this operation"},
		{IBV_WC_REM_OP_ERR, EREMOTEIO, "REM_OP_ERR", "the peer's device failed"},
		{IBV_WC_LOC_PROT_ERR, EFAULT, "LOC_PROT_ERR",
		 "this device cannot access this process's memory: check the settings of IOMMU and "
		 "ACS"},
		{IBV_WC_LOC_LEN_ERR, EMSGSIZE, "LOC_LEN_ERR", "a message is too long"},
		{IBV_WC_LOC_QP_OP_ERR, EIO, "LOC_QP_OP_ERR", "this device failed"},
		{IBV_WC_WR_FLUSH_ERR, ECANCELED, "WR_FLUSH_ERR",
		 "the connection broke: the port went down, the kernel has no route to the peer, "
		 "or an earlier work request failed"},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].status == status)
			return err_set(e, -all[i].code, "RDMA device '%s': %s: %s", q->dev->name,
				       all[i].name, all[i].means);
	return err_set(e, -EIO, "RDMA device '%s': a work request failed with completion status %d",
		       q->dev->name, status);
}

int verbs_post(struct verbs_qp *q, enum verbs_op op, uint64_t id, size_t at, size_t len,
	       uint64_t to, struct err *e)
{
	static const enum ibv_wr_opcode codes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						   IBV_WR_RDMA_READ};
	struct ibv_sge sge = {(uintptr_t)q->mem + at, (uint32_t)len, q->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = id,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = codes[op],
					 .send_flags = IBV_SEND_SIGNALED,
				 };
	int code;

	wr.wr.rdma.remote_addr = q->peer.addr + to;
	wr.wr.rdma.rkey = q->peer.rkey;
	code = ibv_post_send(q->qp, &wr, &bad);
	return code ? err_sys(e, -abs(code), "post a work request to RDMA device '%s'",
			      q->dev->name)
		    : 0;
}

int verbs_post_recv(struct verbs_qp *q, uint64_t id, size_t at, size_t len, struct err *e)
{
	struct ibv_sge sge = {(uintptr_t)q->mem + at, (uint32_t)len, q->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
	int code = ibv_post_recv(q->qp, &wr, &bad);

	return code ? err_sys(e, -abs(code), "post a receive request to RDMA device '%s'",
			      q->dev->name)
		    : 0;
}

/* Polls completed work, at most VERBS_POLL_MAX; 0: none yet. */
static int verbs_poll(struct verbs_qp *q, struct verbs_done *ret, struct err *e)
{
	struct ibv_wc wc[VERBS_POLL_MAX];
	int n = ibv_poll_cq(q->cq, VERBS_POLL_MAX, wc);

	if (n < 0)
		return err_sys(e, -EIO, "poll completions of RDMA device '%s'", q->dev->name);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return verbs_work_failed(q, (int)wc[i].status, e);
		ret[i] = (struct verbs_done){wc[i].wr_id, wc[i].byte_len,
					     (wc[i].opcode & IBV_WC_RECV) != 0};
	}
	return n;
}

/* Reads the event that woke the process, so that the next sleep does not end at once. */
static void take_event(struct verbs_qp *q)
{
	struct ibv_cq *cq;
	void *ctx;

	if (!ibv_get_cq_event(q->channel, &cq, &ctx))
		q->events++;
}

static int sleep_for(struct verbs_qp *q, int other_fd, int timeout_ms, struct err *e)
{
	struct pollfd p[] = {{q->channel->fd, POLLIN, 0}, {other_fd, POLLIN, 0}};
	int n = poll(p, 2, timeout_ms);

	if (n < 0)
		return err_sys(e, -errno, "wait for RDMA device '%s'", q->dev->name);
	if (n == 0)
		return err_set(e, -ETIMEDOUT,
			       "RDMA device '%s' has completed nothing for %d s: check that the "
			       "peer is still running",
			       q->dev->name, timeout_ms / 1000);
	if (p[0].revents)
		take_event(q);
	return p[0].revents ? 1 : 0;
}

int verbs_wait(struct verbs_qp *q, int other_fd, int timeout_ms, struct verbs_done *ret,
	       struct err *e)
{
	int64_t begin = now_mono_us();
	int n, woken = 1;

	do {
		n = verbs_poll(q, ret, e);
	} while (n == 0 && now_mono_us() - begin < SPIN_US);
	while (n == 0 && woken) {
		int code = ibv_req_notify_cq(q->cq, 0);

		if (code)
			return err_sys(e, -abs(code), "request an event of RDMA device '%s'",
				       q->dev->name);
		/* a completion before this request creates no event, so the queue is polled
		 * again */
		n = verbs_poll(q, ret, e);
		if (n != 0)
			break;
		woken = sleep_for(q, other_fd, timeout_ms, e);
		if (woken < 0)
			return woken;
		n = verbs_poll(q, ret, e);
	}
	return n;
}

enum { READS_MAX = 16 };

static int failed(int code, const char *what, const struct verbs_qp *q, struct err *e)
{
	return err_sys(e, code ? -abs(code) : -EIO, "%s on RDMA device '%s'", what, q->dev->name);
}

/* Sets e to the reason why memory cannot be registered. ENOMEM is usually due to the limit of
 * locked memory, which is 64 KiB or 8 MiB in most containers. */
static int no_memory(const struct verbs_qp *q, int code, struct err *e)
{
	struct rlimit lim = {0};

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (code != ENOMEM || lim.rlim_cur >= q->conf.bytes * 4)
		return failed(code, "register memory", q, e);
	return err_kind(
		e, ERR_UNAVAILABLE, -ENOMEM,
		"register %zu KiB of memory on RDMA device '%s': Cannot allocate memory "
		"(ENOMEM): this process may lock %llu KiB (RLIMIT_MEMLOCK): raise the limit by "
		"'ulimit -l unlimited', CAP_IPC_LOCK for the container, or LimitMEMLOCK=infinity "
		"for its runtime",
		q->conf.bytes >> 10, q->dev->name, (unsigned long long)lim.rlim_cur >> 10);
}

static int get_memory(struct verbs_qp *q, struct err *e)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	void *p = mmap(NULL, q->conf.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		return err_sys(e, -errno, "allocate %zu bytes of memory", q->conf.bytes);
	q->mem = p;
	q->pd = ibv_alloc_pd(q->dev->ctx);
	if (!q->pd)
		return failed(errno, "allocate a protection domain", q, e);
	q->mr = ibv_reg_mr(q->pd, q->mem, q->conf.bytes, access);
	return q->mr ? 0 : no_memory(q, errno, e);
}

static int get_queues(struct verbs_qp *q, struct err *e)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = q->conf.depth,
			.max_recv_wr = q->conf.depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	q->channel = ibv_create_comp_channel(q->dev->ctx);
	if (!q->channel)
		return failed(errno, "create a completion channel", q, e);
	q->cq = ibv_create_cq(q->dev->ctx, (int)q->conf.depth * 2, NULL, q->channel, 0);
	if (!q->cq)
		return failed(errno, "create a completion queue", q, e);
	init.send_cq = init.recv_cq = q->cq;
	q->qp = ibv_create_qp(q->pd, &init);
	return q->qp ? 0 : failed(errno, "create a queue pair", q, e);
}

static int to_init(struct verbs_qp *q, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)q->conf.port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int code = ibv_modify_qp(
		q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return code ? failed(code, "bring a queue pair to INIT", q, e) : 0;
}

static void choose_limits(struct verbs_qp *q)
{
	struct ibv_device_attr a;
	int reads = READS_MAX;

	if (!ibv_query_device(q->dev->ctx, &a)) {
		reads = a.max_qp_rd_atom < reads ? a.max_qp_rd_atom : reads;
		reads = a.max_qp_init_rd_atom < reads ? a.max_qp_init_rd_atom : reads;
	}
	q->reads = reads > 0 ? (uint32_t)reads : 1;
	if (getrandom(&q->psn, sizeof(q->psn), GRND_NONBLOCK) != (ssize_t)sizeof(q->psn))
		q->psn = (uint32_t)getpid();
	q->psn &= 0xffffff;
}

int verbs_qp_new(struct verbs_qp **ret, struct verbs_dev *d, const struct verbs_qp_conf *conf,
		 struct err *e)
{
	struct verbs_qp *q = xcalloc(1, sizeof(*q));
	int r;

	q->dev = d;
	q->conf = *conf;
	choose_limits(q);
	r = get_memory(q, e);
	if (r == 0)
		r = get_queues(q, e);
	if (r == 0)
		r = to_init(q, e);
	if (r < 0) {
		verbs_qp_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

void verbs_qp_free(struct verbs_qp *q)
{
	if (!q)
		return;
	if (q->qp)
		ibv_destroy_qp(q->qp);
	/* a completion queue with unacknowledged events cannot be destroyed */
	if (q->events)
		ibv_ack_cq_events(q->cq, q->events);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->pd)
		ibv_dealloc_pd(q->pd);
	if (q->mem)
		munmap(q->mem, q->conf.bytes);
	free(q);
}

uint8_t *verbs_qp_mem(struct verbs_qp *q)
{
	return q->mem;
}

uint32_t verbs_qp_mtu(const struct verbs_qp *q)
{
	return q->mtu;
}

void verbs_qp_end(const struct verbs_qp *q, struct verbs_end *ret)
{
	*ret = (struct verbs_end){
		.qpn = q->qp->qp_num,
		.psn = q->psn,
		.rkey = q->mr->rkey,
		.mtu = q->conf.mtu,
		.reads = q->reads,
		.lid = q->conf.lid,
		.ethernet = q->conf.ethernet,
		.addr = (uintptr_t)q->mem,
		.len = q->conf.bytes,
	};
	memcpy(ret->gid, q->conf.gid, sizeof(ret->gid));
}

/* --- connection of a queue pair --- */

static struct ibv_ah_attr path_to(const struct verbs_qp *q, const struct verbs_end *peer)
{
	struct ibv_ah_attr a = {.dlid = peer->lid, .port_num = (uint8_t)q->conf.port};

	if (!q->conf.ethernet && q->conf.gid_index < 0)
		return a;
	a.is_global = 1;
	a.grh.sgid_index = (uint8_t)q->conf.gid_index;
	a.grh.hop_limit = 64;
	memcpy(a.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	return a;
}

static int no_path(const struct verbs_qp *q, int code, struct err *e)
{
	const char *hint = "";

	if (q->conf.ethernet &&
	    (code == ETIMEDOUT || code == EHOSTUNREACH || code == ENETUNREACH || code == EINVAL))
		hint = " (no route to the peer's address from this GID: check that 'ping' "
		       "reaches it from this interface)";
	return err_set(e, -abs(code), "connect the queue pair on RDMA device '%s': %s%s",
		       q->dev->name, errno_text(code), hint);
}

static int to_rtr(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = verbs_mtu_of(peer->mtu < q->conf.mtu ? peer->mtu : q->conf.mtu),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = (uint8_t)q->reads,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = path_to(q, peer),
	};
	int code = ibv_modify_qp(q->qp, &a,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER);

	q->mtu = verbs_mtu_bytes(a.path_mtu);
	return code ? no_path(q, code, e) : 0;
}

static int to_rts(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		/* six retries after at least 0.54 s each detect a broken path within seconds;
		 * with retry_cnt 7, soft-RoCE would retry without limit */
		.timeout = 17,
		.retry_cnt = 6,
		.rnr_retry = 7, /* no limit of retries: the caller has a time limit */
		.sq_psn = q->psn,
		.max_rd_atomic = (uint8_t)(peer->reads < q->reads ? peer->reads : q->reads),
	};
	int code =
		ibv_modify_qp(q->qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return code ? failed(code, "bring a queue pair to RTS", q, e) : 0;
}

int verbs_qp_connect(struct verbs_qp *q, const struct verbs_end *peer, struct err *e)
{
	int r;

	if (peer->ethernet != q->conf.ethernet)
		return err_set(
			e, -EPROTO,
			"connect the queue pair: this side has a link of type %s, the peer of type %s",
			q->conf.ethernet ? "Ethernet" : "InfiniBand",
			peer->ethernet ? "Ethernet" : "InfiniBand");
	q->peer = *peer;
	r = to_rtr(q, peer, e);
	return r < 0 ? r : to_rts(q, peer, e);
}
