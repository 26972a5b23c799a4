/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CACHE_H
#define UNIRAIL_KUBE_CACHE_H

/*
 * A cluster cache: one informer for each kind of a table. The owner of the cache defines the table
 * (which kinds, and which part of an object is stored), an enumeration that numbers its rows, and
 * the indexes that the owner derives from the objects. Modules read objects by the row numbers and
 * register listeners.
 *
 *	enum { PODS, NODES, KINDS };
 *	static const struct kube_cache_kind kinds[KINDS] = {
 *		[PODS] = {&kube_pods, sizeof(struct pod), .decode = read_pod, .drop = drop_pod},
 *		...
 *
 *	c = kube_cache_new(&(struct kube_cache_conf){.kube = k, .kinds = kinds, .n = KINDS});
 *	kube_cache_on(c, PODS, on_pod, part);
 *	for (size_t i = 0; i < kube_cache_count(c, PODS); i++)
 *		inspect(part, kube_cache_at(c, PODS, i)->value);
 *
 * The getters never block; what they return is valid until the next iteration of the loop. While
 * the API server is unavailable the cache keeps its last state. A write is visible only when the
 * watch delivers it.
 *
 * A kind that cannot be synced is logged once per error; after 403 the line has the remedy. Kinds
 * of unirail (own_crd) whose CRDs are not installed share one line, since usually all are missing.
 * Errors of kind ERR_AGAIN are not logged: the client logs an unreachable server.
 */

#include "kube/client.h"
#include "kube/informer.h"

struct kube_cache_kind {
	const struct kube_kind *kind;
	/* size, decode, drop and cached: see struct kube_informer_conf */
	size_t size;
	int (*decode)(void *value, const struct json *object, struct err *e);
	void (*drop)(void *value);
	bool cached;
	/* the CRD is part of unirail: if it is missing, the log says how to install it */
	bool own_crd;
	/* kube_informer_conf.again; see kube_cache_read_again(). May be NULL. */
	bool (*again)(void *arg, int kind, const struct kube_object *o);
};

struct kube_cache_conf {
	struct kube *kube;
	const struct kube_cache_kind *kinds; /* borrowed */
	int n;				     /* number of kinds */
	const struct kube_select *select;    /* one for each kind, copied; NULL: all objects */
	const char *component; /* name in log lines, such as "agent"; NULL: logs nothing */
	/* Called before the listeners of the kind; was and is: see kube_cache_fn. May be NULL. */
	void (*changed)(void *arg, int kind, const struct kube_object *was,
			const struct kube_object *is);
	/* Called after the error of a kind is stored and logged; reason NULL: the kind is in
	 * sync again. The callback may be NULL. */
	void (*sync_error)(void *arg, int kind, const struct err *reason);
	/* See struct kube_informer_conf; called by the informer of each kind. May be NULL. */
	void (*etcd_restored)(void *arg);
	void *arg;
};

struct kube_cache;

struct kube_cache *kube_cache_new(const struct kube_cache_conf *conf);
/* Frees the cache. Must not be called from its callbacks; call it before kube_free(). c may be
 * NULL. */
void kube_cache_free(struct kube_cache *c);

enum { KUBE_CACHE_ALL = -1 }; /* the argument `kind` of functions that accept it: all kinds */

const char *kube_cache_kind_name(const struct kube_cache *c, int kind); /* "spiderippools" */
/* Returns whether the kind (KUBE_CACHE_ALL: each kind) was listed at least once. A list fails while
 * the CRD of the kind is not installed. */
bool kube_cache_synced(const struct kube_cache *c, int kind);
/* Returns kube_informer_behind_ms() of the kind. */
int64_t kube_cache_stale_ms(const struct kube_cache *c, int kind);
/* Returns whether the kind (KUBE_CACHE_ALL: each kind) was listed and is watched now. */
bool kube_cache_current(const struct kube_cache *c, int kind);
/* Returns 0 if the objects of `kind` are synced and their watch does not fail. Otherwise returns
 * e's code; e has the reason and is of kind ERR_AGAIN, with code -ENOENT if the CRD is not
 * installed. */
int kube_cache_error(const struct kube_cache *c, int kind, struct err *e);

/* Returns the object; NULL: there is none. Objects are ordered by namespace and name, bytewise. ns is
 * "" for cluster-scoped kinds. */
const struct kube_object *kube_cache_get(const struct kube_cache *c, int kind, const char *ns,
					 const char *name);
/* Returns the value of the object; NULL: there is none. */
const void *kube_cache_value(const struct kube_cache *c, int kind, const char *ns,
			     const char *name);
size_t kube_cache_count(const struct kube_cache *c, int kind);
const struct kube_object *kube_cache_at(const struct kube_cache *c, int kind, size_t i);

/*
 * Calls fn for each later change of an object of the kind. was NULL: the object is new; is NULL: it
 * was deleted; both NULL: the kind was listed for the first time. Objects that are cached already
 * are not reported. A callback may use the getters, kube_cache_on() and kube_cache_off().
 */
typedef void (*kube_cache_fn)(void *arg, const struct kube_object *was,
			      const struct kube_object *is);
void kube_cache_on(struct kube_cache *c, int kind, kube_cache_fn fn, void *arg);
/* Removes every listener registered with this arg, for all kinds. */
void kube_cache_off(struct kube_cache *c, const void *arg);

/* Calls kube_informer_read_again() for each kind that has `again`. */
void kube_cache_read_again(struct kube_cache *c);

#endif
