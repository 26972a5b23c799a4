/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_DISPATCH_H
#define UNIRAIL_CONTROLLER_WEBHOOK_DISPATCH_H

/*
 * Reviews as they come by HTTP, each handed to the hook of its path (controller/webhook/review.h).
 *
 *	200	the hook's answer; a refusal, too, if another kind or version is asked about
 *	400	no AdmissionReview, or one that lacks what its operation comes with
 *	404	no such path, or without the token that is registered: no word of text then
 *	405	no POST
 *	415	no application/json
 *	413	deciding it takes too much (controller/webhook/trials.h)	503	it could not be seen whether
 *
 * They are decided in the order they came, for 20 ms at a time; in between the loop's other callbacks run.
 *
 * Whatever is not answered with 200 is one line of text that says why, here in the log as well: the API
 * server hides it from users behind "failed calling webhook".
 *
 * GET /webhook-health-check, as Spiderpool has it: 200.
 */

#include "base/loop.h"
#include "controller/webhook/review.h"
#include "server/http_server.h"

struct review_route {
	const char *path;
	const char *group, *version, *kind; /* what it is for */
	review_hook hook;
	void *arg;
	/* Decides it without saying or changing anything, to see what that costs; NULL: it costs little. */
	void (*trial)(void *arg, const struct review *q);
};

struct reviews;

/*
 * Routes are borrowed. `accept` says whether a path begins with what an API server was given, and takes it off; who has it not
 * is a stranger, to be refused before a byte of the body is looked at.
 */
struct reviews *reviews_new(struct loop *l, const struct review_route *routes, size_t n,
			    bool (*accept)(void *arg, struct span *path), void *arg);
/* A http_check: 404 for strangers, whatever they ask. */
int reviews_check(void *arg, const struct http1_msg *head);
/* Before http_server_free(); what is not answered yet must not be any more. NULL is fine. */
void reviews_free(struct reviews *s);
/* A http_handler; arg is a struct reviews. */
void reviews_handle(void *arg, struct http_request *q);
/* unirail_controller_reviews_total and _seconds_total, by path. */
void reviews_metrics(const struct reviews *s, struct buf *b);

#endif
