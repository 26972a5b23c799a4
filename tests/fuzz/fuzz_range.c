/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses, numbers and sets of addresses. A line that begins with '+' or '-' is a range to add to
 * or take from its family's set; any other is passed to all parsers of single values. A set is
 * compared with a plain list of the changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "fuzz.h"
#include "base/ipset.h"

enum { OPS_MAX = 48 };

struct op {
	bool add;
	struct ip_range r;
	u128 first, last; /* bounds of r as numbers */
};

struct model {
	struct ip_set set;
	struct op ops[OPS_MAX];
	size_t n;
};

static bool model_has(const struct model *m, const struct ipaddr *a)
{
	u128 n = ip_num(a);

	for (size_t i = m->n; i-- > 0;)
		if (m->ops[i].first <= n && n <= m->ops[i].last)
			return m->ops[i].add;
	return false;
}

static void check_at(const struct model *m, const struct ipaddr *a)
{
	bool has = model_has(m, a);
	struct ipaddr next;

	must(ip_set_has(&m->set, a) == has);
	if (has)
		must(ip_set_next(&m->set, a, &next) && ip_eq(&next, a));
	else if (ip_set_next(&m->set, a, &next))
		must(ip_cmp(&next, a) > 0 && model_has(m, &next));
}

/* Checks the ends of every range and their neighbours, where errors of a set are likely. */
static void check_edges(const struct model *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct ipaddr *ends[] = {&m->ops[i].r.first, &m->ops[i].r.last};

		for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
			u128 n = ip_num(ends[k]);
			struct ipaddr a = ip_from_num(ends[k]->family, n - 1);

			check_at(m, ends[k]);
			if (n != 0)
				check_at(m, &a);
			if (ip_add(ends[k], 1, &a))
				check_at(m, &a);
		}
	}
}

static void check_shape(const struct ip_set *s)
{
	u128 sum = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct ipaddr after;

		must(s->v[i].first.family == s->family && s->v[i].last.family == s->family);
		must(ip_cmp(&s->v[i].first, &s->v[i].last) <= 0);
		if (i > 0) /* ranges are at least one address apart */
			must(ip_add(&s->v[i - 1].last, 1, &after) &&
			     ip_cmp(&after, &s->v[i].first) < 0);
		sum += ip_num(&s->v[i].last) - ip_num(&s->v[i].first) + 1;
		if (sum == 0 || sum > UINT64_MAX)
			sum = UINT64_MAX;
	}
	must(ip_set_count(s) == sum);
}

static void check_print(const struct ip_set *s)
{
	struct ip_set again = {.family = s->family};
	auto_buf struct buf b, c;
	struct span rest, one;

	buf_init(&b, 1 << 20);
	buf_init(&c, 1 << 20);
	ip_set_str(s, &b);
	for (rest = s->n ? buf_span(&b) : (struct span){0}; span_cut(&rest, ',', &one);) {
		struct ip_range r;

		must(ip_range_parse(span_trim(one), s->family, &r, NULL) == 0);
		ip_set_add(&again, &r);
	}
	ip_set_str(&again, &c);
	must(b.len == c.len && !memcmp(b.p, c.p, b.len));
	ip_set_done(&again);
}

/* Checks the result of ip_set_meets(), which finds an address that is in both of two sets. The
 * two sets are m->set and the set of the ranges that the second half of the operations added. */
static void check_meets(const struct model *m)
{
	struct ip_set half = {.family = m->set.family};
	struct ipaddr both;

	for (size_t i = m->n / 2; i < m->n; i++)
		if (m->ops[i].add)
			ip_set_add(&half, &m->ops[i].r);
	if (ip_set_meets(&m->set, &half, &both)) {
		must(ip_set_has(&m->set, &both) && ip_set_has(&half, &both));
	} else {
		for (size_t i = 0; i < half.n; i++)
			must(!ip_set_has(&m->set, &half.v[i].first));
		for (size_t i = 0; i < m->set.n; i++)
			must(!ip_set_has(&half, &m->set.v[i].first));
	}
	for (size_t i = 0; i < m->set.n; i++)
		ip_set_subtract(&half, &m->set.v[i]);
	must(!ip_set_meets(&m->set, &half, &both));
	ip_set_done(&half);
}

static void take_range(struct model models[static 2], bool add, struct span text)
{
	bool six = memchr(text.p, ':', text.n) != NULL;
	struct model *m = &models[six];
	struct err e = ERR_INIT;
	struct ip_range r;
	struct op *op;

	if (fuzz_refused(ip_range_parse(text, six ? 6 : 4, &r, &e), &e) || m->n == OPS_MAX)
		return;
	op = &m->ops[m->n++];
	*op = (struct op){add, r, ip_num(&r.first), ip_num(&r.last)};
	m->set.family = six ? 6 : 4;
	if (add)
		ip_set_add(&m->set, &r);
	else
		ip_set_subtract(&m->set, &r);
}

/* --- single values --- */

static void check_ip(struct span s)
{
	char text[IP_TEXT_MAX];
	struct ipaddr a, b;

	if (ip_parse(s, &a) < 0)
		return;
	must(a.family == 4 || a.family == 6);
	must(ip_parse(span_of(ip_str(&a, text)), &b) == 0 && ip_eq(&a, &b));
	b = ip_from_num(a.family, ip_num(&a));
	must(ip_eq(&a, &b));
}

static void check_net_value(const struct ipnet *n)
{
	struct ipnet net = ipnet_network(n);
	struct ipaddr first = ipnet_first(n), last = ipnet_last(n);

	must(n->len <= ip_bits(&n->ip));
	must(ipnet_contains(n, &n->ip) && ipnet_contains(n, &first) && ipnet_contains(n, &last));
	must(ip_cmp(&first, &n->ip) <= 0 && ip_cmp(&n->ip, &last) <= 0);
	must(ip_eq(&first, &net.ip) && !ipnet_has_host_bits(&net));
	must(ipnet_has_host_bits(n) == !ip_eq(&n->ip, &net.ip));
	must(ipnet_overlaps(n, &net));
}

static void check_net(struct span s)
{
	char text[IP_TEXT_MAX];
	struct ipnet n, loose, again;

	if (ipnet_parse_loose(s, &loose) < 0) {
		must(ipnet_parse(s, &n) < 0);
		return;
	}
	check_net_value(&loose);
	must(ipnet_parse(span_of(ipnet_str(&loose, text)), &again) == 0);
	must(ipnet_eq(&loose, &again));
	if (ipnet_parse(s, &n) == 0)
		must(ipnet_eq(&loose, &n));
}

static void check_mac(struct span s)
{
	char text[MAC_TEXT_MAX];
	struct mac m, again;

	if (mac_parse(s, &m) < 0)
		return;
	must(m.len == 6 || m.len == 8 || m.len == 20);
	must(mac_parse(span_of(mac_str(&m, text)), &again) == 0 && mac_eq(&m, &again));
}

static void check_numbers(struct span s)
{
	uint64_t u;
	int64_t i;
	int b = 2, r;

	r = num_u64(s, 10, 1000, &u);
	must(r == -EINVAL || r == -ERANGE || (r == 0 && u >= 10 && u <= 1000));
	r = num_i64(s, INT64_MIN, -2, &i);
	must(r == -EINVAL || r == -ERANGE || (r == 0 && i <= -2));
	r = num_hex(s, 0xffff, &u);
	must(r == -EINVAL || r == -ERANGE || (r == 0 && u <= 0xffff));
	r = num_duration_ms(s, 3600000, &i);
	must(r == -EINVAL || r == -ERANGE || (r == 0 && i >= 0 && i <= 3600000));
	r = num_bool(s, &b);
	must(r == -EINVAL ? b == 2 : r == 0 && (b == 0 || b == 1));
}

static void take_line(struct model models[static 2], struct span line)
{
	if (line.n > 0 && (line.p[0] == '+' || line.p[0] == '-')) {
		take_range(models, line.p[0] == '+', (struct span){line.p + 1, line.n - 1});
		return;
	}
	check_ip(line);
	check_net(line);
	check_mac(line);
	check_numbers(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct model models[2];

	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		models[i].n = 0;
		models[i].set = (struct ip_set){.family = i ? 6 : 4};
	}
	while (f.n > 0)
		take_line(models, feed_line(&f));
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		check_shape(&models[i].set);
		check_edges(&models[i]);
		check_print(&models[i].set);
		check_meets(&models[i]);
		ip_set_done(&models[i].set);
	}
	return 0;
}
