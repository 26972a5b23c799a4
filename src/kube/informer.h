/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_INFORMER_H
#define UNIRAIL_KUBE_INFORMER_H

/*
 * A collection as it is at the API server, kept in memory: listed once, then watched, listed again
 * when the server no longer knows the changes since (410). Of each object it holds what the caller
 * decodes into a struct of its own, nothing else. While the server is away the last state stays,
 * and the watch goes on where it was when the server is back.
 *
 * Every change comes by `changed`, in the server's order, what happened during an outage too, as
 * the difference it made; an object that was deleted and made again in between comes as both. An
 * object that cannot be decoded leaves what was known of it in force, and a line in the log.
 *
 * A server whose data was set back to an earlier time (etcd restored) would leave such a watch
 * without a word for ever. So after a broken connection the collection's version is asked for
 * first (a list of one object), and when it is older than ours, all is listed anew.
 */

#include "kube/list.h"
#include "kube/object_store.h"

struct kube_informer_conf {
	const struct kube_kind *kind; /* borrowed */
	struct kube_select select;    /* copied */
	/*
	 * From the server's cache instead of etcd: for what is many and filtered (the pods of one
	 * node), where an exact list would have a thousand agents read all pods of the cluster. It
	 * may be a moment old, but is never older than what was seen before.
	 */
	bool cached;
	/*
	 * After a broken connection all is listed, whatever the server's version: a restored server
	 * may have come past ours already, and a watch would go on from there without a word.
	 */
	bool wary;
	void (*relisted)(void *arg); /* a later list than the first is whole; may be NULL */
	size_t size;		     /* of the caller's struct */
	/* Into *value, which is zeroed. 0; 1: of no interest, as if it were not there; negative
	 * with e: cannot be read (what was filled in is still given to `drop`). */
	int (*decode)(void *value, const struct json *object, struct err *e);
	void (*drop)(void *value); /* frees what decode made; NULL: nothing */
	/* was NULL: new; is NULL: gone. Both are valid during the call; only `is` after it. */
	void (*changed)(void *arg, const struct kube_object *was, const struct kube_object *is);
	void (*synced)(void *arg); /* the first list is whole; may be NULL */
	/* The server's data is from an earlier time than what was told: all of it is told again. May
	 * be NULL. */
	void (*set_back)(void *arg);
	/* Why it is not followed, each time another reason; NULL: it is followed again. Instead of
	 * lines in the log; may be NULL. */
	void (*trouble)(void *arg, const struct err *why);
	void *arg;
};

struct kube_informer;

struct kube_informer *kube_informer_new(struct kube *k, const struct kube_informer_conf *c);
/* Not from within its callbacks; before kube_free(). NULL is fine. */
void kube_informer_free(struct kube_informer *i);

bool kube_informer_synced(const struct kube_informer *i);
/* How long it has not been watching, in ms; 0 while it does. */
int64_t kube_informer_behind_ms(const struct kube_informer *i);
const struct kube_object *kube_informer_get(const struct kube_informer *i, const char *ns,
					    const char *name);
/* The collection's, as last listed or told; NULL: never. */
const char *kube_informer_version(const struct kube_informer *i);
size_t kube_informer_count(const struct kube_informer *i);
const struct kube_object *kube_informer_at(const struct kube_informer *i, size_t at); /* in order */

#endif
