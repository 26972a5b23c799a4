/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_ALTNAME_H
#define UNIRAIL_KERN_NET_ALTNAME_H

/*
 * Alternative names of links (Linux 5.5), by rtnetlink. systemd-udevd adds them to PCI netdevs, and
 * the kernel treats them as used names: a VF that was renamed from ens1f0v0 to net1 and retained
 * ens1f0v0 as an alternative name cannot be renamed back and restored to the host (EEXIST).
 */

#include "kern/net/link.h"

enum { ALTNAME_MAX = 128 };

/* Lists the alternative names in the kernel's order; free them with str_list_free(). *n is 0 for a
 * link without alternative names. */
int altname_list(struct nl_wire *w, int index, char ***names, size_t *n, struct err *e);
/* Adds an alternative name; `name`: the link's own name, for error messages. -EEXIST: a link of the
 * namespace, perhaps this one, has the name already. */
size_t altname_add(struct nl_batch *b, int index, const char *name, const char *altname);
/* Deletes an alternative name. Success as well if the link does not have it. */
size_t altname_del(struct nl_batch *b, int index, const char *name, const char *altname);

#endif
