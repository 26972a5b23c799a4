/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ALL_IN_ONE_PRIVATE_H
#define UNIRAIL_CNI_ALL_IN_ONE_PRIVATE_H

/* Between the all_in_one_*.c files. */

#include "cni/all_in_one.h"
#include "cni/chain.h"

/* A plugin of network i that is executed; prev may be NULL. */
struct chain_call aio_chain_call(const struct aio *x, size_t i, const struct aio_plugin *p,
				 const struct cni_result *prev);
/* The first plugin of a foreign network as one of its plugins. */
struct aio_plugin aio_main(const struct aio_net *net);

#endif
