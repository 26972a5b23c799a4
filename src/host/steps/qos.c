/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind qos: lossless RoCE, as rdma-qos.sh configures it with mlnx_qos, cma_roce_mode and
 * cma_roce_tos: trust mode, PFC and ECN on the priority of RDMA traffic, DSCP and priority of
 * congestion notifications, traffic class of all connections. Each setting that differs is a
 * separate step, so that PFC is written only if it differs: mlx5 takes the port down when the set
 * of priorities with PFC changes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/nics.h"
#include "host/steps/steps.h"
#include "kern/net/dcb.h"
#include "kern/pci/fwctl.h"
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/roce.h"

enum {
	DSCP_DEFAULT = -1,
	PRIO_NONE = -1,
	DCBX_WANT = DCB_HOST | DCB_IEEE,
	LIST_MAX = 1024,
	BUFFER_CELL_MAX = 256
};

#define TCP_ECN "/proc/sys/net/ipv4/tcp_ecn"

/* --- the section's values --- */

struct qos_want {
	struct host_want head;
	int64_t priority, cnp_priority, dscp, cnp_dscp;
	int64_t storage_priority, storage_cnp_priority, storage_dscp, storage_cnp_dscp;
	int64_t cable;
	const char *nics, *trust, *ets, *prio_buffer, *buffer_size;
	bool force;
};

#define AT(m) offsetof(struct qos_want, m)
static const struct opt keys[] = {
	{"priority", 0, OPT_INT, "N", "priority of RDMA traffic, with PFC and ECN (5)",
	 AT(priority), 0, 7},
	{"cnp-priority", 0, OPT_INT, "N", "priority of congestion notifications (6)",
	 AT(cnp_priority), 0, 7},
	{"dscp", 0, OPT_INT, "DSCP", "DSCP of RDMA traffic (8 times its priority)", AT(dscp), 0,
	 63},
	{"cnp-dscp", 0, OPT_INT, "DSCP",
	 "DSCP of congestion notifications (8 times their priority)", AT(cnp_dscp), 0, 63},
	{"storage-priority", 0, OPT_INT, "N",
	 "priority of RDMA traffic for NICs that are not below a PCIe switch with a GPU",
	 AT(storage_priority), 0, 7},
	{"storage-cnp-priority", 0, OPT_INT, "N",
	 "priority of congestion notifications on the NICs that storage-priority applies to "
	 "(cnp-priority)",
	 AT(storage_cnp_priority), 0, 7},
	{"storage-dscp", 0, OPT_INT, "DSCP",
	 "DSCP of RDMA traffic on the NICs that storage-priority applies to (8 times "
	 "storage-priority)",
	 AT(storage_dscp), 0, 63},
	{"storage-cnp-dscp", 0, OPT_INT, "DSCP",
	 "DSCP of congestion notifications on the NICs that storage-priority applies to (8 times "
	 "their priority)",
	 AT(storage_cnp_dscp), 0, 63},
	{"nics", 0, OPT_STR, "NAME,...",
	 "interfaces, RDMA devices or PCI addresses of the NICs to configure (default: all NICs "
	 "with RoCE)",
	 AT(nics), 0, 0},
	{"trust", 0, OPT_CHOICE, "dscp|pcp", "field that decides a packet's priority (dscp)",
	 AT(trust), 0, 0},
	{"cable-length", 0, OPT_INT, "METRES", "length of the cable, for the size of PFC's buffers",
	 AT(cable), 1, 999},
	{"ets", 0, OPT_STR, "PERCENT,...",
	 "bandwidth of the 8 traffic classes in percent, 0: strict priority", AT(ets), 0, 0},
	{"priority-buffer", 0, OPT_STR, "N,...", "receive buffer of each of the 8 priorities",
	 AT(prio_buffer), 0, 0},
	{"buffer-size", 0, OPT_STR, "BYTES,...", "size of each of the 8 receive buffers",
	 AT(buffer_size), 0, 0},
	{"force", 0, OPT_FLAG, NULL, "set PFC also on a port with open queue pairs", AT(force), 0,
	 0},
	{0},
};
static const char *const env[] = {"GPU_RDMA_PRIORITY", "GPU_CNP_PRIORITY", "GPU_RDMA_QOS",
				  /* rdma-qos.sh documents GPU_CNP_QOS but reads GPU_NIC_QOS, so
				   * both are accepted */
				  "GPU_CNP_QOS|GPU_NIC_QOS", "STORAGE_RDMA_PRIORITY",
				  "STORAGE_CNP_PRIORITY", "STORAGE_RDMA_QOS", "STORAGE_CNP_QOS",
				  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

/* The settings of one group of NICs (GPU or storage). */
struct class
{
	uint8_t prio, cnp_prio, dscp, cnp_dscp;
};

static void init(void *want)
{
	struct qos_want *w = want;

	w->priority = 5;
	w->cnp_priority = 6;
	w->dscp = w->cnp_dscp = DSCP_DEFAULT;
	w->storage_priority = w->storage_cnp_priority = PRIO_NONE;
	w->storage_dscp = w->storage_cnp_dscp = DSCP_DEFAULT;
	w->trust = "dscp";
}

static struct class class_of(int64_t prio, int64_t cnp_prio, int64_t dscp, int64_t cnp_dscp)
{
	return (struct class){.prio = (uint8_t)prio,
			      .cnp_prio = (uint8_t)cnp_prio,
			      .dscp = (uint8_t)(dscp == DSCP_DEFAULT ? 8 * prio : dscp),
			      .cnp_dscp = (uint8_t)(cnp_dscp == DSCP_DEFAULT ? 8 * cnp_prio
									     : cnp_dscp)};
}

static bool has_storage(const struct qos_want *w)
{
	return w->storage_priority != PRIO_NONE;
}

static struct class class_for(const struct qos_want *w, const struct host_nic *nic)
{
	if (has_storage(w) && !nic->gpu)
		return class_of(w->storage_priority,
				w->storage_cnp_priority == PRIO_NONE ? w->cnp_priority
								     : w->storage_cnp_priority,
				w->storage_dscp, w->storage_cnp_dscp);
	return class_of(w->priority, w->cnp_priority, w->dscp, w->cnp_dscp);
}

static int check_dscp(const char *key, unsigned int dscp, unsigned int prio, struct err *e)
{
	if (dscp >> 3 == prio)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s is %u, expected %u to %u, which belong to priority %u", key, dscp,
			8 * prio, 8 * prio + 7, prio);
}

static int check_class(const char *group, struct class c, struct err *e)
{
	char key[40];
	int r;

	if (c.prio == c.cnp_prio)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%spriority and %scnp-priority are both %u; choose two priorities",
				group, group, c.prio);
	snprintf(key, sizeof(key), "%sdscp", group);
	r = check_dscp(key, c.dscp, c.prio, e);
	snprintf(key, sizeof(key), "%scnp-dscp", group);
	return r < 0 ? r : check_dscp(key, c.cnp_dscp, c.cnp_prio, e);
}

/* Parses eight numbers; text NULL: *ret is not changed. */
static int parse_eight(const char *key, const char *text, uint64_t max, uint64_t ret[DCB_PRIOS],
		       struct err *e)
{
	struct span rest = span_of(text), part;
	size_t n = 0;

	if (!text)
		return 0;
	while (span_cut(&rest, ',', &part)) {
		if (n == DCB_PRIOS || num_u64(span_trim(part), 0, max, &ret[n]) < 0)
			break;
		n++;
	}
	if (n == DCB_PRIOS && !rest.p)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s is '%s', expected 8 numbers of at most %llu separated by commas", key,
			text, (unsigned long long)max);
}

static int check_ets(const struct qos_want *w, struct err *e)
{
	uint64_t bw[DCB_PRIOS] = {0}, sum = 0;
	int r = parse_eight("ets", w->ets, 100, bw, e);

	for (size_t i = 0; i < DCB_PRIOS; i++)
		sum += bw[i];
	if (r == 0 && w->ets && sum != 100 && sum != 0)
		return err_kind(e, ERR_CONF, -EINVAL, "ets is '%s', which adds up to %llu, not 100",
				w->ets, (unsigned long long)sum);
	return r;
}

/* Storage NICs have settings of their own only if storage-priority is set. Without it the other
 * storage-* keys would have no effect, so they are refused. */
static int check_storage(const struct qos_want *w, struct err *e)
{
	const char *key = w->storage_cnp_priority != PRIO_NONE	? "storage-cnp-priority"
			  : w->storage_dscp != DSCP_DEFAULT	? "storage-dscp"
			  : w->storage_cnp_dscp != DSCP_DEFAULT ? "storage-cnp-dscp"
								: NULL;

	if (has_storage(w) || !key)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s without storage-priority has no effect; set storage-priority "
			"(STORAGE_RDMA_PRIORITY) or remove %s",
			key, key);
}

static int check(void *want, struct err *e)
{
	const struct qos_want *w = want;
	uint64_t v[DCB_PRIOS];
	struct host_nic gpu = {.gpu = true}, other = {.gpu = false};
	int r = check_class("", class_for(w, &gpu), e);

	if (r == 0)
		r = check_storage(w, e);
	if (r == 0 && has_storage(w))
		r = check_class("storage-", class_for(w, &other), e);
	if (r == 0)
		r = check_ets(w, e);
	if (r == 0)
		r = parse_eight("priority-buffer", w->prio_buffer, 7, v, e);
	return r < 0 ? r : parse_eight("buffer-size", w->buffer_size, UINT32_MAX, v, e);
}

/* --- the state of ports --- */

/* A number in a file of the driver; path "": the driver does not have the file, the file cannot
 * be read, or the number was read by fwctl (port.firmware). */
struct value {
	char path[ROCE_PATH_MAX];
	int v;
};

struct port {
	struct host_nic nic;
	/* firmware: ECN is read and set by fwctl, since the driver has no files for it */
	bool has_dcb, firmware;
	char no_dcb[256];
	struct dcb dcb;
	char trust[16]; /* trust setting of NVIDIA's driver; "": the driver does not have it */
	struct value np[DCB_PRIOS], rp[DCB_PRIOS], cnp_dscp, cnp_prio, tclass;
	bool has_cm;
	struct roce_cm cm;
	size_t qps;   /* number of queue pairs that processes have open */
	uint32_t pid; /* one of these processes */
};

struct qos_found {
	struct port *v;
	struct host_nic *nics;
	size_t n, n_nics;
	char *tcp_ecn, *rival;
};

static void forget(void *found)
{
	struct qos_found *f = found;

	if (!f)
		return;
	free(f->v);
	free(f->nics);
	free(f->tcp_ecn);
	free(f->rival);
	free(f);
}

static void read_value(struct host *h, const struct roce_port *rp, enum roce_param p,
		       unsigned int prio, struct value *ret)
{
	if (!roce_param_path(&h->root, rp, p, prio, ret->path) ||
	    roce_param_read(&h->root, ret->path, &ret->v, NULL) < 0)
		ret->path[0] = '\0';
}

static void read_firmware(struct host *h, struct port *p)
{
	struct fwctl f;
	bool on;

	if (!h->kernel || p->np[0].path[0] || fwctl_open(&f, &h->root, p->nic.pci.bdf, NULL) < 0)
		return;
	p->firmware = true;
	for (unsigned int i = 0; i < DCB_PRIOS && p->firmware; i++) {
		p->firmware = fwctl_cong_get(&f, FWCTL_CONG_NP, i, &on, NULL) == 0;
		p->np[i].v = on;
		if (p->firmware)
			p->firmware = fwctl_cong_get(&f, FWCTL_CONG_RP, i, &on, NULL) == 0;
		p->rp[i].v = on;
	}
	fwctl_close(&f);
}

static void read_files(struct host *h, struct port *p)
{
	struct roce_port rp = {p->nic.netdev, p->nic.rdma, p->nic.pci.bdf};
	auto_free char *path = xasprintf("/sys/class/net/%s/qos/trust", p->nic.netdev);

	for (unsigned int i = 0; i < DCB_PRIOS && !host_nic_is_vf(&p->nic); i++) {
		read_value(h, &rp, ROCE_ECN_NP, i, &p->np[i]);
		read_value(h, &rp, ROCE_ECN_RP, i, &p->rp[i]);
	}
	if (!host_nic_is_vf(&p->nic)) {
		read_value(h, &rp, ROCE_CNP_DSCP, 0, &p->cnp_dscp);
		read_value(h, &rp, ROCE_CNP_PRIO, 0, &p->cnp_prio);
		if (p->nic.netdev[0] &&
		    file_read_line(&h->root, path, p->trust, sizeof(p->trust), NULL) < 0)
			p->trust[0] = '\0';
		read_firmware(h, p);
	}
	read_value(h, &rp, ROCE_TRAFFIC_CLASS, 0, &p->tclass);
	p->has_cm = p->nic.rdma[0] &&
		    roce_cm_read(&h->root, p->nic.rdma, 1, h->kernel, &p->cm, NULL) == 0;
}

static int read_dcb(struct nl_wire *w, struct port *p, struct err *e)
{
	struct err reason = ERR_INIT;
	int r = dcb_get(w, p->nic.netdev, &p->dcb, &reason);

	p->has_dcb = r == 0;
	if (r == -EOPNOTSUPP || r == -ENODEV) {
		snprintf(p->no_dcb, sizeof(p->no_dcb), "%.250s", reason.text);
		return 0;
	}
	if (r < 0 && e)
		*e = reason;
	return r;
}

/* Sets *ret to the netlink connection for DCB. On a running host it is the kernel's; for a snapshot
 * it replays the messages in dcb.nl, which are in the order of PCI addresses, and the caller
 * closes the connection by closing *own. *ret is NULL for a snapshot without dcb.nl and for a
 * host that does not run: no port has DCB then. */
static int open_dcb(struct host *h, struct nl_wire **own, struct nl_wire **ret, struct err *e)
{
	auto_free char *path = xasprintf("%s" HOST_RECORDED "/dcb.nl", h->dir ? h->dir : "");

	*ret = *own = NULL;
	if (h->kernel)
		return host_route_wire(h, ret, e);
	if (!h->recorded || !file_exists(&h->root, HOST_RECORDED "/dcb.nl"))
		return 0;
	*ret = NULL;
	if (nl_open_replay(own, path, e) < 0)
		return err_wrap(e, -EINVAL, "read the recorded DCB");
	*ret = *own;
	return 0;
}

/* Counts for each port the queue pairs that processes have open. A change of PFC takes the port
 * down and breaks their connections. */
static void count_qps(struct host *h, struct qos_found *f)
{
	auto_nl struct nl_wire *w = NULL;
	auto_free struct rdma_dev *devs = NULL;
	size_t n = 0;

	if (!h->kernel || nl_open(&w, NL_RDMA, -1, NULL) < 0 ||
	    rdma_nl_list(w, &devs, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < n; k++) {
			auto_free struct rdma_res *qps = NULL;
			size_t n_qps = 0;

			if (strcmp(devs[k].name, f->v[i].nic.rdma) != 0 ||
			    rdma_nl_res_list(w, devs[k].index, RDMA_RES_QP, &qps, &n_qps, NULL) < 0)
				continue;
			for (size_t q = 0; q < n_qps; q++) {
				if (qps[q].owner[0] || !qps[q].pid)
					continue;
				f->v[i].qps++;
				f->v[i].pid = qps[q].pid;
			}
		}
	}
}

/* Returns the name of a running lldpad or dcbd, which set DCB themselves; NULL: neither runs. The
 * caller frees it. */
static char *find_rival(struct host *h)
{
	char **names = NULL, *found = NULL;
	size_t n = 0;

	if (dir_list(&h->root, "/proc", &names, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf("/proc/%s/comm", names[i]);
		auto_free char *comm =
			names[i][0] >= '1' && names[i][0] <= '9' ? host_attr_read(h, path) : NULL;

		if (comm && (!strcmp(comm, "lldpad") || !strcmp(comm, "dcbd")))
			found = take(comm);
	}
	str_list_free(names, n);
	return found;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct qos_found *f = xcalloc(1, sizeof(*f));
	auto_nl struct nl_wire *own = NULL;
	struct nl_wire *wire;
	int r = host_nics_read(h, &f->nics, &f->n_nics, e);

	(void)w;
	*found = f;
	if (r == 0)
		r = open_dcb(h, &own, &wire, e);
	for (size_t i = 0; r == 0 && i < f->n_nics; i++) {
		struct port *p;

		if (f->nics[i].infiniband)
			continue;
		p = &VEC_PUSH(f->v, f->n);
		p->nic = f->nics[i];
		read_files(h, p);
		if (wire && p->nic.netdev[0] && !host_nic_is_vf(&p->nic))
			r = read_dcb(wire, p, e);
	}
	if (r < 0)
		return r;
	count_qps(h, f);
	f->tcp_ecn = host_attr_read(h, TCP_ECN);
	f->rival = find_rival(h);
	return 0;
}

/* --- steps --- */

struct work {
	const struct qos_want *w;
	const struct port *p;
	struct class c;
	struct host_plan *plan;
};

static struct host_step *begin(const struct work *k, const char *verb)
{
	struct host_step *s = host_plan_add(k->plan, "qos", host_nic_name(&k->p->nic));

	host_op_begin(&s->action, verb);
	host_op_begin(&s->undo, verb);
	return s;
}

static void both(struct host_step *s, const char *key, const char *now, const char *want)
{
	host_op_add(&s->action, key, "%s", want);
	host_op_add(&s->undo, key, "%s", now);
}

static void both_numbers(struct host_step *s, const char *key, unsigned int now, unsigned int want)
{
	host_op_add(&s->action, key, "%u", want);
	host_op_add(&s->undo, key, "%u", now);
}

static void text(struct host_step *s, const char *name, const char *now, const char *want)
{
	auto_free char *a = xasprintf("%s %s", name, now), *b = xasprintf("%s %s", name, want);

	host_step_text(s, a, b);
}

static void dcbx(const struct work *k)
{
	const struct dcb *d = &k->p->dcb;
	struct host_step *s;

	if (!d->has_dcbx || d->dcbx & DCB_HOST)
		return;
	s = begin(k, "dcbx");
	host_step_text(s, "DCBX by the firmware", "DCBX by the host");
	host_step_command(s, "mlnx_qos -i %s -d os", k->p->nic.netdev);
	both(s, "ifname", k->p->nic.netdev, k->p->nic.netdev);
	both_numbers(s, "mode", d->dcbx, DCBX_WANT);
}

/* Adds a step that writes the trust mode to the file that only NVIDIA's driver has. */
static void trust_file(const struct work *k)
{
	auto_free char *path = xasprintf("/sys/class/net/%s/qos/trust", k->p->nic.netdev);
	auto_free char *now = xasprintf("trust %s", k->p->trust);
	auto_free char *want = xasprintf("trust %s", k->w->trust);
	struct host_step *s;

	if (!k->p->trust[0] || !strcmp(k->p->trust, k->w->trust))
		return;
	s = host_plan_attr(k->plan, "qos", k->p->nic.netdev, path, k->p->trust, k->w->trust);
	if (!s)
		return;
	host_step_text(s, now, want);
	host_step_command(s, "mlnx_qos -i %s --trust %s", k->p->nic.netdev, k->w->trust);
}

static void add_pair(struct buf *b, unsigned int dscp, int prio)
{
	buf_printf(b, "%s%u:%d", b->len ? "," : "", dscp, prio);
}

static void dscps(const struct work *k)
{
	const struct dcb *d = &k->p->dcb;
	bool by_dscp = !strcmp(k->w->trust, "dscp");
	auto_buf struct buf add, del;
	struct host_step *s;

	buf_init(&add, LIST_MAX);
	buf_init(&del, LIST_MAX);
	for (unsigned int i = 0; i < DCB_DSCPS; i++) {
		int want = by_dscp ? (int)(i >> 3) : -1, now = d->dscp_prio[i];

		/* with the trust file of NVIDIA's driver, a DSCP without an entry has the priority
		 * DSCP / 8 */
		if (now == want || (k->p->trust[0] && now < 0))
			continue;
		if (now >= 0)
			add_pair(&del, i, now);
		if (want >= 0)
			add_pair(&add, i, want);
	}
	if (!add.len && !del.len)
		return;
	s = begin(k, "dscp");
	text(s, "trust",
	     !dcb_trusts_dscp(d) && !k->p->trust[0] ? "pcp"
	     : by_dscp				    ? "dscp, some DSCPs with other priorities"
						    : "dscp",
	     by_dscp ? "dscp, DSCPs 8p to 8p+7 with priority p" : "pcp");
	host_step_command(s, "mlnx_qos -i %s --trust %s", k->p->nic.netdev, k->w->trust);
	both(s, "ifname", k->p->nic.netdev, k->p->nic.netdev);
	both(s, "add", del.len ? del.p : "", add.len ? add.p : "");
	both(s, "del", add.len ? add.p : "", del.len ? del.p : "");
}

/* Lists the priorities in a mask: "5", "3,5" or "none". */
static char *prios(uint8_t mask)
{
	auto_buf struct buf b;

	buf_init(&b, 32);
	for (unsigned int i = 0; i < DCB_PRIOS; i++)
		if (mask >> i & 1)
			buf_printf(&b, "%s%u", b.len ? "," : "", i);
	return b.len ? buf_take(&b) : xstrdup("none");
}

static void pfc_command(struct host_step *s, const char *ifname, uint8_t mask)
{
	char list[2 * DCB_PRIOS];

	for (unsigned int i = 0; i < DCB_PRIOS; i++) {
		list[2 * i] = mask >> i & 1 ? '1' : '0';
		list[2 * i + 1] = i + 1 < DCB_PRIOS ? ',' : '\0';
	}
	host_step_command(s, "mlnx_qos -i %s --pfc %s", ifname, list);
}

static void pfc(const struct work *k)
{
	const struct dcb_pfc *now = &k->p->dcb.pfc;
	uint8_t mask = (uint8_t)(1 << k->c.prio);
	uint16_t delay = k->w->cable ? (uint16_t)k->w->cable : now->delay;
	auto_free char *a = prios(now->enabled), *b = prios(mask);
	struct host_step *s;

	if (!k->p->dcb.has_pfc || (now->enabled == mask && now->delay == delay))
		return;
	s = begin(k, "pfc");
	text(s, "PFC on priority", a, b);
	if (now->enabled == mask) {
		auto_free char *c = xasprintf("cable length %u m", now->delay);
		auto_free char *d = xasprintf("cable length %u m", delay);

		host_step_text(s, c, d);
	}
	pfc_command(s, k->p->nic.netdev, mask);
	both(s, "ifname", k->p->nic.netdev, k->p->nic.netdev);
	both_numbers(s, "enabled", now->enabled, mask);
	both_numbers(s, "delay", now->delay, delay);
	s->interrupts = true;
	if (k->p->qps && !k->w->force)
		host_step_blocked(s,
				  "setting PFC takes the port down, and %zu queue pairs are open "
				  "on '%s' (pid %u): stop their programs, or use --force",
				  k->p->qps, k->p->nic.rdma, k->p->pid);
}

static char *eight(const uint64_t v[DCB_PRIOS])
{
	auto_buf struct buf b;

	buf_init(&b, 128);
	for (size_t i = 0; i < DCB_PRIOS; i++)
		buf_printf(&b, "%s%llu", i ? "," : "", (unsigned long long)v[i]);
	return buf_take(&b);
}

static char *eight_bytes(const uint8_t v[DCB_PRIOS])
{
	uint64_t wide[DCB_PRIOS];

	for (size_t i = 0; i < DCB_PRIOS; i++)
		wide[i] = v[i];
	return eight(wide);
}

static void ets(const struct work *k)
{
	const struct dcb_ets *now = &k->p->dcb.ets;
	uint64_t bw[DCB_PRIOS] = {0};
	uint8_t want_bw[DCB_PRIOS], want_tsa[DCB_PRIOS];
	struct host_step *s;

	if (!k->w->ets || !k->p->dcb.has_ets || parse_eight("ets", k->w->ets, 100, bw, NULL) < 0)
		return;
	for (size_t i = 0; i < DCB_PRIOS; i++) {
		want_bw[i] = (uint8_t)bw[i];
		want_tsa[i] = bw[i] ? DCB_TSA_ETS : DCB_TSA_STRICT;
	}
	if (!memcmp(now->tx_bw, want_bw, sizeof(want_bw)) &&
	    !memcmp(now->tsa, want_tsa, sizeof(want_tsa)))
		return;
	{
		auto_free char *a = eight_bytes(now->tx_bw), *b = eight_bytes(want_bw);
		auto_free char *ta = eight_bytes(now->tsa), *tb = eight_bytes(want_tsa);
		auto_free char *tc = eight_bytes(now->prio_tc);

		s = begin(k, "ets");
		text(s, "ETS", a, b);
		host_step_command(s, "mlnx_qos -i %s -t %s", k->p->nic.netdev, b);
		both(s, "ifname", k->p->nic.netdev, k->p->nic.netdev);
		both(s, "bandwidth", a, b);
		both(s, "tsa", ta, tb);
		both(s, "tc", tc, tc);
	}
}

/* Firmware rounds a size down to whole cells. A cell of ConnectX has at most 240 bytes, less
 * than BUFFER_CELL_MAX. */
static bool same_size(uint64_t now, uint64_t want)
{
	return now <= want && want - now < BUFFER_CELL_MAX;
}

static void buffers(const struct work *k)
{
	const struct dcb_buffers *now = &k->p->dcb.buffers;
	uint64_t prio[DCB_PRIOS], size[DCB_PRIOS];
	bool same = true;

	if ((!k->w->prio_buffer && !k->w->buffer_size) || !k->p->dcb.has_buffers)
		return;
	for (size_t i = 0; i < DCB_PRIOS; i++) {
		prio[i] = now->prio_buffer[i];
		size[i] = now->size[i];
	}
	parse_eight("priority-buffer", k->w->prio_buffer, 7, prio, NULL);
	parse_eight("buffer-size", k->w->buffer_size, UINT32_MAX, size, NULL);
	for (size_t i = 0; i < DCB_PRIOS; i++)
		same &= prio[i] == now->prio_buffer[i] && same_size(now->size[i], size[i]);
	if (!same) {
		uint64_t now_size[DCB_PRIOS];
		auto_free char *pa = eight_bytes(now->prio_buffer), *pb = eight(prio);
		auto_free char *sa = NULL, *sb = eight(size);
		struct host_step *s = begin(k, "buffers");

		for (size_t i = 0; i < DCB_PRIOS; i++)
			now_size[i] = now->size[i];
		sa = eight(now_size);
		text(s, "buffers", sa, sb);
		host_step_command(s, "mlnx_qos -i %s --buffer_size %s --prio2buffer %s",
				  k->p->nic.netdev, sb, pb);
		both(s, "ifname", k->p->nic.netdev, k->p->nic.netdev);
		both(s, "priority", pa, pb);
		both(s, "size", sa, sb);
	}
}

static void number_file(const struct work *k, const struct value *v, const char *name, int want)
{
	auto_free char *now = NULL, *will = NULL, *old = NULL;
	struct host_step *s;
	char value[16];

	if (!v->path[0] || v->v == want)
		return;
	snprintf(value, sizeof(value), "%d", want);
	/* The file traffic_class is empty if no class for all connections is set; "tclass=-1"
	 * restores this state. */
	old = v->v < 0 ? xstrdup("tclass=-1") : xasprintf("%d", v->v);
	now = v->v < 0 ? xasprintf("%s not set", name) : xasprintf("%s %d", name, v->v);
	will = xasprintf("%s %d", name, want);
	s = host_plan_attr(k->plan, "qos", host_nic_name(&k->p->nic), v->path, old, value);
	if (s)
		host_step_text(s, now, will);
}

static void ecn_firmware(const struct work *k, const char *name, const struct value *v)
{
	struct host_step *s;

	if (v[k->c.prio].v)
		return;
	s = begin(k, "ecn");
	text(s, name, "off", "on");
	host_step_command(s, "echo 1 > /sys/class/net/%s/ecn/%s/enable/%u", k->p->nic.netdev, name,
			  k->c.prio);
	both(s, "bdf", k->p->nic.pci.bdf, k->p->nic.pci.bdf);
	both(s, "point", name, name);
	both_numbers(s, "priority", k->c.prio, k->c.prio);
	both_numbers(s, "on", 0, 1);
}

static void ecn(const struct work *k)
{
	char name[40];

	if (k->p->firmware) {
		ecn_firmware(k, "roce_np", k->p->np);
		ecn_firmware(k, "roce_rp", k->p->rp);
		return;
	}
	snprintf(name, sizeof(name), "ECN roce_np of priority %u:", k->c.prio);
	number_file(k, &k->p->np[k->c.prio], name, 1);
	snprintf(name, sizeof(name), "ECN roce_rp of priority %u:", k->c.prio);
	number_file(k, &k->p->rp[k->c.prio], name, 1);
	if (!k->p->np[k->c.prio].path[0] && k->p->has_dcb)
		host_plan_remark(
			k->plan, "qos", host_nic_name(&k->p->nic),
			"ECN of priority %u cannot be read here: it needs NVIDIA's driver or "
			"/dev/fwctl (Linux 6.15, mlx5_fwctl)",
			k->c.prio);
}

static void cm(const struct work *k)
{
	const struct roce_cm *now = &k->p->cm;
	unsigned int tos = (unsigned int)k->c.dscp << 2;
	struct host_step *s;

	if (!k->p->has_cm)
		return;
	if (strcmp(now->mode, "RoCE v2") != 0) {
		s = begin(k, "cm-mode");
		text(s, "RDMA-CM default", now->mode, "RoCE v2");
		host_step_command(s, "cma_roce_mode -d %s -p 1 -m 2", k->p->nic.rdma);
		both(s, "device", k->p->nic.rdma, k->p->nic.rdma);
		both(s, "mode", now->mode, "RoCE v2");
	}
	if (now->tos >= 0 && now->tos != (int)tos) {
		auto_free char *a = xasprintf("%d", now->tos), *b = xasprintf("%u", tos);

		s = begin(k, "cm-tos");
		text(s, "RDMA-CM ToS", a, b);
		host_step_command(s, "cma_roce_tos -d %s -t %u", k->p->nic.rdma, tos);
		both(s, "device", k->p->nic.rdma, k->p->nic.rdma);
		both(s, "tos", a, b);
	}
}

static void peer(const struct work *k)
{
	const struct dcb *d = &k->p->dcb;
	uint8_t mask = (uint8_t)(1 << k->c.prio);

	if (d->has_peer_pfc && d->peer_pfc.enabled != mask) {
		auto_free char *announced = prios(d->peer_pfc.enabled);

		host_plan_remark(
			k->plan, "qos", k->p->nic.netdev,
			"the switch announces PFC on priority %s, this host uses %u: configure "
			"the same priority on the switch port",
			announced, k->c.prio);
	}
}

static void decide_port(const struct work *k)
{
	bool pf = !host_nic_is_vf(&k->p->nic);

	if (pf && k->p->has_dcb) {
		dcbx(k);
		trust_file(k);
		dscps(k);
		pfc(k);
		ets(k);
		buffers(k);
		peer(k);
	} else if (pf) {
		trust_file(k);
		if (k->p->no_dcb[0])
			host_plan_remark(k->plan, "qos", host_nic_name(&k->p->nic), "%s",
					 k->p->no_dcb);
	}
	if (pf) {
		ecn(k);
		number_file(k, &k->p->cnp_dscp, "DSCP of CNPs", k->c.cnp_dscp);
		number_file(k, &k->p->cnp_prio, "priority of CNPs", k->c.cnp_prio);
	}
	number_file(k, &k->p->tclass, "traffic class", k->c.dscp << 2);
	cm(k);
}

static void decide_host(const struct qos_found *f, const struct qos_want *w, struct host_plan *p)
{
	bool inbox = false;

	for (size_t i = 0; i < f->n; i++)
		inbox |= !f->v[i].tclass.path[0] && f->v[i].nic.rdma[0];
	if (f->tcp_ecn && f->n && strcmp(f->tcp_ecn, "1") != 0)
		host_plan_attr(p, "qos", "host", TCP_ECN, f->tcp_ecn, "1");
	if (f->rival && f->n)
		host_plan_remark(
			p, "qos", "host",
			"'%s' runs and may overwrite these settings: stop it, or give it the same "
			"configuration",
			f->rival);
	if (inbox && !has_storage(w))
		host_plan_remark(p, "qos", "host",
				 "the driver has no setting for the traffic class of all "
				 "connections, so each program chooses its own: set "
				 "NCCL_IB_TC=%u in the pods",
				 class_for(w, &(struct host_nic){.gpu = true}).dscp << 2);
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct qos_found *f = found;

	for (size_t i = 0; i < w->n; i++) {
		const struct qos_want *one = (const struct qos_want *)w->v[i];
		int r = host_nics_check_list(f->nics, f->n_nics, "nics", one->nics, e);

		if (r < 0)
			return r;
		for (size_t k = 0; k < f->n; k++)
			if (!one->nics || host_nic_listed(&f->v[k].nic, one->nics))
				decide_port(&(struct work){.w = one,
							   .p = &f->v[k],
							   .c = class_for(one, &f->v[k].nic),
							   .plan = p});
		decide_host(f, one, p);
	}
	if (w->n && !f->n)
		host_plan_remark(p, "qos", "host", "this host has no NIC with RoCE");
	return 0;
}

/* --- execution of the operations on a port --- */

static size_t parse_dscps(const char *list, struct dcb_entry ret[DCB_DSCPS])
{
	struct span rest = span_of(list), part, dscp;
	size_t n = 0;

	while (n < DCB_DSCPS && span_cut(&rest, ',', &part)) {
		uint64_t d, p;

		if (!span_cut(&part, ':', &dscp) || num_u64(dscp, 0, 63, &d) < 0 ||
		    num_u64(part, 0, 7, &p) < 0)
			continue;
		ret[n++] = (struct dcb_entry){DCB_SEL_DSCP, (uint8_t)p, (uint16_t)d};
	}
	return n;
}

/* Adds only the entries that the device does not have, and deletes only those that it has: after
 * a kill in the middle of this operation some changes are made already, and deleting a missing
 * entry fails with -ENOENT, adding an existing one with -EEXIST. */
static int act_dscps(struct nl_wire *w, const char *ifname, const struct host_op *op, struct err *e)
{
	struct dcb_entry add[DCB_DSCPS], del[DCB_DSCPS], todo[DCB_DSCPS];
	size_t n_add = parse_dscps(host_op_get(op, "add"), add), n = 0;
	size_t n_del = parse_dscps(host_op_get(op, "del"), del);
	struct dcb d;
	int r = dcb_get(w, ifname, &d, e);

	/* When an entry for a DSCP is added, mlx5 replaces the old entry of the DSCP. With other
	 * drivers the old entry remains; it is deleted below if its priority is higher than the
	 * new one, because dcb_get() returns the higher priority of two entries. */
	for (size_t i = 0; r == 0 && i < n_add; i++)
		if (d.dscp_prio[add[i].protocol] != add[i].priority)
			todo[n++] = add[i];
	if (r == 0)
		r = dcb_add_apps(w, ifname, todo, n, e);
	if (r == 0)
		r = dcb_get(w, ifname, &d, e);
	n = 0;
	for (size_t i = 0; r == 0 && i < n_del; i++)
		if (d.dscp_prio[del[i].protocol] == del[i].priority)
			todo[n++] = del[i];
	return r < 0 ? r : dcb_del_apps(w, ifname, todo, n, e);
}

static int act_pfc(struct nl_wire *w, const char *ifname, const struct host_op *op, struct err *e)
{
	uint64_t enabled, delay;
	struct dcb d;
	int r = host_op_number(op, "enabled", 0, 255, &enabled, e);

	if (r >= 0)
		r = host_op_number(op, "delay", 0, UINT16_MAX, &delay, e);
	if (r >= 0)
		r = dcb_get(w, ifname, &d, e);
	if (r < 0 || (d.pfc.enabled == enabled && d.pfc.delay == delay))
		return r < 0 ? r : 0;
	d.pfc.enabled = (uint8_t)enabled;
	d.pfc.delay = (uint16_t)delay;
	return dcb_set_pfc(w, ifname, &d.pfc, e);
}

static int eight_of(const struct host_op *op, const char *key, uint64_t max,
		    uint64_t ret[DCB_PRIOS], struct err *e)
{
	const char *list = host_op_get(op, key);

	return parse_eight(key, list ? list : "", max, ret, e);
}

static int act_ets(struct nl_wire *w, const char *ifname, const struct host_op *op, struct err *e)
{
	uint64_t bw[DCB_PRIOS], tsa[DCB_PRIOS], tc[DCB_PRIOS];
	struct dcb d;
	int r = eight_of(op, "bandwidth", 100, bw, e);

	if (r == 0)
		r = eight_of(op, "tsa", 255, tsa, e);
	if (r == 0)
		r = eight_of(op, "tc", 7, tc, e);
	if (r == 0)
		r = dcb_get(w, ifname, &d, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < DCB_PRIOS; i++) {
		d.ets.tx_bw[i] = (uint8_t)bw[i];
		d.ets.tsa[i] = (uint8_t)tsa[i];
		d.ets.prio_tc[i] = (uint8_t)tc[i];
	}
	return dcb_set_ets(w, ifname, &d.ets, e);
}

static int act_buffers(struct nl_wire *w, const char *ifname, const struct host_op *op,
		       struct err *e)
{
	uint64_t prio[DCB_PRIOS], size[DCB_PRIOS];
	struct dcb_buffers b = {.total = 0};
	int r = eight_of(op, "priority", 7, prio, e);

	if (r == 0)
		r = eight_of(op, "size", UINT32_MAX, size, e);
	for (size_t i = 0; r == 0 && i < DCB_PRIOS; i++) {
		b.prio_buffer[i] = (uint8_t)prio[i];
		b.size[i] = (uint32_t)size[i];
	}
	return r < 0 ? r : dcb_set_buffers(w, ifname, &b, e);
}

/* mlx5 returns DCBX to its firmware only by mode 0, which keeps the IEEE and CEE bits of the
 * previous mode, so those bits are set first. */
static int act_dcbx(struct nl_wire *w, const char *ifname, uint8_t mode, struct err *e)
{
	int r = dcb_set_dcbx(w, ifname, mode, e);

	if (r != -EINVAL || mode & DCB_HOST)
		return r;
	err_clear(e);
	r = dcb_set_dcbx(w, ifname, mode | DCB_HOST, e);
	return r < 0 ? r : dcb_set_dcbx(w, ifname, 0, e);
}

static int act_dcb(struct host *h, const struct host_op *op, const char *ifname, struct err *e)
{
	struct nl_wire *w;
	uint64_t mode;
	int r = host_route_wire(h, &w, e);

	if (r < 0)
		return r;
	if (!strcmp(op->verb, "dscp"))
		return act_dscps(w, ifname, op, e);
	if (!strcmp(op->verb, "pfc"))
		return act_pfc(w, ifname, op, e);
	if (!strcmp(op->verb, "ets"))
		return act_ets(w, ifname, op, e);
	if (!strcmp(op->verb, "buffers"))
		return act_buffers(w, ifname, op, e);
	r = host_op_number(op, "mode", 0, 255, &mode, e);
	return r < 0 ? r : act_dcbx(w, ifname, (uint8_t)mode, e);
}

static int act_ecn(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf"), *point = host_op_get(op, "point");
	enum fwctl_cong which = point && !strcmp(point, "roce_rp") ? FWCTL_CONG_RP : FWCTL_CONG_NP;
	auto_fwctl struct fwctl f = {.fd = -1};
	uint64_t prio, on;
	int r = host_op_number(op, "priority", 0, 7, &prio, e);

	if (r >= 0)
		r = host_op_number(op, "on", 0, 1, &on, e);
	if (r >= 0)
		r = fwctl_open(&f, &h->root, bdf ? bdf : "", e);
	return r < 0 ? r : fwctl_cong_set(&f, which, (unsigned int)prio, on != 0, e);
}

static int act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *ifname = host_op_get(op, "ifname"), *device = host_op_get(op, "device");
	const char *mode = host_op_get(op, "mode");
	struct roce_cm v = {.tos = -1};
	uint64_t tos;
	int r = 0;

	if (!strcmp(op->verb, "ecn"))
		return act_ecn(h, op, e);
	if (ifname)
		return act_dcb(h, op, ifname, e);
	if (!strcmp(op->verb, "cm-tos")) {
		r = host_op_number(op, "tos", 0, 255, &tos, e);
		v.tos = r < 0 ? -1 : (int)tos;
	} else if (mode) {
		str_copy(v.mode, sizeof(v.mode), mode);
	}
	return r < 0 ? r : roce_cm_set(&h->root, device ? device : "", 1, &v, e);
}

/* --- check that an operation is in effect --- */

/* Returns false if a DSCP has neither its entry from before the operation nor the entry that the
 * operation sets: another program has set the DSCP. */
static bool dscps_in_effect(const struct dcb *d, const struct host_op *op)
{
	struct dcb_entry add[DCB_DSCPS], del[DCB_DSCPS];
	size_t n_add = parse_dscps(host_op_get(op, "add"), add);
	size_t n_del = parse_dscps(host_op_get(op, "del"), del);
	int want[DCB_DSCPS], was[DCB_DSCPS];

	for (size_t i = 0; i < DCB_DSCPS; i++)
		want[i] = was[i] = -1;
	for (size_t i = 0; i < n_add; i++)
		want[add[i].protocol] = add[i].priority;
	for (size_t i = 0; i < n_del; i++)
		was[del[i].protocol] = del[i].priority;
	for (size_t i = 0; i < DCB_DSCPS; i++)
		if ((want[i] >= 0 || was[i] >= 0) && d->dscp_prio[i] != want[i] &&
		    d->dscp_prio[i] != was[i])
			return false;
	return true;
}

static bool number_is(const struct host_op *op, const char *key, unsigned int now)
{
	uint64_t v;

	return host_op_number(op, key, 0, UINT16_MAX, &v, NULL) == 0 && v == now;
}

static bool eight_is(const struct host_op *op, const char *key, const uint8_t now[DCB_PRIOS])
{
	auto_free char *list = eight_bytes(now);
	const char *want = host_op_get(op, key);

	return want && !strcmp(want, list);
}

static bool dcb_in_effect(const struct dcb *d, const struct host_op *op)
{
	if (!strcmp(op->verb, "dscp"))
		return dscps_in_effect(d, op);
	if (!strcmp(op->verb, "pfc"))
		return number_is(op, "enabled", d->pfc.enabled) &&
		       number_is(op, "delay", d->pfc.delay);
	if (!strcmp(op->verb, "ets"))
		return eight_is(op, "bandwidth", d->ets.tx_bw) && eight_is(op, "tsa", d->ets.tsa) &&
		       eight_is(op, "tc", d->ets.prio_tc);
	if (!strcmp(op->verb, "buffers")) {
		uint64_t size[DCB_PRIOS];
		bool same = eight_of(op, "size", UINT32_MAX, size, NULL) == 0;

		for (size_t i = 0; i < DCB_PRIOS && same; i++)
			same = same_size(d->buffers.size[i], size[i]);
		return same && eight_is(op, "priority", d->buffers.prio_buffer);
	}
	return number_is(op, "mode", d->dcbx);
}

static int ecn_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf"), *point = host_op_get(op, "point");
	enum fwctl_cong which = point && !strcmp(point, "roce_rp") ? FWCTL_CONG_RP : FWCTL_CONG_NP;
	auto_fwctl struct fwctl f = {.fd = -1};
	uint64_t prio;
	bool on = false;
	int r = host_op_number(op, "priority", 0, 7, &prio, e);

	if (r >= 0)
		r = fwctl_open(&f, &h->root, bdf ? bdf : "", e);
	if (r >= 0)
		r = fwctl_cong_get(&f, which, (unsigned int)prio, &on, e);
	return r < 0 ? r : number_is(op, "on", on);
}

static int in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *ifname = host_op_get(op, "ifname"), *device = host_op_get(op, "device");
	const char *mode = host_op_get(op, "mode");
	struct roce_cm cm;
	struct nl_wire *w;
	struct dcb d;
	int r;

	if (!strcmp(op->verb, "ecn"))
		return ecn_in_effect(h, op, e);
	if (ifname) {
		r = host_route_wire(h, &w, e);
		if (r >= 0)
			r = dcb_get(w, ifname, &d, e);
		return r < 0 ? r : dcb_in_effect(&d, op);
	}
	r = roce_cm_read(&h->root, device ? device : "", 1, true, &cm, e);
	if (r < 0)
		return r;
	return !strcmp(op->verb, "cm-tos")
		       ? cm.tos >= 0 && number_is(op, "tos", (unsigned int)cm.tos)
		       : mode && !strcmp(mode, cm.mode);
}

/* --- the output of `unirail host show`: the settings that `rdma-qos.sh q` prints --- */

static void show_value(struct host_rows *rows, const struct port *p, const char *name,
		       const struct value *v)
{
	if (v->path[0])
		host_rows_add(rows, host_nic_name(&p->nic), name, "%d", v->v);
}

static void show_port(const struct port *p, struct host_rows *rows)
{
	const char *name = host_nic_name(&p->nic);

	if (p->has_dcb) {
		auto_free char *list = prios(p->dcb.pfc.enabled);

		host_rows_add(rows, name, "trust", "%s",
			      p->trust[0]		 ? p->trust
			      : dcb_trusts_dscp(&p->dcb) ? "dscp"
							 : "pcp");
		host_rows_add(rows, name, "pfc", "%s", list);
	} else if (p->trust[0]) {
		host_rows_add(rows, name, "trust", "%s", p->trust);
	}
	for (unsigned int i = 0; i < DCB_PRIOS; i++) {
		char key[24];

		if (!p->firmware && !p->np[i].path[0])
			continue;
		snprintf(key, sizeof(key), "ecn-priority-%u", i);
		host_rows_add(rows, name, key, "roce_np %s, roce_rp %s", p->np[i].v ? "on" : "off",
			      p->rp[i].v ? "on" : "off");
	}
	show_value(rows, p, "cnp-dscp", &p->cnp_dscp);
	show_value(rows, p, "cnp-priority", &p->cnp_prio);
	show_value(rows, p, "traffic-class", &p->tclass);
	if (p->has_cm) {
		host_rows_add(rows, name, "rdma-cm-mode", "%s", p->cm.mode);
		if (p->cm.tos >= 0)
			host_rows_add(rows, name, "rdma-cm-tos", "%d", p->cm.tos);
	}
}

static void show(const void *found, struct host_rows *rows)
{
	const struct qos_found *f = found;

	for (size_t i = 0; i < f->n; i++)
		show_port(&f->v[i], rows);
}

const struct host_kind host_qos = {
	.name = "qos",
	.section = "qos",
	.help = "lossless RoCE: trust of DSCP, PFC, ETS, ECN, congestion notifications, traffic class",
	.keys = keys,
	.env = env,
	.size = sizeof(struct qos_want),
	.init = init,
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.act = act,
	.in_effect = in_effect,
	.show = show,
};
