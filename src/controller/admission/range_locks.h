/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_RANGE_LOCKS_H
#define UNIRAIL_CONTROLLER_ADMISSION_RANGE_LOCKS_H

/*
 * Decisions about ranges, in one order: two replicas that are asked at the same time about two pools that
 * overlap must not both say yes, and neither has seen the other's yet. So a yes is written down first,
 * in the ConfigMap unirail-claims of the controller's namespace, by compare-and-swap, and what others
 * have written there lately counts like what there is.
 *
 *	data:
 *	  <uid of the request>: {"at":1767225600,"kind":"SpiderIPPool","metadata":{"name":...,"uid":...},
 *				"spec":{"subnet":"10.6.0.0/24","ips":["10.6.0.10-10.6.0.99"]},"digest":"..."}
 *
 * A claim is short, whatever its object says: of a pool the first and the last address, of a SpiderSubnet no address, so that
 * it is in the way rather once too often; and a digest of what is decided about, by which the object is known to be there as
 * it was claimed.
 *
 * A claim that is in the way of another object is looked into: the object as it is now, asked of the API
 * server, decides. While there is none (its request is under way, or was refused by somebody else) it is
 * waited for, for a moment; the other is then refused, for now. After CLAIMS_RUN_OUT_MS no request can
 * still be under way, and a claim without its object stands for nothing; the claim itself stays for
 * CLAIMS_KEPT_MS, for replicas whose watch is behind. An object that this replica has seen go stands for nothing,
 * as its uid never comes again: its claims are taken out, so that one that was started later need not wait for it.
 */

#include "base/err.h"
#include "kube/client.h"
#include "wire/tls/digest.h"
#include "wire/json/json.h"

#define CLAIMS_NAME "unirail-claims"

/* RUN_OUT: the API server's 60 s for a request, and clocks that differ. */
enum {
	CLAIMS_RUN_OUT_MS = 75 * 1000,
	CLAIMS_KEPT_MS = 600 * 1000,
	CLAIMS_TIME_MS = 7000,	   /* for one decision: the API server waits 10 s for it */
	CLAIMS_PATIENCE_MS = 2000, /* for another's object to be there */
	/* More, or longer ones, are not kept longer than they must: a ConfigMap has 1 MiB at most. */
	CLAIMS_MANY = 500,
	CLAIMS_MAX = 1000, /* within RUN_OUT: no more are decided */
	CLAIMS_LONG = 256 << 10,
};

struct claims;

struct claims *claims_new(struct kube *k, const char *ns); /* ns is borrowed */
/* Whoever waits is told that it could not be decided. Before kube_free(). NULL is fine. */
void claims_free(struct claims *c);
/* The watch has shown that the object is gone. */
void claims_gone(struct claims *c, const char *uid);

struct claims_ask {
	const char *id; /* of the request */
	const char *kind;
	const struct json *object;
	/* Whether the object goes with `other` of that kind; NULL: with all that is known by now.
	 * Negative with e: it does not. */
	int (*judge)(void *arg, const char *kind, const struct json *other, struct err *e);
	/* The object as the watch has it, with which judge(NULL) has just compared; NULL: not there. May be NULL. */
	const struct json *(*known)(void *arg, const char *kind, const char *name);
	/* Once, never from within: it is written down, or why not (-EINVAL: the judge's no). */
	void (*done)(void *arg, const struct err *e);
	void *arg;
};

/* All of it is borrowed until done. */
void claims_take(struct claims *c, const struct claims_ask *q);

/* --- its parts, for tests --- */

struct claims_entry {
	char *id;
	struct json_doc *doc;
	int64_t at_ms;
	size_t len; /* as text */
	bool drop;
};
struct claims_list {
	struct claims_entry *v;
	size_t n;
	struct json_doc
		*metadata; /* of the ConfigMap: labels and annotations, which stay; NULL: none */
};

/* Of subnet, ips and excludeIPs: DIGEST_HEX bytes. */
void claims_digest(const struct json *spec, char hex[static DIGEST_HEX]);
/* A claim's, as it is written or, of an older controller, of what it is about. */
void claims_entry_digest(const struct claims_entry *c, char hex[static DIGEST_HEX]);
/* Whether there are as many as can be kept. */
bool claims_are_full(const struct claims_list *l, int64_t now_ms);
/* From a ConfigMap; an entry that cannot be read is left out. */
void claims_read(const struct json *map, struct claims_list *ret);
void claims_list_done(struct claims_list *l);
/* What is to be written: those that stay, and the new one (NULL: none). */
void claims_write(const struct claims_list *l, const struct claims_ask *q, const char *ns,
		  const char *version, int64_t now_ms, struct buf *ret);

#endif
