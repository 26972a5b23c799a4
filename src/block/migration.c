/* SPDX-License-Identifier: Apache-2.0 */
#include "block/migration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/codec.h"
#include "block/release.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

/* --- the node where the pod is now --- */

static bool is_here(const struct migration_facts *f)
{
	struct ip_set one = {.family = f->ip.family}, mine = {0};
	bool here;

	ip_set_add(&one, &(struct ip_range){f->ip, f->ip});
	block_usable(f->table, f->pool->name, &one, &mine);
	here = ip_set_has(&mine, &f->ip);
	ip_set_done(&one);
	ip_set_done(&mine);
	return here;
}

static struct block_op *fill(const struct migration_facts *f, enum block_op_kind kind, u128 index,
			     struct block_op *op)
{
	*op = (struct block_op){.kind = kind, .net = block_net(&f->pool->cut, index)};
	str_copy(op->pool, sizeof(op->pool), f->pool->name);
	block_name(f->pool->name, index, op->name);
	return op;
}

static enum migration_step borrow(const struct migration_facts *f, const struct block_entry *x,
				  u128 index, struct block_op *op)
{
	fill(f, OP_BORROW, index, op);
	VEC_PUSH(op->ips, op->n_ips) = f->ip;
	str_copy(op->from, sizeof(op->from), x->to);
	return MIGRATION_OP;
}

/* Returns whether the address is released and no node has borrowed it yet, even if it is reserved
 * for a node. */
static bool is_offer(const struct block_entry *x)
{
	return *x->to == '@' || block_entry_open(x);
}

/* Reclaims a released address of a block of this node. */
static enum migration_step reclaim(const struct migration_facts *f, const struct block_entry *x,
				   u128 index, struct block_op *op)
{
	fill(f, OP_RECLAIM, index, op);
	op->ip = f->ip;
	str_copy(op->from, sizeof(op->from), x->to);
	return MIGRATION_OP;
}

static enum migration_step take_over(const struct migration_facts *f, u128 index,
				     struct block_op *op)
{
	fill(f, OP_TAKE_OVER, index, op);
	str_copy(op->version, sizeof(op->version), f->block->version);
	return MIGRATION_OP;
}

void migration_owner(const struct migration_facts *f, char ret[static 254])
{
	const struct block_entry *x = f->block ? block_entry_find(f->block, &f->ip) : NULL;
	const char *slash = x ? strchr(x->to, '/') : NULL;

	*ret = '\0';
	if (slash && slash - x->to < 254) {
		memcpy(ret, x->to, (size_t)(slash - x->to));
		ret[slash - x->to] = '\0';
	} else if (f->block) {
		str_copy(ret, 254, f->block->node);
	}
}

/* Returns whether the endpoint has a request from this node for this pod. If not, the endpoint
 * has no request, or one for an earlier pod of the name. */
static bool is_local_request(const struct migration_facts *f)
{
	const struct migration_place *p = f->place;

	return p->for_node && strcmp(p->for_node, f->table->node) == 0 &&
	       strcmp(p->for_uid, f->uid) == 0;
}

/* Returns whether the endpoint still has the request of an earlier pod of the name. That request
 * must be replaced, because the owner would answer it. */
static bool is_old_request(const struct migration_facts *f)
{
	char owner[254];

	migration_owner(f, owner);
	return *owner && f->place->for_node && !is_local_request(f);
}

static enum migration_step request(const struct migration_facts *f)
{
	char label[BLOCK_LABEL_MAX], owner[254];

	if (!is_local_request(f))
		return MIGRATION_REQUEST;
	if (f->place->refused)
		return MIGRATION_NEVER;
	migration_owner(f, owner);
	return f->place->from && strcmp(f->place->from, block_label(owner, label)) == 0
		       ? MIGRATION_WAIT
		       : MIGRATION_REQUEST;
}

static enum migration_step by_block(const struct migration_facts *f, u128 index,
				    struct block_op *op)
{
	const struct block_object *o = f->block;
	const struct block_entry *x = o ? block_entry_find(o, &f->ip) : NULL;
	const struct block_borrowed *borrowed = block_borrowed_find(f->table, &f->ip);

	if (!o) {
		fill(f, OP_CREATE, index, op);
		return MIGRATION_OP;
	}
	if (borrowed)
		return MIGRATION_WAIT; /* borrowed, but not usable: see block_usable() */
	if (is_old_request(f))
		return MIGRATION_REQUEST;
	if (strcmp(o->node, f->table->node) == 0 && x && is_offer(x))
		return reclaim(f, x, index, op);
	if (x && block_entry_free_for(x, f->table->node))
		return borrow(f, x, index, op);
	if (x && strcmp(x->to, "?") == 0)
		return MIGRATION_WAIT;
	if (!*o->node && (!x || is_offer(x)))
		return take_over(f, index, op);
	if (!x && strcmp(o->node, f->table->node) == 0)
		/* this node owns the block but cannot use it yet, or another log of this node
		 * claimed it */
		return MIGRATION_WAIT;
	return request(f);
}

enum migration_step migration_next(const struct migration_facts *f, struct block_op *op)
{
	char name[BLOCK_NAME_MAX + 1];
	u128 index;

	*op = (struct block_op){0};
	if (!f->pool ||
	    (!ip_set_has(&f->pool->open, &f->ip) && !ip_set_has(&f->pool->adopted, &f->ip)))
		return MIGRATION_NEVER;
	if (is_here(f))
		return MIGRATION_HERE;
	if (!block_index(&f->pool->cut, &f->ip, &index) ||
	    block_name(f->pool->name, index, name) < 0)
		return MIGRATION_NEVER;
	if (!f->pool->cut_is_written)
		return MIGRATION_WAIT;
	if (!f->rescanned) {
		fill(f, OP_READ, index, op);
		return MIGRATION_READ;
	}
	return by_block(f, index, op);
}

void migration_describe(const struct migration_facts *f, const struct identity *owner,
			struct buf *b)
{
	char ip[IP_TEXT_MAX], node[254];

	migration_owner(f, node);
	buf_printf(
		b,
		"%s of '%s/%s' is retained on node '%s' and not released yet: that node releases "
		"it when the pod's former container has ended (is its agent running?)",
		ip_str(&f->ip, ip), owner->ns, owner->name, *node ? node : f->place->node);
}

/* --- the node that has the address --- */

enum migration_answer migration_answer(const struct migration_place *p, const char *ns,
				       const char *name, const struct lease *l)
{
	if (!l || l->state == LEASE_FREE)
		return MIGRATION_EXPORT;
	if (l->state != LEASE_RETAINED && l->state != LEASE_USED)
		return MIGRATION_REFUSE;
	if (strcmp(l->pod_namespace, ns) != 0 || strcmp(l->pod_name, name) != 0)
		return MIGRATION_REFUSE;
	if (l->state == LEASE_RETAINED)
		return MIGRATION_EXPORT;
	return p->migration ? MIGRATION_REFUSE : MIGRATION_LATER;
}

static const struct block_claim *claim_of(const struct block_table *t, const struct ipaddr *ip)
{
	for (size_t i = 0; i < t->n_claims; i++)
		if (t->claims[i].state == CLAIM_HELD && ipnet_contains(&t->claims[i].net, ip))
			return &t->claims[i];
	return NULL;
}

static bool release_own(const struct block_table *t, const struct block_claim *c,
			const struct ipaddr *ip, const char *node, struct block_op *op)
{
	const struct block_object *o = block_object_find(t, c->name);

	const struct block_entry *x = o ? block_entry_find(o, ip) : NULL;

	if (x && *x->to == '@' && strcmp(x->to + 1, node) == 0)
		return false; /* the node can already borrow the address */
	/* If the address is already released, OP_RECLAIM rewrites its entry in one step: if
	 * the address were reclaimed and released again in two steps, another node could
	 * take it in between. */
	if (!o || !block_agrees(t, c, o) || (x && !is_offer(x)) || (!x && block_is_released(c, ip)))
		return false;
	op->kind = x ? OP_RECLAIM : OP_RELEASE;
	str_copy(op->name, sizeof(op->name), c->name);
	str_copy(op->pool, sizeof(op->pool), c->pool);
	str_copy(op->uid, sizeof(op->uid), o->uid);
	str_copy(op->version, sizeof(op->version), o->version);
	str_copy(op->token, sizeof(op->token), o->claim);
	op->net = c->net;
	if (x) {
		op->ip = *ip;
		str_copy(op->from, sizeof(op->from), x->to);
	} else {
		VEC_PUSH(op->ips, op->n_ips) = *ip;
	}
	op->to[0] = '@';
	return str_copy(op->to + 1, sizeof(op->to) - 1, node);
}

/* A borrowed address is reserved for the next node without being returned to its owner first. */
static bool give_borrowed(const struct block_table *t, const struct block_borrowed *l,
			  const char *node, struct block_op *op)
{
	if (l->state != BORROW_HELD)
		return false;
	op->kind = OP_RETURN;
	str_copy(op->name, sizeof(op->name), l->block);
	str_copy(op->pool, sizeof(op->pool), l->pool);
	op->ip = l->ip;
	block_entry_local(t->node, l->token, op->from);
	op->to[0] = '@';
	return str_copy(op->to + 1, sizeof(op->to) - 1, node);
}

bool migration_export(const struct block_table *t, const struct ipaddr *ip, const char *to_node,
		      struct block_op *op)
{
	const struct block_borrowed *l = block_borrowed_find(t, ip);
	const struct block_claim *c = l ? NULL : claim_of(t, ip);

	*op = (struct block_op){0};
	if (l)
		return give_borrowed(t, l, to_node, op);
	return c && release_own(t, c, ip, to_node, op);
}

bool migration_reclaim(const struct block_table *t, const struct ipaddr *leave, size_t n,
		       struct block_op *op)
{
	for (size_t i = 0; i < t->n_claims; i++) {
		const struct block_claim *c = &t->claims[i];
		const struct block_object *o = block_object_find(t, c->name);

		if (c->state != CLAIM_HELD || !block_agrees(t, c, o))
			continue;
		for (size_t k = 0; k < o->n_released; k++) {
			const struct block_entry *x = &o->released[k];

			/* block_plan() reclaims addresses reserved for any pod ("@node*") */
			if (*x->to != '@' || strcmp(x->to, BLOCK_ENTRY_RETAINED) == 0 ||
			    block_entry_reserved(x) ||
			    (n > 0 && bsearch(&x->ip, leave, n, sizeof(*leave), ip_order)))
				continue;
			*op = (struct block_op){.kind = OP_RECLAIM, .net = c->net, .ip = x->ip};
			str_copy(op->name, sizeof(op->name), c->name);
			str_copy(op->pool, sizeof(op->pool), c->pool);
			str_copy(op->from, sizeof(op->from), x->to);
			return true;
		}
	}
	return false;
}

/* The release is logged before the request. If the request is refused, the address belongs to this
 * node again and is still retained. So the log does not show whether the release took effect, only
 * the object does. */
bool migration_is_stale(const struct block_table *t, const struct lease *l)
{
	const struct block_claim *c = claim_of(t, &l->address.ip);
	const struct block_object *o = c ? block_object_find(t, c->name) : NULL;

	if (l->state != LEASE_RETAINED || block_borrowed_find(t, &l->address.ip))
		return false;
	return !c || (block_agrees(t, c, o) && block_entry_find(o, &l->address.ip));
}

bool migration_is_superseded(const struct migration_place *p, const char *node,
			     const struct lease *l)
{
	if (l->state != LEASE_RETAINED || !*p->node || strcmp(p->node, node) == 0 || p->n == 0)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (ip_eq(&p->v[i].ip, &l->address.ip))
			return false;
	return true;
}

/* --- the two nodes that an endpoint names: the one that has the addresses, the one that requests them --- */

void migration_place_done(struct migration_place *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].ifname);
		free(p->v[i].pool);
	}
	free(p->v);
	free(p->node);
	free(p->uid);
	free(p->for_node);
	free(p->for_uid);
	free(p->from);
	*p = (struct migration_place){0};
}

static void add_ip(struct migration_place *p, const struct json *v, const char *ip_key,
		   const char *pool_key)
{
	struct ipnet net;

	if (ipnet_parse_loose(span_of(json_get_text(v, ip_key)), &net) < 0)
		return;
	VEC_PUSH(p->v, p->n) = (struct migration_ip){xstrdup(json_get_text(v, "interface")),
						     xstrdup(json_get_text(v, pool_key)), net.ip};
}

static void read_annotation(struct migration_place *p, const char *text)
{
	struct span rest = span_of(text), node, uid;

	if (!text || !span_cut(&rest, ' ', &node) || !span_cut(&rest, ' ', &uid) || node.n == 0 ||
	    uid.n == 0)
		return;
	p->for_node = span_dup(node);
	p->for_uid = span_dup(uid);
	p->migration = rest.p && span_eq(rest, "migration");
	p->refused = rest.p && span_eq(rest, "refused");
}

int migration_place_read(const struct json *endpoint, struct migration_place *ret, struct err *e)
{
	const struct json *current = json_get(json_get(endpoint, "status"), "current"), *v;
	const struct json *meta = json_get(endpoint, "metadata");
	struct json_walk w = json_walk_start(json_get(current, "ips"));
	struct migration_place p = {0};

	if (json_kind(current) != JSON_OBJECT)
		return err_kind(e, ERR_DECODE, -EINVAL,
				"SpiderEndpoint '%s/%s': status.current is %s, expected an object",
				json_get_text(meta, "namespace"), json_get_text(meta, "name"),
				json_kind_name(current));
	p.node = xstrdup(json_get_text(current, "node"));
	p.uid = xstrdup(json_get_text(current, "uid"));
	while ((v = json_walk_next(&w, NULL))) {
		add_ip(&p, v, "ipv4", "ipv4Pool");
		add_ip(&p, v, "ipv6", "ipv6Pool");
	}
	read_annotation(
		&p, json_string(json_get(json_get(meta, "annotations"), ANNOTATION_REQUESTED_BY)));
	if (json_string(json_get(json_get(meta, "labels"), LABEL_REQUESTED_FROM)))
		p.from = xstrdup(
			json_string(json_get(json_get(meta, "labels"), LABEL_REQUESTED_FROM)));
	*ret = p;
	return 0;
}

static void put_one(struct json_out *o, const char *what, const char *key, const char *value)
{
	jo_key(o, what);
	jo_obj(o);
	jo_kstr(o, key, value);
	jo_end_obj(o);
}

static void put_patch(const char *label, const char *annotation, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	put_one(&o, "labels", LABEL_REQUESTED_FROM, label);
	put_one(&o, "annotations", ANNOTATION_REQUESTED_BY, annotation);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

void migration_request_patch(const char *from, const char *node, const char *uid, bool migrating,
			     struct buf *b)
{
	auto_free char *annotation = xasprintf("%s %s%s", node, uid, migrating ? " migration" : "");
	char label[BLOCK_LABEL_MAX];

	put_patch(block_label(from, label), annotation, b);
}

/* Removes the label, which ends the request. */
void migration_refuse_patch(const struct migration_place *p, struct buf *b)
{
	auto_free char *annotation = xasprintf("%s %s refused", p->for_node, p->for_uid);

	put_patch(NULL, annotation, b);
}
