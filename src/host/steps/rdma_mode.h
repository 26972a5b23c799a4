/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_RDMA_MODE_H
#define UNIRAIL_HOST_STEPS_RDMA_MODE_H

/*
 * The mode of the RDMA subsystem. This kind sets the mode at once by netlink, which the kernel
 * allows only while no other network namespace exists, and for the next boot by an option of
 * ib_core. Guides append this option with `echo >>`, so that each run adds another line; this kind
 * replaces the whole file.
 */

#include "host/model/kind.h"

#define HOST_RDMA_MODE_FILE "/etc/modprobe.d/unirail-rdma.conf"

struct host_rdma_mode_want {
	struct host_want head;
	const char *mode;
};

struct host_rdma_mode_found {
	/* the mode could be read; false: the host has no RDMA subsystem, has a kernel before
	 * Linux 5.2 or does not run, or the snapshot lacks the mode */
	bool known;
	const char *mode;  /* "shared", "exclusive" */
	size_t namespaces; /* other network namespaces that have processes */
	/* "pid PID (NAME), ...": one process of each, for at most NAMES_MAX of these namespaces */
	char *users;
	const char *initramfs; /* the command that rebuilds the initramfs; NULL: none is known */
	struct host_file file;
};

extern const struct host_kind host_rdma_mode;

#endif
