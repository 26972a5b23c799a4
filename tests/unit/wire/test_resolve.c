/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>

#include "base/alloc.h"
#include "wire/resolve.h"

struct addresses {
	size_t n;
	struct ipaddr first;
	int code;
	char error[256];
};

static void resolved(void *arg, const struct ipaddr *v, size_t n, const struct err *e)
{
	struct addresses *a = arg;

	a->n = n;
	if (n)
		a->first = v[0];
	a->code = e ? e->code : 0;
	str_copy(a->error, sizeof(a->error), e ? e->text : "");
}

static struct addresses resolve(const char *host)
{
	struct addresses a = {.n = 99};
	struct resolve *r;
	struct loop *l;

	ASSERT_EQ(loop_new(&l, NULL), 0);
	ASSERT_EQ(resolve_start(&r, l, host, 10000, resolved, &a, NULL), 0);
	loop_run(l);
	loop_free(l);
	return a;
}

static void test_host_names_are_resolved_in_a_child(void **state)
{
	struct addresses a = resolve("localhost");

	(void)state;
	assert_true(a.n >= 1);
	assert_true(ip_is_loopback(&a.first));
	a = resolve("no such name");
	ASSERT_EQ(a.n, 0);
	ASSERT_EQ(a.code, -EHOSTUNREACH);
	assert_memory_equal(a.error, "look up 'no such name': ", 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_names_are_resolved_in_a_child),
	};

	return T_RUN(tests, NULL, NULL);
}
