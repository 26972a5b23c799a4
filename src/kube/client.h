/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_CLIENT_H
#define UNIRAIL_KUBE_CLIENT_H

/*
 * Requests to the API server, on the loop. All requests and watches share one HTTP/2 connection
 * (wire/http/h2.h says why), which is opened when something is asked and again whenever it is lost,
 * after a growing, jittered wait. Credentials are refreshed on the way (kube/auth.h).
 *
 * A request is tried again, until its time is up: while there is no connection; when the server
 * said 429, or 5xx with Retry-After (not before that time); once after 401 with fresh credentials;
 * and, if it only reads, when the connection broke or the server failed. A write whose connection
 * broke is not: it fails with -ECONNRESET, kind ERR_AGAIN, since nobody knows whether it was done.
 *
 * Errors are one line, "kube: create ipblock 'x': 403 Forbidden: ..."; codes in kube/status.h;
 * -ETIMEDOUT (kind ERR_AGAIN) names the last thing that went wrong.
 */

#include "base/loop.h"
#include "kube/config.h"
#include "kube/path.h"
#include "wire/json/json.h"

enum { KUBE_TIMEOUT_MS = 30000, KUBE_BODY_MAX = 4 << 20 };

struct kube_settings {
	int timeout_ms;	   /* of a request, waits included; 0: KUBE_TIMEOUT_MS */
	bool impatient;	   /* a server that is not reached fails requests at once: for tools */
	const char *agent; /* User-Agent; NULL: "unirail" */
};

struct kube;

/* Root and configuration are borrowed. Connects when first asked something. */
struct kube *kube_new(struct loop *l, const struct root *root, const struct kube_conf *c,
		      const struct kube_settings *s);
/* What runs is dropped without a callback. Not from within a callback. NULL is fine. */
void kube_free(struct kube *k);
struct loop *kube_loop(const struct kube *k);

enum kube_verb {
	KUBE_GET,
	KUBE_LIST,  /* small collections; see kube/list.h for others */
	KUBE_WATCH, /* kube/watch.h */
	KUBE_CREATE,
	KUBE_REPLACE,
	KUBE_MERGE_PATCH,
	KUBE_JSON_PATCH,
	KUBE_DELETE,
};

struct kube_request {
	enum kube_verb verb;
	struct kube_ref on;		    /* of KUBE_CREATE the name is only for texts */
	const char *path;		    /* instead of it: "/version"; NULL mostly */
	const char *query;		    /* "?a=b" by kube_path_query; may be NULL */
	struct span body;		    /* JSON; copied */
	const char *uid, *resource_version; /* KUBE_DELETE: only if these are its; may be NULL */
	int timeout_ms;			    /* 0: the client's */
	/* A write that failed with 5xx is not tried again, whatever the server says: it may have
	 * been carried out, and the second try would be refused by its own first. */
	bool once;
};

/* The end of a request: status 0 when no answer came, object (valid during the call) and e NULL or
 * not according to whether it was done. The call is gone afterwards. */
typedef void (*kube_done_fn)(void *arg, int status, const struct json *object, const struct err *e);

struct kube_call;

/* Strings are copied. `fn` is never called from within. */
struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg);
void kube_cancel(struct kube_call *c); /* no callback comes any more; NULL is fine */

#endif
