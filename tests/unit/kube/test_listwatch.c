/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a watch. */
#include "testlib.h"

#include <errno.h>

#include "base/alloc.h"
#include "kube/listwatch.h"

static int decode(const char *text, enum kube_change *change, int *status, int64_t *after,
		  struct err *e)
{
	const struct json *object = NULL;
	struct json_doc *doc = NULL;
	int r;

	ASSERT_EQ(json_parse(&doc, span_of(text), 4096, NULL), 0);
	r = kube_watch_decode(json_root(doc), change, &object, status, after, e);
	json_free(doc);
	return r;
}

static void test_watch_events_are_decoded(void **state)
{
	static const char *const texts[] = {
		"{\"type\":\"ADDED\",\"object\":{}}",
		"{\"type\":\"MODIFIED\",\"object\":{}}",
		"{\"type\":\"DELETED\",\"object\":{}}",
		"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
	};
	enum kube_change change;
	struct err e = ERR_INIT;
	int64_t after;
	int status;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_EQ(decode(texts[i], &change, &status, &after, &e), 1);
		ASSERT_EQ(change, i);
	}
	/* An event type of a newer API server is ignored. */
	ASSERT_EQ(decode("{\"type\":\"NEW\",\"object\":{}}", &change, &status, &after, &e), 0);
}

static void test_error_events_become_errors(void **state)
{
	enum kube_change change;
	struct err e = ERR_INIT;
	int64_t after;
	int status;

	(void)state;
	ASSERT_EQ(decode("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
			 "\"reason\":\"Expired\",\"message\":\"too old resource version: 1 "
			 "(2)\"}}",
			 &change, &status, &after, &e),
		  -ESTALE);
	ASSERT_EQ(status, 410);
	ASSERT_STR_EQ(e.text, "ERROR: 410 Expired: too old resource version: 1 (2)");
	ASSERT_EQ(decode("{\"type\":\"ERROR\",\"object\":{\"code\":429,\"details\":"
			 "{\"retryAfterSeconds\":3}}}",
			 &change, &status, &after, &e),
		  -EAGAIN);
	ASSERT_EQ(after, 3);
	ASSERT_EQ(decode("{\"type\":\"ADDED\"}", &change, &status, &after, &e), -EBADMSG);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(decode("{\"kind\":\"Status\"}", &change, &status, &after, &e), -EBADMSG);
	ASSERT_EQ(decode("[]", &change, &status, &after, &e), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watch_events_are_decoded),
		cmocka_unit_test(test_error_events_become_errors),
	};

	return T_RUN(tests, NULL, NULL);
}
