/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool show`, `owner`, `free`. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/columns.h"
#include "ipam/report.h"

enum { FREE_MAX = 100000, WHEN_MAX = 32 };

static const char *time_text(int64_t ms, char buf[static WHEN_MAX])
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;

	if (ms <= 0 || !gmtime_r(&s, &tm))
		return "";
	strftime(buf, WHEN_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

void report_owner_words(const struct ipam_record *r, struct buf *b)
{
	if (*r->pod_name)
		buf_printf(b, "%s/%s", r->pod_namespace, r->pod_name);
	else if (*r->container_id)
		buf_printf(b, "container %.12s", r->container_id);
	if (*r->ifname)
		buf_printf(b, "%s%s", b->len ? " " : "", r->ifname);
}

static void json_record(struct json_out *j, const struct ipam_record *r)
{
	char text[IP_TEXT_MAX], when[WHEN_MAX];

	jo_obj(j);
	jo_kstr(j, "address", ip_str(&r->ip, text));
	jo_kstr(j, "pool", r->pool);
	jo_kstr(j, "state", r->state);
	jo_kstr(j, "namespace", r->pod_namespace);
	jo_kstr(j, "pod", r->pod_name);
	jo_kstr(j, "podUid", r->pod_uid);
	jo_kstr(j, "interface", r->ifname);
	jo_kstr(j, "containerId", r->container_id);
	jo_kstr(j, "network", r->network);
	jo_kstr(j, "since", time_text(r->since_ms, when));
	jo_kstr(j, "until", time_text(r->until_ms, when));
	if (*r->other)
		jo_kstr(j, "heldBy", r->other);
	jo_end_obj(j);
}

static void record_row(struct columns *c, const struct ipam_record *r)
{
	char text[IP_TEXT_MAX], when[WHEN_MAX];
	auto_buf struct buf pod;

	buf_init(&pod, 1024);
	if (*r->pod_name)
		buf_printf(&pod, "%s/%s", r->pod_namespace, r->pod_name);
	else if (*r->other)
		buf_printf(&pod, "held by %s", r->other);
	columns_add(c, ip_str(&r->ip, text));
	columns_add(c, r->state);
	columns_add(c, pod.p);
	columns_add(c, r->ifname);
	columns_addf(c, "%.12s", r->container_id);
	columns_add(c, r->network);
	columns_add(c, time_text(r->since_ms, when));
	columns_add(c, time_text(r->until_ms, when));
}

static void record_head(struct columns *c)
{
	static const char *const head[] = {"ADDRESS",	"STATE",   "POD",   "INTERFACE",
					   "CONTAINER", "NETWORK", "SINCE", "UNTIL"};

	columns_init(c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(c, head[i]);
}

static int find_pool(const struct report *o, const char *name, const struct pool **ret,
		     struct err *e)
{
	const struct pool_set *s = ipam_pools(o->store);
	const char *near = pool_nearest(s, name);

	*ret = pool_find(s, name);
	if (*ret)
		return 0;
	if (near)
		return err_set(e, -ENOENT, "no pool '%s'; did you mean '%s'?", name, near);
	return err_set(e, -ENOENT, "no pool '%s': see 'unirail pool list'", name);
}

static void show_json(const struct report *o, const struct pool *p, const struct ipam_record *v,
		      size_t n)
{
	struct report_tally tally = report_tally_of(p, v, n);
	struct json_out j;

	jo_init(&j, o->out, 4);
	jo_obj(&j);
	jo_key(&j, "pool");
	report_pool(&j, p, &tally);
	jo_key(&j, "records");
	jo_arr(&j);
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].pool, p->name) == 0)
			json_record(&j, &v[i]);
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(o->out, '\n');
}

static void show_table(const struct report *o, const struct pool *p, const struct ipam_record *v,
		       size_t n)
{
	auto_columns struct columns c;
	size_t rows = 0;

	record_head(&c);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].pool, p->name) != 0)
			continue;
		record_row(&c, &v[i]);
		rows++;
	}
	if (rows > 0)
		columns_put(&c, o->out);
	else
		buf_printf(o->out, "all %" PRIu64 " addresses of pool '%s' are free\n",
			   (uint64_t)ip_set_count(&p->usable), p->name);
}

int report_show(const struct report *o, const char *name, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	const struct pool *p;
	size_t n = 0;
	int r = ipam_records(o->store, &v, &n, e);

	if (r == 0)
		r = find_pool(o, name, &p, e);
	if (r < 0)
		return r;
	if (o->json)
		show_json(o, p, v, n);
	else
		show_table(o, p, v, n);
	return 0;
}

static void owner_json(const struct report *o, const struct ipam_record *rec)
{
	struct json_out j;

	jo_init(&j, o->out, 4);
	json_record(&j, rec);
	buf_char(o->out, '\n');
}

static int nobody(const struct report *o, const char *address, const struct ipaddr *a,
		  struct err *e)
{
	const struct pool *p = pool_of(ipam_pools(o->store), a);

	if (!p)
		return err_set(e, -ENOENT, "nobody holds %s: it is in no pool", address);
	if (!ip_set_has(&p->usable, a) && ip_set_has(&p->open, a))
		return err_set(e, -ENOENT,
			       "nobody holds %s here: this node has that part of pool '%s' not",
			       address, p->name);
	if (!ip_set_has(&p->usable, a))
		return err_set(e, -ENOENT, "nobody holds %s: it is reserved", address);
	return err_set(e, -ENOENT, "nobody holds %s: it is free in pool '%s'", address, p->name);
}

int report_owner(const struct report *o, const char *address, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	const struct ipam_record *found = NULL;
	auto_columns struct columns c = {0};
	struct ipaddr a;
	size_t n = 0;
	int r = report_address(address, &a, e);

	if (r == 0)
		r = ipam_records(o->store, &v, &n, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (ip_eq(&v[i].ip, &a))
			found = &v[i];
	if (!found)
		return nobody(o, address, &a, e);
	if (o->json) {
		owner_json(o, found);
		return 0;
	}
	record_head(&c);
	record_row(&c, found);
	columns_put(&c, o->out);
	return 0;
}

/* --- free --- */

static void free_json(const struct report *o, const struct pool *p, const struct ipaddr *v,
		      size_t n)
{
	char text[IP_TEXT_MAX];
	struct json_out j;

	jo_init(&j, o->out, 4);
	jo_obj(&j);
	jo_kstr(&j, "pool", p->name);
	jo_key(&j, "free");
	jo_arr(&j);
	for (size_t i = 0; i < n; i++)
		jo_str(&j, ip_str(&v[i], text));
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(o->out, '\n');
}

int report_count(const char *text, uint64_t *ret, struct err *e)
{
	if (num_u64(span_of(text), 1, FREE_MAX, ret) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' is not a number from 1 to %d", text, FREE_MAX);
}

int report_free(const struct report *o, const char *name, const char *count, struct err *e)
{
	auto_free struct ipaddr *v = NULL;
	char text[IP_TEXT_MAX];
	const struct pool *p;
	uint64_t max;
	size_t n = 0;
	int r = report_count(count, &max, e);

	if (r == 0)
		r = ipam_load_pools(o->store, e);
	if (r == 0)
		r = find_pool(o, name, &p, e);
	if (r == 0)
		r = ipam_free_list(o->store, p, (size_t)max, &v, &n, e);
	if (r < 0)
		return r;
	if (o->json) {
		free_json(o, p, v, n);
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		buf_printf(o->out, "%s\n", ip_str(&v[i], text));
	if (n == 0)
		buf_printf(o->aside,
			   "no address of pool '%s' is free: see 'unirail pool show %s'\n", p->name,
			   p->name);
	return 0;
}
