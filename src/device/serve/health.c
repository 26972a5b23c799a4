/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/health.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

enum { AER_MAX = 4096 }; /* one page, the maximum size of a sysfs attribute */

#define LINK_LOST "the link is down or was down recently"
#define PCI_ERRORS                                                                                 \
	"PCIe reports uncorrectable errors (see aer_dev_fatal, aer_dev_nonfatal in sysfs)"
#define REPORT_DEVICE                                                                              \
	"the driver reports an error of the device or its firmware (see devlink health show)"
#define REPORT_PORT                                                                                \
	"the driver reports an error of the port and could not recover it (see devlink health show)"
#define LINK_NEVER_UP                                                                              \
	"the link was never up, while the links of most other devices of its type are up"

struct entry {
	char id[PCI_NAME_MAX];
	bool seen, was_up, is_lost;
	int64_t up_since;   /* time since which the link is up; -1: it is down, or not known yet */
	int64_t lost_at;    /* time of the last loss of the link; -1: none */
	int64_t stable_ms;  /* time for which the link must be up after the last loss */
	int64_t pci_errors; /* count at the last reading; -1: not read yet */
	/* time at which the count last increased; -1: it did not increase, or increased long ago */
	int64_t pci_at;
	enum health_report report;
	int64_t report_at;    /* time at which the error was first reported; -1: none */
	int64_t recovered_at; /* time at which the report ended; -1: still reported, or no error */
	const char *unhealthy;
};

struct health {
	struct entry *v;
	size_t n;
	int64_t started, due;
};

struct health *health_new(int64_t now)
{
	struct health *h = xcalloc(1, sizeof(*h));

	h->started = now;
	h->due = -1;
	return h;
}

void health_free(struct health *h)
{
	if (!h)
		return;
	free(h->v);
	free(h);
}

/* --- state of a device's link, PCIe function and driver --- */

static enum health_link read_port(const struct root *r, const char *rdma)
{
	char path[256], line[64];
	enum health_link state = HEALTH_UNKNOWN;

	/* ports are numbered from 1 without gaps */
	for (int port = 1; port <= 8; port++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/state", rdma, port);
		if (file_read_line(r, path, line, sizeof(line), NULL) < 0)
			break;
		if (strstr(line, "ACTIVE"))
			return HEALTH_UP;
		state = HEALTH_DOWN;
	}
	return state;
}

static enum health_link read_carrier(const struct root *r, const char *netdev)
{
	char path[256], line[16];

	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", netdev);
	if (file_read_line(r, path, line, sizeof(line), NULL) == 0)
		return line[0] == '1' ? HEALTH_UP : HEALTH_DOWN;
	/* the carrier of a link that is set down cannot be read (EINVAL) */
	snprintf(path, sizeof(path), "/sys/class/net/%s/flags", netdev);
	if (file_read_line(r, path, line, sizeof(line), NULL) == 0)
		return HEALTH_DOWN;
	return HEALTH_UNKNOWN;
}

void health_read_links(const struct root *r, const struct node_devices *node, enum health_link *ret)
{
	for (size_t i = 0; i < node->n; i++) {
		const struct node_device *d = &node->v[i];

		ret[i] = HEALTH_UNKNOWN;
		if (d->pf[0])
			continue;
		for (size_t k = 0; k < d->n_rdma && ret[i] != HEALTH_UP; k++) {
			enum health_link s = read_port(r, d->rdma[k].name);

			if (s != HEALTH_UNKNOWN)
				ret[i] = s;
		}
		if (ret[i] == HEALTH_UNKNOWN && d->netdev[0])
			ret[i] = read_carrier(r, d->netdev);
	}
}

int64_t health_parse_pci_errors(struct span text)
{
	struct span line, name;
	int64_t sum = -1;
	uint64_t n;

	while (text.n) {
		span_cut(&text, '\n', &line);
		span_cut(&line, ' ', &name);
		if (num_u64(line, 0, INT32_MAX, &n) < 0)
			continue;
		if (sum < 0)
			sum = 0;
		if (!span_eq(name, "UnsupReq") && !span_has_prefix(name, "TOTAL_"))
			sum += (int64_t)n;
	}
	return sum;
}

static int64_t read_pci_errors(const struct root *r, const char *bdf, const char *file)
{
	char path[256];
	auto_buf struct buf b;

	buf_init(&b, AER_MAX);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bdf, file);
	if (file_read(r, path, AER_MAX, &b, NULL) < 0)
		return -1;
	return health_parse_pci_errors(buf_span(&b));
}

void health_read_pci_errors(const struct root *r, const struct node_devices *node, int64_t *ret)
{
	for (size_t i = 0; i < node->n; i++) {
		const struct node_device *d = &node->v[i];
		int64_t fatal, other;

		ret[i] = -1;
		if (d->pf[0])
			continue;
		fatal = read_pci_errors(r, d->bdf, "aer_dev_fatal");
		other = read_pci_errors(r, d->bdf, "aer_dev_nonfatal");
		/* requires both files: the sum without one of them would look like a reset, and
		 * later like an increase */
		if (fatal >= 0 && other >= 0)
			ret[i] = fatal + other;
	}
}

/* --- health of a device, from its state --- */

static struct entry *entry_of(struct health *h, const char *id)
{
	struct entry *e;

	for (size_t i = 0; i < h->n; i++)
		if (!strcmp(h->v[i].id, id))
			return &h->v[i];
	e = &VEC_PUSH(h->v, h->n);
	str_copy(e->id, sizeof(e->id), id);
	e->up_since = e->lost_at = e->pci_errors = e->pci_at = -1;
	e->report_at = e->recovered_at = -1;
	e->stable_ms = HEALTH_STABLE_MS;
	return e;
}

static void due_at(struct health *h, int64_t at)
{
	if (h->due < 0 || at < h->due)
		h->due = at;
}

static void on_loss(struct entry *e, int64_t now)
{
	bool again = e->lost_at >= 0 && now - e->lost_at < HEALTH_FLAP_MS;

	e->stable_ms = again ? e->stable_ms * 2 : HEALTH_STABLE_MS;
	if (e->stable_ms > HEALTH_STABLE_MAX_MS)
		e->stable_ms = HEALTH_STABLE_MAX_MS;
	e->lost_at = now;
	e->is_lost = true;
}

static void step(struct entry *e, enum health_link link, int64_t now)
{
	if (link == HEALTH_UP) {
		if (e->up_since < 0)
			e->up_since = now;
		e->was_up = true;
		if (e->is_lost && now - e->up_since >= e->stable_ms)
			e->is_lost = false;
	} else if (link == HEALTH_DOWN) {
		if (e->up_since >= 0)
			on_loss(e, now);
		e->up_since = -1;
	}
}

/* Returns whether the links of most other PFs of the same type (link type, RDMA or not) are up:
 * a link that was never up is then probably faulty. */
static bool most_are_up(const struct node_devices *node, const enum health_link *links, size_t own)
{
	size_t up = 0, all = 0;

	for (size_t i = 0; i < node->n; i++) {
		const struct node_device *d = &node->v[i];

		if (i == own || d->pf[0] || links[i] == HEALTH_UNKNOWN ||
		    node_device_is_rdma(d) != node_device_is_rdma(&node->v[own]) ||
		    strcmp(d->link_type, node->v[own].link_type))
			continue;
		all++;
		up += links[i] == HEALTH_UP;
	}
	return up * 2 > all;
}

static const char *judge_link(struct health *h, struct entry *e, const struct node_devices *node,
			      const enum health_link *links, size_t i, int64_t now)
{
	step(e, links[i], now);
	if (e->is_lost) {
		if (e->up_since >= 0)
			due_at(h, e->up_since + e->stable_ms);
		return LINK_LOST;
	}
	if (e->was_up || links[i] != HEALTH_DOWN || !most_are_up(node, links, i))
		return NULL;
	if (now - h->started >= HEALTH_GRACE_MS)
		return LINK_NEVER_UP;
	due_at(h, h->started + HEALTH_GRACE_MS);
	return NULL;
}

static const char *judge_pci(struct health *h, struct entry *e, int64_t errors, int64_t now)
{
	if (errors >= 0) {
		if (e->pci_errors >= 0 && errors > e->pci_errors)
			e->pci_at = now;
		else if (e->pci_at >= 0 && now - e->pci_at >= HEALTH_PCI_STABLE_MS)
			e->pci_at = -1;
		e->pci_errors = errors;
	}
	if (e->pci_at < 0)
		return NULL;
	/* Checks again after HEALTH_PCI_STABLE_MS without errors. If the count cannot be read then,
	 * the next successful reading ends the fault. */
	if (now < e->pci_at + HEALTH_PCI_STABLE_MS)
		due_at(h, e->pci_at + HEALTH_PCI_STABLE_MS);
	return PCI_ERRORS;
}

static void step_report(struct entry *e, enum health_report report, int64_t now)
{
	bool is_early = e->report == HEALTH_REPORT_PORT && now - e->report_at < HEALTH_RECOVERY_MS;

	if (report == HEALTH_REPORT_PORT || report == HEALTH_REPORT_DEVICE) {
		if (e->report_at < 0)
			e->report_at = now;
		e->report = report;
		e->recovered_at = -1;
	} else if (report == HEALTH_REPORT_OK && e->report_at >= 0) {
		if (e->recovered_at < 0)
			e->recovered_at = now;
		if (is_early || now - e->recovered_at >= HEALTH_STABLE_MS)
			e->report_at = e->recovered_at = -1;
	}
}

static const char *judge_report(struct health *h, struct entry *e, enum health_report report,
				int64_t now)
{
	step_report(e, report, now);
	if (e->report_at < 0)
		return NULL;
	if (e->recovered_at >= 0)
		due_at(h, e->recovered_at + HEALTH_STABLE_MS);
	if (e->report == HEALTH_REPORT_DEVICE)
		return REPORT_DEVICE;
	if (now - e->report_at >= HEALTH_RECOVERY_MS)
		return REPORT_PORT;
	due_at(h, e->report_at + HEALTH_RECOVERY_MS);
	return NULL;
}

static void remove_unseen(struct health *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].seen)
			h->v[n++] = h->v[i];
	h->n = n;
}

bool health_judge(struct health *h, struct node_devices *node, const struct health_state *state,
		  int64_t now)
{
	const struct node_device *pf = NULL;
	bool changed = false;

	h->due = -1;
	for (size_t i = 0; i < h->n; i++)
		h->v[i].seen = false;
	for (size_t i = 0; i < node->n; i++) {
		const char *link, *pci, *report;
		struct entry *e;

		if (node->v[i].pf[0])
			continue;
		e = entry_of(h, node->v[i].id);
		e->seen = true;
		link = judge_link(h, e, node, state->links, i, now);
		pci = judge_pci(h, e, state->pci_errors[i], now);
		report = judge_report(h, e, state->reports[i], now);
		node->v[i].unhealthy = report ? report : link ? link : pci;
		changed |= node->v[i].unhealthy != e->unhealthy;
		e->unhealthy = node->v[i].unhealthy;
	}
	remove_unseen(h);
	for (size_t i = 0; i < node->n; i++) {
		struct node_device *d = &node->v[i];

		if (!d->pf[0])
			continue;
		/* consecutive VFs mostly have the same PF */
		if (!pf || strcmp(pf->id, d->pf) != 0)
			pf = node_device_find(node, d->pf);
		d->unhealthy = pf ? pf->unhealthy : NULL;
	}
	return changed;
}

int64_t health_due(const struct health *h)
{
	return h->due;
}
