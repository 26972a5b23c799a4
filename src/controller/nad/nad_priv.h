/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NAD_PRIV_H
#define UNIRAIL_CONTROLLER_NAD_NAD_PRIV_H

/* Between render.c (the whole), render.c (the main plugin) and nad_coordinator.c. */

#include "controller/nad/nad_write.h"

/* What is asked for, found once. */
struct nad_ask {
	const struct json *spec, *block;
	const char *type;
};

static inline int64_t nad_int(const struct json *v, int64_t fallback)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : fallback;
}

static inline bool nad_bool(const struct json *v, bool fallback)
{
	return json_kind(v) == JSON_BOOL ? json_bool(v) : fallback;
}

static inline const char *nad_text(const struct json *v, const char *fallback)
{
	const char *s = json_string(v);

	return s && *s ? s : fallback;
}

/* The block's key in the spec: "ibsriov" for "ib-sriov"; NULL: no such type. */
const char *nad_block(const char *type);
/* [ifacer] and the main plugin. */
int nad_put_main(struct json_out *o, const struct nad_ask *q, struct err *e);

#endif
