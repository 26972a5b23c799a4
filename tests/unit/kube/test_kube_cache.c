/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster cache: state, errors and listeners by kind. kube_lab.h stands in for the API server,
 * with a list and a watch for each kind; the test sets the loop's clock.
 */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "kube/cache.h"
#include "kube_lab.h"

enum { PODS, POOLS, SUBNETS, KINDS };
enum { SAID_MAX = 4096 };

/* --- the API server --- */

struct server {
	struct kube kube;
	/* the object that the list of the kind returns; NULL: the list is empty */
	const char *objects[KINDS];
	/* the error with which list requests of the kind fail; code 0: they succeed */
	struct err refuse[KINDS];
	char *fields[KINDS]; /* the field selector of the last list request of the kind */
};

static int kind_of(const struct kube_kind *k)
{
	return k == &kube_pods ? PODS : k == &kube_ippools ? POOLS : SUBNETS;
}

static const struct err *list(const struct kube_list *l)
{
	struct server *s = (struct server *)l->k;
	int kind = kind_of(l->kind);

	free(s->fields[kind]);
	s->fields[kind] = xstrdup(l->fields);
	if (s->refuse[kind].code)
		return &s->refuse[kind];
	if (s->objects[kind])
		kl_item(l, s->objects[kind]);
	return NULL;
}

/* --- the cache --- */

struct lab {
	struct server k;
	struct kube_cache *c;
	struct buf said; /* what the callbacks were called with */
	/* kind for which has_room() returns true, so that the cache reads its objects again; -1:
	 * no kind */
	int room;
	int log;
};

static int decode(void *value, const struct json *object, struct err *e)
{
	(void)e;
	*(char **)value = xstrdup(json_string(json_get(object, "v")));
	return 0;
}

static void drop(void *value)
{
	free(*(char **)value);
}

static bool has_room(void *arg, int kind, const struct kube_object *o)
{
	struct lab *t = arg;

	buf_printf(&t->said, "again %d %s;", kind, o->name);
	return kind == t->room;
}

static const struct kube_cache_kind kinds[KINDS] = {
	[PODS] = {.kind = &kube_pods,
		  .size = sizeof(char *),
		  .decode = decode,
		  .drop = drop,
		  .cached = true},
	[POOLS] = {.kind = &kube_ippools,
		   .size = sizeof(char *),
		   .decode = decode,
		   .drop = drop,
		   .own_crd = true,
		   .again = has_room},
	[SUBNETS] = {.kind = &kube_subnets,
		     .size = sizeof(char *),
		     .decode = decode,
		     .drop = drop,
		     .own_crd = true},
};

static const char *value_of(const struct kube_object *o)
{
	return o ? *(char *const *)o->value : "-";
}

static void on_changed(void *arg, int kind, const struct kube_object *was,
		       const struct kube_object *is)
{
	buf_printf(&((struct lab *)arg)->said, "%d %s %s;", kind, value_of(was), value_of(is));
}

static void on_error(void *arg, int kind, const struct err *reason)
{
	buf_printf(&((struct lab *)arg)->said, "error %d %s;", kind, reason ? "yes" : "no");
}

static void on_restored(void *arg)
{
	buf_str(&((struct lab *)arg)->said, "restored;");
}

static void on_first(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	buf_printf(&((struct lab *)arg)->said, "first %s %s;", value_of(was), value_of(is));
}

static void on_second(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct lab *const *t = arg;

	(void)was;
	buf_printf(&(*t)->said, "second %s;", value_of(is));
	kube_cache_off((*t)->c, arg);
}

static void pass(struct lab *t, int64_t ms)
{
	t_loop_run(t->k.kube.loop, ms);
}

static void expect(struct lab *t, const char *said)
{
	buf_str(&t->said, "");
	ASSERT_STR_EQ(t->said.p ? t->said.p : "", said);
	t->said.len = 0;
}

static void event(struct lab *t, int kind, enum kube_change change, const char *object)
{
	kl_event(&t->k.kube, kinds[kind].kind, change, object);
}

static void breaks(struct lab *t, int kind)
{
	struct kube_watch *w = kl_watch(&t->k.kube, kinds[kind].kind);
	const struct kube_watch_ops *ops = w->ops;
	void *arg = w->arg;
	struct err e = ERR_INIT;

	err_kind(&e, ERR_AGAIN, -ECONNRESET, "connection reset");
	kube_watch_cancel(w);
	ops->end(arg, 0, -1, &e);
}

#define OBJECT(name, version, value)                                                               \
	"{\"metadata\":{\"namespace\":\"t\",\"name\":\"" name                                      \
	"\",\"uid\":\"u\",\"resourceVersion\":\"" version "\"},\"v\":\"" value "\"}"

static int setup(void **state)
{
	struct lab *t = xcalloc(1, sizeof(*t));

	log_threshold = LOG_NONE;
	buf_init(&t->said, SAID_MAX);
	ASSERT_EQ(loop_new(&t->k.kube.loop, NULL), 0);
	loop_set_now(t->k.kube.loop, 1000000);
	t->k.kube.list = list;
	t->k.kube.list_version = "10";
	t->room = -1;
	t->log = -1;
	*state = t;
	return 0;
}

static void start(struct lab *t)
{
	const struct kube_select select[KINDS] = {[PODS].fields = "spec.nodeName=n"};

	t->c = kube_cache_new(&(struct kube_cache_conf){.kube = &t->k.kube,
							.kinds = kinds,
							.n = KINDS,
							.select = select,
							.component = "agent",
							.changed = on_changed,
							.sync_error = on_error,
							.etcd_restored = on_restored,
							.arg = t});
}

static int teardown(void **state)
{
	struct lab *t = *state;

	kube_cache_free(t->c);
	for (int k = 0; k < KINDS; k++)
		free(t->k.fields[k]);
	loop_free(t->k.kube.loop);
	buf_done(&t->said);
	if (t->log >= 0)
		close(t->log);
	free(t);
	return 0;
}

static void test_objects_are_read_by_kind(void **state)
{
	struct lab *t = *state;

	t->k.objects[PODS] = OBJECT("p1", "1", "a");
	t->k.objects[POOLS] = OBJECT("q1", "2", "b");
	start(t);
	assert_false(kube_cache_synced(t->c, PODS));
	ASSERT_EQ(kube_cache_count(t->c, PODS), 0);
	pass(t, 10);
	ASSERT_STR_EQ(t->k.fields[PODS], "spec.nodeName=n");
	ASSERT_STR_EQ(t->k.fields[POOLS], "");
	assert_true(kube_cache_synced(t->c, KUBE_CACHE_ALL));
	ASSERT_EQ(kube_cache_count(t->c, PODS), 1);
	ASSERT_STR_EQ(value_of(kube_cache_at(t->c, PODS, 0)), "a");
	ASSERT_STR_EQ(value_of(kube_cache_get(t->c, POOLS, "t", "q1")), "b");
	ASSERT_STR_EQ(*(char *const *)kube_cache_value(t->c, POOLS, "t", "q1"), "b");
	assert_null(kube_cache_get(t->c, PODS, "t", "q1"));
	assert_null(kube_cache_value(t->c, SUBNETS, "t", "q1"));
	ASSERT_STR_EQ(kube_cache_kind_name(t->c, POOLS), "spiderippools");
}

static void test_owner_is_notified_of_a_change_before_listeners_of_the_kind(void **state)
{
	struct lab *t = *state, *self = t;

	start(t);
	kube_cache_on(t->c, PODS, on_second, &self);
	kube_cache_on(t->c, PODS, on_first, t);
	pass(t, 10);
	/* Each kind has been listed once, and the listener on_second() has removed itself. */
	expect(t, "0 - -;second -;first - -;1 - -;2 - -;");
	event(t, PODS, KUBE_ADDED, OBJECT("p1", "11", "a"));
	expect(t, "0 - a;first - a;");
	kube_cache_on(t->c, PODS, on_second, &self); /* in the place of the removed listener */
	event(t, PODS, KUBE_MODIFIED, OBJECT("p1", "12", "b"));
	expect(t, "0 a b;second b;first a b;");
	event(t, POOLS, KUBE_ADDED, OBJECT("q1", "13", "c"));
	expect(t, "1 - c;");
	kube_cache_off(t->c, t);
	event(t, PODS, KUBE_DELETED, OBJECT("p1", "14", "b"));
	expect(t, "0 b -;");
}

static void test_broken_watch_makes_its_kind_stale(void **state)
{
	struct lab *t = *state;

	start(t);
	pass(t, 10);
	assert_true(kube_cache_current(t->c, KUBE_CACHE_ALL));
	breaks(t, POOLS);
	pass(t, 100);
	ASSERT_EQ(kube_cache_stale_ms(t->c, PODS), 0);
	ASSERT_EQ(kube_cache_stale_ms(t->c, POOLS), 100);
	assert_true(kube_cache_current(t->c, PODS));
	assert_false(kube_cache_current(t->c, POOLS));
	assert_false(kube_cache_current(t->c, KUBE_CACHE_ALL));
	assert_true(kube_cache_synced(t->c, KUBE_CACHE_ALL));
}

static void refuse(struct lab *t, int kind, enum err_kind class, int code, const char *text)
{
	err_kind(&t->k.refuse[kind], class, code, "%s", text);
}

static void test_unsynced_kind_is_reported_with_its_reason(void **state)
{
	struct lab *t = *state;
	struct err e = ERR_INIT;

	refuse(t, POOLS, ERR_UNAVAILABLE, -ENOENT, "404 Not Found");
	start(t);
	ASSERT_EQ(kube_cache_error(t->c, PODS, &e), -EAGAIN);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_STR_EQ(e.text, "pods are not synced from the API server yet");
	pass(t, 10);
	expect(t, "0 - -;error 1 yes;2 - -;");
	ASSERT_EQ(kube_cache_error(t->c, PODS, &e), 0);
	ASSERT_EQ(kube_cache_error(t->c, POOLS, &e), -ENOENT);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_STR_EQ(e.text, "spiderippools are not in sync: 404 Not Found");
	assert_false(kube_cache_synced(t->c, KUBE_CACHE_ALL));
	t->k.refuse[POOLS] = (struct err)ERR_INIT;
	pass(t, 5000);
	expect(t, "1 - -;error 1 no;");
	ASSERT_EQ(kube_cache_error(t->c, POOLS, &e), 0);
}

/* Returns how often the log contains the text. */
static int lines_with(const struct lab *t, const char *expected)
{
	char text[1 << 14] = "";
	ssize_t n = pread(t->log, text, sizeof(text) - 1, 0);
	int count = 0;

	assert_true(n >= 0);
	for (const char *at = text; (at = strstr(at, expected)); at += strlen(expected))
		count++;
	return count;
}

static void test_error_is_logged_once_with_its_remedy(void **state)
{
	struct lab *t = *state;
	char path[64];

	t->log = memfd_create("log", 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->log);
	ASSERT_EQ(log_setup(&(struct log_conf){.path = path}, NULL), 0);
	refuse(t, PODS, ERR_OTHER, -EPERM, "403 Forbidden");
	refuse(t, POOLS, ERR_UNAVAILABLE, -ENOENT, "404 Not Found");
	refuse(t, SUBNETS, ERR_UNAVAILABLE, -ENOENT, "404 Not Found");
	start(t);
	pass(t, 60000);
	ASSERT_EQ(lines_with(t,
			     "the agent may not read pods: allow it to 'list' and 'watch' pods\""),
		  1);
	/* one line for both kinds */
	ASSERT_EQ(lines_with(t, "does not serve some kinds"), 1);
	ASSERT_EQ(lines_with(t, "spiderippools.spiderpool.spidernet.io, "
				"spidersubnets.spiderpool.spidernet.io"),
		  1);
	for (int k = 0; k < KINDS; k++)
		t->k.refuse[k] = (struct err)ERR_INIT;
	pass(t, 60000);
	ASSERT_EQ(lines_with(t, "in sync again"), KINDS);
	/* The cache does not log that the server is unavailable, since the client does. */
	refuse(t, PODS, ERR_AGAIN, -ECONNREFUSED, "connection refused");
	breaks(t, PODS);
	ASSERT_EQ(lines_with(t, "connection"), 0);
	ASSERT_EQ(log_setup(&(struct log_conf){.level = LOG_NONE}, NULL), 0);
}

static void test_objects_are_read_again_for_kinds_with_an_again_callback(void **state)
{
	struct lab *t = *state;

	t->k.objects[PODS] = OBJECT("p1", "1", "a");
	t->k.objects[POOLS] = OBJECT("q1", "2", "b");
	start(t);
	pass(t, 10);
	t->said.len = 0;
	kube_cache_read_again(t->c);
	pass(t, 2000);
	expect(t, "again 1 q1;");
	ASSERT_EQ(t->k.kube.sent, 0);
	t->room = POOLS;
	kube_cache_read_again(t->c);
	pass(t, 2000);
	ASSERT_EQ(t->k.kube.sent, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_objects_are_read_by_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_owner_is_notified_of_a_change_before_listeners_of_the_kind, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_broken_watch_makes_its_kind_stale, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_unsynced_kind_is_reported_with_its_reason,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_error_is_logged_once_with_its_remedy, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_objects_are_read_again_for_kinds_with_an_again_callback, setup,
			teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
