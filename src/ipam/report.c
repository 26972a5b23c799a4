/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/sorted.h"
#include "base/table.h"

/* The commands of `unirail pool`, and the table of their names. */

enum { MESSAGE_MAX = 1 << 20 };

int report_address(const char *text, struct ipaddr *ret, struct err *e)
{
	if (ip_parse(span_of(text), ret) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' is not an address", text);
}

/* --- `unirail pool release` --- */

static bool find_record(const struct report *o, const struct ipaddr *a, struct ipam_record *ret,
			int *r, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	size_t n = 0;

	*r = ipam_records(o->store, &v, &n, e);
	for (size_t i = 0; *r == 0 && i < n; i++)
		if (ip_eq(&v[i].ip, a)) {
			*ret = v[i];
			return true;
		}
	return false;
}

/* Writes "default/pod-a net1" or "container 0123456789ab net1". */
static void report_describe_owner(const struct ipam_record *r, struct buf *b)
{
	if (*r->pod_name)
		buf_printf(b, "%s/%s", r->pod_namespace, r->pod_name);
	else if (*r->container_id)
		buf_printf(b, "container %.12s", r->container_id);
	if (*r->ifname)
		buf_printf(b, "%s%s", b->len ? " " : "", r->ifname);
}

static void say_release(const struct report *o, const struct ipam_record *rec, bool done)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf owner;
	struct json_out j;

	buf_init(&owner, 1024);
	report_describe_owner(rec, &owner);
	ip_str(&rec->ip, text);
	if (o->json) {
		jo_init(&j, o->out, 4);
		jo_obj(&j);
		jo_kstr(&j, "address", text);
		jo_kstr(&j, "state", rec->state);
		jo_kstr(&j, "owner", owner.p);
		jo_kbool(&j, "released", done);
		jo_end_obj(&j);
		buf_char(o->out, '\n');
	} else {
		buf_printf(o->out, "%s %s (%s%s%s)\n", done ? "released" : "would release", text,
			   rec->state, owner.len ? " by " : "", owner.p);
	}
}

/* Confirmation is required, because releasing an address of a running pod gives two pods the same
 * address. */
int report_release(const struct report *o, const char *address, enum report_release how,
		   struct err *e)
{
	struct ipam_record rec;
	struct ipaddr a;
	int r = report_address(address, &a, e);

	if (r < 0)
		return r;
	if (!find_record(o, &a, &rec, &r, e))
		return r < 0 ? r : err_set(e, -ENOENT, "%s has no owner on this node", address);
	if (how != REPORT_DO)
		say_release(o, &rec, false);
	if (how == REPORT_CONFIRM)
		return err_set(
			e, -EPERM,
			"repeat with --yes if no running pod uses %s: another pod may get the address at once",
			address);
	if (how == REPORT_DRY_RUN)
		return 0;
	r = ipam_release_ip(o->store, &a, e);
	if (r >= 0)
		say_release(o, &rec, true);
	return r < 0 ? r : 0;
}

/* --- `unirail pool check` --- */

static int findings_text(const struct report *o, const char *checked, const struct buf *found,
			 int n)
{
	buf_add(o->out, found->p, found->len);
	if (checked)
		buf_printf(o->out, "checked %s: ", checked);
	if (n == 0)
		buf_str(o->out, "nothing found\n");
	else if (checked)
		buf_printf(o->out, "%d finding%s\n", n, n == 1 ? "" : "s");
	return n > 0;
}

int report_findings(const struct report *o, const char *checked, const struct buf *found, int n)
{
	struct span rest = buf_span(found), line;
	struct json_out j;

	if (!o->json)
		return findings_text(o, checked, found, n);
	jo_init(&j, o->out, 4);
	jo_obj(&j);
	jo_kbool(&j, "ok", n == 0);
	if (checked)
		jo_kstr(&j, "checked", checked);
	jo_key(&j, "findings");
	jo_arr(&j);
	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_dup(line);

		if (line.n > 0)
			jo_str(&j, text);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(o->out, '\n');
	return n > 0;
}

static int report_check(const struct report *o, struct err *e)
{
	auto_free struct ipam_record *records = NULL;
	auto_free char *checked = NULL;
	auto_buf struct buf found;
	size_t n_records = 0;
	int n;

	buf_init(&found, MESSAGE_MAX);
	n = ipam_check(o->store, &found, e);
	if (n < 0)
		return n;
	if (ipam_records(o->store, &records, &n_records, NULL) < 0)
		n_records = 0;
	checked = xasprintf("%zu pools, %zu addresses in the journal and in host-local's files, "
			    "and the network namespaces of their pods",
			    ipam_pools(o->store)->n, n_records);
	return report_findings(o, checked, &found, n);
}

/* --- `unirail pool free`, and the table of commands --- */

static const struct known {
	const char *name;
	size_t least, most; /* lowest and highest number of arguments */
} known[] = {{"list", 0, 0},  {"show", 1, 1},	 {"free", 1, 2},
	     {"owner", 1, 1}, {"release", 1, 1}, {"check", 0, 0}};

static int find_pool(const struct report *o, const char *name, const struct pool **ret,
		     struct err *e)
{
	const struct pool_set *s = ipam_pools(o->store);
	const char *near = pool_suggest(s, name);

	*ret = pool_find(s, name);
	if (*ret)
		return 0;
	if (near)
		return err_set(e, -ENOENT, "no pool '%s'; did you mean '%s'?", name, near);
	return err_set(e, -ENOENT, "no pool '%s': see 'unirail pool list'", name);
}

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

static int report_free(const struct report *o, const char *name, const char *count, struct err *e)
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
		buf_printf(
			o->messages,
			"pool '%s' has no free address on this node: see 'unirail pool show %s'\n",
			p->name, p->name);
	return 0;
}

static int report_list(const struct report *r, struct err *e);

static int report_owner(const struct report *o, const char *address, struct err *e);

static int report_show(const struct report *o, const char *name, struct err *e);

int report_run(const struct report *o, const struct report_call *c, struct err *e)
{
	const struct known *k = known;

	while (k < known + ARRAY_LEN(known) && strcmp(k->name, c->command) != 0)
		k++;
	if (k == known + ARRAY_LEN(known))
		return err_set(
			e, -ENOSYS,
			"unknown command '%.50s': expected list, show, free, owner, release or check",
			c->command);
	if (c->n_args < k->least || c->n_args > k->most)
		return k->least == k->most
			       ? err_set(e, -EINVAL, "'%s' has %zu operands, expected %zu", k->name,
					 c->n_args, k->least)
			       : err_set(e, -EINVAL, "'%s' has %zu operands, expected %zu to %zu",
					 k->name, c->n_args, k->least, k->most);
	if (strcmp(k->name, "list") == 0)
		return report_list(o, e);
	if (strcmp(k->name, "check") == 0)
		return report_check(o, e);
	if (strcmp(k->name, "show") == 0)
		return report_show(o, c->args[0], e);
	if (strcmp(k->name, "free") == 0)
		return report_free(o, c->args[0], c->n_args > 1 ? c->args[1] : "10", e);
	if (strcmp(k->name, "owner") == 0)
		return report_owner(o, c->args[0], e);
	return report_release(o, c->args[0], c->release, e);
}

/* --- number of a pool's addresses in each state, for `unirail pool list` and `show` --- */

static uint64_t *count_of(struct report_tally *t, const char *state)
{
	const struct {
		const char *state;
		uint64_t *count;
	} counts[] = {{"used", &t->used},
		      {"adopted", &t->adopted},
		      {"sticky", &t->sticky},
		      {"cooldown", &t->cooldown},
		      {"quarantined", &t->quarantined}};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (strcmp(counts[i].state, state) == 0)
			return counts[i].count;
	return NULL;
}

static struct report_tally report_tally_of(const struct pool *p, const struct ipam_record *v,
					   size_t n)
{
	uint64_t usable = (uint64_t)ip_set_count(&p->usable), taken = 0;
	/* number of addresses that this node or other nodes may allocate; the set `p->open` is
	 * empty for a pool that was read from a directory */
	uint64_t open = p->open.n ? (uint64_t)ip_set_count(&p->open) : usable;
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

/* --- `unirail pool list` --- */

static void row(struct columns *c, const struct pool *p, const struct report_tally *t)
{
	char text[IP_TEXT_MAX];

	columns_add(c, p->name);
	columns_addf(c, "%u", p->family);
	columns_add(c, ipnet_str(&p->subnet, text));
	columns_addf(c, "%" PRIu64, t->used + t->adopted + t->sticky);
	columns_addf(c, "%" PRIu64, t->total);
	columns_addf(c, "%" PRIu64, t->free);
	columns_addf(c, "%" PRIu64, t->cooldown);
	columns_addf(c, "%" PRIu64, t->quarantined);
	columns_add(c, p->is_default ? "yes" : "no");
	columns_add(c, p->disabled ? "disabled" : "ready");
}

static int by_pool(const void *a, const void *b)
{
	return strcmp(((const struct ipam_record *)a)->pool, ((const struct ipam_record *)b)->pool);
}

/* The records are sorted by_pool(), so only those of the pool are read. */
static struct report_tally tally_sorted(const struct pool *p, const struct ipam_record *v, size_t n)
{
	size_t low = LOWER_BOUND(i, n, strcmp(v[i].pool, p->name) < 0), end;

	for (end = low; end < n && strcmp(v[end].pool, p->name) == 0; end++)
		;
	return report_tally_of(p, v + low, end - low);
}

static void list_table(const struct report *r, const struct pool_set *s,
		       const struct ipam_record *v, size_t n)
{
	static const char *const head[] = {"POOL", "IP VERSION", "SUBNET",	"USED",	   "TOTAL",
					   "FREE", "COOLDOWN",	 "QUARANTINED", "DEFAULT", "STATE"};
	auto_columns struct columns c;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < s->n; i++) {
		struct report_tally t = tally_sorted(&s->v[i], v, n);

		row(&c, &s->v[i], &t);
	}
	columns_put(&c, r->out);
}

static void json_ip(struct json_out *j, const char *key, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	jo_kstr(j, key, a->family ? ip_str(a, text) : NULL);
}

static void report_pool(struct json_out *j, const struct pool *p, const struct report_tally *t)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf ips;

	buf_init(&ips, REPORT_MAX);
	ip_set_str(&p->ips, &ips);
	jo_obj(j);
	jo_kstr(j, "name", p->name);
	jo_kstr(j, "origin", p->origin);
	jo_kint(j, "ipVersion", p->family);
	jo_kstr(j, "subnet", ipnet_str(&p->subnet, text));
	jo_kstr(j, "ips", ips.p);
	json_ip(j, "gateway", &p->gateway);
	jo_kbool(j, "default", p->is_default);
	jo_kbool(j, "disable", p->disabled);
	jo_kuint(j, "total", t->total);
	jo_kuint(j, "reserved", t->reserved);
	jo_kuint(j, "used", t->used);
	jo_kuint(j, "adopted", t->adopted);
	jo_kuint(j, "sticky", t->sticky);
	jo_kuint(j, "cooldown", t->cooldown);
	jo_kuint(j, "quarantined", t->quarantined);
	jo_kuint(j, "free", t->free);
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
		struct report_tally t = tally_sorted(&s->v[i], v, n);

		report_pool(&j, &s->v[i], &t);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(r->out, '\n');
}

static int report_list(const struct report *r, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	const struct pool_set *s;
	size_t n = 0;
	int ret = ipam_records(r->store, &v, &n, e);

	if (ret < 0)
		return ret;
	s = ipam_pools(r->store);
	if (n > 0)
		qsort(v, n, sizeof(*v), by_pool);
	if (r->json)
		list_json(r, s, v, n);
	else if (s->n == 0)
		buf_str(r->out, r->empty);
	else
		list_table(r, s, v, n);
	return 0;
}

/* --- `unirail pool show` and `unirail pool owner` --- */

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
		jo_kstr(j, "conflictMac", r->other);
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
		buf_printf(&pod, "used by %s", r->other);
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
		buf_printf(o->out,
			   "no address of pool '%s' is in use on this node, %" PRIu64
			   " addresses are free here\n",
			   p->name, (uint64_t)ip_set_count(&p->usable));
}

static int report_show(const struct report *o, const char *name, struct err *e)
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

static int no_lease(const struct report *o, const char *address, const struct ipaddr *a,
		    struct err *e)
{
	const struct pool *p = pool_of(ipam_pools(o->store), a);

	if (!p)
		return err_set(e, -ENOENT, "%s has no owner: it is in no pool", address);
	if (!ip_set_has(&p->usable, a) && ip_set_has(&p->open, a))
		return err_set(e, -ENOENT,
			       "%s has no owner on this node: this node does not own that part of "
			       "pool '%s'",
			       address, p->name);
	if (!ip_set_has(&p->usable, a))
		return err_set(e, -ENOENT,
			       "%s has no owner on this node: it is reserved, or "
			       "Spiderpool allocated it to a pod",
			       address);
	return err_set(e, -ENOENT, "%s has no owner: it is free in pool '%s'", address, p->name);
}

static int report_owner(const struct report *o, const char *address, struct err *e)
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
		return no_lease(o, address, &a, e);
	if (o->json) {
		owner_json(o, found);
		return 0;
	}
	record_head(&c);
	record_row(&c, found);
	columns_put(&c, o->out);
	return 0;
}

/* --- number of addresses that `unirail pool free` lists --- */

int report_count(const char *text, uint64_t *ret, struct err *e)
{
	if (num_u64(span_of(text), 1, FREE_MAX, ret) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' is not a number from 1 to %d", text, FREE_MAX);
}
