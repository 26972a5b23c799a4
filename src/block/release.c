/* SPDX-License-Identifier: Apache-2.0 */
#include "block/release.h"

#include <stdlib.h>
#include <string.h>

static bool is_retained(const struct block_release *f, const struct ipaddr *a)
{
	return f->n_retained && bsearch(a, f->retained, f->n_retained, sizeof(*a), ip_order);
}

/* --- entries of a block's object --- */

/* Returns whether the entry is obsolete; sets *retained if the address is retained for a name. */
static bool is_void(const struct block_entry *x, const struct block_release *f, bool *retained)
{
	char node[BLOCK_NAME_MAX + 1];

	*retained = is_retained(f, &x->ip);
	if (strcmp(x->to, BLOCK_ENTRY_RETAINED) == 0)
		return !*retained;
	if (strcmp(x->to, "?") == 0)
		return f->is_lost(f->arg, &x->ip);
	return block_entry_node(x, node) && f->is_deleted(f->arg, node, "");
}

static const struct block_entry *void_entry(const struct block_object *o,
					    const struct block_release *f, bool *retained)
{
	for (size_t i = 0; i < o->n_released; i++)
		if (is_void(&o->released[i], f, retained))
			return &o->released[i];
	return NULL;
}

/* Returns whether a node has or may have ("?") the address, or the address is retained for a
 * name. An available address has no owner. */
static bool has_owner(const struct block_entry *x, const struct block_release *f)
{
	bool retained;

	return !block_entry_offered(x) && (!is_void(x, f, &retained) || retained);
}

static bool lends_any(const struct block_object *o, const struct block_release *f)
{
	for (size_t i = 0; i < o->n_released; i++)
		if (has_owner(&o->released[i], f))
			return true;
	return false;
}

/* --- requests about a block --- */

static void begin(const struct block_object *o, enum block_op_kind kind, struct block_op *op)
{
	op->kind = kind;
	op->net = o->net;
	str_copy(op->name, sizeof(op->name), o->name);
	str_copy(op->pool, sizeof(op->pool), o->pool);
	str_copy(op->uid, sizeof(op->uid), o->uid);
	str_copy(op->version, sizeof(op->version), o->version);
	str_copy(op->token, sizeof(op->token), o->claim);
}

/* Adds entries for the addresses that the owner retained for names; borrowed addresses keep their
 * entries. */
static void keep(const struct block_object *o, const struct block_release *f, struct block_op *op)
{
	for (size_t i = 0; i < f->n_retained; i++) {
		const struct ipaddr *a = &f->retained[i];
		const struct block_entry *x;

		if (!ipnet_contains(&o->net, a))
			continue;
		x = block_entry_find(o, a);
		if (!x || block_entry_offered(x))
			VEC_PUSH(op->ips, op->n_ips) = *a;
	}
	if (op->n_ips)
		str_copy(op->to, sizeof(op->to), BLOCK_ENTRY_RETAINED);
}

static void release(const struct block_object *o, const struct block_release *f,
		    struct block_op *op)
{
	begin(o, OP_DISOWN, op);
	keep(o, f, op);
	if (!op->n_ips && !lends_any(o, f))
		op->kind = OP_DELETE;
}

bool block_release_next(const struct block_object *o, const struct block_release *f,
			struct block_op *op)
{
	const struct block_entry *x;
	bool retained;

	*op = (struct block_op){0};
	if (*o->node && f->is_deleted(f->arg, o->node, o->node_uid)) {
		release(o, f, op);
		return true;
	}
	x = void_entry(o, f, &retained);
	if (x) {
		begin(o, OP_RETURN, op);
		op->ip = x->ip;
		str_copy(op->from, sizeof(op->from), x->to);
		str_copy(op->to, sizeof(op->to), retained ? BLOCK_ENTRY_RETAINED : "");
		return true;
	}
	if (*o->node || lends_any(o, f))
		return false;
	begin(o, OP_DELETE, op);
	return true;
}
