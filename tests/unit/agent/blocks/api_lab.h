/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_API_LAB_H
#define UNIRAIL_TESTS_API_LAB_H

/*
 * A fake API server for tests of code that uses kube/client.h. The client, its lists, watches and
 * informers run unchanged; this file replaces the connection below them (wire/http/https.h), so it
 * sees requests as HTTP: method, path, query, body.
 *
 * Objects of all kinds are stored by path, and have a uid and a resourceVersion that increases with
 * each write. Supported are: create (409 if the object exists), get, list (404 unless the last part
 * of the path begins with "spiderip") and watch, both with at most one label as selector, merge
 * patch (409 if the version does not match), JSON patch (422 if a test fails), delete with
 * preconditions (409 if one does not match).
 *
 * Each request takes a millisecond of the loop's clock, which the test sets (loop_set_now()).
 */

#include "testlib.h"

#include "base/loop.h"

struct api_request {
	char *method, *path; /* path without the query */
	char *query;	     /* decoded; "": none */
	char *body;	     /* "": none */
	int status;	     /* of the answer; 0: none was sent */
	int64_t at_ms;	     /* loop time at which it arrived */
};

enum api_loss {
	API_ANSWERED,
	API_LOST_BEFORE, /* the connection breaks before the server carries the request out */
	API_LOST_AFTER,	 /* the server carries it out, then the connection breaks */
};

/* A fault that the test plans: applies to the next `count` requests of this method that write. */
struct api_fault {
	const char *method;
	int count;
	int status; /* of the answer; the request is not carried out. 0: see loss */
	enum api_loss loss;
	/* called before the request is carried out, for a write of another client; may be NULL */
	void (*before)(const struct api_request *q);
};

void api_start(struct loop *l); /* an empty server, which is available */
void api_stop(void);		/* after kube_free() */

/* Breaks the connection; no new one succeeds before api_up(). */
void api_down(void);
void api_up(void);
/* api_backup() saves all objects and the version. api_restore() sets them back, as a restore of
 * etcd from a backup does; the server restarts, so connections break. */
void api_backup(void);
void api_restore(void);
void api_plan_fault(const struct api_fault *f);

/* A write of another client. path: of the object. text: JSON, with ' for "; the object is created
 * or replaced. */
void api_put(const char *path, const char *text);
/* The object; NULL: it does not exist. The caller frees it. */
struct json_doc *api_get(const char *path);
size_t api_count(const char *prefix); /* number of objects whose path begins with the prefix */

/* The requests of this method so far; NULL: all that write. Returns their number; v may be NULL;
 * *v is valid until the next call of api_requests() or api_forget(). */
size_t api_requests(const char *method, const struct api_request **v);
void api_forget(void); /* empties the list of requests */

#endif
