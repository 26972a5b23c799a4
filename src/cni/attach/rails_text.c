/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the files of a pod's rails. */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/attach/gids.h"

struct raw_entry {
	const char *ifname, *device, *gid, *network, *container;
	int64_t port, index;
};

struct raw {
	int64_t version;
	struct json_list rails;
};

#define STR(key, member)                                                                           \
	{                                                                                          \
		.name = key, .type = J_STR, .offset = offsetof(struct raw_entry, member)           \
	}
#define INT(key, member)                                                                           \
	{                                                                                          \
		.name = key, .type = J_INT, .offset = offsetof(struct raw_entry, member),          \
		.min = 0, .max = INT32_MAX                                                         \
	}

static const struct json_field entry_fields[] = {
	STR("ifname", ifname),
	STR("device", device),
	INT("port", port),
	INT("gidIndex", index),
	STR("gid", gid),
	STR("network", network),
	STR("containerID", container),
	{0},
};
static const struct json_table entry_table = {entry_fields, 0, sizeof(struct raw_entry)};
static const struct json_field fields[] = {
	{.name = "version", .type = J_INT, .offset = offsetof(struct raw, version)},
	{.name = "rails",
	 .type = J_OBJS,
	 .offset = offsetof(struct raw, rails),
	 .sub = &entry_table},
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct raw)};

void rails_list_done(struct rails_list *l)
{
	free(l->v);
	*l = (struct rails_list){0};
}

static void put_entry(struct json_out *o, const struct rails_entry *e)
{
	jo_obj(o);
	jo_kstr(o, "ifname", e->ifname);
	jo_kstr(o, "device", e->rdma.device);
	jo_kint(o, "port", e->rdma.port);
	jo_kint(o, "gidIndex", e->rdma.gid_index);
	jo_kstr(o, "gid", e->rdma.gid);
	jo_kstr(o, "network", e->network);
	jo_kstr(o, "containerID", e->container);
	jo_end_obj(o);
}

void rails_print_json(const struct rails_list *l, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kint(&o, "version", RAILS_VERSION);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++)
		put_entry(&o, &l->v[i]);
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

static bool is_repeated(const struct rails_list *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->v[k].rdma.device, l->v[i].rdma.device) == 0 &&
		    l->v[k].rdma.port == l->v[i].rdma.port)
			return true;
	return false;
}

static void put_hcas(const struct rails_list *l, struct buf *b)
{
	buf_str(b, "NCCL_IB_HCA=");
	for (size_t i = 0; i < l->n; i++)
		if (!is_repeated(l, i))
			buf_printf(b, "%s%s:%u", i ? "," : "=", l->v[i].rdma.device,
				   l->v[i].rdma.port);
	buf_char(b, '\n');
}

static void put_variable(struct buf *b, const char *prefix, const char *ifname)
{
	buf_str(b, prefix);
	for (const char *p = ifname; *p; p++)
		buf_char(b, isalnum((unsigned char)*p) ? *p : '_');
	buf_char(b, '=');
}

void rails_print_env(const struct rails_list *l, struct buf *b)
{
	bool same = l->n > 0;

	if (!l->n)
		return;
	put_hcas(l, b);
	for (size_t i = 1; i < l->n; i++)
		same &= l->v[i].rdma.gid_index == l->v[0].rdma.gid_index;
	if (same)
		buf_printf(b, "NCCL_IB_GID_INDEX=%d\n", l->v[0].rdma.gid_index);
	for (size_t i = 0; i < l->n; i++) {
		const struct rails_entry *e = &l->v[i];

		put_variable(b, "UNIRAIL_RDMA_DEVICE_", e->ifname);
		buf_printf(b, "%s:%u\n", e->rdma.device, e->rdma.port);
		put_variable(b, "UNIRAIL_GID_INDEX_", e->ifname);
		buf_printf(b, "%d\n", e->rdma.gid_index);
	}
}

static bool copy(char *to, size_t size, const char *from)
{
	return str_copy(to, size, from ? from : "");
}

static bool take_entry(const struct raw_entry *raw, struct rails_entry *ret)
{
	*ret = (struct rails_entry){
		.rdma = {.port = (uint32_t)raw->port, .gid_index = (int)raw->index}};
	return copy(ret->ifname, sizeof(ret->ifname), raw->ifname) &&
	       copy(ret->rdma.device, sizeof(ret->rdma.device), raw->device) &&
	       copy(ret->rdma.gid, sizeof(ret->rdma.gid), raw->gid) &&
	       copy(ret->network, sizeof(ret->network), raw->network) &&
	       copy(ret->container, sizeof(ret->container), raw->container);
}

int rails_parse(struct span text, struct rails_list *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	auto_rails struct rails_list l = {0};
	const struct raw_entry *v;
	struct raw raw = {0};

	if (json_parse(&d, text, RAILS_TEXT_MAX, e) < 0 ||
	    json_read(d, json_root(d), &table, &raw, "rails", e) < 0)
		return -EINVAL;
	if (raw.version != RAILS_VERSION)
		return err_set(e, -EINVAL, "version is %lld, wants %d", (long long)raw.version,
			       RAILS_VERSION);
	v = raw.rails.v;
	for (size_t i = 0; i < raw.rails.n; i++) {
		struct rails_entry one;

		if (!take_entry(&v[i], &one))
			return err_set(e, -EINVAL, "rails[%zu] has too long a name in it", i);
		VEC_PUSH(l.v, l.n) = one;
	}
	*ret = l;
	l = (struct rails_list){0};
	return 0;
}

void rails_put(struct rails_list *l, const struct rails_entry *e)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].ifname, e->ifname) != 0)
			continue;
		l->v[i] = *e;
		return;
	}
	VEC_PUSH(l->v, l->n) = *e;
}

void rails_drop_at(struct rails_list *l, size_t i)
{
	memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof(*l->v));
	l->n--;
}

void rails_drop(struct rails_list *l, const char *container, const char *ifname)
{
	for (size_t i = l->n; i-- > 0;)
		if (strcmp(l->v[i].container, container) == 0 &&
		    (!ifname || strcmp(l->v[i].ifname, ifname) == 0))
			rails_drop_at(l, i);
}
