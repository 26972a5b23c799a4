/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/coordinator_settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/ini.h"
#include "base/log.h"
#include "base/num.h"
#include "base/option.h"
#include "base/path.h"

enum { FILE_MAX = 64 << 10, LIST_MAX = 256 };

struct reading {
	struct coordinator_settings *s;
	const struct setting *at;
	struct err *e;
	int r;
};

typedef int (*setting_fn)(struct reading *p, void *to, const char *value);

struct setting {
	const char *key;
	setting_fn read;
	size_t offset;
	int64_t min, max;
};

static int wants(struct reading *p, const char *value, const char *what)
{
	return err_kind(p->e, ERR_CONF, -EINVAL, "%s is '%.200s', expected %s", p->at->key, value,
			what);
}

/* --- kinds of values --- */

static void set_text(char **to, const char *value)
{
	free(*to);
	*to = xstrdup(value);
}

static int take_mode(struct reading *p, void *to, const char *value)
{
	static const char *const modes[] = {"auto", "underlay", "overlay", "disabled"};

	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (strcmp(value, modes[i]) == 0) {
			set_text(to, value);
			return 0;
		}
	return wants(p, value, "auto, underlay, overlay or disabled");
}

/* Sets the prefix: "", or two bytes such as "0a:1b" of a unicast MAC, whose first byte is even. */
static int take_prefix(struct reading *p, void *to, const char *value)
{
	uint64_t a, b;

	if (*value && (strlen(value) != 5 || (value[2] != ':' && value[2] != '-') ||
		       num_hex((struct span){value, 2}, 255, &a) < 0 ||
		       num_hex((struct span){value + 3, 2}, 255, &b) < 0 || a & 1))
		return wants(p, value, "two bytes of a unicast MAC, such as 0a:1b");
	set_text(to, value);
	return 0;
}

static int take_nic(struct reading *p, void *to, const char *value)
{
	if (strlen(value) > 15 || strpbrk(value, "/ \t"))
		return wants(p, value, "the name of an interface");
	set_text(to, value);
	return 0;
}

static int take_address(struct reading *p, void *to, const char *value)
{
	struct ipaddr a;

	if (*value && ip_parse(span_of(value), &a) < 0)
		return wants(p, value, "an IP address");
	set_text(to, value);
	return 0;
}

static int add_to(struct reading *p, struct text_list *l, char *text)
{
	if (l->n >= LIST_MAX) {
		free(text);
		return err_kind(p->e, ERR_CONF, -E2BIG, "%s has more than %d entries", p->at->key,
				LIST_MAX);
	}
	VEC_PUSH(l->v, l->n) = text;
	return 0;
}

/* An address without a prefix length gets /32 or /128, as in Spiderpool's webhook. */
static char *net_text(struct span text)
{
	char out[IP_TEXT_MAX];
	struct ipnet net;

	if (ipnet_parse_loose(text, &net) < 0)
		return NULL;
	return xstrdup(ipnet_str(&net, out));
}

static int take_nets(struct reading *p, void *to, const char *value)
{
	struct span rest = span_of(value), one;
	int r = 0;

	while (r == 0 && span_cut(&rest, ',', &one)) {
		char *text;

		one = span_trim(one);
		if (one.n == 0)
			continue;
		text = net_text(one);
		r = text ? add_to(p, to, text) : wants(p, value, "CIDRs");
	}
	return r;
}

static int take_route(struct reading *p, void *to, const char *value)
{
	struct coordinator_settings *s = to;
	const char *via = strstr(value, " via ");
	struct span dst, gw;
	struct ipaddr a;
	char *text;
	int r;

	if (!via)
		return wants(p, value, "'DST via GATEWAY'");
	dst = span_trim((struct span){value, (size_t)(via - value)});
	gw = span_trim(span_of(via + 5));
	text = net_text(dst);
	if (!text || ip_parse(gw, &a) < 0) {
		free(text);
		return wants(p, value, "'DST via GATEWAY'");
	}
	r = add_to(p, &s->route_dst, text);
	return r < 0 ? r : add_to(p, &s->route_gw, span_dup(gw));
}

static int take_bool(struct reading *p, void *to, const char *value)
{
	int v;

	if (num_bool(span_of(value), &v) < 0)
		return wants(p, value, "yes or no");
	*(bool *)to = v;
	return 0;
}

static int take_int(struct reading *p, void *to, const char *value)
{
	int64_t v;

	if (num_i64(span_of(value), p->at->min, p->at->max, &v) < 0)
		return err_kind(p->e, ERR_CONF, -EINVAL, "%s is '%.200s', expected %lld to %lld",
				p->at->key, value, (long long)p->at->min, (long long)p->at->max);
	*(int64_t *)to = v;
	return 0;
}

#define AT(member) offsetof(struct coordinator_settings, member)

static const struct setting table[] = {
	{"mode", take_mode, AT(mode), 0, 0},
	{"overlayPodCIDR", take_nets, AT(overlay), 0, 0},
	{"serviceCIDR", take_nets, AT(service), 0, 0},
	{"hijackCIDR", take_nets, AT(hijack), 0, 0},
	{"policyRoutes", take_route, 0, 0, 0},
	{"podMACPrefix", take_prefix, AT(mac_prefix), 0, 0},
	{"tunePodRoutes", take_bool, AT(tune), 0, 0},
	{"podDefaultRouteNIC", take_nic, AT(default_nic), 0, 0},
	{"hostRuleTable", take_int, AT(rule_table), 1, UINT32_MAX},
	{"podRPFilter", take_int, AT(rp_filter), -1, 2},
	{"txQueueLen", take_int, AT(queue_len), 0, INT32_MAX},
	{"vethLinkAddress", take_address, AT(veth_address), 0, 0},
	{"vethMTU", take_int, AT(veth_mtu), 68, 65535},
};

/* --- the settings file --- */

static const struct setting *find(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcasecmp(table[i].key, key) == 0)
			return &table[i];
	return NULL;
}

static int unknown(const char *key, struct err *e)
{
	const char *names[ARRAY_LEN(table)];

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		names[i] = table[i].key;
	return ini_unknown_key(key, names, ARRAY_LEN(names), e);
}

/* Sets the value of one key of the file or of a SpiderCoordinator; a list key appends. -ENOENT:
 * no such key, e is unchanged. */
static int coordinator_settings_put(struct coordinator_settings *s, const char *key,
				    const char *value, struct err *e)
{
	struct reading p = {.s = s, .at = find(key), .e = e};

	return p.at ? p.at->read(&p, (char *)s + p.at->offset, value) : -ENOENT;
}

static int on_pair(void *arg, const struct ini_at *at, const char *key, const char *value,
		   struct err *e)
{
	int r;

	if (strcmp(at->section, "agent") == 0) /* the section of agent/conf.c */
		return 0;
	if (strcmp(at->section, "coordinator") != 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"section '%.100s' is not known, expected 'coordinator' or 'agent'",
				at->section);
	r = coordinator_settings_put(arg, key, value, e);
	return r == -ENOENT ? unknown(key, e) : r;
}

void coordinator_settings_init(struct coordinator_settings *s)
{
	*s = (struct coordinator_settings){.mode = xstrdup("auto"),
					   .mac_prefix = xstrdup(""),
					   .default_nic = xstrdup(""),
					   .veth_address = xstrdup(""),
					   .tune = true,
					   .rule_table = 500,
					   .veth_mtu = 1500};
}

int coordinator_settings_read(const struct root *r, const char *path,
			      struct coordinator_settings *ret, struct err *e)
{
	static const struct ini_ops ops = {.pair = on_pair};
	struct coordinator_settings s;
	auto_buf struct buf b;
	int n;

	coordinator_settings_init(&s);
	buf_init(&b, FILE_MAX);
	n = file_read(r, path, FILE_MAX, &b, e);
	if (n == -ENOENT) {
		err_clear(e);
		n = 0;
	} else if (n >= 0) {
		n = ini_read(buf_span(&b), path_base(path), &ops, &s, e);
	}
	if (n < 0) {
		coordinator_settings_done(&s);
		return n;
	}
	*ret = s;
	return 0;
}

void coordinator_settings_done(struct coordinator_settings *s)
{
	struct text_list *lists[] = {&s->overlay, &s->service, &s->hijack, &s->route_dst,
				     &s->route_gw};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		str_list_free(lists[i]->v, lists[i]->n);
	free(s->mode);
	free(s->mac_prefix);
	free(s->default_nic);
	free(s->veth_address);
	*s = (struct coordinator_settings){0};
}

/* --- conversion of the settings to the configuration of the coordinator plugin --- */

static void put_routes(struct json_out *o, const struct coordinator_settings *s)
{
	jo_key(o, "policyRoutes");
	jo_arr(o);
	for (size_t i = 0; i < s->route_dst.n; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", s->route_dst.v[i]);
		jo_kstr(o, "gw", s->route_gw.v[i]);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/* Omits 0, as Go's omitempty. */
static void put_int(struct json_out *o, const char *key, int64_t v)
{
	if (v)
		jo_kint(o, key, v);
}

static void put_text(struct json_out *o, const char *key, const char *v)
{
	if (*v)
		jo_kstr(o, key, v);
}

void coordinator_settings_json(const struct coordinator_settings *s, struct json_out *o)
{
	jo_obj(o);
	jo_kstrs(o, "hijackCIDR", s->hijack.v, s->hijack.n);
	put_int(o, "hostRuleTable", s->rule_table);
	jo_kstr(o, "mode", s->mode);
	jo_kstrs(o, "overlayPodCIDR", s->overlay.v, s->overlay.n);
	put_text(o, "podDefaultRouteNIC", s->default_nic);
	put_text(o, "podMACPrefix", s->mac_prefix);
	put_int(o, "podRPFilter", s->rp_filter);
	put_routes(o, s);
	jo_kstrs(o, "serviceCIDR", s->service.v, s->service.n);
	jo_kbool(o, "tunePodRoutes", s->tune);
	put_int(o, "txQueueLen", s->queue_len);
	put_text(o, "vethLinkAddress", s->veth_address);
	put_int(o, "vethMTU", s->veth_mtu);
	jo_end_obj(o);
}

/* --- reading a SpiderCoordinator: each value becomes text as in the settings file --- */

static int wrong(const struct json *v, const char *place, struct err *e)
{
	return json_wants(v, place, "a string, an integer, true or false", e);
}

/* Appends the value to `ret` as in the settings file. */
static int value_text(const struct json *v, const char *place, struct buf *ret, struct err *e)
{
	int64_t n;

	switch (json_kind(v)) {
	case JSON_STRING: buf_str(ret, json_string(v)); return 0;
	case JSON_BOOL: buf_str(ret, json_bool(v) ? "yes" : "no"); return 0;
	case JSON_NUMBER:
		if (json_int(v, &n) < 0)
			return wrong(v, place, e);
		buf_printf(ret, "%lld", (long long)n);
		return 0;
	case JSON_OBJECT: break;
	default: return wrong(v, place, e);
	}
	if (!json_string(json_get(v, "dst")) || !json_string(json_get(v, "gw")))
		return json_wants(v, place, "an object with the strings 'dst' and 'gw'", e);
	buf_printf(ret, "%s via %s", json_string(json_get(v, "dst")),
		   json_string(json_get(v, "gw")));
	return 0;
}

static int put(struct coordinator_settings *s, const char *key, const struct json *v,
	       const char *place, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, 4096);
	r = value_text(v, place, &text, e);
	if (r < 0)
		return r;
	/* Writes -1 for every negative number, since all have the same meaning. */
	if (strcmp(key, "podRPFilter") == 0 && text.len && *text.p == '-')
		r = coordinator_settings_put(s, key, "-1", e);
	else
		r = coordinator_settings_put(s, key, text.len ? text.p : "", e);
	/* The CRD has further fields for other readers (podCIDRType, phase, reason): ignore
	 * them. */
	return r == -ENOENT ? 0 : r;
}

static int put_all(struct coordinator_settings *s, const struct json *object, const char *part,
		   struct err *e)
{
	struct json_walk w = json_walk_start(json_get(object, part)), list;
	const struct json *v, *item;
	const char *key;
	int r = 0;

	while (r == 0 && (v = json_walk_next(&w, &key))) {
		auto_free char *place = xasprintf("%s.%s", part, key);

		if (json_kind(v) == JSON_NULL)
			continue;
		if (json_kind(v) != JSON_ARRAY) {
			r = put(s, key, v, place, e);
			continue;
		}
		list = json_walk_start(v);
		while (r == 0 && (item = json_walk_next(&list, NULL)))
			r = put(s, key, item, place, e);
	}
	return r < 0 ? err_wrap(e, r, "%s", part) : 0;
}

static void say_phase(const struct json *object)
{
	const struct json *status = json_get(object, "status");
	const char *phase = json_string(json_get(status, "phase"));
	const char *reason = json_string(json_get(status, "reason"));

	if (phase && strcmp(phase, "Synced") != 0)
		log_warn("the SpiderCoordinator is not Synced: using the CIDRs in its status",
			 LOG_S("phase", phase), LOG_S("reason", reason ? reason : ""));
}

int coordinator_settings_object(const struct json *object, struct coordinator_settings *ret,
				struct err *e)
{
	struct coordinator_settings s;
	int r;

	coordinator_settings_init(&s);
	r = put_all(&s, object, "spec", e);
	if (r == 0)
		r = put_all(&s, object, "status", e);
	if (r < 0) {
		coordinator_settings_done(&s);
		return r;
	}
	say_phase(object);
	*ret = s;
	return 0;
}
