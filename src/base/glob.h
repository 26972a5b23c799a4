/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_GLOB_H
#define UNIRAIL_BASE_GLOB_H

#include <stdbool.h>

/* Go's filepath.Match: * ? [a-z] [^a-z] and backslash. 1: match, 0: no match, -EINVAL: bad
 * pattern. */
int wildcard_match(const char *pattern, const char *name);
/* Returns whether the name contains '*' or '?', or both '[' and ']'. */
bool wildcard_is(const char *name);

#endif
