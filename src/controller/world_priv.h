/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WORLD_PRIV_H
#define UNIRAIL_CONTROLLER_WORLD_PRIV_H

/* Between world.c (watches, who is told) and world_trim.c (what is kept). */

#include "controller/world.h"

enum { WORLD_TEXT_MAX = 4 << 20 };

#endif
