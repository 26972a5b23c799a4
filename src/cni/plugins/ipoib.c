/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/ipoib.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "cni/attach/attach.h"

enum { FULL_MEMBER = 0x8000, PKEY_MAX = 0xffff };

struct raw {
	const struct json *pkey;
	const char *mode;
};

static const struct json_field fields[] = {
	JSON_FIELD("pkey", J_VAL, struct raw, pkey,
		   JSON_OWN("the master's",
			    "partition: \"0x8001\" or a number; the membership bit is always set")),
	JSON_FIELD("mode", J_STR, struct raw, mode,
		   JSON_OWN("the master's", "datagram or connected")),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static bool pkey_number(const struct json *v, int64_t *ret)
{
	const char *text = json_string(v);
	uint64_t n;

	if (!text)
		return json_int(v, ret) >= 0;
	if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0) {
		if (num_hex(span_of(text), PKEY_MAX, &n) < 0)
			return false;
	} else if (num_u64(span_of(text), 0, PKEY_MAX, &n) < 0) {
		return false;
	}
	*ret = (int64_t)n;
	return true;
}

/* Refuses 0x8000, which is not a partition and which the kernel refuses. */
static int read_pkey(const struct json *v, uint16_t *ret, struct err *e)
{
	const char *text = json_string(v);
	int64_t n = 0;

	if (json_kind(v) == JSON_NULL || (text && !*text))
		return 0;
	if (!pkey_number(v, &n) || n < 1 || n > PKEY_MAX || n == FULL_MEMBER)
		return json_wants(v, "conf.pkey",
				  "a partition key, 0x0001 to 0x7fff, with or without the "
				  "membership bit 0x8000 (\"0x8001\", or a number)",
				  e);
	*ret = (uint16_t)(n | FULL_MEMBER);
	return 0;
}

static int read_mode(const char *text, enum ipoib_mode *ret, struct err *e)
{
	*ret = IPOIB_AS_MASTER;
	if (!text || !*text)
		return 0;
	if (strcmp(text, "datagram") == 0)
		*ret = IPOIB_DATAGRAM;
	else if (strcmp(text, "connected") == 0)
		*ret = IPOIB_CONNECTED;
	else
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.mode is '%s', expected datagram or connected", text);
	return 0;
}

static int read_conf(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_made(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &table, &raw, e);
	if (r >= 0)
		r = read_pkey(raw.pkey, &c.ipoib.pkey, e);
	if (r >= 0)
		r = read_mode(raw.mode, &c.ipoib.mode, e);
	if (r < 0)
		return r;
	if (!c.master)
		return err_kind(e, ERR_CONF, -EINVAL,
				"host master interface is missing (conf.master)");
	if (c.ipam && json_string(json_get_go(c.ipam, "type")) &&
	    strcmp(json_string(json_get_go(c.ipam, "type")), "dhcp") == 0)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"ipam dhcp type is not supported (conf.ipam.type)");
	*ret = c;
	return 0;
}

static int fits(const struct rail_conf *c, const struct link *master, struct err *e)
{
	if (strcmp(master->kind, "ipoib") != 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"master device is (%s) not of type ipoib (conf.master is '%s')",
				*master->kind ? master->kind : "device", master->name);
	return rail_mtu_fits(c, master, e);
}

static void spec(const struct rail_conf *c, const struct link *master, struct link_spec *s)
{
	s->ipoib_pkey = c->ipoib.pkey ? c->ipoib.pkey : master->ipoib_pkey;
	s->ipoib_mode = c->ipoib.mode == IPOIB_AS_MASTER   ? master->ipoib_mode
			: c->ipoib.mode == IPOIB_CONNECTED ? LINK_IPOIB_CONNECTED
							   : LINK_IPOIB_DATAGRAM;
	s->ipoib_umcast = true;
}

/* Does not compare the mode, which the pod can change; the partition is fixed. */
static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	if (strcmp(l->kind, "ipoib") != 0)
		return err_set(e, -EINVAL, "container interface %s not of type ipoib", l->name);
	if (c->ipoib.pkey && l->ipoib_pkey != c->ipoib.pkey)
		return err_set(e, -EINVAL,
			       "container interface %s has partition key 0x%04x, expected 0x%04x",
			       l->name, l->ipoib_pkey, c->ipoib.pkey);
	return 0;
}

static const char *hint(int code)
{
	if (code == -EOPNOTSUPP || code == -EINVAL)
		return "does the HCA's driver support IPoIB children and conf.mode?";
	return NULL;
}

bool ipoib_is_leftover(const struct link *l)
{
	return strcmp(l->kind, "ipoib") == 0 && l->group == LINK_GROUP && l->parent;
}

/* Deletes all children on the node that are in unirail's link group (LINK_GROUP): unirail
 * creates children only in pods, so a child on the node is there because its pod's namespace was
 * deleted. */
static int gc(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	size_t n = 0;
	int r = link_list(a->host, &links, &n, e);

	(void)rail;
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (ipoib_is_leftover(&links[i]))
			link_del(b, links[i].index, links[i].name);
	if (r < 0 || !nl_batch_len(b))
		return r < 0 ? r : 0;
	return nl_batch_commit(a->host, b, e);
}

const struct link_driver ipoib_kind = {
	.type = "ipoib",
	.order = RAIL_IPOIB,
	.flags = RAIL_QUERIES_KERNEL | RAIL_PROXY_ARP | RAIL_LATE_MTU,
	.module = "ib_ipoib",
	.read = read_conf,
	.fits = fits,
	.spec = spec,
	.check = check,
	.hint = hint,
	.gc = gc,
};

const struct cni_plugin cni_ipoib =
	RAIL_PLUGIN(ipoib_kind, "ipoib", &table, &rail_made_table, &rail_common_table);
