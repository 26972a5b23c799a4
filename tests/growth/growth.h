/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_GROWTH_H
#define UNIRAIL_TESTS_GROWTH_H

/*
 * Checks that no input of a user costs more than n log n. Interfaces between growth.c (each list of
 * each kind at three sizes, and the result), shapes.c (objects from a definition's schema),
 * subjects.c (readers of one object), crowds.c (readers of many objects), count.c (the cost), and
 * the files with readers for subjects.c and crowds.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "ipam/ipam.h"
#include "wire/json/json.h"
#include "wire/json/tree.h"

/* --- count.c: deterministic work: basic blocks that run, and bytes that libc reads or moves --- */

extern uint64_t count_work;

/* --- shapes.c --- */

enum { PATH_MAX_BYTES = 256, VARIANTS = 8 };

/* A list, map or string in an object, which can have any size. */
struct shape {
	char path[PATH_MAX_BYTES]; /* "spec.podAffinity.matchExpressions.[].values" */
	enum { SHAPE_LIST, SHAPE_MAP, SHAPE_TEXT } what;
};

struct shapes {
	struct shape *v;
	size_t n;
};

/* Finds the lists, the maps and the strings (except apiVersion, kind, enums, and entries of a
 * list or map) in a schema (openAPIV3Schema), so that fields that the schema gains in the future
 * are tested without a change here. */
void shapes_of(const struct json *schema, struct shapes *ret);
/* Writes n entries (for a string: n pieces of text) into `object` at the path. variant: their
 * order and content. */
void shape_grow(struct json_tree *object, const struct json *schema, const struct shape *s,
		size_t n, int variant);
const char *shape_variant(const struct shape *s, int variant);

/* --- subjects.c --- */

/* An object, and its previous version or NULL. No map in them has a key twice. */
struct sample {
	const char *kind;
	const struct json *object, *old;
};

struct subject {
	const char *name;
	const char *kinds; /* "Pod Node"; NULL: all kinds of the API server (not "CNI", "Agent") */
	void (*run)(const struct sample *s);
	bool compares; /* the function reads `old` */
};
extern const struct subject subjects[];
extern const size_t n_subjects;
/* The initial object of a kind; NULL: unknown kind. */
const char *subject_base(const char *kind);

/* --- netconf.c --- */

void growth_coordinator(const struct sample *s), growth_tuning(const struct sample *s),
	growth_sbr(const struct sample *s), growth_ifacer(const struct sample *s),
	growth_macvlan(const struct sample *s), growth_sriov(const struct sample *s),
	growth_multi(const struct sample *s), growth_host_local(const struct sample *s),
	growth_whereabouts(const struct sample *s), growth_spiderpool(const struct sample *s),
	growth_static(const struct sample *s);

/* --- api.c --- */

void growth_api(const struct sample *s);
uint64_t growth_api_asked_again(size_t n), growth_api_check(size_t n),
	growth_api_check_interfaces(size_t n), growth_api_conflicts(size_t n),
	growth_api_one_conflict(size_t n), growth_api_gc_none(size_t n),
	growth_api_gc_all(size_t n), growth_api_pools(size_t n), growth_api_pools_json(size_t n),
	growth_api_pools_check(size_t n), growth_api_default_pools(size_t n),
	growth_api_named_pools(size_t n), growth_api_wildcard(size_t n),
	growth_api_pool_files(size_t n), growth_api_waiting(size_t n),
	growth_api_reserved(size_t n);

/* An empty store, and a loop. */
struct growth_lab {
	struct loop *loop;
	const struct root *root;
	struct ipam_paths paths;
};
struct growth_lab growth_lab(void);
uint64_t growth_api_pools_changed(size_t n);

/* --- agent.c --- */

uint64_t growth_agent_gc(size_t n), growth_agent_retained(size_t n),
	growth_agent_exported(size_t n);

/* --- pools.c --- */

uint64_t growth_pools_apart(size_t n), growth_pools_of_subnets(size_t n),
	growth_pools_one_in_another(size_t n), growth_pools_in_one_subnet(size_t n),
	growth_pools_and_reserved(size_t n);

/* --- coordinator.c --- */

uint64_t growth_plan_addresses(size_t n), growth_plan_default_routes(size_t n),
	growth_plan_links(size_t n), growth_plan_host_addresses(size_t n), growth_check(size_t n);

/* --- blocks.c --- */

uint64_t growth_blocks_mine(size_t n), growth_blocks_entries(size_t n),
	growth_blocks_busy(size_t n), growth_blocks_adopted_pods(size_t n);

/* --- crowds.c --- */

struct crowd {
	const char *name;
	uint64_t (*run)(size_t n); /* returns the cost of n objects */
};
extern const struct crowd crowds[];
extern const size_t n_crowds;

#endif
