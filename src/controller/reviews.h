/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REVIEWS_H
#define UNIRAIL_CONTROLLER_REVIEWS_H

/*
 * Reviews as they come by HTTP, each handed to the hook of its path (controller/review.h).
 *
 *	200	the hook's answer; a refusal, too, if another kind or version is asked about
 *	400	no AdmissionReview, or one that lacks what its operation comes with
 *	404	no such path	405	no POST		415	no application/json
 *
 * Whatever is not answered with 200 is one line of text that says why, here in the log as well: the API
 * server hides it from users behind "failed calling webhook".
 *
 * GET /webhook-health-check, as Spiderpool has it: 200.
 */

#include "base/loop.h"
#include "controller/review.h"
#include "daemon/http_server.h"

struct review_route {
	const char *path;
	const char *group, *version, *kind; /* what it is for */
	review_hook hook;
	void *arg;
};

struct reviews;

/* Routes are borrowed. */
struct reviews *reviews_new(const struct review_route *routes, size_t n);
/* Before http_server_free(); what is not answered yet must not be any more. NULL is fine. */
void reviews_free(struct reviews *s);
/* A http_handler; arg is a struct reviews. */
void reviews_handle(void *arg, struct http_request *q);
/* unirail_controller_reviews_total and _seconds_total, by path. */
void reviews_metrics(const struct reviews *s, struct buf *b);

#endif
