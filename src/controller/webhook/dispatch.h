/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_DISPATCH_H
#define UNIRAIL_CONTROLLER_WEBHOOK_DISPATCH_H

/*
 * Receives AdmissionReviews by HTTP and passes each to the hook of its path
 * (controller/webhook/review.h). Status codes:
 *
 * 	200	the hook's answer, allowed or denied; also a denial for an unexpected kind or version
 * 	400	no valid AdmissionReview of admission.k8s.io/v1, for instance without the objects
 * 		that its operation requires
 * 	404	unknown path, or no accepted token (the answer has no text then)
 * 	405	not POST
 * 	415	not application/json
 * 	413	deciding it exceeds the limits (controller/webhook/trials.h)
 * 	500	the answer is too long
 * 	503	the limits could not be checked, or the client has disconnected
 *
 * Reviews are decided in the order of arrival, large ones after their trial. When decisions have
 * taken 20 ms, the loop runs its other callbacks before the next decision.
 *
 * Each answer other than 200 has the reason as text, except the 404 to a request whose path has no
 * accepted token on arrival. The reason is logged as well (except for 500 and a disconnect), since
 * the API server shows users only "failed calling webhook".
 *
 * GET /webhook-health-check returns 200, as in Spiderpool.
 */

#include "base/loop.h"
#include "controller/webhook/review.h"
#include "server/http_server.h"

struct review_route {
	const char *path;
	const char *group, *version, *kind; /* kind of objects that the path accepts */
	review_webhook webhook;
	void *arg;
	/*
	 * Computes the decision without side effects, to measure its cost; NULL: the cost is
	 * negligible.
	 */
	void (*trial)(void *arg, const struct review *q);
};

struct reviews;

/*
 * Routes are borrowed. `accept` returns whether a path may be answered: the path begins with an
 * accepted token, which `accept` removes from the path; or tokenless.h accepts the path. Other
 * requests are rejected before their body is read.
 */
struct reviews *reviews_new(struct loop *l, const struct review_route *routes, size_t n,
			    bool (*accept)(void *arg, struct span *path), void *arg);
/* The http_check of the server: 404 for a path that `accept` rejects, except the health check's. */
int reviews_check(void *arg, const struct http1_msg *head);
/* Frees the reviews. Call it before http_server_free(); pending reviews must not be answered
 * afterwards. Accepts NULL. */
void reviews_free(struct reviews *s);
/* The http_handler of the server; arg is a struct reviews. */
void reviews_handle(void *arg, struct http_request *q);
/* Appends the counters unirail_controller_reviews_*. */
void reviews_metrics(const struct reviews *s, struct buf *b);

#endif
