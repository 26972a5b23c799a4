/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_INTERNAL_H
#define UNIRAIL_CNI_MULTI_INTERNAL_H

/* Between the all_in_one_*.c files. */

#include "cni/multi/multi.h"
#include "cni/protocol/chain.h"

/* conf.networks[i], onto x->nets; x->later_args is there. */
int aio_take_net(struct aio *x, const struct json *self, size_t i, struct err *e);

/* A plugin of network i that is executed; prev may be NULL. */
struct chain_call aio_chain_call(const struct aio *x, size_t i, const struct aio_plugin *p,
				 const struct cni_result *prev);
/* A plugin of network i that works in process; for STATUS `a` has nothing open. */
struct meta_call aio_meta_call(const struct aio *x, const struct attach *a, size_t i,
			       const struct aio_plugin *p, bool has_prev);

/* The plugins of a network that are neither rail nor coordinator, in the order of an ADD. fn's
 * negative return ends the walk. */
typedef int (*aio_plugin_fn)(void *arg, size_t net, const struct aio_plugin *p, struct err *e);
int aio_each_plugin(const struct aio *x, size_t net, aio_plugin_fn fn, void *arg, struct err *e);

/* After everything else: who has a defaultRoute has the pod's, and no other network does. */
int aio_default_routes(struct aio *x, struct attach *a, struct err *e);

/* --- for the way back to Multus (cache.c); nothing where conf.cniDir is not named --- */

/* Before anything is made, so that what a crash leaves can be deleted. */
int aio_keep(const struct aio *x, struct undo *u, struct err *e);
int aio_keep_results(const struct aio *x, struct err *e);
void aio_forget(const struct aio *x);
/* Of the containers that are not among the valid ones. */
void aio_forget_others(const struct aio *x);

#endif
