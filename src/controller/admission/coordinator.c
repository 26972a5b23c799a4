/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults and validation of a SpiderCoordinator; validation of the same settings in a
 * SpiderMultusConfig. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "controller/admission/internal.h"
#include "spec/multusconfig.h"

enum { IFNAME_MAX = 15 };

/* --- defaults of a SpiderCoordinator --- */

void admit_default_coordinator(struct admit *a, struct json_tree *object)
{
	struct json_tree *spec = json_tree_member_object(object, "spec");

	(void)a;
	admit_drop_finalizer(object);
	coordinator_complete(spec);
}

/* --- checks of a SpiderCoordinator --- */

struct reading {
	struct admit *a;
	const struct json *spec;
	const char *place;
};

static int denied(struct admit *a, int r, const struct err *e)
{
	if (r < 0)
		return admit_refuse(a, r == -ENOTSUP ? ADMIT_NOT_SUPPORTED : ADMIT_INVALID, "%s",
				    e->text);
	return 0;
}

int admit_check_choices(struct admit *a, const struct json *v, const char *block, const char *place)
{
	struct err e = ERR_INIT;

	return denied(a, multus_check_choices(v, block, place, &e), &e);
}

int admit_check_numbers(struct admit *a, const struct json *v, const char *block, const char *place)
{
	struct err e = ERR_INIT;

	return denied(a, multus_check_numbers(v, block, place, &e), &e);
}

static int check_nets(const struct reading *r)
{
	struct json_walk w = json_walk_start(json_get(r->spec, "hijackCIDR"));
	const struct json *v;
	struct ipnet net;

	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++)
		if (ipnet_parse_loose(span_of(json_text(v)), &net) < 0)
			return admit_refuse(
				r->a, ADMIT_INVALID,
				"%s.hijackCIDR[%zu]: '%.60s' is not an address or a CIDR such as "
				"10.6.0.0/16",
				r->place, i, json_text(v));
	return 0;
}

static int check_route(const struct reading *r, const struct json *v, size_t i)
{
	const char *dst = json_text(json_get(v, "dst")), *gw = json_text(json_get(v, "gw"));
	struct ipaddr via;
	struct ipnet net;

	if (ipnet_parse_loose(span_of(dst), &net) < 0)
		return admit_refuse(r->a, ADMIT_INVALID,
				    "%s.policyRoutes[%zu].dst: '%.60s' is not an address or a CIDR "
				    "such as 10.6.0.0/16",
				    r->place, i, dst);
	if (ip_parse(span_of(gw), &via) < 0)
		return admit_refuse(r->a, ADMIT_INVALID,
				    "%s.policyRoutes[%zu].gw: '%.60s' is not an address", r->place,
				    i, gw);
	if (via.family != net.ip.family)
		return admit_refuse(r->a, ADMIT_INVALID,
				    "%s.policyRoutes[%zu].gw: '%.60s' is not IPv%u as the "
				    "destination '%.60s' is",
				    r->place, i, gw, net.ip.family, dst);
	return 0;
}

static int check_routes(const struct reading *r)
{
	struct json_walk w = json_walk_start(json_get(r->spec, "policyRoutes"));
	const struct json *v;
	int n = 0;

	for (size_t i = 0; n == 0 && (v = json_walk_next(&w, NULL)); i++)
		n = check_route(r, v, i);
	return n;
}

static int check_texts(const struct reading *r)
{
	const char *mac = json_text(json_get(r->spec, "podMACPrefix"));
	const char *address = json_text(json_get(r->spec, "vethLinkAddress"));
	const char *nic = json_text(json_get(r->spec, "podDefaultRouteNIC"));
	uint64_t first, second;
	struct ipaddr ip;

	if (*mac && (strlen(mac) != 5 || (mac[2] != ':' && mac[2] != '-') ||
		     num_hex((struct span){mac, 2}, 0xff, &first) < 0 ||
		     num_hex((struct span){mac + 3, 2}, 0xff, &second) < 0 || first & 1))
		return admit_refuse(
			r->a, ADMIT_INVALID,
			"%s.podMACPrefix: '%.60s' is not a MAC prefix: expected the first "
			"two bytes of a unicast MAC (the first even), such as 0a:1b",
			r->place, mac);
	if (*address && ip_parse(span_of(address), &ip) < 0)
		return admit_refuse(r->a, ADMIT_INVALID,
				    "%s.vethLinkAddress: '%.60s' is not an address such as "
				    "169.254.100.1",
				    r->place, address);
	if (strlen(nic) > IFNAME_MAX || strpbrk(nic, "/ \t"))
		return admit_refuse(r->a, ADMIT_INVALID,
				    "%s.podDefaultRouteNIC: '%.60s' is not an interface name",
				    r->place, nic);
	return 0;
}

int admit_check_coordinator_spec(struct admit *a, const struct json *spec, const char *place)
{
	const struct reading r = {a, spec, place};
	int n = admit_check_choices(a, spec, "coordinator", place);

	if (n == 0)
		n = check_nets(&r);
	if (n == 0)
		n = check_routes(&r);
	if (n == 0)
		n = check_texts(&r);
	return n == 0 ? admit_check_numbers(a, spec, "coordinator", place) : n;
}

int admit_check_coordinator(struct admit *a)
{
	const struct json *spec = json_get(a->request->object, "spec");

	if (a->request->operation == ADMIT_DELETE || admit_is_going(a->request->object))
		return 0;
	if (!json_string(json_get(spec, "podCIDRType")))
		return admit_refuse(a, ADMIT_REQUIRED,
				    "spec.podCIDRType: is missing: expected auto, cluster, calico, "
				    "cilium or none (auto is right for most clusters)");
	return admit_check_coordinator_spec(a, spec, "spec");
}
