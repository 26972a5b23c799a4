/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool list`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/columns.h"
#include "tools/pool.h"
#include "tools/tools.h"
#include "wire/json.h"

enum { TEXT_MAX = POOL_TEXT_MAX };

static uint64_t *count_of(struct pool_tally *t, const char *state)
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

struct pool_tally pool_tally_of(const struct pool *p, const struct ipam_record *v, size_t n)
{
	uint64_t usable = (uint64_t)ip_set_count(&p->usable), taken = 0;
	struct pool_tally t = {.total = (uint64_t)ip_set_count(&p->ips)};

	t.reserved = t.total - usable;
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

static void row(struct columns *c, const struct pool *p, const struct pool_tally *t)
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

static void list_table(const struct pool_set *s, const struct ipam_record *v, size_t n)
{
	static const char *const head[] = {"POOL", "VERSION", "SUBNET",	     "USED",	"TOTAL",
					   "FREE", "RESTING", "QUARANTINED", "DEFAULT", "STATE"};
	auto_columns struct columns c;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < s->n; i++) {
		struct pool_tally t = pool_tally_of(&s->v[i], v, n);

		row(&c, &s->v[i], &t);
	}
	columns_print(&c, stdout);
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

void pool_json(struct json_out *j, const struct pool *p, const struct pool_tally *t)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf ips;

	buf_init(&ips, TEXT_MAX);
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

static int list_json(const struct pool_set *s, const struct ipam_record *v, size_t n)
{
	auto_buf struct buf b;
	struct json_out j;

	buf_init(&b, TEXT_MAX);
	jo_init(&j, &b, 4);
	jo_obj(&j);
	jo_key(&j, "pools");
	jo_arr(&j);
	for (size_t i = 0; i < s->n; i++) {
		struct pool_tally t = pool_tally_of(&s->v[i], v, n);

		pool_json(&j, &s->v[i], &t);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(&b, '\n');
	return help_put(&b);
}

static void list_empty(const struct pool_opts *o)
{
	printf("no pool in '%s'. A file there makes one, such as rails.conf with\n\n"
	       "    [pool rail0]\n"
	       "    subnet  = 172.16.1.0/24\n"
	       "    gateway = 172.16.1.1\n"
	       "    default = yes\n\n"
	       "or a SpiderIPPool as JSON, rails.json.\n",
	       o->pool_dir ? o->pool_dir : IPAM_POOL_DIR);
}

int pool_list(struct pool_tool *t, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	const struct pool_set *s;
	size_t n = 0;
	int r = ipam_records(t->store, &v, &n, e);

	if (r < 0)
		return r;
	s = ipam_pools(t->store);
	if (t->json)
		return list_json(s, v, n);
	if (s->n == 0)
		list_empty(t->o);
	else
		list_table(s, v, n);
	return 0;
}
