/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_ALTNAME_H
#define UNIRAIL_KERN_NET_ALTNAME_H

/*
 * Alternative names of links (Linux 5.5), by rtnetlink. systemd gives every netdev some, and they
 * take part in "is this name free": a VF called net1 that once was ens1f0v0 and kept that as its
 * alternative name cannot get that name again and cannot be restored to the host (EEXIST).
 */

#include "kern/net/link.h"

enum { ALTNAME_MAX = 128 };

/* In the kernel's order; free with str_list_free(). None is no error. */
int altname_list(struct nl_wire *w, int index, char ***names, size_t *n, struct err *e);
/* `name`: the link's, for words. There already (on this or another link): -EEXIST. */
size_t altname_add(struct nl_batch *b, int index, const char *name, const char *altname);
size_t altname_del(struct nl_batch *b, int index, const char *name, const char *altname); /* absent
	is success */

#endif
