/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_SYSCTL_H
#define UNIRAIL_KERN_SYS_SYSCTL_H

/* Network sysctls of the namespace the caller is in (netns_enter first). Keys are paths below
 * /proc/sys: "net/ipv4/conf/net1/arp_notify" (interface names may hold dots, so no dotted form). */

#include "base/file.h"

int sysctl_get(const struct root *r, const char *key, char *ret, size_t size, struct err *e);
int sysctl_set(const struct root *r, const char *key, const char *value, struct err *e);
/* Writes only when the present value differs; a key that does not exist is 0 (kernel without
 * IPv6), reported by *missing when not NULL. */
int sysctl_ensure(const struct root *r, const char *key, const char *value, bool *missing,
		  struct err *e);

#endif
