/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/network_annotation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/link.h"

enum { TEXT_MAX = 256 << 10 };

void net_select_done(struct net_select *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].ns);
		free(s->v[i].name);
		free(s->v[i].ifname);
	}
	free(s->v);
	json_free(s->doc);
	*s = (struct net_select){0};
}

static int bad_ifname(const char *name, struct err *e)
{
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"Failed to parse interface name: must be less than 15 chars and not contain "
		"'/' or spaces. interface name '%s'",
		name);
}

/* --- the list form of the annotation --- */

/* Returns whether the text has the form of a DNS label; its length is not limited. */
static bool is_label(const char *s)
{
	const char *const alnum = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!strchr(alnum, s[i]) && (s[i] != '-' || i == 0 || i == n - 1))
			return false;
	return n > 0;
}

static int mismatch(const char *word, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL,
			"Failed to parse: one or more items did not match comma-delimited format "
			"(must consist of lower case alphanumeric characters). Must start and end "
			"with an alphanumeric character), mismatch @ '%s'",
			word);
}

static int check_item(const struct network_request *a, struct err *e)
{
	if (!is_label(a->ns))
		return mismatch(a->ns, e);
	if (!is_label(a->name))
		return mismatch(a->name, e);
	return a->ifname && !link_name_ok(a->ifname) ? bad_ifname(a->ifname, e) : 0;
}

static size_t count(struct span s, char c)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == c;
	return n;
}

/* Parses "[ns/]name[@interface]". */
static int parse_item(struct span item, const char *pod_ns, struct network_request *ret,
		      struct err *e)
{
	struct span rest = item, ns, name;

	if (count(item, '/') > 1)
		return err_kind(e, ERR_CONF, -EINVAL, "Invalid network object (failed at '/')");
	if (count(item, '@') > 1)
		return err_kind(e, ERR_CONF, -EINVAL, "Invalid network object (failed at '@')");
	if (count(item, '/')) {
		span_cut(&rest, '/', &ns);
		ns = span_trim(ns);
		ret->ns = ns.n ? span_dup(ns) : xstrdup(pod_ns);
	} else {
		ret->ns = xstrdup(pod_ns);
	}
	span_cut(&rest, '@', &name);
	ret->name = span_dup(span_trim(name));
	rest = span_trim(rest);
	ret->ifname = rest.n ? span_dup(rest) : NULL;
	return check_item(ret, e);
}

static int parse_list(struct span text, const char *pod_ns, struct net_select *s, struct err *e)
{
	struct span item;
	int r = 0;

	while (r == 0 && s->n < NET_SELECT_MAX + 1 && span_cut(&text, ',', &item))
		r = parse_item(span_trim(item), pod_ns, &VEC_PUSH(s->v, s->n), e);
	return r < 0 ? err_wrap(e, r, "parsePodNetworkObjectName") : 0;
}

/* --- the JSON form of the annotation --- */

struct raw {
	const char *name, *ns, *ifname, *old_ifname, *mac, *guid, *device_id;
	struct json_strs ips, routes;
	const struct json *ports, *bandwidth, *cni_args;
};

#define FIELD(key, kind, member) JSON_FIELD(key, kind, struct raw, member)

static const struct json_field fields[] = {FIELD("name", J_STR, name),
					   FIELD("namespace", J_STR, ns),
					   FIELD("interface", J_STR, ifname),
					   FIELD("interfaceRequest", J_STR, old_ifname),
					   FIELD("mac", J_STR, mac),
					   FIELD("infiniband-guid", J_STR, guid),
					   FIELD("deviceID", J_STR, device_id),
					   FIELD("ips", J_STRS, ips),
					   FIELD("default-route", J_STRS, routes),
					   FIELD("portMappings", J_VAL, ports),
					   FIELD("bandwidth", J_VAL, bandwidth),
					   FIELD("cni-args", J_VAL, cni_args),
					   {0}};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int check_mac(const char *text, const char *place, const char *key, struct err *e)
{
	struct mac m;

	if (!text || mac_parse(span_of(text), &m) == 0)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s.%s is '%s', expected hardware address of 6, 8 or 20 bytes such as "
			"02:00:5e:10:00:01",
			place, key, text);
}

static int check_ips(const struct json_strs *l, const char *place, struct err *e)
{
	struct ipnet net;

	for (size_t i = 0; i < l->n; i++)
		if (ipnet_parse_loose(span_of(l->v[i]), &net) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"%s.ips[%zu] is '%s', expected an address such as 10.0.0.9 or "
				"10.0.0.9/24",
				place, i, l->v[i]);
	return 0;
}

static int check_routes(const struct json_strs *l, const char *place, struct err *e)
{
	struct ipaddr a;

	for (size_t i = 0; i < l->n; i++)
		if (ip_parse(span_of(l->v[i]), &a) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"%s.default-route[%zu] is '%s', expected a gateway's address",
				place, i, l->v[i]);
	return 0;
}

static int check_kind(const struct json *v, enum json_kind kind, const char *place, const char *key,
		      struct err *e)
{
	auto_free char *at = NULL;

	if (json_kind(v) == JSON_NULL || json_kind(v) == kind)
		return 0;
	at = xasprintf("%s.%s", place, key);
	return json_wants(v, at, kind == JSON_ARRAY ? "an array" : "an object", e);
}

static int check_name(const char *name, const char *place, const char *key, struct err *e)
{
	if (!name)
		return err_kind(e, ERR_CONF, -EINVAL, "%s has no '%s'", place, key);
	if (!strpbrk(name, "/@ \t\r\n"))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s.%s is '%s', expected the name of an object%s",
			place, key, name,
			strchr(name, '/') ? " (set the namespace with the key 'namespace')" : "");
}

static int check_raw(const struct raw *raw, const char *place, struct err *e)
{
	int r = check_name(str_if_set(raw->name), place, "name", e);

	if (r == 0 && str_if_set(raw->ns))
		r = check_name(raw->ns, place, "namespace", e);
	if (r == 0)
		r = check_mac(str_if_set(raw->mac), place, "mac", e);
	if (r == 0)
		r = check_mac(str_if_set(raw->guid), place, "infiniband-guid", e);
	if (r == 0)
		r = check_ips(&raw->ips, place, e);
	if (r == 0)
		r = check_routes(&raw->routes, place, e);
	if (r == 0)
		r = check_kind(raw->ports, JSON_ARRAY, place, "portMappings", e);
	if (r == 0)
		r = check_kind(raw->bandwidth, JSON_OBJECT, place, "bandwidth", e);
	return r < 0 ? r : check_kind(raw->cni_args, JSON_OBJECT, place, "cni-args", e);
}

static int parse_element(struct net_select *s, const struct json *v, const char *pod_ns,
			 const char *place, struct err *e)
{
	struct network_request *a = &VEC_PUSH(s->v, s->n);
	struct raw raw = {0};
	const char *ifname;
	int r;

	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	r = json_read(s->doc, v, &table, &raw, place, e);
	if (r == 0)
		r = check_raw(&raw, place, e);
	if (r < 0)
		return r;
	ifname = str_if_set(raw.ifname) ? raw.ifname : str_if_set(raw.old_ifname);
	*a = (struct network_request){.ns = xstrdup(str_if_set(raw.ns) ? raw.ns : pod_ns),
				      .name = xstrdup(raw.name),
				      .ifname = ifname ? xstrdup(ifname) : NULL,
				      .mac = str_if_set(raw.mac),
				      .guid = str_if_set(raw.guid),
				      .device_id = str_if_set(raw.device_id),
				      .ips = raw.ips,
				      .routes = raw.routes,
				      .ports = raw.ports,
				      .bandwidth = raw.bandwidth,
				      .cni_args = raw.cni_args};
	return ifname && !link_name_ok(ifname) ? bad_ifname(ifname, e) : 0;
}

static int parse_json(struct span text, const char *pod_ns, struct net_select *s, struct err *e)
{
	const char *const what = "failed to parse pod Network Attachment Selection Annotation JSON "
				 "format";
	int r = json_parse(&s->doc, text, TEXT_MAX, e);
	const struct json *v;
	struct json_walk w;

	if (r == 0 && json_kind(json_root(s->doc)) != JSON_ARRAY)
		r = json_wants(json_root(s->doc), "the annotation", "an array of networks", e);
	if (r < 0)
		return err_wrap(e, r, "%s", what);
	w = json_walk_start(json_root(s->doc));
	while (r == 0 && s->n < NET_SELECT_MAX + 1 && (v = json_walk_next(&w, NULL))) {
		auto_free char *place = xasprintf("[%zu]", s->n);

		r = parse_element(s, v, pod_ns, place, e);
	}
	return r;
}

int net_select_parse(const char *text, const char *pod_ns, struct net_select *ret, struct err *e)
{
	struct net_select s = {0};
	int r;

	if (!text || !*text) {
		*ret = s;
		return 0;
	}
	r = strpbrk(text, "[{\"") ? parse_json(span_of(text), pod_ns, &s, e)
				  : parse_list(span_of(text), pod_ns, &s, e);
	if (r == 0 && s.n > NET_SELECT_MAX)
		r = err_kind(e, ERR_CONF, -E2BIG, "more than %d networks", NET_SELECT_MAX);
	if (r < 0) {
		if (e)
			e->kind = ERR_CONF;
		net_select_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}
