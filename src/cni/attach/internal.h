/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_INTERNAL_H
#define UNIRAIL_CNI_ATTACH_INTERNAL_H

/* Between the attach_*.c files. */

#include "cni/attach/attach.h"

/* Another IPAM call for one rail, whose conflicting addresses were taken from it. */
int attach_ask_again(struct attach *a, size_t rail, struct err *e);
/* Commits; on failure e is wrapped with the rail whose message failed first: owner[i] is the
 * rail of message i. */
int attach_commit(struct attach *a, struct nl_wire *w, struct nl_batch *b, const size_t *owner,
		  struct err *e);
/* The name a link is made under when the node has one of its final name; false: it has none. */
bool attach_temp_name(const struct attach *a, const char *ifname, char ret[static LINK_NAME_MAX]);
/* The namespace in which the rail's master is. */
struct nl_wire *attach_wire(const struct attach *a, const struct rail *rail);
/* step() for each kind that the rails have, by their `order`. */
int attach_each_kind(struct attach *a,
		     int (*step)(struct attach *, const struct rail_kind *, struct err *),
		     struct err *e);

#endif
