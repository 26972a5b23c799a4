/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_GLOB_H
#define UNIRAIL_BASE_GLOB_H

#include <stdbool.h>

/* Go's filepath.Match: * ? [a-z] [^a-z] and backslash. -EINVAL: bad pattern. 1 match, 0 not. */
int wildcard_match(const char *pattern, const char *name);
/* Whether a name has any of these characters. */
bool wildcard_is(const char *name);

#endif
