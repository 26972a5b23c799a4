/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool list`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/columns.h"
#include "ipam/report.h"

static uint64_t *count_of(struct report_tally *t, const char *state)
{
	const struct {
		const char *state;
		uint64_t *count;
	} counts[] = {{"used", &t->used},
		      {"adopted", &t->adopted},
		      {"sticky", &t->sticky},
		      {"resting", &t->resting},
		      {"quarantined", &t->quarantined}};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (strcmp(counts[i].state, state) == 0)
			return counts[i].count;
	return NULL;
}

struct report_tally report_tally_of(const struct pool *p, const struct ipam_record *v, size_t n)
{
	uint64_t usable = (uint64_t)ip_set_count(&p->usable), taken = 0;
	uint64_t open = p->open.n ? (uint64_t)ip_set_count(&p->open)
				  : usable; /* usable: this node's */
	struct report_tally t = {.total = (uint64_t)ip_set_count(&p->ips)};

	t.reserved = t.total - open;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].pool, p->name) != 0)
			continue;
		++*count_of(&t, v[i].state);
		taken += ip_set_has(&p->usable, &v[i].ip);
	}
	t.free = usable - taken;
	return t;
}

/* --- list --- */

static void row(struct columns *c, const struct pool *p, const struct report_tally *t)
{
	char text[IP_TEXT_MAX];

	columns_add(c, p->name);
	columns_addf(c, "%u", p->family);
	columns_add(c, ipnet_str(&p->subnet, text));
	columns_addf(c, "%" PRIu64, t->used + t->adopted + t->sticky);
	columns_addf(c, "%" PRIu64, t->total);
	columns_addf(c, "%" PRIu64, t->free);
	columns_addf(c, "%" PRIu64, t->resting);
	columns_addf(c, "%" PRIu64, t->quarantined);
	columns_add(c, p->is_default ? "yes" : "no");
	columns_add(c, p->disabled ? "disabled" : "ready");
}

static void list_table(const struct report *r, const struct pool_set *s,
		       const struct ipam_record *v, size_t n)
{
	static const char *const head[] = {"POOL",    "IP VERSION", "SUBNET",	     "USED",
					   "TOTAL",   "FREE",	    "REUSE DELAYED", "QUARANTINED",
					   "DEFAULT", "STATE"};
	auto_columns struct columns c;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < s->n; i++) {
		struct report_tally t = report_tally_of(&s->v[i], v, n);

		row(&c, &s->v[i], &t);
	}
	columns_put(&c, r->out);
}

static void json_ip(struct json_out *j, const char *key, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	jo_kstr(j, key, a->family ? ip_str(a, text) : NULL);
}

static void json_count(struct json_out *j, const char *key, uint64_t n)
{
	jo_key(j, key);
	jo_uint(j, n);
}

void report_pool(struct json_out *j, const struct pool *p, const struct report_tally *t)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf ips;

	buf_init(&ips, REPORT_MAX);
	ip_set_str(&p->ips, &ips);
	jo_obj(j);
	jo_kstr(j, "name", p->name);
	jo_kstr(j, "where", p->where);
	jo_kint(j, "ipVersion", p->family);
	jo_kstr(j, "subnet", ipnet_str(&p->subnet, text));
	jo_kstr(j, "ips", ips.p);
	json_ip(j, "gateway", &p->gateway);
	jo_kbool(j, "default", p->is_default);
	jo_kbool(j, "disable", p->disabled);
	json_count(j, "total", t->total);
	json_count(j, "reserved", t->reserved);
	json_count(j, "used", t->used);
	json_count(j, "adopted", t->adopted);
	json_count(j, "sticky", t->sticky);
	json_count(j, "resting", t->resting);
	json_count(j, "quarantined", t->quarantined);
	json_count(j, "free", t->free);
	jo_end_obj(j);
}

static void list_json(const struct report *r, const struct pool_set *s, const struct ipam_record *v,
		      size_t n)
{
	struct json_out j;

	jo_init(&j, r->out, 4);
	jo_obj(&j);
	jo_key(&j, "pools");
	jo_arr(&j);
	for (size_t i = 0; i < s->n; i++) {
		struct report_tally t = report_tally_of(&s->v[i], v, n);

		report_pool(&j, &s->v[i], &t);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(r->out, '\n');
}

int report_list(const struct report *r, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	const struct pool_set *s;
	size_t n = 0;
	int ret = ipam_records(r->store, &v, &n, e);

	if (ret < 0)
		return ret;
	s = ipam_pools(r->store);
	if (r->json)
		list_json(r, s, v, n);
	else if (s->n == 0)
		buf_str(r->out, r->empty);
	else
		list_table(r, s, v, n);
	return 0;
}
