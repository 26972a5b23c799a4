/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_DRAFT_H
#define UNIRAIL_IPAM_POOL_POOL_DRAFT_H

/* A pool before validation: the strings of its file or object, with their locations. Both readers
 * (pool_ini.c, pool_spec.c) fill it, and only pool_build() validates it, so both give the same
 * errors. */

#include "ipam/pool/pool.h"

struct pool_text {
	char *place; /* location such as "rails.conf:12: ips"; NULL: not set */
	char *text;
};

struct pool_texts {
	struct pool_text *v;
	size_t n;
};

struct pool_draft {
	char *name, *origin;
	struct pool_text subnet, gateway, is_default, disable, reuse_delay, version;
	struct pool_texts ips, exclude, routes, nodes, namespaces; /* routes: "DST via GW" */
	/* true: an object of a cluster, whose webhook has already warned the user about unusual
	 * spellings; they are not logged each time the object is read */
	bool from_cluster;
	/* true (INI): without `ips` the pool has all usable addresses; false: it has none */
	bool ips_optional;
	struct selector node_affinity, namespace_affinity, pod_affinity;
	struct pool_texts networks;
};

void pool_draft_done(struct pool_draft *d);
void pool_text_done(struct pool_text *t);
void pool_texts_add(struct pool_texts *l, const char *place, struct span text);
void pool_texts_done(struct pool_texts *l);
/* Sets the error "PLACE: <fmt>" of kind ERR_CONF. */
int pool_wrong(const struct pool_text *t, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Builds the pool of the draft, adds it to the set, and empties the draft. */
int pool_set_add(struct pool_set *s, struct pool_draft *d, struct err *e);
/* Builds the index for pool_find() and pool_of(). Call it after the last pool is added: `v`, names
 * and `ips` must not change afterwards. No two pools may have the same name or a common address. */
void pool_set_index(struct pool_set *s);
/* Adds reserved addresses of both families to the set: all that can be parsed. Returns the error of
 * the first one that cannot. */
int pool_reserve(struct pool_set *s, const struct pool_texts *ips, struct err *e);
int pool_text_bool(const struct pool_text *t, bool *ret, struct err *e);
int pool_text_ms(const struct pool_text *t, int64_t max, int64_t *ret, struct err *e);

/* file: the name used in messages; text: the whole file. */
int pool_read_ini(struct pool_set *s, const char *file, struct span text, struct err *e);
int pool_read_json(struct pool_set *s, const char *file, struct span text, struct err *e);

#endif
