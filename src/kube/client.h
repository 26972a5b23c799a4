/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CLIENT_H
#define UNIRAIL_KUBE_CLIENT_H

/*
 * Requests to the API server, on the loop. All requests and watches share one HTTP/2 connection
 * (wire/http/h2.h explains why). It is opened by the first request; after it was lost, a waiting
 * request reopens it after a growing, jittered backoff. Credentials are refreshed as needed
 * (kube/auth.h).
 *
 * A request waits for a connection until its timeout. It is retried, at most ten times and until
 * its timeout:
 *
 *	after 429
 *	after 5xx with Retry-After, not before that time; a write only if kube_request.once is false
 *	after the first 401, if credentials come from a file or a program
 *	if the server did not process the request
 * reads only: if the connection broke before the answer; at most three times after 500, 502, 503,
 * 504
 *
 * A write whose connection broke is not retried, since the server may have carried it out: it fails
 * with the connection's error (-ECONNRESET, -ETIMEDOUT, ...), kind ERR_AGAIN.
 *
 * An error is one line, "kube: create ipblock 'x': 403 Forbidden: ..."; kube/status.h has the
 * codes. The text of -ETIMEDOUT (kind ERR_AGAIN) has the failure of the last attempt.
 */

#include "base/loop.h"
#include "kube/config.h"
#include "kube/path.h"
#include "wire/json/json.h"

enum { KUBE_TIMEOUT_MS = 30000, KUBE_BODY_MAX = 4 << 20 };

struct kube_settings {
	int timeout_ms; /* timeout of a request, including waits; 0: KUBE_TIMEOUT_MS */
	/* true: requests fail at once if the server is unreachable (for CLI tools) */
	bool impatient;
	const char *agent; /* User-Agent; NULL: "unirail" */
};

struct kube;

/* Loop, root, configuration and s->agent are borrowed. Connects on the first request. */
struct kube *kube_new(struct loop *l, const struct root *root, const struct kube_conf *c,
		      const struct kube_settings *s);
/* Drops open requests without a callback. Must not be called from a callback. Accepts NULL. */
void kube_free(struct kube *k);
struct loop *kube_loop(const struct kube *k);

enum kube_verb {
	KUBE_GET,
	KUBE_LIST,  /* small collections; see kube/listwatch.h for others */
	KUBE_WATCH, /* kube/listwatch.h */
	KUBE_CREATE,
	KUBE_REPLACE,
	KUBE_MERGE_PATCH,
	KUBE_JSON_PATCH,
	KUBE_DELETE,
};

struct kube_request {
	enum kube_verb verb;
	struct kube_ref on; /* for KUBE_CREATE the name is only used in messages */
	/* path used instead of `on`, such as "/version"; usually NULL */
	const char *path;
	/* query such as "?a=b", see kube_path_query(); may be NULL */
	const char *query;
	struct span body;		    /* JSON; copied */
	const char *uid, *resource_version; /* KUBE_DELETE: preconditions; may be NULL */
	int timeout_ms;			    /* timeout of the request; 0: the client's default */
	/* True: a write that failed with 5xx is not retried, even with Retry-After, because the
	 * server may have carried it out and would then refuse the retry. */
	bool once;
};

/* Called once at the end of a request. status: 0 when no answer arrived. Exactly one of object
 * (valid during the callback) and e is set. The struct kube_call is freed afterwards. */
typedef void (*kube_done_fn)(void *arg, int status, const struct json *object, const struct err *e);

struct kube_call;

/* Starts a request. Strings are copied. `fn` is never called before kube_send() returns. */
struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg);
void kube_cancel(struct kube_call *c); /* cancels the request without a callback; accepts NULL */

#endif
