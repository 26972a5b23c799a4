/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_SYSCTL_H
#define UNIRAIL_KERN_SYS_SYSCTL_H

/* Network sysctls of the caller's present network namespace (see netns_enter()). Keys are paths
 * below /proc/sys: "net/ipv4/conf/net1/arp_notify" (the dotted form is not supported, because
 * interface names may contain dots). */

#include "base/file.h"

int sysctl_get(const struct root *r, const char *key, char *ret, size_t size, struct err *e);
int sysctl_set(const struct root *r, const char *key, const char *value, struct err *e);
/* Pure: compares two values without regard to the kind of white space between words, because the
 * kernel prints lists with tabs: "4096\t131072\t6291456". */
bool sysctl_same_value(const char *a, const char *b);
/* Writes the value if the present one differs. A key that does not exist (kernel without IPv6) is
 * success. `missing`, if not NULL, receives whether the key does not exist. */
int sysctl_ensure(const struct root *r, const char *key, const char *value, bool *missing,
		  struct err *e);

#endif
