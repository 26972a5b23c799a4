/* SPDX-License-Identifier: Apache-2.0 */
/* Admission reviews: the cases in tests/cluster/manifests (its README describes their format),
 * and cases that do not fit into these files. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "controller/admission/admit.h"
#include "controller/nad/render.h"
#include "kube/kinds.h"
#include "patch_apply.h"
#include "spec/subnet_annotation.h"
#include "wire/yaml/yaml.h"

enum { TABLE_MAX = 1 << 20, THERE_MAX = 8 };

#define MANIFESTS "/" TEST_DATA "cluster/manifests/"

static char *text_of(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, TABLE_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, true);
	return buf_take(&b);
}

static struct json_doc *of_tree(const struct json_tree *t)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, TABLE_MAX);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	return t_json(b.p);
}

/* --- one case of the table --- */

struct row {
	const struct json *v;
	const char *kind, *name;
	struct json_doc *object, *old;
	const struct json *pools[THERE_MAX], *subnets[THERE_MAX];
	struct admit_cache cache;
	char refused[ERR_TEXT_MAX];
	struct buf warned; /* one warning a line */
};

static struct json_doc *make_object(const struct row *r, const struct json *meta,
				    const struct json *spec, const struct json *status, bool going)
{
	auto_tree struct json_tree *t = json_tree_new(JSON_OBJECT);
	struct json_tree *m = json_kind(meta) == JSON_OBJECT ? json_tree_of(meta)
							     : json_tree_new(JSON_OBJECT);

	json_tree_put_text(t, "apiVersion", "spiderpool.spidernet.io/v2beta1");
	json_tree_put_text(t, "kind", r->kind);
	json_tree_put_text(m, "name", "x");
	if (going) {
		json_tree_put_text(m, "deletionTimestamp", "2026-01-01T00:00:00Z");
		if (!json_tree_member(m, "finalizers")) {
			json_tree_put(m, "finalizers", json_tree_new(JSON_ARRAY));
			json_tree_push_text(json_tree_member(m, "finalizers"),
					    SPIDERPOOL_FINALIZER);
		}
	}
	json_tree_put(t, "metadata", m);
	json_tree_put(t, "spec", json_tree_of(spec));
	if (json_kind(status) == JSON_OBJECT)
		json_tree_put(t, "status", json_tree_of(status));
	return of_tree(t);
}

static void make_objects(struct row *r)
{
	const struct json *was = json_get(r->v, "was"), *spec = json_get(r->v, "spec");
	bool going = json_bool(json_get(was, "going"));

	if (was)
		r->old = make_object(r, json_get(was, "meta"), json_get(was, "spec"),
				     json_get(was, "status"), going);
	if (!json_bool(json_get(r->v, "delete")))
		r->object = make_object(r, json_get(r->v, "meta"),
					spec ? spec : json_get(was, "spec"),
					json_get(was, "status"), going);
}

static enum admit_nad find_nad(void *arg, const char *ns, const char *nad, const char *name,
			       const char **owner)
{
	struct row *r = arg;
	struct json_walk w = json_walk_start(json_get(r->v, "there"));
	const struct json *v, *meta, *by;

	while ((v = json_walk_next(&w, NULL))) {
		meta = json_get(v, "metadata");
		if (strcmp(json_string(json_get(v, "kind")), "NetworkAttachmentDefinition") != 0 ||
		    strcmp(json_string(json_get(meta, "name")), nad) != 0)
			continue;
		ASSERT_STR_EQ(ns, json_string(json_get(meta, "namespace")));
		by = json_at(json_get(meta, "ownerReferences"), 0);
		if (!by)
			return ADMIT_NAD_FREE;
		*owner = json_string(json_get(by, "name"));
		return strcmp(*owner, name) == 0 ? ADMIT_NAD_NONE : ADMIT_NAD_TAKEN;
	}
	return ADMIT_NAD_NONE;
}

static bool trusts(void *arg, const char *ns)
{
	const struct row *r = arg;

	ASSERT_STR_EQ(ns, "team");
	return json_bool(json_get(r->v, "trusted"));
}

static void make_cache(struct row *r)
{
	const struct json *switches = json_get(r->v, "world"), *v;
	struct json_walk w = json_walk_start(json_get(r->v, "there"));

	r->cache = (struct admit_cache){
		.agent_ns = "kube-system",
		.no_ipv4 = json_bool(json_get(switches, "no_ipv4")),
		.no_ipv6 = json_bool(json_get(switches, "no_ipv6")),
		.protect_used = json_bool(json_get(switches, "protect_used")),
		.pools = r->pools,
		.subnets = r->subnets,
		.trusts = trusts,
		.nad = find_nad,
		.arg = r,
	};
	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_string(json_get(v, "kind")), "SpiderIPPool") == 0)
			r->pools[r->cache.n_pools++] = v;
		else if (strcmp(json_string(json_get(v, "kind")), "SpiderSubnet") == 0)
			r->subnets[r->cache.n_subnets++] = v;
}

static void count_answer(struct row *r, const struct admit_answer *a)
{
	for (size_t i = 0; i < a->n_warnings; i++)
		buf_printf(&r->warned, "%s\n", a->warnings[i]);
	if (a->code == 422)
		snprintf(r->refused, sizeof(r->refused), "%s: %s", a->field, a->text);
	else if (a->code)
		snprintf(r->refused, sizeof(r->refused), "%s", a->text);
}

static struct admit_request request_from(const struct row *r)
{
	bool fixed = strcmp(r->kind, "SpiderMultusConfig") != 0;

	return (struct admit_request){
		.kind = r->kind,
		.operation = !r->object ? ADMIT_DELETE
			     : r->old	? ADMIT_UPDATE
					: ADMIT_CREATE,
		.ns = fixed ? "" : "team",
		.name = "x",
		.object = r->object ? json_root(r->object) : NULL,
		.old = r->old ? json_root(r->old) : NULL,
	};
}

/* Calls the mutating webhook and then, as the API server does, the validating webhook with the
 * patched object. In between, checks that the mutating webhook does not patch this object a
 * second time. */
static void review(struct row *r)
{
	struct admit_request q = request_from(r);
	struct admit_answer a;
	struct json_doc *patched;

	admit_default(&r->cache, &q, &a);
	count_answer(r, &a);
	if (r->object) {
		patched = patch_apply(q.object, buf_span(&a.patch), TABLE_MAX);
		if (!patched)
			fail_msg("'%s': the patch does not apply: %s", r->name, a.patch.p);
		json_free(r->object);
		r->object = patched;
		q.object = json_root(patched);
	}
	admit_answer_done(&a);
	admit_default(&r->cache, &q, &a);
	if (a.patch.len > 0)
		fail_msg("'%s': defaults are added a second time: %s", r->name, a.patch.p);
	/* The second call may repeat a warning about a value that the patch did not change, but
	 * must not add a warning. */
	for (size_t i = 0; i < a.n_warnings; i++)
		if (!strstr(r->warned.p ? r->warned.p : "", a.warnings[i]))
			fail_msg("'%s': new warning about the stored object: %s", r->name,
				 a.warnings[i]);
	admit_answer_done(&a);
	admit_check(&r->cache, &q, &a);
	count_answer(r, &a);
	admit_answer_done(&a);
}

/* --- comparison with the expected result --- */

static void expect(const struct row *r, const struct json *want, const struct json *is,
		   const char *place)
{
	struct json_walk w = json_walk_start(want);
	const struct json *v;
	const char *key;
	auto_free char *a = NULL, *b = NULL;

	if (json_kind(want) == JSON_OBJECT && json_kind(is) == JSON_OBJECT) {
		while ((v = json_walk_next(&w, &key)))
			expect(r, v, json_get(is, key), key);
		return;
	}
	if (json_kind(want) == JSON_ARRAY && json_len(want) == json_len(is)) {
		for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++)
			expect(r, v, json_at(is, i), place);
		return;
	}
	a = text_of(want);
	b = text_of(is);
	if (strcmp(a, b) != 0)
		fail_msg("'%s': %s is %s, expected %s", r->name, place, b, a);
}

static void expect_warnings(const struct row *r)
{
	struct json_walk w = json_walk_start(json_get(r->v, "warned"));
	const char *text = r->warned.len ? r->warned.p : "";
	const struct json *v;
	size_t lines = 0;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	if (lines != json_len(json_get(r->v, "warned")))
		fail_msg("'%s': %zu warnings:\n%s", r->name, lines, text);
	while ((v = json_walk_next(&w, NULL)))
		if (!strstr(text, json_string(v)))
			fail_msg("'%s': not warned of '%s' but:\n%s", r->name, json_string(v),
				 text);
}

static void run(const struct json *v, const char *kind)
{
	const char *refused = json_string(json_get(v, "refused"));
	struct row r = {.v = v, .kind = kind, .name = json_string(json_get(v, "case"))};

	buf_init(&r.warned, TABLE_MAX);
	make_objects(&r);
	make_cache(&r);
	review(&r);
	if (refused ? !strstr(r.refused, refused) : *r.refused)
		fail_msg("'%s': refused with '%s', expected '%s'", r.name, r.refused,
			 refused ? refused : "");
	expect_warnings(&r);
	if (json_get(v, "becomes"))
		expect(&r, json_get(v, "becomes"), json_root(r.object), "");
	json_free(r.object);
	json_free(r.old);
	buf_done(&r.warned);
}

static size_t run_table(const char *file)
{
	struct root root;
	auto_buf struct buf text, json;
	auto_json struct json_doc *doc = NULL;
	struct json_walk w;
	const struct json *v;
	struct err e = ERR_INIT;
	size_t n = 0;

	buf_init(&text, TABLE_MAX);
	buf_init(&json, TABLE_MAX);
	ASSERT_EQ(root_open(&root, ".", &e), 0);
	if (file_read(&root, file, TABLE_MAX, &text, &e) < 0 ||
	    yaml_to_json(buf_span(&text), &json, &e) < 0)
		fail_msg("%s: %s", file, e.text);
	root_close(&root);
	doc = t_json(json.p);
	w = json_walk_start(json_get(json_root(doc), "cases"));
	for (; (v = json_walk_next(&w, NULL)); n++)
		run(v, json_string(json_get(json_root(doc), "kind")));
	return n;
}

static void test_reviews_of_pools_match_the_cases_of_pools_yaml(void **state)
{
	(void)state;
	assert_true(run_table(MANIFESTS "pools.yaml") > 60);
}

static void test_reviews_of_subnets_match_the_cases_of_subnets_yaml(void **state)
{
	(void)state;
	assert_true(run_table(MANIFESTS "subnets.yaml") > 10);
}

static void test_reviews_of_reserved_ips_match_the_cases_of_reserved_yaml(void **state)
{
	(void)state;
	assert_true(run_table(MANIFESTS "reserved.yaml") > 10);
}

static void test_reviews_of_multusconfigs_match_the_cases_of_networks_yaml(void **state)
{
	(void)state;
	assert_true(run_table(MANIFESTS "networks.yaml") > 60);
}

static void test_reviews_of_coordinators_match_the_cases_of_coordinators_yaml(void **state)
{
	(void)state;
	assert_true(run_table(MANIFESTS "coordinators.yaml") > 15);
}

static void test_cidr_label_has_hyphens_for_dots_colons_and_slashes(void **state)
{
	static const char *const pairs[][2] = {
		{"10.6.0.0/16", "10-6-0-0-16"},
		{"fd00::/64", "fd00---64"},
		{"2001:db8:1:2:3:4:5:6/128", "2001-db8-1-2-3-4-5-6-128"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		auto_free char *label = auto_pool_cidr_label(pairs[i][0]);

		ASSERT_STR_EQ_MSG(label, pairs[i][1], "pairs[%zu]", i);
	}
}

/* Block names start with the name of their pool, and a name has at most 253 characters. */
static void test_pool_name_too_long_for_block_names_is_refused(void **state)
{
	static const struct {
		const char *subnet, *ips;
		size_t len;
		const char *refused;
	} rows[] = {
		{"10.0.0.0/8", "10.0.0.1", 247, ""},
		{"10.0.0.0/8", "10.0.0.1", 248, "has 248 characters, expected 247 at most"},
		{"10.0.0.0/24", "10.0.0.1", 251, ""},
		{"10.0.0.0/24", "10.0.0.1", 252, "has 252 characters, expected 251 at most"},
		{"fd00::/64", "fd00::1", 253, "has 253 characters, expected 237 at most"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *name = xcalloc(rows[i].len + 1, 1);
		auto_free char *text = xasprintf("{\"spec\":{\"subnet\":\"%s\",\"ips\":[\"%s\"]}}",
						 rows[i].subnet, rows[i].ips);
		auto_json struct json_doc *object = t_json(text);
		struct admit_cache cache = {0};
		struct admit_request q = {.kind = "SpiderIPPool",
					  .operation = ADMIT_CREATE,
					  .ns = "",
					  .name = name,
					  .object = json_root(object)};
		struct admit_answer a;

		memset(name, 'a', rows[i].len);
		admit_check(&cache, &q, &a);
		ASSERT_EQ_MSG(a.code, *rows[i].refused ? 422 : 0, "rows[%zu]", i);
		ASSERT_STR_EQ_MSG(a.field ? a.field : "", *rows[i].refused ? "metadata.name" : "",
				  "rows[%zu]", i);
		if (!strstr(a.text ? a.text : "", rows[i].refused))
			fail_msg("%s", a.text);
		admit_answer_done(&a);
	}
}

static bool contended(const char *kind, const char *old, const char *is)
{
	auto_json struct json_doc *was = old ? t_json(old) : NULL, *object = is ? t_json(is) : NULL;
	const struct admit_request q = {
		.kind = kind,
		.operation = !is   ? ADMIT_DELETE
			     : old ? ADMIT_UPDATE
				   : ADMIT_CREATE,
		.ns = "",
		.name = "x",
		.object = is ? json_root(object) : NULL,
		.old = old ? json_root(was) : NULL,
	};

	return admit_is_contended(&q);
}

/* --- number of entries in lists and maps --- */

/* Returns an object with this spec, whose list or map at the path `place` ("spec.ips",
 * "metadata.labels") has n entries. */
static struct json_doc *grown(const char *spec, const char *place, size_t n)
{
	bool is_map = strncmp(place, "metadata.", 9) == 0;
	auto_json struct json_doc *s = t_json(spec);
	auto_tree struct json_tree *t = json_tree_new(JSON_OBJECT);
	struct json_tree *list = json_tree_new(is_map ? JSON_OBJECT : JSON_ARRAY);
	char text[64];

	json_tree_put(t, "spec", json_tree_of(json_root(s)));
	json_tree_put_text(json_tree_member_object(t, "metadata"), "name", "x");
	json_tree_put(json_tree_member(t, is_map ? "metadata" : "spec"), strchr(place, '.') + 1,
		      list);
	list = json_tree_member(json_tree_member(t, is_map ? "metadata" : "spec"),
				strchr(place, '.') + 1);
	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), is_map ? "key%zu" : "10.%zu.%zu.1", i / 250, i % 250);
		if (is_map)
			snprintf(text, sizeof(text), "key%zu", i);
		if (is_map)
			json_tree_put_text(list, text, "x");
		else
			json_tree_push_text(list, text);
	}
	return of_tree(t);
}

static void expect_size(const char *kind, const struct json *is, const struct json *was,
			const char *reason)
{
	const struct admit_cache cache = {.agent_ns = "kube-system"};
	const struct admit_request q = {
		kind, was ? ADMIT_UPDATE : ADMIT_CREATE, "team", "x", is, was, NULL};
	char text[ERR_TEXT_MAX] = "";
	struct admit_answer a;

	admit_check(&cache, &q, &a);
	if (a.code)
		snprintf(text, sizeof(text), "%s: %s", a.field, a.text);
	ASSERT_STR_EQ(text, reason);
	admit_answer_done(&a);
}

/* A new object with too many entries is refused, and so is an update that makes a list grow
 * beyond its maximum. An object that already has too many entries can be changed if it does not
 * grow. */
static void test_growth_of_a_list_beyond_its_maximum_is_refused(void **state)
{
	static const struct {
		const char *kind, *spec, *place;
		size_t max;
	} rows[] = {
		{"SpiderIPPool", "{\"subnet\":\"10.0.0.0/8\"}", "spec.ips", ADMIT_LIST_MAX},
		{"SpiderIPPool", "{\"subnet\":\"10.0.0.0/8\"}", "spec.excludeIPs", ADMIT_LIST_MAX},
		{"SpiderReservedIP", "{\"ipVersion\":4}", "spec.ips", ADMIT_LIST_MAX},
		{"SpiderSubnet", "{\"subnet\":\"10.0.0.0/8\"}", "metadata.labels",
		 ADMIT_LABELS_MAX},
		{"SpiderIPPool", "{\"subnet\":\"10.0.0.0/8\"}", "metadata.annotations",
		 ADMIT_LABELS_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *kind = rows[i].kind, *spec = rows[i].spec, *place = rows[i].place;
		auto_json struct json_doc *fits = grown(spec, place, rows[i].max);
		auto_json struct json_doc *over = grown(spec, place, rows[i].max + 1);
		auto_free char *reason = xasprintf("%s: has %zu entries, %zu are allowed", place,
						   rows[i].max + 1, rows[i].max);

		expect_size(kind, json_root(fits), NULL, "");
		expect_size(kind, json_root(over), NULL, reason);
		expect_size(kind, json_root(over), json_root(fits), reason);
		expect_size(kind, json_root(over), json_root(over), "");
		expect_size(kind, json_root(fits), json_root(over), "");
	}
}

static void test_configurations_beyond_their_maximum_size_are_refused(void **state)
{
	auto_free char *pad = xcalloc(NAD_CONFIG_MAX + 1, 1);
	auto_free char *custom = NULL, *chain = NULL;
	auto_json struct json_doc *a = NULL, *b = NULL;

	(void)state;
	memset(pad, 'x', NAD_CONFIG_MAX);
	custom = xasprintf("{\"spec\":{\"cniType\":\"custom\",\"customCNI\":\"%s!\"}}", pad);
	chain = xasprintf("{\"spec\":{\"cniType\":\"ipoib\",\"ipoib\":{\"master\":\"ib0\"},"
			  "\"chainCNIJsonData\":[\"{\\\"type\\\":\\\"t\\\"}\",\"%s\"]}}",
			  pad);
	a = t_json(custom);
	b = t_json(chain);
	expect_size("SpiderMultusConfig", json_root(a), NULL,
		    "spec.customCNI: is 262145 bytes long, 262144 are allowed");
	expect_size("SpiderMultusConfig", json_root(b), NULL,
		    "spec.chainCNIJsonData[1]: the list is longer than the 262144 bytes that are "
		    "allowed");
}

static void test_only_new_or_changed_ranges_need_a_range_lock(void **state)
{
	const char *one = "{\"spec\":{\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1\"]}}";
	const char *more =
		"{\"spec\":{\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1-10.6.0.2\"]}}";
	const char *off =
		"{\"spec\":{\"subnet\":\"10.6.0.0/24\",\"ips\":[\"10.6.0.1\"],\"disable\":true}}";

	(void)state;
	assert_true(contended("SpiderIPPool", NULL, one));
	assert_true(contended("SpiderSubnet", NULL, one));
	assert_true(contended("SpiderIPPool", one, more));
	assert_false(contended("SpiderIPPool", one, off));
	assert_false(contended("SpiderIPPool", one, NULL));
	assert_false(contended("SpiderReservedIP", NULL, one));
	assert_true(admit_knows("SpiderCoordinator") && !admit_knows("SpiderIPBlock"));
}

/* --- writes with an agent's account --- */

#define OWN(more)                                                                                  \
	"\"labels\":{\"ipam.spidernet.io/owner-spider-subnet\":\"s\","                             \
	"\"ipam.spidernet.io/owner-application-gv\":\"apps_v1\","                                  \
	"\"ipam.spidernet.io/owner-application-kind\":\"Deployment\","                             \
	"\"ipam.spidernet.io/owner-application-namespace\":\"t\","                                 \
	"\"ipam.spidernet.io/owner-application-name\":\"x\","                                      \
	"\"ipam.spidernet.io/owner-application-uid\":\"u\"" more "}"
#define POOL(meta, spec)  "{\"metadata\":{" meta "},\"spec\":{\"subnet\":\"10.6.0.0/24\"" spec "}}"
#define CUT		  "\"unirail.io/block-prefix\":\"28\""
#define NUMBER(n)	  "\"ipam.spidernet.io/ippool-ip-number\":\"" n "\""
#define ANNOTATIONS(text) "\"annotations\":{" text "}"

static int code_for(const char *user, const char *was, const char *is)
{
	const struct admit_cache cache = {.agent_ns = "kube-system"};
	auto_json struct json_doc *a = was ? t_json(was) : NULL, *b = is ? t_json(is) : NULL;
	const struct admit_request q = {.kind = "SpiderIPPool",
					.operation = !is   ? ADMIT_DELETE
						     : was ? ADMIT_UPDATE
							   : ADMIT_CREATE,
					.ns = "",
					.name = "x",
					.object = b ? json_root(b) : NULL,
					.old = a ? json_root(a) : NULL,
					.user = user};
	struct admit_answer r;
	int code;

	admit_check(&cache, &q, &r);
	code = r.code;
	admit_answer_done(&r);
	return code;
}

/* On API servers without admission policies the webhook limits what a stolen agent token can
 * write to pools. These limits do not apply to other users. */
static void test_agent_may_only_annotate_pools_and_create_application_pools(void **state)
{
	static const char agent[] = "system:serviceaccount:unirail:unirail-agent";
	static const struct {
		const char *was, *is;
		int code;
	} rows[] = {
		{POOL("", ""), POOL(ANNOTATIONS(CUT), ""), 0},
		{POOL(ANNOTATIONS("\"a\":\"b\""), ""), POOL(ANNOTATIONS("\"a\":\"b\"," CUT), ""),
		 0},
		{POOL(OWN(""), ""), POOL(OWN("") "," ANNOTATIONS(NUMBER("2")), ""), 0},
		{POOL(OWN("") "," ANNOTATIONS(NUMBER("2")), ""),
		 POOL(OWN("") "," ANNOTATIONS(NUMBER("3")), ""), 0},
		{NULL, POOL(OWN(""), ""), 0},
		{POOL(ANNOTATIONS(CUT), ""),
		 POOL(ANNOTATIONS("\"unirail.io/block-prefix\":\"27\""), ""), 403},
		{POOL(ANNOTATIONS(CUT), ""), POOL("", ""), 403},
		{POOL("", ""), POOL(ANNOTATIONS(NUMBER("2")), ""), 403},
		{POOL("", ""), POOL(ANNOTATIONS("\"a\":\"b\""), ""), 403},
		{POOL("", ""), POOL("", ",\"ips\":[\"10.6.0.1\"]"), 403},
		{POOL("", ""), POOL("", ",\"disable\":true"), 403},
		{POOL("", ""), POOL(OWN(""), ""), 403},
		{POOL("", ""), POOL("\"finalizers\":[\"a\"]", ""), 403},
		{POOL("", ""), POOL("\"ownerReferences\":[{\"name\":\"a\"}]", ""), 403},
		{POOL("", ""), NULL, 403},
		{NULL, POOL("", ""), 403},
		{NULL, POOL(OWN(""), ",\"ips\":[\"10.6.0.1\"]"), 403},
	};
	static const char *const others[] = {NULL,
					     "",
					     "admin",
					     "system:serviceaccount:unirail:unirail-controller",
					     "system:serviceaccount:unirail:unirail-agent2",
					     "system:serviceaccount:unirail-agent",
					     "unirail-agent"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (code_for(agent, rows[i].was, rows[i].is) != rows[i].code)
			fail_msg("rows[%zu]: the code is not %d", i, rows[i].code);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		ASSERT_EQ_MSG(code_for(others[i], POOL("", ""),
				       POOL("", ",\"ips\":[\"10.6.0.1\"]")),
			      0, "others[%zu]", i);
	ASSERT_EQ(code_for("system:serviceaccount:spiderpool:unirail-agent", POOL("", ""), NULL),
		  403);
}

/* Defaults would be a change that an agent is not permitted to make. */
static void test_no_defaults_are_added_to_updates_by_agents(void **state)
{
	const struct admit_cache cache = {.agent_ns = "kube-system"};
	auto_json struct json_doc *was = t_json(POOL("", "")),
				  *is = t_json(POOL(ANNOTATIONS(CUT), ""));
	struct admit_request q = {.kind = "SpiderIPPool",
				  .operation = ADMIT_UPDATE,
				  .ns = "",
				  .name = "x",
				  .object = json_root(is),
				  .old = json_root(was)};
	struct admit_answer r;

	(void)state;
	admit_default(&cache, &q, &r);
	assert_true(r.patch.len > 0);
	admit_answer_done(&r);
	q.user = "system:serviceaccount:unirail:unirail-agent";
	admit_default(&cache, &q, &r);
	ASSERT_EQ(r.patch.len, 0);
	admit_answer_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agent_may_only_annotate_pools_and_create_application_pools),
		cmocka_unit_test(test_no_defaults_are_added_to_updates_by_agents),
		cmocka_unit_test(test_reviews_of_pools_match_the_cases_of_pools_yaml),
		cmocka_unit_test(test_reviews_of_subnets_match_the_cases_of_subnets_yaml),
		cmocka_unit_test(test_reviews_of_reserved_ips_match_the_cases_of_reserved_yaml),
		cmocka_unit_test(test_reviews_of_multusconfigs_match_the_cases_of_networks_yaml),
		cmocka_unit_test(test_reviews_of_coordinators_match_the_cases_of_coordinators_yaml),
		cmocka_unit_test(test_cidr_label_has_hyphens_for_dots_colons_and_slashes),
		cmocka_unit_test(test_growth_of_a_list_beyond_its_maximum_is_refused),
		cmocka_unit_test(test_configurations_beyond_their_maximum_size_are_refused),
		cmocka_unit_test(test_only_new_or_changed_ranges_need_a_range_lock),
		cmocka_unit_test(test_pool_name_too_long_for_block_names_is_refused),
	};

	return T_RUN(tests, t_log_off, NULL);
}
