/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_NUM_H
#define UNIRAIL_BASE_NUM_H

/*
 * Checked number parsers.  The whole span must be the number: no blanks, no sign for unsigned
 * numbers, no "0x" except in num_hex().  They return 0, -EINVAL (not a number) or -ERANGE (outside
 * min..max); on failure *ret is unchanged.
 */

#include <stdint.h>

#include "base/buf.h"

int num_u64(struct span s, uint64_t min, uint64_t max, uint64_t *ret);
int num_i64(struct span s, int64_t min, int64_t max, int64_t *ret);
int num_hex(struct span s, uint64_t max, uint64_t *ret); /* digits, "0x" allowed */
/* "60", "60s", "1500ms", "10m", "2h" -> milliseconds; a bare number is seconds. */
int num_duration_ms(struct span s, int64_t max, int64_t *ret);
/* Finds the first line of the text that begins with `label`, and parses the word after the label
 * like num_hex() or, if `hex` is false, num_u64(). -ENOENT: no line begins with the label. */
int num_labelled(struct span text, const char *label, bool hex, uint64_t *ret);
/* true, false, yes, no, on, off, 1 or 0, in upper or lower case */
int num_bool(struct span s, int *ret);

#endif
