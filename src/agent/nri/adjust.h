/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NRI_ADJUST_H
#define UNIRAIL_AGENT_NRI_ADJUST_H

/*
 * Pure: computes the adjustment of a container at its creation. A container "has RDMA" if one of
 * its device nodes is /dev/infiniband/uverbsN, from a device plugin, from CDI, or because the pod
 * is privileged.
 *
 *  - RLIMIT_MEMLOCK, unlimited by default, unless the container's soft and hard limit are at least
 *    that. Registered memory is locked memory: with the runtime's default of 64 KiB or 8 MiB,
 *    ibv_reg_mr() fails with ENOMEM and NCCL silently uses sockets. Capability IPC_LOCK does not
 *    help a container that does not run as root.
 *  - the environment of NCCL, UCX, NVSHMEM and Gloo, from the pod's attachments (rails.json,
 *    cni/attach/rdma_info.h): which RDMA devices to use, by exact match, and the GID index, known
 *    only after CNI ADD; the primary network's interface for sockets. A variable that the
 *    container already has is not changed.
 *
 * A container without such a device node is not changed, whatever its pod's attachments are.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cni/attach/rdma_info.h"

#define NRI_MEMLOCK   "RLIMIT_MEMLOCK"
#define NRI_UNLIMITED UINT64_MAX /* RLIM_INFINITY */

struct nri_policy {
	uint64_t memlock; /* limit in bytes, or NRI_UNLIMITED; 0: the limit is not changed */
	bool environment;
	bool nccl_net_ib;    /* set NCCL_NET=IB in every container with RDMA devices */
	const char *primary; /* interface of the pod's primary network; default "eth0" */
};

struct nri_rlimit {
	const char *type; /* "RLIMIT_MEMLOCK" */
	uint64_t hard, soft;
};

/* The container to adjust. Strings are borrowed. */
struct nri_container {
	const char *const *devices; /* paths of device nodes in the container */
	size_t n_devices;
	const char *const *env; /* "NAME=value" */
	size_t n_env;
	const struct nri_rlimit *rlimits;
	size_t n_rlimits;
	const char *nccl_net; /* value of the pod's annotation ANNOTATION_NCCL_NET; NULL: none */
};

struct nri_variable {
	char *name, *value;
};

struct nri_adjustment {
	struct nri_variable *env;
	size_t n_env;
	uint64_t memlock; /* memlock limit in bytes; 0: the limit is not changed */
	/* The attachments have different GID indices, but NCCL uses one index for all devices. */
	bool mixed_gid;
};

/* Parses "unlimited", "no" (0), or a number of bytes of at least 65536. */
int nri_memlock_parse(const char *s, uint64_t *ret, struct err *e);
bool nri_has_rdma(const struct nri_container *c);
/* rails: the attachments of the pod; may be empty. */
void nri_adjust(const struct nri_container *c, const struct rails_list *rails,
		const struct nri_policy *p, struct nri_adjustment *ret);
void nri_adjustment_done(struct nri_adjustment *a);
#define auto_nri_adjustment __attribute__((cleanup(nri_adjustment_done)))

#endif
