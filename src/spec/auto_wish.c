/* SPDX-License-Identifier: Apache-2.0 */
/* What an application's template says of its pools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "spec/auto_pool.h"
#include "wire/json/json.h"

enum { NOTE_MAX = 64 << 10, NICS_MAX = 64, NUMBER_MAX = 1 << 20 };

struct raw {
	const char *ifname;
	struct json_strs v4, v6;
};

static const struct json_field fields[] = {{"interface", J_STR,
					    .offset = offsetof(struct raw, ifname)},
					   {"ipv4", J_STRS, .offset = offsetof(struct raw, v4)},
					   {"ipv6", J_STRS, .offset = offsetof(struct raw, v6)},
					   {0}};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

void auto_wish_done(struct auto_wish *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->v[i].ifname);
		free(w->v[i].subnet4);
		free(w->v[i].subnet6);
	}
	free(w->v);
	*w = (struct auto_wish){0};
}

static char *first_of(const struct json_strs *l)
{
	return l->n && *l->v[0] ? xstrdup(l->v[0]) : NULL;
}

static int add_nic(struct json_doc *d, const struct json *v, const char *place, struct auto_wish *w,
		   struct err *e)
{
	struct raw raw = {0};
	struct auto_nic *nic;
	int r;

	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	r = json_read(d, v, &table, &raw, place, e);
	if (r < 0)
		return r;
	nic = &VEC_PUSH(w->v, w->n);
	nic->subnet4 = first_of(&raw.v4);
	nic->subnet6 = first_of(&raw.v6);
	nic->ifname = xstrdup(raw.ifname && *raw.ifname ? raw.ifname : "eth0");
	if (!nic->subnet4 && !nic->subnet6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s names no subnet: wants \"ipv4\":[\"NAME\"], or \"ipv6\"",
				place);
	for (size_t i = 0; i + 1 < w->n; i++)
		if (!strcmp(w->v[i].ifname, nic->ifname))
			return err_kind(e, ERR_CONF, -EINVAL,
					"it's invalid to use the same Interface name for multiple "
					"interfaces: %s",
					nic->ifname);
	return 0;
}

/* An object in place of a list of one, and the other way round, is taken as meant. */
static int read_nics(struct json_doc *d, struct auto_wish *w, struct err *e)
{
	const struct json *root = json_root(d), *v;
	struct json_walk walk = json_walk_start(root);
	int r = 0;

	if (json_kind(root) != JSON_ARRAY)
		return add_nic(d, root, "it", w, e);
	while (r == 0 && w->n < NICS_MAX && (v = json_walk_next(&walk, NULL))) {
		auto_free char *place = xasprintf("[%zu]", w->n);

		r = add_nic(d, v, place, w, e);
	}
	if (r == 0 && w->n == 0)
		r = err_kind(e, ERR_CONF, -EINVAL, "it is an empty list");
	return r;
}

static int read_note(const char *key, const char *text, struct auto_wish *w, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	int r = json_parse(&d, span_of(text), NOTE_MAX, e);

	if (r == 0)
		r = read_nics(d, w, e);
	if (r < 0 && e) {
		e->kind = ERR_CONF;
		err_wrap(e, r, "failed to parse anntation '%s' value '%.200s', error", key, text);
	}
	return r;
}

static int read_number(const struct labels *l, struct auto_wish *w, struct err *e)
{
	const char *text = labels_get(l, AUTO_POOL_NUMBER);
	struct span s = span_trim(span_of(text));
	uint64_t n;

	if (!text)
		return 0;
	if (span_has_prefix(s, "-"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation '" AUTO_POOL_NUMBER
				"': subnet '%s' value must equal or greater than 0",
				text);
	w->fixed = !span_has_prefix(s, "+");
	if (!w->fixed)
		s = (struct span){s.p + 1, s.n - 1};
	if (num_u64(s, 0, NUMBER_MAX, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation '" AUTO_POOL_NUMBER
				"': invalid input '%s', wants a number of addresses such as 5, or "
				"+2 beyond the pods",
				text);
	w->number = (uint32_t)n;
	return 0;
}

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, words[i]))
			return true;
	return false;
}

/* As Go's strconv.ParseBool. */
static int read_reclaim(const struct labels *l, struct auto_wish *w, struct err *e)
{
	static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
	static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
	const char *text = labels_get(l, AUTO_POOL_RECLAIM);

	if (!text || is_one_of(text, yes, ARRAY_LEN(yes)))
		return 0;
	if (!is_one_of(text, no, ARRAY_LEN(no)))
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation '" AUTO_POOL_RECLAIM
				"' is '%s', wants \"true\" or \"false\"",
				text);
	w->reclaim = false;
	return 0;
}

int auto_wish_read(const struct labels *l, uint32_t more, struct auto_wish *ret, struct err *e)
{
	const char *many = labels_get(l, AUTO_POOL_SUBNETS);
	const char *one = labels_get(l, AUTO_POOL_SUBNET);
	struct auto_wish w = {.single = !many, .number = more, .reclaim = true};
	int r;

	if (!many && !one)
		return 0;
	r = read_note(many ? AUTO_POOL_SUBNETS : AUTO_POOL_SUBNET, many ? many : one, &w, e);
	if (r == 0 && w.single && w.n > 1)
		w.single = false; /* a list in `subnet` */
	if (r == 0)
		r = read_number(l, &w, e);
	if (r == 0)
		r = read_reclaim(l, &w, e);
	if (r < 0) {
		auto_wish_done(&w);
		return r;
	}
	*ret = w;
	return 1;
}
