/* SPDX-License-Identifier: Apache-2.0 */
/* Assignment of a subnet's addresses to pools: the subnet's status before and after one step. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/subnet/plan.h"
#include "wire/json/json.h"

static void add(struct ip_set *s, const char *text)
{
	struct span rest = span_of(text), word;
	struct ip_range r;

	s->family = 4;
	while (span_cut(&rest, ' ', &word))
		if (word.n) {
			ASSERT_EQ(ip_range_parse(word, 4, &r, NULL), 0);
			ip_set_add(s, &r);
		}
}

/* One step: pools as "name app ips", requests as "pool count". "!" before a pool: it is being
 * deleted; app "-": a user created it. used or leftovers "?": not known yet. */
struct row {
	const char *name, *was, *pools[3], *wants[3], *reserved, *used, *leftovers, *is, *failed;
	bool release, deleted;
};

#define A(p, ips) "'" p "':{'ips':[" ips "],'application':'A-" p "'}"
#define H(p, ips, held)                                                                            \
	"'" p "':{'ips':[" ips "],'application':'A-" p "','pendingRelease':[" held "]}"
#define R(a, b) "'10.0.0." #a "-10.0.0." #b "'"
#define ONE(a)	"'10.0.0." #a "'"

/* The subnet has the addresses 10.0.0.1 to 10.0.0.10. */
static const struct row rows[] = {
	{.name = "no pool requests addresses", .is = ""},
	{.name = "the first pool gets the lowest addresses",
	 .wants = {"p 3"},
	 .is = "{" A("p", R(1, 3)) "}"},
	{.name = "reserved addresses are not assigned",
	 .wants = {"p 3"},
	 .reserved = "10.0.0.1 10.0.0.3",
	 .is = "{" A("p", ONE(2) "," R(4, 5)) "}"},
	{.name = "two pools request addresses at once",
	 .wants = {"p 2", "q 2"},
	 .is = "{" A("p", R(1, 2)) "," A("q", R(3, 4)) "}"},
	{.name = "a pool that requests no address has no entry", .wants = {"p 0"}, .is = ""},
	{.name = "a request for more addresses than are free fails, a smaller request succeeds",
	 .wants = {"p 11", "q 1"},
	 .is = "{" A("q", ONE(1)) "}",
	 .failed = "insufficient subnet FreeIPs, required '11' but only left '10'"},
	{.name = "an entry of a pool that is not created yet stays",
	 .was = "{" A("p", R(4, 6)) "}",
	 .wants = {"p 3"},
	 .is = "{" A("p", R(4, 6)) "}"},
	{.name = "an entry of a pool that is neither created nor requested stays",
	 .was = "{" A("p", R(4, 6)) "}",
	 .is = "{" A("p", R(4, 6)) "}"},
	{.name = "the entry of a pool that is known to be deleted is removed",
	 .was = "{" A("p", R(4, 6)) "}",
	 .is = "",
	 .deleted = true},
	{.name = "a growing pool gets the lowest free addresses",
	 .was = "{" A("p", R(1, 2)) "," A("q", ONE(3)) "}",
	 .pools = {"p A-p 10.0.0.1-10.0.0.2", "q A-q 10.0.0.3"},
	 .wants = {"p 4", "q 1"},
	 .is = "{" A("p", R(1, 2) "," R(4, 5)) "," A("q", ONE(3)) "}"},
	{.name = "a growing pool gets its addresses pending release first",
	 .was = "{" H("p", ONE(1), R(7, 8)) "}",
	 .pools = {"p A-p 10.0.0.1"},
	 .wants = {"p 4"},
	 .is = "{" A("p", R(1, 2) "," R(7, 8)) "}"},
	{.name = "a growing pool gets no more addresses pending release than it needs",
	 .was = "{" H("p", ONE(1), R(7, 8)) "}",
	 .pools = {"p A-p 10.0.0.1"},
	 .wants = {"p 2"},
	 .is = "{" H("p", ONE(1) "," ONE(7), ONE(8)) "}"},
	{.name = "addresses pending release are not assigned to another pool",
	 .was = "{" H("p", ONE(1), R(2, 9)) "}",
	 .pools = {"p A-p 10.0.0.1"},
	 .wants = {"p 1", "q 2"},
	 .is = "{" H("p", ONE(1), R(2, 9)) "}",
	 .failed = "required '2' but only left '1'"},
	{.name = "addresses pending release that may be released are assigned to another pool",
	 .was = "{" H("p", ONE(1), R(2, 9)) "}",
	 .pools = {"p A-p 10.0.0.1"},
	 .wants = {"p 1", "q 2"},
	 .is = "{" A("p", ONE(1)) "," A("q", R(2, 3)) "}",
	 .release = true},
	{.name = "a new pool gets the addresses of its pods and no address of another pool's pods",
	 .wants = {"p 3"},
	 .leftovers = "10.0.0.1 q 10.0.0.7 p",
	 .is = "{" A("p", R(2, 3) "," ONE(7)) "}"},
	{.name = "a pool gets the addresses that its pods use before its addresses pending release",
	 .was = "{" H("p", ONE(1), R(4, 5)) "}",
	 .pools = {"p A-p 10.0.0.1"},
	 .wants = {"p 3"},
	 .leftovers = "10.0.0.8 p",
	 .is = "{" H("p", ONE(1) "," ONE(4) "," ONE(8), ONE(5)) "}"},
	{.name = "a pool gets no more of its pods' addresses than it requests",
	 .wants = {"p 1", "q 2"},
	 .leftovers = "10.0.0.1 p 10.0.0.2 p",
	 .is = "{" A("p", ONE(1)) "," A("q", R(3, 4)) "}"},
	{.name = "an address of another pool's pod is not assigned, even if no other is free",
	 .wants = {"p 10"},
	 .leftovers = "10.0.0.4 q",
	 .is = "",
	 .failed = "insufficient subnet FreeIPs, required '10' but only left '9'"},
	{.name = "no address is assigned while the addresses of pods are not known",
	 .wants = {"p 3"},
	 .leftovers = "?",
	 .is = ""},
	{.name = "a shrinking pool loses the lowest addresses without a pod",
	 .was = "{" A("p", R(1, 5)) "}",
	 .pools = {"p A-p 10.0.0.1-10.0.0.5"},
	 .wants = {"p 3"},
	 .used = "10.0.0.1 10.0.0.3",
	 .is = "{" H("p", ONE(1) "," ONE(3) "," ONE(5), ONE(2) "," ONE(4)) "}"},
	{.name = "a pool does not shrink while the addresses of pods are not known",
	 .was = "{" A("p", R(1, 5)) "}",
	 .pools = {"p A-p 10.0.0.1-10.0.0.5"},
	 .wants = {"p 3"},
	 .used = "?",
	 .is = "{" A("p", R(1, 5)) "}"},
	{.name = "a pool does not shrink below the addresses that pods use",
	 .was = "{" A("p", R(1, 3)) "}",
	 .pools = {"p A-p 10.0.0.1-10.0.0.3"},
	 .wants = {"p 1"},
	 .used = "10.0.0.1-10.0.0.2",
	 .is = "{" A("p", R(1, 3)) "}",
	 .failed = "failed to scale down IPPool p IPs: IPPool available free IPs are not enough"},
	{.name = "a pool of a Deployment without replicas shrinks to no address",
	 .was = "{" A("p", R(1, 2)) "}",
	 .pools = {"p A-p 10.0.0.1-10.0.0.2"},
	 .wants = {"p 0"},
	 .is = "{" H("p", "", R(1, 2)) "}"},
	{.name = "the entry of a pool that is being deleted is not changed",
	 .was = "{" A("p", R(1, 2)) "}",
	 .pools = {"!p A-p 10.0.0.1-10.0.0.2"},
	 .wants = {"p 5"},
	 .is = "{" A("p", R(1, 2)) "}"},
	{.name = "a pool that a user created has those of its addresses that are in the subnet",
	 .was = "{'h':{'ips':['10.0.0.1']},'old':{'ips':['10.0.0.5']}}",
	 .pools = {"h - 10.0.0.9-10.0.0.20", "out - 10.0.0.30"},
	 .is = "{'h':{'ips':['10.0.0.9-10.0.0.10']}}",
	 .deleted = true},
	{.name = "addresses of a deleted pool are not assigned while a node may use them",
	 .was = "{'old':{'ips':['10.0.0.1-10.0.0.5']}}",
	 .wants = {"p 2"},
	 .is = "{'old':{'ips':['10.0.0.1-10.0.0.5']}," A("p", R(6, 7)) "}"},
	{.name = "addresses of a pool that a user created are not assigned to other pools",
	 .pools = {"h - 10.0.0.1-10.0.0.2"},
	 .wants = {"p 1"},
	 .is = "{'h':{'ips':['10.0.0.1-10.0.0.2']}," A("p", ONE(3)) "}"},
	{.name = "a pool with two entries in the status has the addresses of both entries",
	 .was = "{'p':{'ips':['10.0.0.7'],'application':'A-p'},'q':{'ips':['10.0.0.1']},"
		"'p':{'ips':['10.0.0.8'],'application':'A-p'}}",
	 .pools = {"p A-p 10.0.0.7-10.0.0.8", "q - 10.0.0.1"},
	 .wants = {"p 2"},
	 .is = "{" A("p", R(7, 8)) ",'q':{'ips':['10.0.0.1']}}"},
	{.name = "an address in use that two pools had goes to one of them, and to no other pool",
	 .wants = {"q 2", "p 2", "r 1"},
	 .leftovers = "10.0.0.2 p 10.0.0.2 q 10.0.0.1 p",
	 .is = "{" A("p", ONE(1) "," ONE(4)) "," A("q", R(2, 3)) "," A("r", ONE(5)) "}"},
	{.name = "a lost status is rebuilt from the pools, those created by a user first",
	 .pools = {"a A-a 10.0.0.1-10.0.0.3", "h - 10.0.0.2"},
	 .wants = {"a 2"},
	 .is = "{" A("a", ONE(1) "," ONE(3)) ",'h':{'ips':['10.0.0.2']}}"},
	{.name = "a lost status is rebuilt from the pools; an address of two pools goes to the first",
	 .pools = {"p A-p 10.0.0.4-10.0.0.5", "q A-q 10.0.0.5-10.0.0.6"},
	 .wants = {"p 2", "q 2"},
	 .is = "{" A("p", R(4, 5)) "," A("q", ONE(1) "," ONE(6)) "}"},
};

struct subnet_case {
	const struct row *row;
	struct ip_set used;
	struct subnet_leftover leftovers[3];
	char pools[3][8];
	size_t n_leftovers;
	struct buf failed;
};

static const struct ip_set *used(void *arg, const char *pool)
{
	struct subnet_case *a = arg;

	(void)pool;
	return a->row->used && *a->row->used == '?' ? NULL : &a->used;
}

static bool leftovers(void *arg, const struct subnet_leftover **ret, size_t *n)
{
	struct subnet_case *a = arg;

	*ret = a->leftovers;
	*n = a->n_leftovers;
	return !a->row->leftovers || *a->row->leftovers != '?';
}

/* Reads the leftovers, "10.0.0.1 p 10.0.0.2 q": addresses, each with its pool. */
static void read_leftovers(struct subnet_case *a)
{
	const char *s = a->row->leftovers;
	char ip[IP_TEXT_MAX];
	int n;

	for (; s && sscanf(s, "%39s %7s%n", ip, a->pools[a->n_leftovers], &n) == 2; s += n) {
		struct subnet_leftover *x = &a->leftovers[a->n_leftovers];

		ASSERT_EQ(ip_parse(span_of(ip), &x->ip), 0);
		x->pool = a->pools[a->n_leftovers++];
	}
}

static bool may_release(void *arg, const struct subnet_entry *x)
{
	(void)x;
	return ((struct subnet_case *)arg)->row->release;
}

static bool is_deleted(void *arg, const struct subnet_entry *x)
{
	(void)x;
	return ((struct subnet_case *)arg)->row->deleted;
}

static void failed(void *arg, const struct subnet_want *w, const struct err *reason)
{
	(void)w;
	buf_str(&((struct subnet_case *)arg)->failed, reason->text);
}

static size_t read_pools(const struct row *r, struct subnet_pool *v, char (*texts)[2][32])
{
	size_t n = 0;

	for (; n < 3 && r->pools[n]; n++) {
		const char *s = r->pools[n] + (*r->pools[n] == '!');
		char ips[64];

		ASSERT_EQ(sscanf(s, "%31s %31s %63s", texts[n][0], texts[n][1], ips), 3);
		v[n] = (struct subnet_pool){.name = texts[n][0],
					    .app = strcmp(texts[n][1], "-") ? texts[n][1] : NULL,
					    .deleting = *r->pools[n] == '!'};
		add(&v[n].ips, ips);
	}
	return n;
}

static size_t read_wants(const struct row *r, struct subnet_want *v, char (*texts)[2][32])
{
	size_t n = 0;

	for (; n < 3 && r->wants[n]; n++) {
		unsigned int count;

		ASSERT_EQ(sscanf(r->wants[n], "%31s %u", texts[n][0], &count), 2);
		snprintf(texts[n][1], 32, "A-%.20s", texts[n][0]);
		v[n] = (struct subnet_want){texts[n][0], texts[n][1], count};
	}
	return n;
}

static void one(const struct row *r)
{
	auto_free char *was = r->was ? t_quoted(r->was) : NULL, *is = t_quoted(r->is);
	char pool_texts[3][2][32], want_texts[3][2][32];
	struct subnet_pool pools[3];
	struct subnet_want wants[3];
	struct subnet_case a = {.row = r};
	struct subnet_facts f = {.pools = pools,
				 .wants = wants,
				 .used = used,
				 .leftovers = leftovers,
				 .may_release = may_release,
				 .is_deleted = is_deleted,
				 .failed = failed,
				 .arg = &a};
	struct subnet_entries l;
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 10000);
	buf_init(&a.failed, 1000);
	add(&f.total, "10.0.0.1-10.0.0.10");
	add(&f.reserved, r->reserved ? r->reserved : "");
	add(&a.used, r->used && *r->used != '?' ? r->used : "");
	read_leftovers(&a);
	f.n_pools = read_pools(r, pools, pool_texts);
	f.n_wants = read_wants(r, wants, want_texts);
	if (subnet_entries_read(was, 4, &l, &e) < 0)
		fail_msg("%s: %s", r->name, e.text);
	subnet_plan(&f, &l);
	subnet_entries_write(&l, &b);
	if (strcmp(b.len ? b.p : "", is) != 0)
		fail_msg("%s:\n is       %s\n expected %s", r->name, b.len ? b.p : "", is);
	if (!r->failed != (a.failed.len == 0) || (r->failed && !strstr(a.failed.p, r->failed)))
		fail_msg("%s: '%s'", r->name, a.failed.len ? a.failed.p : "");
	subnet_entries_done(&l);
	buf_done(&a.failed);
	ip_set_done(&f.total);
	ip_set_done(&f.reserved);
	ip_set_done(&a.used);
	for (size_t i = 0; i < f.n_pools; i++)
		ip_set_done(&pools[i].ips);
}

static void test_addresses_of_a_subnet_are_assigned_to_its_pools(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		one(&rows[i]);
}

static void test_invalid_subnet_status_is_refused(void **state)
{
	static const char *const bad[] = {"{", "{\"p\":{\"ips\":[\"10.0.0.300\"]}}",
					  "{\"p\":{\"ips\":[7]}}",
					  "{\"p\":{\"ips\":[\"fd00::1\"]}}"};
	struct subnet_entries l = {.n = 77};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		assert_true(subnet_entries_read(bad[i], 4, &l, &e) < 0);
		assert_non_null(strstr(e.text, "status.controlledIPPools"));
		ASSERT_EQ_MSG(l.n, 77, "bad[%zu]", i);
	}
}

static const struct {
	const char *kind, *object;
	uint64_t size;
} sizes[] = {
	{"Deployment", "{'spec':{'replicas':3}}", 3},
	{"Deployment", "{'spec':{'replicas':0}}", 0},
	{"StatefulSet", "{'spec':{}}", 1},
	{"DaemonSet", "{'spec':{},'status':{'desiredNumberScheduled':7}}", 7},
	{"DaemonSet", "{'spec':{}}", 0},
	{"Job", "{'spec':{}}", 1},
	{"Job", "{'spec':{'completions':0,'parallelism':5}}", 1},
	{"Job", "{'spec':{'completions':4,'parallelism':2}}", 4},
	{"Job", "{'spec':{'parallelism':2}}", 2},
	{"Job", "{'spec':{'parallelism':0}}", 1},
	{"CronJob", "{'spec':{'jobTemplate':{'spec':{'parallelism':6}}}}", 6},
};

static void test_pod_count_of_an_application_is_read_from_the_fields_of_its_kind(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		auto_free char *text = t_quoted(sizes[i].object);
		auto_json struct json_doc *d = NULL;

		ASSERT_EQ_MSG(json_parse(&d, span_of(text), 1000, NULL), 0, "sizes[%zu]", i);
		ASSERT_EQ_MSG(subnet_app_size(sizes[i].kind, json_root(d)), sizes[i].size,
			      "sizes[%zu]", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_of_a_subnet_are_assigned_to_its_pools),
		cmocka_unit_test(test_invalid_subnet_status_is_refused),
		cmocka_unit_test(
			test_pod_count_of_an_application_is_read_from_the_fields_of_its_kind),
	};

	return T_RUN(tests, NULL, NULL);
}
