/* SPDX-License-Identifier: Apache-2.0 */
#include "block_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

uint64_t bl_seed;

uint32_t bl_roll(uint32_t n)
{
	bl_seed ^= bl_seed << 13;
	bl_seed ^= bl_seed >> 7;
	bl_seed ^= bl_seed << 17;
	return (uint32_t)(bl_seed >> 20) % n;
}

struct block_server bl_server;

struct bl_owner bl_by(const char *node)
{
	struct bl_owner w = {.uid = ""};

	str_copy(w.node, sizeof(w.node), node);
	return w;
}

struct block_object *bl_find(const char *name)
{
	for (size_t i = 0; i < bl_server.n; i++)
		if (strcmp(bl_server.v[i].name, name) == 0)
			return &bl_server.v[i];
	return NULL;
}

struct block_object bl_copy(const struct block_object *o)
{
	struct block_object c = {.name = xstrdup(o->name),
				 .pool = xstrdup(o->pool),
				 .uid = xstrdup(o->uid),
				 .version = xstrdup(o->version),
				 .net = o->net,
				 .node = xstrdup(o->node),
				 .node_uid = xstrdup(o->node_uid),
				 .claim = xstrdup(o->claim),
				 .reports = o->reports,
				 .unavailable = o->unavailable};

	for (size_t i = 0; i < o->n_released; i++)
		VEC_PUSH(c.released, c.n_released) = (struct block_entry){
			.ip = o->released[i].ip, .to = xstrdup(o->released[i].to)};
	for (size_t i = 0; i < o->n_requested; i++)
		VEC_PUSH(c.requested, c.n_requested) = (struct block_requested){
			.key = xstrdup(o->requested[i].key), .count = o->requested[i].count};
	return c;
}

static void set_text(char **s, const char *to)
{
	char *n = xstrdup(to);

	free(*s);
	*s = n;
}

static void touch(struct block_object *o)
{
	free(o->version);
	o->version = xasprintf("%llu", (unsigned long long)++bl_server.version);
	VEC_PUSH(bl_server.events, bl_server.n_events) = (struct bl_event){bl_copy(o), false};
}

static void end(struct block_object *o)
{
	VEC_PUSH(bl_server.events, bl_server.n_events) = (struct bl_event){bl_copy(o), true};
	block_object_done(o);
	*o = bl_server.v[--bl_server.n];
}

static struct block_entry *entry_of(struct block_object *o, const struct ipaddr *a)
{
	return (struct block_entry *)block_entry_find(o, a);
}

static void drop_entry(struct block_object *o, struct block_entry *x)
{
	free(x->to);
	*x = o->released[--o->n_released];
	block_entries_sort(o);
}

static enum block_outcome do_create(const struct bl_owner *owner, const struct block_op *op)
{
	struct block_object *o = bl_find(op->name);

	if (o)
		return BLOCK_REFUSED;
	o = &VEC_PUSH(bl_server.v, bl_server.n);
	*o = (struct block_object){.name = xstrdup(op->name),
				   .pool = xstrdup(op->pool),
				   .uid = xasprintf("uid-%llu",
						    (unsigned long long)++bl_server.uids),
				   .net = op->net,
				   .node = xstrdup(owner->node),
				   .node_uid = xstrdup(owner->uid),
				   .claim = xstrdup(op->token)};
	for (size_t i = 0; i < op->n_ips; i++)
		VEC_PUSH(o->released, o->n_released) =
			(struct block_entry){.ip = op->ips[i], .to = xstrdup(op->to)};
	block_entries_sort(o);
	touch(o);
	return BLOCK_OK;
}

static enum block_outcome do_release(struct block_object *o, const struct block_op *op)
{
	if (op->report) {
		o->reports = true;
		o->unavailable = op->count;
	}
	for (size_t i = 0; i < op->n_ips; i++) {
		if (entry_of(o, &op->ips[i]))
			set_text(&entry_of(o, &op->ips[i])->to, op->to);
		else
			VEC_PUSH(o->released, o->n_released) =
				(struct block_entry){.ip = op->ips[i], .to = xstrdup(op->to)};
		block_entries_sort(o);
	}
	for (size_t i = 0; i < o->n_requested; i++)
		if (strcmp(o->requested[i].key, op->request_of) == 0) {
			free(o->requested[i].key);
			o->requested[i] = o->requested[--o->n_requested];
			break;
		}
	return BLOCK_OK;
}

static enum block_outcome do_request(struct block_object *o, const struct bl_owner *owner,
				     const struct block_op *op)
{
	char named[BLOCK_REQUESTED_MAX];
	const char *key = op->ip.family ? block_requested_key(owner->node, &op->ip, named)
					: block_requested_any(owner->node, named);

	for (size_t i = 0; i < o->n_requested; i++)
		if (strcmp(o->requested[i].key, key) == 0) {
			o->requested[i].count = op->count;
			return BLOCK_OK;
		}
	VEC_PUSH(o->requested, o->n_requested) =
		(struct block_requested){.key = xstrdup(key), .count = op->count};
	return BLOCK_OK;
}

static enum block_outcome do_borrow(struct block_object *o, const struct block_op *op)
{
	for (size_t i = 0; i < op->n_ips; i++) {
		const struct block_entry *x = entry_of(o, &op->ips[i]);

		if (!x || strcmp(x->to, op->from) != 0)
			return BLOCK_REFUSED;
	}
	for (size_t i = 0; i < op->n_ips; i++)
		set_text(&entry_of(o, &op->ips[i])->to, op->to);
	return BLOCK_OK;
}

static enum block_outcome do_entry(struct block_object *o, const struct block_op *op)
{
	struct block_entry *x = entry_of(o, &op->ip);

	if (!x || strcmp(x->to, op->from) != 0)
		return BLOCK_REFUSED;
	if (*op->to)
		set_text(&x->to, op->to);
	else
		drop_entry(o, x);
	return BLOCK_OK;
}

static bool is_bound(enum block_op_kind k)
{
	return k == OP_TAKE_OVER || k == OP_ADOPT || k == OP_ASSERT || k == OP_DELETE ||
	       k == OP_DISOWN || k == OP_RELEASE || k == OP_TOUCH;
}

static void set_owner(struct block_object *o, const char *node, const char *uid, const char *claim)
{
	set_text(&o->node, node);
	set_text(&o->node_uid, uid);
	set_text(&o->claim, claim);
}

static enum block_outcome change(struct block_object *o, const struct bl_owner *owner,
				 const struct block_op *op)
{
	switch (op->kind) {
	case OP_TAKE_OVER:
		if (*o->node)
			return BLOCK_REFUSED;
		set_owner(o, owner->node, owner->uid, op->token);
		return BLOCK_OK;
	case OP_ADOPT: set_owner(o, owner->node, owner->uid, op->token); return do_release(o, op);
	case OP_DISOWN: set_owner(o, "", "", ""); return do_release(o, op);
	case OP_ASSERT:
	case OP_RELEASE: return do_release(o, op);
	case OP_REQUEST: return do_request(o, owner, op);
	case OP_BORROW: return do_borrow(o, op);
	case OP_RECLAIM:
	case OP_RETURN: return do_entry(o, op);
	default: return BLOCK_OK;
	}
}

enum block_outcome bl_serve(const struct bl_owner *owner, const struct block_op *op)
{
	struct block_object *o = bl_find(op->name);
	enum block_outcome r;

	if (op->kind == OP_CREATE)
		return do_create(owner, op);
	if (!o)
		return BLOCK_ABSENT;
	if (op->kind == OP_READ)
		return BLOCK_OK;
	if (is_bound(op->kind) && strcmp(o->version, op->version) != 0)
		return BLOCK_REFUSED;
	if (op->kind == OP_DELETE) {
		if (strcmp(o->uid, op->uid) != 0)
			return BLOCK_REFUSED;
		end(o);
		return BLOCK_OK;
	}
	r = change(o, owner, op);
	if (r == BLOCK_OK)
		touch(o);
	return r;
}

static struct block_op bl_copy_op(const struct block_op *op)
{
	struct block_op c = *op;

	c.ips = xcalloc(op->n_ips + 1, sizeof(*c.ips));
	if (op->n_ips)
		memcpy(c.ips, op->ips, op->n_ips * sizeof(*c.ips));
	return c;
}

void bl_arrive(void)
{
	size_t i = bl_roll((uint32_t)bl_server.n_late);
	struct bl_late l = bl_server.late[i];

	bl_server.late[i] = bl_server.late[--bl_server.n_late];
	bl_serve(&l.owner, &l.op);
	block_op_done(&l.op);
}

void bl_delay(const struct bl_owner *owner, const struct block_op *op)
{
	VEC_PUSH(bl_server.late, bl_server.n_late) = (struct bl_late){*owner, bl_copy_op(op)};
}

static void drop_late(void)
{
	for (size_t i = 0; i < bl_server.n_late; i++)
		block_op_done(&bl_server.late[i].op);
	bl_server.n_late = 0;
}

void bl_restore(const struct block_object *v, size_t n, uint64_t version)
{
	for (size_t i = 0; i < bl_server.n; i++)
		block_object_done(&bl_server.v[i]);
	bl_server.n = 0;
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(bl_server.v, bl_server.n) = bl_copy(&v[i]);
	for (size_t i = 0; i < bl_server.n_events; i++)
		block_object_done(&bl_server.events[i].o);
	bl_server.n_events = 0;
	bl_server.version = version;
	drop_late();
}

void bl_clear(void)
{
	for (size_t i = 0; i < bl_server.n; i++)
		block_object_done(&bl_server.v[i]);
	drop_late();
	for (size_t i = 0; i < bl_server.n_events; i++)
		block_object_done(&bl_server.events[i].o);
	free(bl_server.events);
	free(bl_server.v);
	free(bl_server.late);
	bl_server = (struct block_server){0};
}

struct pool bl_pool = {.name = (char *)"p", .family = 4, .cut_is_written = true};

int bl_pool_setup(void **state)
{
	struct ip_range r = {ip_from_num(4, 0x0a000001), ip_from_num(4, 0x0a00001e)};

	(void)state;
	bl_pool.subnet = (struct ipnet){ip_from_num(4, 0x0a000000), 26};
	ip_set_add(&bl_pool.ips, &r);
	ip_set_add(&bl_pool.open, &r);
	return block_cut_choose(&bl_pool.subnet, 29, false, &bl_pool.cut, NULL);
}

int bl_pool_teardown(void **state)
{
	(void)state;
	ip_set_done(&bl_pool.ips);
	ip_set_done(&bl_pool.open);
	return 0;
}
