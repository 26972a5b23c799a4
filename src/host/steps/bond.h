/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_BOND_H
#define UNIRAIL_HOST_STEPS_BOND_H

/*
 * The bond that an address is set on: keys bond-ports and bond-mode of an interface section. The
 * bond is created if it does not exist, its ports join it, and the files of the interface's owner
 * describe the bond and its ports. A port must have no address of its own, except link-local ones.
 * Verbs: bond-add (dev, mode), bond-del (dev), bond-mode (dev, mode), bond-join (dev: the port,
 * bond), bond-leave (dev: the port, bond, up: "yes" if the port's link has the state up afterwards,
 * "no" if it has the state down).
 */

#include "host/steps/netop.h"

enum { HOST_BOND_PORTS_MAX = 8, HOST_BOND_MIIMON_MS = 100 };

struct host_bond {
	const char *mode; /* "802.3ad" */
	char ports[HOST_BOND_PORTS_MAX][LINK_NAME_MAX];
	size_t n; /* number of ports; 0: no bond */
};

/* Parses `ports`; NULL: no bond. mode NULL: 802.3ad. Errors are of kind ERR_CONF. -EINVAL: a name
 * is invalid, listed twice or that of the bond, or a mode is given without ports; -E2BIG: too many
 * ports. */
int host_bond_parse(const char *dev, const char *ports, const char *mode, struct host_bond *ret,
		    struct err *e);
/* Returns whether the mode distributes the traffic over the ports by a hash, so that a hash policy
 * is set. */
bool host_bond_hashes(const struct host_bond *b);
/* Adds the steps for the bond and its ports. Sets *ret to the bond's link, or to `made`, which it
 * fills, if a step creates the bond. */
int host_bond_plan(const struct host_net *n, const char *dev, const struct host_bond *b,
		   struct link *made, const struct link **ret, struct host_plan *p, struct err *e);
/* Carries out an operation. Returns 1 if it was carried out, 0 if its verb is not one of a bond. */
int host_bond_act(struct host *h, const struct host_op *op, struct err *e);
/* Returns whether `op`, bond-add, bond-mode or bond-join, is in effect (1 or 0); -EOPNOTSUPP
 * without an error text: the verb is not one of a bond, or argument `dev` is missing. */
int host_bond_in_effect(struct host *h, const struct host_op *op, struct err *e);

#endif
