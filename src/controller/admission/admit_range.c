/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds that have ranges share: one judge of them (ipam/pool/pool_spec.h), and sets of addresses. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/admission/admit_priv.h"
#include "ipam/pool/pool_spec.h"

/* Stands where the judge names the object, and is taken off again. */
#define NOWHERE "-"

static int judge(const struct admit_world *w, const char *name, const struct json *spec,
		 struct pool_set *set, struct err *e)
{
	struct pool_spec o = {NOWHERE, spec, w->agent_ns ? w->agent_ns : ""};
	struct pool_draft d = {.name = xstrdup(name), .where = xstrdup(NOWHERE)};
	int r = pool_spec_read(&o, &d, e);

	if (r == 0)
		return pool_set_add(set, &d, e);
	pool_draft_done(&d);
	return r;
}

int admit_pool_of(struct admit *a, const char *name, const struct json *spec, struct pool *ret)
{
	struct pool_set set = {0};
	struct err e = ERR_INIT;
	const char *text = e.text;
	int r = judge(a->world, *name ? name : "-", spec, &set, &e);

	if (r == 0) {
		*ret = set.v[0];
		free(set.v);
		return 0;
	}
	pool_set_done(&set);
	if (strncmp(text, NOWHERE ": ", strlen(NOWHERE ": ")) == 0)
		text += strlen(NOWHERE ": ");
	return admit_refuse(a, ADMIT_INVALID, "%s", text);
}

void admit_others(const struct admit *a, const struct json *const *list, size_t n, const char *kind,
		  struct pool_set *ret)
{
	bool same_kind = strcmp(kind, a->ask->kind) == 0;

	*ret = (struct pool_set){0};
	for (size_t i = 0; i < n; i++) {
		const char *name = admit_text(admit_meta(list[i], "name"));

		if (!same_kind || strcmp(name, a->ask->name) != 0)
			judge(a->world, name, json_get(list[i], "spec"), ret, NULL);
	}
}

static bool spans(const struct pool *p, const struct ipnet *net)
{
	if (p->gateway.family && !ipnet_contains(net, &p->gateway))
		return false;
	return !p->ips.n || (ipnet_contains(net, &p->ips.v[0].first) &&
			     ipnet_contains(net, &p->ips.v[p->ips.n - 1].last));
}

bool admit_narrower(const struct pool *p, struct ipnet *ret)
{
	int step = p->family == 4 ? 8 : 16, longest = p->family == 4 ? 24 : 64;
	struct ipnet net;

	if (!p->ips.n && !p->gateway.family)
		return false;
	net.ip = p->ips.n ? p->ips.v[0].first : p->gateway;
	for (int len = longest; len > p->subnet.len; len -= step) {
		net.len = (uint8_t)len;
		if (!spans(p, &net))
			continue;
		*ret = ipnet_network(&net);
		return true;
	}
	return false;
}

void admit_overlap_hint(const struct pool *p, const struct pool *other, struct buf *ret)
{
	char text[IP_TEXT_MAX];
	struct ipnet net;

	if (admit_narrower(p, &net) && !ipnet_overlaps(&net, &other->subnet))
		buf_printf(ret, "; did you mean %s?", ipnet_str(&net, text));
	else if (admit_narrower(other, &net) && !ipnet_overlaps(&net, &p->subnet))
		buf_printf(ret, "; did you mean %s? (for %s, whose addresses are all in it)",
			   ipnet_str(&net, text), other->name);
}

int admit_check_family(struct admit *a, uint8_t family)
{
	if (family == 4 ? !a->world->no_ipv4 : !a->world->no_ipv6)
		return 0;
	return admit_refuse(a, ADMIT_FORBIDDEN,
			    "spec.ipVersion: IPv%u is disabled: switch it on in the settings "
			    "(enableIPv%u) of controller and agents",
			    family, family);
}

static bool same_net(const char *a, const char *b)
{
	struct ipnet x, y;

	if (ipnet_parse(span_of(a), &x) < 0 || ipnet_parse(span_of(b), &y) < 0)
		return strcmp(a, b) == 0;
	x = ipnet_network(&x);
	y = ipnet_network(&y);
	return ipnet_eq(&x, &y);
}

int admit_check_fixed(struct admit *a)
{
	const struct json *is = json_get(a->ask->object, "spec");
	const struct json *was = json_get(a->ask->old, "spec");
	const char *subnet = admit_text(json_get(is, "subnet"));
	const char *old = admit_text(json_get(was, "subnet"));

	if (*old && !same_net(subnet, old))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.subnet: is not changeable: it was '%.60s'; make another "
				    "%s for '%.60s'",
				    old, a->ask->kind, subnet);
	if (json_kind(json_get(was, "ipVersion")) != JSON_NULL &&
	    !json_same(json_get(is, "ipVersion"), json_get(was, "ipVersion")))
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.ipVersion: is not changeable: make another %s",
				    a->ask->kind);
	return 0;
}

void admit_ranges(const struct ip_set *s, struct buf *ret)
{
	enum { TEXT_MAX = 300 };
	auto_buf struct buf text;
	const char *comma;

	buf_init(&text, TEXT_MAX);
	ip_set_str(s, &text);
	buf_char(ret, '[');
	for (const char *p = text.len ? text.p : ""; *p; p = comma + 2) {
		comma = strstr(p, ", ");
		buf_add(ret, p, comma ? (size_t)(comma - p) : strlen(p));
		if (!comma)
			break;
		buf_char(ret, ' ');
	}
	buf_str(ret, text.over ? "...]" : "]");
}

void admit_set_copy(const struct ip_set *s, struct ip_set *ret)
{
	*ret = (struct ip_set){.family = s->family};
	for (size_t i = 0; i < s->n; i++)
		VEC_PUSH(ret->v, ret->n) = s->v[i];
}

void admit_set_common(const struct ip_set *a, const struct ip_set *b, struct ip_set *ret)
{
	struct ip_set rest;

	admit_set_copy(a, &rest);
	ip_set_minus(&rest, b);
	admit_set_copy(a, ret);
	ip_set_minus(ret, &rest);
	ip_set_done(&rest);
}

/* --- what is contended --- */

static bool has_ranges(const char *kind)
{
	return strcmp(kind, "SpiderIPPool") == 0 || strcmp(kind, "SpiderSubnet") == 0;
}

bool admit_is_contended(const struct admit_ask *q)
{
	static const char *const keys[] = {"subnet", "ips", "excludeIPs"};

	if (!has_ranges(q->kind) || q->operation == ADMIT_DELETE)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (q->operation == ADMIT_CREATE ||
		    !json_same(json_get(json_get(q->object, "spec"), keys[i]),
			       json_get(json_get(q->old, "spec"), keys[i])))
			return true;
	return false;
}
