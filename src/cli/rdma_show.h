/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_RDMA_SHOW_H
#define UNIRAIL_CLI_RDMA_SHOW_H

/*
 * The layout of iproute2's rdma (6.1), text and JSON: `rdma dev`, `link`, `system` and `statistic`.
 * `rdma -j system` prints JSON here, but text in iproute2.
 */

#include "base/buf.h"
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/rdma_stat.h"
#include "kern/rdma/rdma_view.h"
#include "wire/json/json.h"

struct rdma_format {
	bool json, details, pretty;
};

/* State of one output: the caller calls rdma_out_begin(), then a function for each object, then
 * rdma_out_end(). */
struct rdma_out {
	struct rdma_format f;
	struct buf *b;
	struct json_out json;
};

void rdma_out_begin(struct rdma_out *o, const struct rdma_format *f, struct buf *b);
void rdma_out_dev(struct rdma_out *o, const struct rdma_view_dev *d);
void rdma_out_link(struct rdma_out *o, const struct rdma_view_link *l);
void rdma_out_system(struct rdma_out *o, const struct rdma_view_system *s);
void rdma_out_counters(struct rdma_out *o, const char *device, uint32_t port,
		       const struct rdma_count *list, size_t n);
/* Counters of queue pairs (`statistic qp`). comm: name of the process s->pid, NULL: not known. */
void rdma_out_qp_counters(struct rdma_out *o, const struct rdma_view_dev *d,
			  const struct rdma_stat *s, const char *comm);
/* The criteria by which a port assigns queue pairs to counters (`statistic qp mode`). mode: bits of
 * RDMA_STAT_BY_*. */
void rdma_out_qp_mode(struct rdma_out *o, const struct rdma_view_dev *d, uint32_t port,
		      uint32_t mode);
/* Counters of a memory region (`statistic mr`). */
void rdma_out_mr_counters(struct rdma_out *o, const struct rdma_view_dev *d,
			  const struct rdma_stat *s);
const char *rdma_qp_type(int type); /* name of an IB_QPT_* value, such as "RC" */
void rdma_out_end(struct rdma_out *o);

#endif
