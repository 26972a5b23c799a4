/* SPDX-License-Identifier: Apache-2.0 */
#include "base/applet.h"

#include <string.h>

static const struct applet none[] = {{0}};

const struct applet *applets = none;

const struct applet *applet_find(const char *name)
{
	for (const struct applet *a = applets; a->name; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}
