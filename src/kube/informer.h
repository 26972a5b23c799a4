/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_INFORMER_H
#define UNIRAIL_KUBE_INFORMER_H

/*
 * An in-memory copy of a collection of the API server: listed once, then watched; listed again when
 * the server no longer has the changes since the last known version (410). For each object only
 * what the caller decodes into its own struct is stored. While the server is unavailable the last
 * state stays, and the watch resumes from its last version when the server is back.
 *
 * Every change is reported by `changed`, in the server's order. Changes during an outage are
 * reported as well. If the informer lists again after the outage, only the resulting differences
 * are reported, but an object that was deleted and recreated meanwhile is reported as deleted and
 * then as added. If an object cannot be decoded, its previous state stays and a line is logged.
 *
 * After a restore of etcd from a backup, a resumed watch could stay silent forever. So after a
 * broken connection the informer first reads the collection's version (a list of one object), and
 * relists when it is older than the last known one.
 */

#include <stdbool.h>
#include <stddef.h>

#include "kube/listwatch.h"
#include "wire/json/json.h"

struct kube_object {
	const char *ns, *name; /* ns "": cluster-scoped */
	const char *uid, *version;
	void *value; /* the caller's struct */
	unsigned int round;
};

/* Returns whether a resourceVersion is older than another. Compares them as numbers, as the API
 * server writes them; returns false if one of them is not a number. */
bool kube_version_older(const char *version, const char *than);

struct kube_informer_conf {
	const struct kube_kind *kind; /* borrowed */
	struct kube_select select;    /* copied */
	/*
	 * True: reads from the server's cache instead of etcd, for large, filtered collections (the
	 * pods of one node), where a consistent list by each of a thousand agents would read all
	 * pods of the cluster from etcd. The result may lag, but is never older than the last
	 * version seen.
	 */
	bool cached;
	/*
	 * True: relists after a broken connection, whatever the server's version is: the version of
	 * a restored server may already be higher than the last known one, and a watch would resume
	 * from the known version without an error.
	 */
	bool verify_after_reconnect;
	/* called after each complete list except the first; may be NULL */
	void (*relisted)(void *arg);
	size_t size; /* size of the caller's struct */
	/* Decodes into *value, which is zeroed. 0: decoded; 1: ignore the object, as if it did not
	 * exist; negative with e: invalid (after 1 or an error `drop` is called, too). */
	int (*decode)(void *value, const struct json *object, struct err *e);
	void (*drop)(void *value); /* frees the members that decode filled; NULL: nothing to free */
	/* was NULL: added; is NULL: deleted. `was` is valid during the call only, `is` until the
	 * next change. */
	void (*changed)(void *arg, const struct kube_object *was, const struct kube_object *is);
	void (*synced)(void *arg); /* called after the first complete list; may be NULL */
	/* The server's data is older than what was reported before (etcd restored). A list follows,
	 * which reports the differences. May be NULL. */
	void (*etcd_restored)(void *arg);
	/* Called when the reason why the collection cannot be synced changes; reason NULL: it is in
	 * sync again. Without this callback the informer logs both. */
	void (*sync_error)(void *arg, const struct err *reason);
	/* Returns whether to read the object again; see kube_informer_read_again(). May be NULL. */
	bool (*again)(void *arg, const struct kube_object *o);
	void *arg;
};

struct kube_informer;

struct kube_informer *kube_informer_new(struct kube *k, const struct kube_informer_conf *c);
/* Must not be called from its callbacks; call before kube_free(). Accepts NULL. */
void kube_informer_free(struct kube_informer *i);

/*
 * For objects of which `decode` or `changed` dropped a part: a second later, calls `again` for each
 * object, and if it returns true reads the object from the server, one at a time. An object that is
 * unchanged on the server is decoded and reported as changed; any other is left to the watch. A
 * request that fails is retried with a backoff. May be called from `changed`.
 */
void kube_informer_read_again(struct kube_informer *i);

bool kube_informer_synced(const struct kube_informer *i);
/* Returns the milliseconds since the watch failed or the informer was created, at least 1; 0 while
 * it watches, also while it renews a watch that ended at the server's timeout. */
int64_t kube_informer_behind_ms(const struct kube_informer *i);
const struct kube_object *kube_informer_get(const struct kube_informer *i, const char *ns,
					    const char *name);
/* Returns the latest known version of the collection; NULL: the next step is a list. */
const char *kube_informer_version(const struct kube_informer *i);
size_t kube_informer_count(const struct kube_informer *i);
const struct kube_object *kube_informer_at(const struct kube_informer *i, size_t at); /* in order */

/*
 * The store: objects sorted by namespace and name. Each object is one allocation with its names and
 * the caller's decoded struct: 1,000 nodes with an empty struct usually take less than 200 KiB.
 */
struct kube_store {
	struct kube_object **v;
	size_t n, cap;
};

/* Copies the names from the metadata and zeroes the value. NULL: the metadata has no name or
 * version. */
struct kube_object *kube_object_new(const struct json *object, size_t size);

struct kube_object *kube_store_get(const struct kube_store *s, const char *ns, const char *name);
/* Inserts o; returns the object it replaced, now owned by the caller, or NULL. */
struct kube_object *kube_store_put(struct kube_store *s, struct kube_object *o);
/* Removes the i-th object; the caller owns it. */
struct kube_object *kube_store_take(struct kube_store *s, size_t i);
/* Sets *ret to the position of the object, or to where it would be inserted; true: the object
 * exists. */
bool kube_store_find(const struct kube_store *s, const char *ns, const char *name, size_t *ret);

#endif
