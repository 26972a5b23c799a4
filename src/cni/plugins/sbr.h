/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_SBR_H
#define UNIRAIL_CNI_PLUGINS_SBR_H

/*
 * The sbr plugin: packets from an address of the interface are routed by the interface's routes.
 * For each address ADD makes a rule "from ADDRESS lookup T" and a table T with the default route
 * and the interface's routes, which move there from the main table. T is the first table from 100
 * on that neither a rule nor a route uses. The kernel chooses the priorities of the rules. The
 * netconf, keys matched as Go's encoding/json does:
 *
 *	table		ADD makes only the rules, for this table; the user maintains its routes
 *	gateways	at most one per family, used instead of prevResult's
 *	addSourceHints	the main table keeps the interface's link-scope routes, and gets
 *			"SUBNET dev IF src ADDRESS scope link" for each address (except /32
 *			and /128)
 */

#include "cni/plugins/chained.h"

enum { SBR_FIRST_TABLE = 100 };

struct sbr_conf {
	uint32_t table;		/* 0: not set */
	struct ipaddr gw4, gw6; /* family 0: the gateway in prevResult */
	bool hints;
};

struct sbr_facts {
	const char *ifname;
	int index;
	struct rule *rules;
	size_t n_rules;
	struct route *routes; /* all tables */
	size_t n_routes;
};

enum sbr_do {
	SBR_RULE_ADD,
	SBR_DEFAULT_ADD,
	/* adds the route, or replaces the one with the same destination and metric */
	SBR_ROUTE_PUT,
	SBR_ROUTE_DEL,
};

struct sbr_step {
	enum sbr_do what;
	struct rule rule;
	struct route route; /* route of the step; its hops are borrowed from the facts */
	bool has_old;	    /* SBR_ROUTE_PUT: the route that it replaces is in `old` */
	struct route old;
};

struct sbr_plan {
	/* the first n_adds steps add rules and routes, the others delete routes */
	struct sbr_step *steps;
	size_t n, n_adds;
};

/* An error of kind ERR_CONF names the invalid field. */
int sbr_conf_read(struct json_doc *d, const struct json *conf, struct sbr_conf *ret, struct err *e);

/* --- pure functions --- */
/* Sets *ret to the addresses in prevResult that belong to the interface or to no listed interface,
 * and returns the number of addresses; the caller frees *ret. */
size_t sbr_ips(const struct cni_result *prev, const char *ifname, struct cni_ip **ret);
/* Computes the steps of ADD; the caller frees ret->steps. */
void sbr_plan(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ips,
	      size_t n, struct sbr_plan *ret);
/* Fills ret, which has room for n_rules entries, with the rules that DEL removes: those of
 * c->table (0: of any table) whose source is one of the addresses, except rules that are
 * inverted or have conditions that struct rule does not contain. Returns their number. */
size_t sbr_rules_of(const struct sbr_conf *c, const struct rule *rules, size_t n_rules,
		    const struct ipaddr *ips, size_t n, const struct rule **ret);
/* Checks that each address still has its rule. Unless c->table is set, the rule's table must
 * have the route to the address's subnet (not required for /32 and /128) and, if the netconf or
 * prevResult has a gateway for the address, the default route through it. */
int sbr_check(const struct sbr_conf *c, const struct sbr_facts *f, const struct cni_ip *ips,
	      size_t n, struct err *e);

#endif
