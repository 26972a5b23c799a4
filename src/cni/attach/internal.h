/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_INTERNAL_H
#define UNIRAIL_CNI_ATTACH_INTERNAL_H

/* Shared by the files of this directory. */

#include "cni/attach/attach.h"

/* Calls the IPAM's ADD again for one attachment after its addresses in conflict were reported. */
int attach_detect_again(struct rail *rail, struct err *e);
/* Returns whether a probe found no other owner of the address. */
bool rail_is_conflict_free(const struct rail *rail, const struct ipaddr *ip);
/* Commits the batch. On failure e is wrapped with the label of the first attachment whose
 * message failed; owner[i] is the index of the rail of message i. */
int attach_commit(struct attach *a, struct nl_wire *w, struct nl_batch *b, const size_t *owner,
		  struct err *e);
/* Returns the netlink socket of the namespace that contains the attachment's master. */
struct nl_wire *attach_wire(const struct attach *a, const struct rail *rail);
/* Calls step() once for each driver in use, in the order of link_driver.order. */
int attach_each_kind(struct attach *a,
		     int (*step)(struct attach *, const struct link_driver *, struct err *),
		     struct err *e);

#endif
