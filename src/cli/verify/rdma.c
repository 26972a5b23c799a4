/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/rdma.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static const char *const ops[] = {"write", "send", "read"};

const char *verify_op_name(enum verbs_op op)
{
	return ops[op];
}

int verify_op_find(const char *name, enum verbs_op *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (!strcmp(ops[i], name)) {
			*ret = (enum verbs_op)i;
			return 0;
		}
	return -EINVAL;
}

/* Returns as many slots as fit into 4 MiB, because most containers may lock at most 8 MiB of
 * memory (RLIMIT_MEMLOCK); at least 2 and at most VERIFY_DEPTH_MAX. */
uint32_t verify_depth_for(uint32_t size)
{
	uint32_t depth = (4U << 20) / size;

	if (depth < 2)
		return 2;
	return depth > VERIFY_DEPTH_MAX ? VERIFY_DEPTH_MAX : depth;
}

size_t verify_data_len(const struct verify_side *s)
{
	return (size_t)s->size * s->depth;
}

size_t verify_slot_at(const struct verify_side *s, uint64_t message)
{
	return (size_t)(message % s->depth) * s->size;
}

size_t verify_ping_at(const struct verify_side *s)
{
	size_t line = VERIFY_PING_PLACE;

	return (verify_data_len(s) + line - 1) / line * line;
}

size_t verify_pong_at(const struct verify_side *s, uint64_t which)
{
	return verify_ping_at(s) + VERIFY_PING_PLACE * (1 + (size_t)(which % 2));
}

int verify_side_open(struct verify_side *s, const struct verify_rail *rail, enum verbs_op op,
		     uint32_t size, uint32_t depth, struct err *e)
{
	struct verbs_qp_conf conf = {
		.port = rail->port->port,
		.mtu = rail->mtu,
		.gid_index = rail->gid_index,
		.ethernet = rail->port->ethernet,
		.lid = rail->port->lid,
		/* two more work requests than slots, for a ping and its reply */
		.depth = depth + 2,
	};
	int r;

	*s = (struct verify_side){.op = op, .size = size, .depth = depth};
	memcpy(conf.gid, rail->gid, sizeof(conf.gid));
	conf.bytes = verify_ping_at(s) + 3 * VERIFY_PING_PLACE;
	r = verbs_open(&s->dev, rail->dev->name, e);
	return r < 0 ? r : verbs_qp_new(&s->qp, s->dev, &conf, e);
}

void verify_side_close(struct verify_side *s)
{
	verbs_qp_free(s->qp);
	verbs_close(s->dev);
	s->qp = NULL;
	s->dev = NULL;
}

void verify_side_describe(const struct verify_side *s, const struct verify_rail *rail,
			  struct verify_msg *m)
{
	struct verbs_end end;

	verbs_qp_end(s->qp, &end);
	m->qpn = end.qpn;
	m->psn = end.psn;
	m->rkey = end.rkey;
	m->path_mtu = end.mtu;
	m->reads = end.reads;
	m->lid = end.lid;
	m->ethernet = end.ethernet;
	m->addr = end.addr;
	m->len = end.len;
	memcpy(m->gid, end.gid, sizeof(m->gid));
	str_copy(m->device, sizeof(m->device), rail->dev->name);
	str_copy(m->ifname, sizeof(m->ifname), rail->ifname);
	m->port = rail->port->port;
	m->gid_index = rail->gid_index;
	m->net = rail->net;
	m->link_mtu = rail->link_mtu;
}

int verify_side_connect(struct verify_side *s, const struct verify_msg *peer, struct err *e)
{
	struct verbs_end end = {
		.qpn = peer->qpn,
		.psn = peer->psn,
		.rkey = peer->rkey,
		.mtu = peer->path_mtu,
		.reads = peer->reads,
		.lid = (uint16_t)peer->lid,
		.ethernet = peer->ethernet != 0,
		.addr = peer->addr,
		.len = peer->len,
	};

	if (peer->qpn > 0xffffff || peer->psn > 0xffffff || peer->lid > 0xffff || !peer->reads ||
	    peer->len < verify_ping_at(s))
		return err_set(e, -EBADMSG, "the peer sent invalid parameters of its queue pair");
	memcpy(end.gid, peer->gid, sizeof(end.gid));
	return verbs_qp_connect(s->qp, &end, e);
}

/* --- the pattern --- */

/* Returns the 64-bit value number i of the pattern (splitmix64); it depends on i and the seed. */
static uint64_t word_of(uint64_t seed, size_t i)
{
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void verify_fill(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t at = 0; at < n; at += 8) {
		uint64_t w = word_of(seed, at / 8);

		memcpy(p + at, &w, n - at < 8 ? n - at : 8);
	}
}

int verify_compare(const uint8_t *p, size_t n, uint64_t seed, struct err *e)
{
	size_t first = n, wrong = 0;
	uint8_t wants = 0;

	for (size_t at = 0; at < n; at += 8) {
		uint64_t w = word_of(seed, at / 8);
		size_t len = n - at < 8 ? n - at : 8;

		if (!memcmp(p + at, &w, len))
			continue;
		for (size_t i = 0; i < len; i++) {
			uint8_t want = ((const uint8_t *)&w)[i];

			if (p[at + i] == want)
				continue;
			if (!wrong++) {
				first = at + i;
				wants = want;
			}
		}
	}
	if (!wrong)
		return 0;
	return err_set(e, -EBADMSG,
		       "received data are wrong: %zu of %zu bytes, the first at %zu (0x%02x, "
		       "expected 0x%02x)",
		       wrong, n, first, p[first], wants);
}
