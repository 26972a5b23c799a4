/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/steps.h"

enum { TEXT_MAX = 512, TABLE_DEFAULT = 253, PRIORITY_MAX = 32765 };

#define ADD "rule-add"
#define DEL "rule-del"

static const struct opt keys[] = {
	{"cidr", 0, OPT_STR, "CIDR",
	 "IPv4 destinations of RDMA traffic; all other destinations use `table`",
	 offsetof(struct host_rule_want, cidr), 0, 0},
	{"cidr6", 0, OPT_STR, "CIDR",
	 "IPv6 destinations of RDMA traffic; all other destinations use `table`",
	 offsetof(struct host_rule_want, cidr6), 0, 0},
	{"table", 0, OPT_STR, "TABLE", "routing table for other destinations (main)",
	 offsetof(struct host_rule_want, table), 0, 0},
	{"priority", 0, OPT_INT, "N", "priority of the rule (2000)",
	 offsetof(struct host_rule_want, priority), 1, PRIORITY_MAX},
	{0},
};
static const char *const env[] = {"RDMA_CIDR", NULL, NULL, NULL, NULL};

/* --- rules as text and as operations --- */

/* Parses a table: "main", "local", "default" or a number; otherwise -EINVAL. */
static int host_table_parse(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t n = 0;

	if (strcmp(text, "main") == 0)
		n = TABLE_MAIN;
	else if (strcmp(text, "local") == 0)
		n = TABLE_LOCAL;
	else if (strcmp(text, "default") == 0)
		n = TABLE_DEFAULT;
	else if (num_u64(span_of(text), 1, UINT32_MAX, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"table '%s' is neither main, local, default nor a number 1 to %u",
				text, UINT32_MAX);
	*ret = (uint32_t)n;
	return 0;
}

const char *host_table_name(uint32_t table)
{
	static char text[16];

	snprintf(text, sizeof(text), "%u", table);
	return table == TABLE_MAIN	? "main"
	       : table == TABLE_LOCAL	? "local"
	       : table == TABLE_DEFAULT ? "default"
					: text;
}

static void put_prefix(struct buf *b, const struct ipnet *net)
{
	char text[IP_TEXT_MAX];

	buf_str(b, net->len == ip_bits(&net->ip) ? ip_str(&net->ip, text) : ipnet_str(net, text));
}

/* Returns a rule as `ip rule` prints it, without its priority: "not from all to 172.16.0.0/16
 * lookup main". " ..." at the end: the rule has conditions that struct rule does not contain.
 * The caller frees the text. */
static char *rule_describe(const struct rule *r)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_str(&b, r->invert ? "not from " : "from ");
	if (r->src.ip.family)
		put_prefix(&b, &r->src);
	else
		buf_str(&b, "all");
	if (r->dst.ip.family) {
		buf_str(&b, " to ");
		put_prefix(&b, &r->dst);
	}
	if (r->mark)
		buf_printf(&b, " fwmark 0x%x/0x%x", r->mark, r->mask);
	if (r->iif[0])
		buf_printf(&b, " iif %s", r->iif);
	buf_printf(&b, " lookup %s", host_table_name(r->table));
	if (r->more)
		buf_str(&b, " ...");
	return buf_take(&b);
}

static void put_net(struct host_op *op, const char *key, const struct ipnet *net)
{
	char text[IP_TEXT_MAX];

	if (net->ip.family)
		host_op_add(op, key, "%s", ipnet_str(net, text));
}

/* Adds the arguments of a rule to an operation. */
static void host_rule_put(struct host_op *op, const struct rule *r)
{
	host_op_add(op, "family", "%u", r->family);
	if (r->invert)
		host_op_add(op, "not", "yes");
	put_net(op, "from", &r->src);
	put_net(op, "to", &r->dst);
	host_op_add(op, "table", "%u", r->table);
	host_op_add(op, "priority", "%u", r->priority);
}

static int take_net(const struct host_op *op, const char *key, struct ipnet *ret, struct err *e)
{
	const char *text = host_op_get(op, key);

	if (text && ipnet_parse(span_of(text), ret) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "operation '%s': %s '%s' is not a CIDR",
				op->verb, key, text);
	return 0;
}

/* Parses the arguments of a rule from an operation. */
static int host_rule_take(const struct host_op *op, struct rule *ret, struct err *e)
{
	struct rule rule = {.has_priority = true};
	uint64_t family, table, priority;
	int r = host_op_number(op, "family", 4, 6, &family, e);

	if (r >= 0)
		r = host_op_number(op, "table", 1, UINT32_MAX, &table, e);
	if (r >= 0)
		r = host_op_number(op, "priority", 0, UINT32_MAX, &priority, e);
	if (r >= 0)
		r = take_net(op, "from", &rule.src, e);
	if (r >= 0)
		r = take_net(op, "to", &rule.dst, e);
	if (r < 0)
		return r;
	rule.family = (uint8_t)family;
	rule.table = (uint32_t)table;
	rule.priority = (uint32_t)priority;
	rule.invert = host_op_get(op, "not") != NULL;
	*ret = rule;
	return 0;
}

static void rule_command(struct host_step *s, const char *verb, const struct rule *r)
{
	auto_free char *desc = rule_describe(r);
	const char *to = strstr(desc, " to "), *all = strstr(desc, "from all");

	/* `ip rule add` accepts "not to X"; `ip rule` prints it as "not from all to X". */
	if (all && to)
		host_step_command(s, "ip %srule %s %s%s priority %u", r->family == 6 ? "-6 " : "",
				  verb, r->invert ? "not " : "", to + 1, r->priority);
	else
		host_step_command(s, "ip %srule %s %s priority %u", r->family == 6 ? "-6 " : "",
				  verb, desc, r->priority);
}

static void plan_rule(struct host_plan *p, const char *kind, const char *subject,
		      const struct rule *r, bool add)
{
	struct host_step *s = host_plan_add(p, kind, subject);
	auto_free char *desc = rule_describe(r);
	auto_free char *there = xasprintf("rule %u: %s", r->priority, desc);
	auto_free char *absent = xasprintf("no rule %u", r->priority);

	host_step_text(s, add ? absent : there, add ? there : absent);
	rule_command(s, add ? "add" : "del", r);
	host_op_begin(&s->action, add ? ADD : DEL);
	host_rule_put(&s->action, r);
	host_op_begin(&s->undo, add ? DEL : ADD);
	host_rule_put(&s->undo, r);
}

void host_plan_rule_add(struct host_plan *p, const char *kind, const char *subject,
			const struct rule *r)
{
	plan_rule(p, kind, subject, r, true);
}

void host_plan_rule_del(struct host_plan *p, const char *kind, const char *subject,
			const struct rule *r)
{
	plan_rule(p, kind, subject, r, false);
}

int host_rule_act(struct host *h, const struct host_op *op, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	bool add = strcmp(op->verb, ADD) == 0;
	struct nl_wire *w;
	struct rule rule;
	int r;

	if (!add && strcmp(op->verb, DEL) != 0)
		return 0;
	r = host_rule_take(op, &rule, e);
	if (r >= 0)
		r = host_route_wire(h, &w, e);
	if (r < 0)
		return r;
	if (add)
		rule_add(b, &rule, NL_OK_EXIST);
	else
		rule_del(b, &rule);
	r = nl_batch_commit(w, b, e);
	return r < 0 ? r : 1;
}

/* --- kind rule --- */

static void init(void *want)
{
	struct host_rule_want *w = want;

	w->table = "main";
	w->priority = HOST_RULE_PRIORITY;
}

static int check_cidr(const char *key, const char *text, uint8_t family, struct err *e)
{
	struct ipnet net;

	if (!text)
		return 0;
	if (ipnet_parse(span_of(text), &net) < 0 || net.ip.family != family)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is '%s', expected an IPv%u CIDR", key,
				text, family);
	if (ipnet_has_host_bits(&net))
		return err_kind(e, ERR_CONF, -EINVAL, "%s is '%s', which has host bits set", key,
				text);
	return 0;
}

static int check(void *want, struct err *e)
{
	const struct host_rule_want *w = want;
	uint32_t table;
	int r = check_cidr("cidr", w->cidr, 4, e);

	if (r >= 0)
		r = check_cidr("cidr6", w->cidr6, 6, e);
	if (r >= 0)
		r = host_table_parse(w->table, &table, e);
	if (r >= 0 && !w->cidr && !w->cidr6)
		r = err_kind(
			e, ERR_CONF, -EINVAL,
			"no cidr: set cidr or cidr6 to the RDMA network, for instance 172.16.0.0/16");
	return r;
}

struct found {
	const struct host_net *net;
};

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct found *f = xcalloc(1, sizeof(*f));

	(void)w;
	*found = f;
	return host_net_read(h, &f->net, e);
}

/* Checks the rules that have the wanted rule's priority: sets *exists if the wanted rule is among
 * them, and adds a step that deletes a rule of the same form for another CIDR. -EEXIST: any other
 * rule has the priority. */
static int free_priority(const struct host_net *n, const struct rule *want, struct host_plan *p,
			 bool *exists, struct err *e)
{
	*exists = false;
	for (size_t i = 0; i < n->n_rules; i++) {
		const struct rule *r = &n->rules[i];
		auto_free char *desc = NULL;

		if (r->family != want->family || r->priority != want->priority)
			continue;
		if (rule_eq(r, want)) {
			*exists = true;
			continue;
		}
		if (r->invert && r->table == want->table && !r->src.ip.family && !r->mark &&
		    !r->mask && !*r->iif && !r->more) {
			host_plan_rule_del(p, "rule", "host", r);
			continue;
		}
		desc = rule_describe(r);
		return err_kind(e, ERR_CONF, -EEXIST,
				"priority %u is taken by rule '%s'; set another priority",
				want->priority, desc);
	}
	return 0;
}

static int decide_one(const struct host_rule_want *w, const char *cidr, const struct host_net *n,
		      struct host_plan *p, struct err *e)
{
	struct rule rule = {
		.priority = (uint32_t)w->priority, .has_priority = true, .invert = true};
	bool exists;
	int r;

	if (!cidr)
		return 0;
	if (ipnet_parse(span_of(cidr), &rule.dst) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not a CIDR", cidr);
	rule.family = rule.dst.ip.family;
	r = host_table_parse(w->table, &rule.table, e);
	if (r >= 0)
		r = free_priority(n, &rule, p, &exists, e);
	if (r < 0)
		return r;
	if (!exists)
		host_plan_rule_add(p, "rule", "host", &rule);
	return 0;
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct found *f = found;
	int r = 0;

	for (size_t i = 0; i < w->n && r >= 0; i++) {
		const struct host_rule_want *one = (const struct host_rule_want *)w->v[i];

		r = decide_one(one, one->cidr, f->net, p, e);
		if (r >= 0)
			r = decide_one(one, one->cidr6, f->net, p, e);
	}
	return r;
}

static int act(struct host *h, const struct host_op *op, struct err *e)
{
	int r = host_rule_act(h, op, e);

	return r == 0 ? err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP, "operation '%s' is unknown",
				 op->verb)
		      : r;
}

static void show(const void *found, struct host_rows *rows)
{
	const struct found *f = found;

	for (size_t i = 0; i < f->net->n_rules; i++) {
		auto_free char *desc = rule_describe(&f->net->rules[i]);
		char priority[16];

		snprintf(priority, sizeof(priority), "%u", f->net->rules[i].priority);
		host_rows_add(rows, f->net->rules[i].family == 6 ? "IPv6" : "IPv4", priority, "%s",
			      desc);
	}
}

const struct host_kind host_rule = {
	.name = "rule",
	.section = "rule",
	.help = "rule by which traffic to other destinations does not use the RDMA NICs",
	.keys = keys,
	.env = env,
	.size = sizeof(struct host_rule_want),
	.init = init,
	.check = check,
	.observe = observe,
	.forget = free,
	.decide = decide,
	.act = act,
	.show = show,
};
