/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_TIME_H
#define UNIRAIL_KUBE_TIME_H

/* Times as the API writes them (RFC 3339), to and from milliseconds since the epoch. */

#include <stdint.h>

enum { KUBE_TIME_MAX = 40 };

/* Parses "2026-11-21T14:00:00Z", also with fractions and offsets. -EINVAL: not a time, or a year
 * before 1970. */
int kube_time_parse(const char *text, int64_t *ret);
void kube_time_text(int64_t ms, char ret[static KUBE_TIME_MAX]);       /* metav1.Time */
void kube_micro_time_text(int64_t ms, char ret[static KUBE_TIME_MAX]); /* metav1.MicroTime */

#endif
