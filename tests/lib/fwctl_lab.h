/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_FWCTL_LAB_H
#define UNIRAIL_TEST_FWCTL_LAB_H

/*
 * The firmware of an emulated mlx5 card, called in place of the ioctl of fwctl: it stores
 * configuration items and checks every command.
 */
#include "testlib.h"

#include "kern/pci/fwctl.h"

struct fwctl_card {
	/* nv_link_type by port number: `stored` as last written, `running` as the firmware uses
	 * it */
	uint32_t stored[3], running[3];
	bool rp[8], np[8];
	int fail; /* errno of the ioctl; 0: it succeeds */
	/* forgets_write: the card acknowledges writes and does not store them */
	bool has_item, forgets_write;
	int writes;
};

/* The member rpc of struct fwctl; f->arg is the card. */
int fwctl_card_rpc(struct fwctl *f, unsigned int scope, const void *in, size_t n_in, void *out,
		   size_t n_out);
struct fwctl fwctl_card_open(struct fwctl_card *c);

#endif
