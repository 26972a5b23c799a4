/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_STATE_H
#define UNIRAIL_TESTS_FUZZ_STATE_H

#include "fuzz.h"

typedef int state_try(struct feed f, struct err *e);

/* The next file, up to a NUL. */
struct span state_part(struct feed *f);

/* state_pods.c */
state_try state_multus, state_sriov, state_rdma;
/* state_addresses.c */
state_try state_whereabouts, state_host_local, state_log, state_block;
/* state_node.c */
state_try state_settings, state_install, state_redact, state_verify;

#endif
