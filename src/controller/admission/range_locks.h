/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_RANGE_LOCKS_H
#define UNIRAIL_CONTROLLER_ADMISSION_RANGE_LOCKS_H

/*
 * Serializes decisions about address ranges. Two replicas that validate two overlapping pools at
 * the same time must not allow both, and neither has seen the other's pool yet. So a replica writes
 * a claim into the ConfigMap unirail-claims of the controller's namespace by compare-and-swap
 * before it allows a request, and recent claims of other requests count like existing objects.
 *
 * 	data:
 * 	  <uid of the request>: {"at":1767225600,"kind":"SpiderIPPool","metadata":{"name":...,"uid":...},
 * 				"spec":{"subnet":"10.6.0.0/24","ips":["10.6.0.10-10.6.0.99"]},"digest":"..."}
 *
 * A claim is short, however large its object is: of a pool it has the first and the last address,
 * of a SpiderSubnet no addresses. So it may conflict unnecessarily, but never misses a conflict.
 * Its digest shows whether the existing object is the one that was claimed.
 *
 * When a request conflicts with a claim, a read of the claimed object decides. While that object
 * does not exist or does not have the claim's digest (the claim's request is in flight, or was
 * denied by another webhook), the decision waits CLAIMS_PATIENCE_MS; then the new request is denied
 * and may be retried. CLAIMS_RUN_OUT_MS after the claim was made, its request cannot be in flight
 * any more: a claim whose object is still missing or different is then dropped. Other claims are
 * stored for CLAIMS_RETAINED_MS, for replicas whose watch lags. A claim whose object's deletion
 * this replica has seen is ignored, since the uid never returns, and removed, so that a replica
 * started later does not wait for the object.
 */

#include "base/err.h"
#include "kube/client.h"
#include "wire/tls/digest.h"
#include "wire/json/json.h"

#define CLAIMS_NAME "unirail-claims"

enum {
	/* CLAIMS_RUN_OUT_MS: the API server's request timeout of 60 s, plus 15 s for clock
	 * differences */
	CLAIMS_RUN_OUT_MS = 75 * 1000,
	CLAIMS_RETAINED_MS = 600 * 1000,
	CLAIMS_TIME_MS = 7000,	   /* limit for one decision: the API server waits 10 s */
	CLAIMS_PATIENCE_MS = 2000, /* longest wait for the object of a conflicting claim */
	/* From CLAIMS_MANY claims or CLAIMS_LONG bytes on, claims are stored for CLAIMS_RUN_OUT_MS
	 * only: a ConfigMap is limited to 1 MiB. */
	CLAIMS_MANY = 500,
	/* maximum number of claims within CLAIMS_RUN_OUT_MS; further requests are denied */
	CLAIMS_MAX = 1000,
	CLAIMS_LONG = 256 << 10, /* see CLAIMS_MANY */
};

struct range_locks;

struct range_locks *range_locks_new(struct kube *k, const char *ns); /* ns is borrowed */
/* Waiting requests fail with an error. Call before kube_free(). Accepts NULL. */
void range_locks_free(struct range_locks *c);
/* To be called when the watch shows the deletion of the object with this uid: its claims are
 * then ignored and removed. */
void range_locks_removed(struct range_locks *c, const char *uid);

struct range_locks_request {
	const char *id; /* uid of the request */
	const char *kind;
	const struct json *object;
	/* Compares the object of the request with `other`, an object or claim of `kind`; `other`
	 * NULL: with everything in the cache. Returns 0, or -EINVAL with e if they conflict. */
	int (*judge)(void *arg, const char *kind, const struct json *other, struct err *e);
	/* Returns the cached object `name`, in the version with which judge() has just compared
	 * the request; NULL: not cached. The callback may be NULL. */
	const struct json *(*known)(void *arg, const char *kind, const char *name);
	/*
	 * Called once, after range_locks_take() has returned. e NULL: the claim is stored. -EINVAL:
	 * judge() denied the request; -EAGAIN: a claim conflicts whose object does not exist yet or
	 * differs from the claim, or CLAIMS_MAX is reached; -ECANCELED: range_locks_free(); others:
	 * the API server's error.
	 */
	void (*done)(void *arg, const struct err *e);
	void *arg;
};

/* Starts a decision. Everything in the request is borrowed until done(). */
void range_locks_take(struct range_locks *c, const struct range_locks_request *q);

/* --- internals, visible for tests --- */

struct range_locks_entry {
	char *id;
	struct json_doc *doc;
	int64_t at_ms;
	size_t len; /* length of its JSON text */
	bool drop;
};
struct range_locks_list {
	struct range_locks_entry *v;
	size_t n;
	struct json_doc
		*metadata; /* labels and annotations of the ConfigMap, which are preserved; NULL:
		            * none */
};

/* Digest of subnet, ips and excludeIPs: DIGEST_HEX bytes. */
void range_locks_digest(const struct json *spec, char hex[static DIGEST_HEX]);
/*
 * Digest of a claim: the stored one or, for a claim of an older controller, computed from its
 * content.
 */
void range_locks_entry_digest(const struct range_locks_entry *c, char hex[static DIGEST_HEX]);
/* Returns whether no further claim can be stored. */
bool range_locks_are_full(const struct range_locks_list *l, int64_t now_ms);
/* Reads the ConfigMap (NULL: there is none); invalid entries are skipped. */
void range_locks_read(const struct json *map, struct range_locks_list *ret);
void range_locks_list_done(struct range_locks_list *l);
/* Writes the JSON of the ConfigMap to ret: claims that are still needed, and that of q (NULL:
 * none). version: the resourceVersion that the request replaces; NULL: the request creates the
 * ConfigMap. */
void range_locks_write(const struct range_locks_list *l, const struct range_locks_request *q,
		       const char *ns, const char *version, int64_t now_ms, struct buf *ret);

#endif
