/* SPDX-License-Identifier: Apache-2.0 */
/* Reviews over HTTP: each is dispatched to its handler; an invalid request with the token gets a
 * line of text. */
#include "testlib.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_lab.h"
#include "base/alloc.h"
#include "controller/webhook/dispatch.h"

#define REVIEW(group, version, kind, name)                                                         \
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"       \
	"\"uid\":\"u-1\",\"kind\":{\"group\":\"" group "\",\"version\":\"" version                 \
	"\",\"kind\":\"" kind "\"},\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":"  \
	"\"things\"},\"operation\":\"CREATE\",\"name\":\"" name "\",\"object\":{}}}"
#define ANSWER                                                                                     \
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"u-1\","

static struct reviews *served;
static struct review *later;

/* "good" is allowed, "slow" is answered after the next review, all other names are refused. */
static void hook(void *arg, struct review *q)
{
	struct review_answer a;

	assert_ptr_equal(arg, &il_lab);
	review_allow(&a);
	if (!strcmp(q->name, "slow")) {
		later = q;
		return;
	}
	if (strcmp(q->name, "good"))
		review_refuse(&a, 403, "'%s' is not good", q->name);
	review_answer(q, &a);
	if (later) {
		review_allow(&a);
		review_warn(&a, "it took its time");
		review_answer(take(later), &a);
	}
}

#define TOKEN "/0123"

static bool accept_path(void *arg, struct span *path)
{
	(void)arg;
	if (!span_has_prefix(*path, TOKEN "/"))
		return false;
	*path = (struct span){path->p + strlen(TOKEN), path->n - strlen(TOKEN)};
	return true;
}

/* Called in a child process for a long review: loops forever if the review's name is "spin", and
 * allocates all memory if it is "eat". */
static void trial(void *arg, const struct review *q)
{
	volatile unsigned int i = 0;

	(void)arg;
	while (!strcmp(q->name, "spin"))
		i++;
	while (!strcmp(q->name, "eat"))
		memset(xmalloc(1 << 20), 1, 1 << 20);
}

static void handle(void *arg, struct http_request *q)
{
	(void)arg;
	if (reviews_check(served, http_request_msg(q)) > HTTP_TAKE_ONE)
		http_answer(q, &(struct http1_response){.status = 404});
	else
		reviews_handle(served, q);
}

static void start(struct http_server *s, struct loop *loop)
{
	static const struct review_route routes[] = {
		{"/validate-thing", "x.io", "v1", "Thing", hook, &il_lab, trial},
		{"/mutate--v1-pod", "", "v1", "Pod", hook, &il_lab, NULL}};

	(void)s;
	served = reviews_new(loop, routes, ARRAY_LEN(routes), accept_path, NULL);
}

static int setup(void **state)
{
	il_setup(state);
	al_server = al_serve(&il_lab, NULL, handle, start);
	return 0;
}

static void thing(const char *body, int status, const char *answer)
{
	al_expect(&il_lab, "POST", TOKEN "/validate-thing?timeout=10s", body, status, answer);
}

static void test_reviews_are_allowed_or_refused_by_their_handler(void **state)
{
	(void)state;
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
	thing(REVIEW("x.io", "v1", "Thing", "bad"), 200,
	      ANSWER
	      "\"allowed\":false,\"status\":{\"status\":\"Failure\",\"message\":\"'bad' is not "
	      "good\",\"reason\":\"Forbidden\",\"code\":403}}}");
	al_expect(&il_lab, "POST", TOKEN "/mutate--v1-pod", REVIEW("", "v1", "Pod", "good"), 200,
		  ANSWER "\"allowed\":true}}");
}

static void test_slow_review_does_not_delay_other_reviews(void **state)
{
	int fd = al_connect(&il_lab), closed = al_connect(&il_lab);
	auto_free char *got = NULL;

	(void)state;
	al_send_request(fd, "POST", TOKEN "/validate-thing", REVIEW("x.io", "v1", "Thing", "slow"));
	poll(NULL, 0, 50);
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
	got = al_read(fd, NULL);
	assert_non_null(strstr(got, "\"warnings\":[\"it took its time\"]"));
	close(fd);
	/* A client that disconnects before its review is answered does not delay other reviews
	 * either. */
	al_send_request(closed, "POST", TOKEN "/validate-thing",
			REVIEW("x.io", "v1", "Thing", "slow"));
	poll(NULL, 0, 50);
	close(closed);
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
}

static void test_review_of_another_kind_is_refused(void **state)
{
	(void)state;
	thing(REVIEW("x.io", "v1", "Other", "good"), 200,
	      ANSWER
	      "\"allowed\":false,\"status\":{\"status\":\"Failure\",\"message\":\"webhook "
	      "/validate-thing received kind 'Other' of group 'x.io', expected kind 'Thing' of group 'x.io': correct the webhook's "
	      "rules\",\"reason\":\"BadRequest\",\"code\":400}}}");
	thing(REVIEW("x.io", "v2", "Thing", "good"), 200,
	      ANSWER
	      "\"allowed\":false,\"status\":{\"status\":\"Failure\",\"message\":\"webhook "
	      "/validate-thing received version 'v2' of Thing, expected 'v1': install the CRDs of this "
	      "controller's release\",\"reason\":\"BadRequest\",\"code\":400}}}");
}

static void test_requests_without_a_review_are_refused(void **state)
{
	int fd = al_connect(&il_lab);
	auto_free char *got = NULL;

	(void)state;
	thing("{", 400, "AdmissionReview: 1:2: unexpected end of JSON input\n");
	thing("{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\"}", 400,
	      "AdmissionReview: review.apiVersion is 'admission.k8s.io/v1beta1', expected "
	      "'admission.k8s.io/v1' (the webhook's admissionReviewVersions: [v1])\n");
	al_expect(&il_lab, "POST", TOKEN "/", "{}", 404, "no webhook has this path\n");
	al_expect(&il_lab, "GET", TOKEN "/validate-thing", NULL, 405, "expected POST\n");
	/* Without the token every path except /webhook-health-check gets the same response. */
	al_expect(&il_lab, "POST", "/validate-thing", "{}", 404, "");
	al_expect(&il_lab, "GET", "/", NULL, 404, "");
	al_expect(&il_lab, "POST", "/01234/validate-thing", "{}", 404, "");
	al_expect(&il_lab, "GET", "/webhook-health-check", NULL, 200, "ok\n");
	al_send(fd,
		"POST " TOKEN "/validate-thing HTTP/1.1\r\nHost: x\r\nContent-Type: text/yaml\r\n"
		"Content-Length: 2\r\nConnection: close\r\n\r\n{}");
	got = al_read(fd, NULL);
	assert_non_null(strstr(got, "415 "));
	assert_non_null(strstr(got, "Content-Type is not application/json\n"));
	close(fd);
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
}

/* Returns a review longer than 32 KiB. Such a review is decided in a child process before the
 * controller's process decides it (trials.h). */
static char *long_review(const char *name)
{
	auto_free char *pad = xcalloc(1, 40001);

	memset(pad, 'p', 40000);
	return xasprintf(
		"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
		"\"request\":{\"uid\":\"u-1\",\"kind\":{\"group\":\"x.io\",\"version\":"
		"\"v1\",\"kind\":\"Thing\"},\"resource\":{\"group\":\"\",\"version\":\"v1\","
		"\"resource\":\"things\"},\"operation\":\"CREATE\",\"name\":\"%s\","
		"\"object\":{\"pad\":\"%s\"}}}",
		name, pad);
}

/*
 * Expects 413, or 503 on a machine with few processors, where the child does not use up its CPU
 * budget in time.
 */
static void refused(const char *review)
{
	int fd = al_connect(&il_lab);
	auto_free char *got = NULL;

	al_send_request(fd, "POST", TOKEN "/validate-thing", review);
	got = al_read(fd, NULL);
	assert_non_null(strstr(got, "413 ") ?: strstr(got, "503 "));
	assert_non_null(strstr(got, "make the object smaller\n") ?: strstr(got, "try again\n"));
	close(fd);
}

/* Other reviews are answered while a child process decides a costly one, and afterwards. */
static void test_costly_review_is_parsed_in_a_child(void **state)
{
	auto_free char *spin = long_review("spin"), *eat = long_review("eat"),
		       *good = long_review("good"), *got = NULL;
	int fd = al_connect(&il_lab);
	struct pollfd p = {fd, POLLIN, 0};

	(void)state;
	al_send_request(fd, "POST", TOKEN "/validate-thing", spin);
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
	ASSERT_EQ(poll(&p, 1, 0), 0);
	got = al_read(fd, NULL);
	assert_non_null(strstr(got, "413 ") ?: strstr(got, "503 "));
	close(fd);
	refused(eat);
	thing(good, 200, ANSWER "\"allowed\":true}}");
}

/* Sends more costly reviews than the limit of child processes; their clients disconnect. */
static void test_costly_reviews_do_not_block_other_reviews(void **state)
{
	auto_free char *spin = long_review("spin");
	int fds[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = al_connect(&il_lab);
		al_send_request(fds[i], "POST", TOKEN "/validate-thing", spin);
	}
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	thing(REVIEW("x.io", "v1", "Thing", "good"), 200, ANSWER "\"allowed\":true}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reviews_are_allowed_or_refused_by_their_handler),
		cmocka_unit_test(test_slow_review_does_not_delay_other_reviews),
		cmocka_unit_test(test_review_of_another_kind_is_refused),
		cmocka_unit_test(test_requests_without_a_review_are_refused),
		cmocka_unit_test(test_costly_review_is_parsed_in_a_child),
		cmocka_unit_test(test_costly_reviews_do_not_block_other_reviews),
	};

	return T_RUN(tests, setup, al_teardown);
}
