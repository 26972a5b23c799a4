/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/pool_cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/num.h"
#include "ipam/pool/pool.h"
#include "ipam/pool/pool_spec.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/subnet_annotation.h"

/* This file builds the set from the lines of objects: all usable pools, and the reason why each
 * other pool is left out. */

/* A pool object, while the set is being built. */
struct member {
	char *name, *created;
	/* metadata.generation is not 1: the spec may have changed since the object's creation */
	bool changed;
	bool built; /* `pool` is valid */
	struct pool pool;
	char *cause; /* reason why the pool is left out; NULL: usable */
};

struct build {
	struct member *v;
	size_t n;
	const char *agent_ns;
	struct pool_set *set;
	struct ip_set taken4, taken6; /* addresses in records of pools that do not contain them */
};

static void put_out(struct pool_set *s, const char *name, const char *cause)
{
	VEC_PUSH(s->out, s->n_out) = (struct pool_out){xstrdup(name), xstrdup(cause)};
}

static void leave_out(struct member *m, const struct err *e)
{
	if (!m->cause)
		m->cause = xstrdup(e->text);
}

/* --- reading one pool object --- */

static int read_cut(struct member *m, const struct json *object, struct err *e)
{
	const struct json *v = kube_meta(object, ANNOTATION_BLOCK_PREFIX);
	struct pool *p = &m->pool;
	uint64_t requested = 0;
	int r;

	if (json_string(v) && num_u64(span_of(json_string(v)), 1, 128, &requested) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s: annotation " ANNOTATION_BLOCK_PREFIX
				" '%.60s' is not a prefix length",
				p->origin, json_string(v));
	r = block_cut_choose(&p->subnet, (uint8_t)requested, p->n_nodes == 1, &p->cut, e);
	if (r < 0)
		return err_wrap(e, r, "%s: annotation " ANNOTATION_BLOCK_PREFIX, p->origin);
	p->cut_is_written = requested != 0;
	return 0;
}

static void add_record(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct pool *p = arg;

	VEC_PUSH(p->records, p->n_records) =
		(struct pool_record){*ip, pool_record_key(pod), pool_record_key(uid)};
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct pool_record *)a)->ip, &((const struct pool_record *)b)->ip);
}

static int read_records(struct member *m, const struct json *object, struct err *e)
{
	const char *text = json_string(json_get(object, "allocatedIPs"));
	struct pool *p = &m->pool;
	int r = pool_records_read(text, add_record, p, e);

	if (r < 0)
		return err_wrap(
			e, r,
			"SpiderIPPool '%s': status.allocatedIPs (or annotation " ANNOTATION_ADOPTED
			") is invalid, so the addresses in use are unknown",
			m->name);
	if (p->n_records > 0)
		qsort(p->records, p->n_records, sizeof(*p->records), by_ip);
	return 0;
}

/* Reads the addresses of a pool even if the pool is left out, because they must not be assumed to
 * be free. */
static void read_spec(struct build *b, struct member *m, const struct json *object)
{
	auto_free char *where = xasprintf("SpiderIPPool '%s'", m->name);
	struct pool_spec o = {where, json_get(object, "spec"), b->agent_ns};
	struct pool_draft d = {.name = xstrdup(m->name), .origin = xstrdup(where)};
	struct pool_set one = {0};
	struct err e = ERR_INIT;

	if (pool_spec_read(&o, &d, &e) < 0)
		leave_out(m, &e);
	if (pool_set_add(&one, &d, &e) == 0) {
		m->built = true;
		m->pool = one.v[0];
	} else {
		leave_out(m, &e);
	}
	free(one.v);
}

static void read_member(struct build *b, struct member *m, const struct json *object)
{
	struct err e = ERR_INIT;
	int64_t generation = 0, count;

	m->name = xstrdup(json_text(kube_meta(object, "name")));
	m->created = xstrdup(json_text(kube_meta(object, "creationTimestamp")));
	m->changed = json_int(kube_meta(object, "generation"), &generation) < 0 || generation != 1;
	read_spec(b, m, object);
	if (read_records(m, object, &e) < 0)
		leave_out(m, &e);
	if (!m->built)
		return;
	m->pool.shared = true;
	m->pool.terminating = *json_text(kube_meta(object, "deletionTimestamp")) != '\0';
	if (json_string(kube_meta(object, "autoPoolKey")))
		m->pool.auto_pool_key = xstrdup(json_string(kube_meta(object, "autoPoolKey")));
	if (json_int(kube_meta(object, "autoPoolIPCount"), &count) == 0)
		m->pool.auto_pool_ip_count = (uint32_t)count;
	if (read_cut(m, object, &e) < 0)
		leave_out(m, &e);
}

/* --- conflicts between pools --- */

static int by_age(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int r = strcmp(x->created, y->created);

	return r ? r : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
	const char *x = ((const struct member *)a)->name, *y = ((const struct member *)b)->name;
	int r = strverscmp(x, y);

	return r ? r : strcmp(x, y);
}

static void first_open(struct member *m)
{
	struct pool *p = &m->pool;

	p->open.family = p->family;
	for (size_t i = 0; i < p->ips.n; i++)
		VEC_PUSH(p->open.v, p->open.n) = p->ips.v[i];
}

/* If an older pool was changed, the change may have caused the conflict. Then nodes may not
 * allocate those of its addresses that younger pools also have. */
static void close_changed(struct member *const *m, const struct pool *const *v, size_t n)
{
	auto_free struct ip_set *open = xcalloc(n, sizeof(*open));

	pool_conflicts_open(v, n, open);
	for (size_t i = 0; i < n; i++) {
		struct ip_set rest = open[i];

		if (m[i]->changed) {
			rest = m[i]->pool.open;
			m[i]->pool.open = open[i];
		}
		ip_set_done(&rest);
	}
}

/* Leaves out each pool that conflicts with an older one. v is sorted by age. */
static void check_pairs(struct build *b)
{
	auto_free struct member **m = xcalloc(b->n + 1, sizeof(*m));
	auto_free const struct pool **v = xcalloc(b->n + 1, sizeof(*v));
	auto_free size_t *older = xcalloc(b->n + 1, sizeof(*older));
	bool any = false;
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].built) {
			m[n] = &b->v[i];
			v[n++] = &b->v[i].pool;
		}
	pool_conflicts(v, n, older);
	for (size_t i = 0; i < n; i++) {
		struct err e = ERR_INIT;

		if (older[i] == n)
			continue;
		any = true;
		pool_conflict_error(v[older[i]], v[i], &e);
		leave_out(m[i], &e);
	}
	if (any)
		close_changed(m, v, n);
}

/* --- addresses that nodes may allocate --- */

static void log_leftovers(struct build *b, const struct member *m)
{
	for (size_t i = 0; i < m->pool.n_records; i++) {
		const struct ipaddr *a = &m->pool.records[i].ip;

		if (!m->built || !ip_set_has(&m->pool.ips, a))
			ip_set_collect(a->family == 4 ? &b->taken4 : &b->taken6,
				       &(struct ip_range){*a, *a});
	}
}

static void close_up(const struct build *b, struct pool *p)
{
	bool four = p->family == 4;

	p->adopted.family = p->family;
	for (size_t i = 0; i < p->n_records; i++) {
		const struct ipaddr *a = &p->records[i].ip;

		if (ip_set_has(&p->ips, a))
			ip_set_collect(&p->adopted, &(struct ip_range){*a, *a});
	}
	ip_set_merge(&p->adopted);
	ip_set_minus(&p->open, four ? &b->set->reserved4 : &b->set->reserved6);
	ip_set_minus(&p->open, four ? &b->taken4 : &b->taken6);
	ip_set_minus(&p->open, &p->adopted);
	p->usable.family = p->family;
	for (size_t i = 0; i < p->open.n; i++)
		VEC_PUSH(p->usable.v, p->usable.n) = p->open.v[i];
}

static void add_member(struct build *b, struct member *m)
{
	if (m->cause) {
		put_out(b->set, m->name, m->cause);
		free(m->pool.records);
		m->pool.records = NULL;
		if (m->built)
			pool_done(&m->pool);
	} else {
		close_up(b, &m->pool);
		VEC_PUSH(b->set->v, b->set->n) = m->pool;
	}
	free(m->cause);
	free(m->name);
	free(m->created);
}

/* --- building the set --- */

static void reserve(struct build *b, const struct json *object)
{
	const char *name = json_text(kube_meta(object, "name"));
	auto_free char *where = xasprintf("SpiderReservedIP '%s'", name);
	auto_free char *key = xasprintf("SpiderReservedIP/%s", name);
	struct pool_spec o = {where, json_get(object, "spec"), b->agent_ns};
	struct err e = ERR_INIT;

	if (*json_text(kube_meta(object, "deletionTimestamp")))
		return;
	if (pool_spec_reserve(&o, b->set, &e) < 0)
		put_out(b->set, key, e.text);
}

static void add_line(struct build *b, const char *line)
{
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (json_parse(&doc, span_of(line), POOL_KUBE_TEXT_MAX, &e) < 0) {
		put_out(b->set, "?", e.text);
		return;
	}
	if (strcmp(json_text(json_get(json_root(doc), "kind")), "SpiderReservedIP") == 0) {
		reserve(b, json_root(doc));
		return;
	}
	read_member(b, &VEC_PUSH(b->v, b->n), json_root(doc));
}

void pool_kube_set(const char *const *lines, size_t n, const char *agent_ns, struct pool_set *ret)
{
	struct pool_set set = {
		.of_cluster = true, .reuse_delay_ms = 60 * 1000, .quarantine_ms = 600 * 1000};
	struct build b = {.agent_ns = agent_ns, .set = &set};

	for (size_t i = 0; i < n; i++)
		add_line(&b, lines[i]);
	if (b.n > 0)
		qsort(b.v, b.n, sizeof(*b.v), by_age);
	for (size_t i = 0; i < b.n; i++)
		first_open(&b.v[i]);
	check_pairs(&b);
	for (size_t i = 0; i < b.n; i++)
		log_leftovers(&b, &b.v[i]);
	ip_set_merge(&b.taken4);
	ip_set_merge(&b.taken6);
	if (b.n > 0)
		qsort(b.v, b.n, sizeof(*b.v), by_name);
	for (size_t i = 0; i < b.n; i++)
		add_member(&b, &b.v[i]);
	free(b.v);
	ip_set_done(&b.taken4);
	ip_set_done(&b.taken6);
	pool_set_index(&set);
	*ret = set;
}

void pool_kube_cut(struct pool *p, struct ip_set *open, struct ip_set *adopted)
{
	ip_set_done(&p->usable);
	ip_set_done(&p->adopted_here);
	p->usable = *open;
	p->adopted_here = *adopted;
	*open = *adopted = (struct ip_set){0};
}

/* --- converts an object to the line of JSON that is stored --- */

static void put_if_text(struct json_out *o, const char *key, const struct json *v)
{
	if (json_string(v))
		jo_kstr(o, key, json_string(v));
}

/* --- records of allocated addresses --- */

struct leftovers {
	struct json_out o;
	const struct ip_set *own;
};

static void put_record(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct leftovers *s = arg;
	char text[IP_TEXT_MAX];

	if (s->own && ip_set_has(s->own, ip))
		return;
	jo_key(&s->o, ip_str(ip, text));
	jo_obj(&s->o);
	jo_kstr(&s->o, "pod", pod);
	jo_kstr(&s->o, "podUid", uid);
	jo_end_obj(&s->o);
}

/* Reads the addresses in the pool's spec; none if the spec is invalid. */
static void own_ips(const struct json *object, struct pool_set *ret)
{
	struct pool_spec o = {.origin = "", .spec = json_get(object, "spec"), .agent_ns = "-"};
	struct pool_draft d = {.name = xstrdup("x"), .origin = xstrdup("")};

	if (pool_spec_read(&o, &d, NULL) == 0)
		pool_set_add(ret, &d, NULL);
	pool_draft_done(&d);
}

/*
 * Without the annotation unirail.io/adopted: returns all records of the status. With it: returns
 * the records of the annotation, and from the status (which unirail's controller writes) only
 * records of addresses that are no longer in the pool. A string that cannot be parsed is returned
 * unchanged, and reported when the set is built.
 */
static char *records_text(const struct json *object)
{
	const char *noted =
		json_string(json_get(kube_meta(object, "annotations"), ANNOTATION_ADOPTED));
	const char *status = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	struct pool_set own = {0};
	struct leftovers s = {0};
	struct buf b;

	if (!noted || !status || !*status)
		return xstrdup(noted ? noted : status ? status : "");
	own_ips(object, &own);
	buf_init(&b, POOL_KUBE_TEXT_MAX);
	jo_init(&s.o, &b, 0);
	jo_obj(&s.o);
	if (pool_records_read(noted, put_record, &s, NULL) < 0) {
		buf_done(&b);
		pool_set_done(&own);
		return xstrdup(noted);
	}
	s.own = own.n ? &own.v[0].ips : NULL;
	if (pool_records_read(status, put_record, &s, NULL) < 0) {
		buf_done(&b);
		pool_set_done(&own);
		return xstrdup(status);
	}
	jo_end_obj(&s.o);
	pool_set_done(&own);
	return buf_take(&b);
}

static char *key_of(const struct json *object)
{
	struct labels l = {0};
	char *key;

	if (labels_read(kube_meta(object, "labels"), "metadata.labels", NULL, &l, NULL) < 0)
		return NULL;
	key = auto_pool_key(&l);
	labels_done(&l);
	return key;
}

static void put_metadata(struct json_out *o, const struct json *object)
{
	auto_free char *key = key_of(object);
	const struct json *prefix =
		json_get(kube_meta(object, "annotations"), ANNOTATION_BLOCK_PREFIX);
	const struct json *count =
		json_get(kube_meta(object, "annotations"), ANNOTATION_POOL_NUMBER);
	int64_t generation;
	uint64_t n;

	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", json_string(kube_meta(object, "name")));
	put_if_text(o, "uid", kube_meta(object, "uid"));
	put_if_text(o, "creationTimestamp", kube_meta(object, "creationTimestamp"));
	put_if_text(o, "deletionTimestamp", kube_meta(object, "deletionTimestamp"));
	if (json_int(kube_meta(object, "generation"), &generation) == 0)
		jo_kint(o, "generation", generation);
	put_if_text(o, ANNOTATION_BLOCK_PREFIX, prefix);
	if (key)
		jo_kstr(o, "autoPoolKey", key);
	if (key && json_string(count) &&
	    num_u64(span_of(json_string(count)), 0, UINT32_MAX, &n) == 0)
		jo_kint(o, "autoPoolIPCount", (int64_t)n);
	jo_end_obj(o);
}

int pool_kube_text(const struct json *object, const char *kind, char **ret, struct err *e)
{
	const char *name = json_string(kube_meta(object, "name"));
	auto_free char *records = NULL;
	struct json_out o;
	struct buf b;

	if (!name || !*name)
		return err_kind(e, ERR_DECODE, -EINVAL, "a %s without metadata.name", kind);
	records = records_text(object);
	buf_init(&b, POOL_KUBE_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "kind", kind);
	put_metadata(&o, object);
	jo_key(&o, "spec");
	jo_val(&o, json_get(object, "spec"), false);
	if (*records && strcmp(records, "{}") != 0)
		jo_kstr(&o, "allocatedIPs", records);
	jo_end_obj(&o);
	if (b.over) {
		buf_done(&b);
		return err_kind(e, ERR_DECODE, -EFBIG, "%s '%.100s' is longer than %d bytes", kind,
				name, POOL_KUBE_TEXT_MAX);
	}
	*ret = buf_take(&b);
	return 0;
}

/* Returns the line without the block size, which is in the metadata, before the spec. */
static char *without_block_size(const char *line)
{
	static const char key[] = ",\"" ANNOTATION_BLOCK_PREFIX "\":\"";
	const char *at = strstr(line, key), *spec = strstr(line, "\"spec\":");
	const char *end = at && spec && at < spec ? strchr(at + sizeof(key) - 1, '"') : NULL;

	return end ? xasprintf("%.*s%s", (int)(at - line), line, end + 1) : xstrdup(line);
}

bool pool_kube_same_addresses(const char *a, const char *b)
{
	auto_free char *x = without_block_size(a), *y = without_block_size(b);

	return strcmp(x, y) == 0;
}
