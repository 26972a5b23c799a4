/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/vlan.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cni/attach/rail.h"

enum { ID_MAX = 4094 };

struct raw {
	int64_t id;
	const char *mode;
};

static const struct json_field fields[] = {
	JSON_FIELD("vlanId", J_INT, struct raw, id, JSON_DOC("0", "VLAN id, 0 to 4094")),
	JSON_FIELD("vlanMode", J_STR, struct raw, mode,
		   JSON_DOC("manual", "manual; auto of Spiderpool is refused")),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int read_mode(const char *mode, struct err *e)
{
	if (!mode || !*mode || strcmp(mode, "manual") == 0)
		return 0;
	if (strcmp(mode, "auto") == 0)
		return err_kind(
			e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"conf.vlanMode is 'auto', which takes the VLAN from an IaaS "
			"provider that unirail does not have: use 'manual' and conf.vlanId");
	return err_kind(e, ERR_CONF, -EINVAL, "conf.vlanMode is '%s', expected manual", mode);
}

static int read_conf(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_made(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &table, &raw, e);
	if (r >= 0)
		r = read_mode(raw.mode, e);
	if (r < 0)
		return r;
	if (!c.master)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			ORIG("\"master\" field is required. It specifies the host interface "
			     "name to create the VLAN for (conf.master)"));
	if (raw.id < 0 || raw.id > ID_MAX)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid VLAN ID %lld (must be between 0 and %d inclusive; "
				"conf.vlanId)",
				(long long)raw.id, ID_MAX);
	c.vlan.id = (uint16_t)raw.id;
	*ret = c;
	return 0;
}

static void spec(const struct rail_conf *c, const struct link *master, struct link_spec *s)
{
	(void)master;
	s->vlan_id = c->vlan.id;
}

static bool same_link(const struct rail_conf *a, const struct rail_conf *b)
{
	return a->vlan.id == b->vlan.id;
}

/* Does not compare the MTU, because a later tuning plugin may have set it. */
static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	if (strcmp(l->kind, "vlan") != 0)
		return err_set(e, -EINVAL, "Error: Container interface %s not of type vlan",
			       l->name);
	if (l->vlan_id != c->vlan.id)
		return err_set(e, -EINVAL,
			       "Container VLAN ID %u does not match expected value: %u "
			       "(interface %s)",
			       l->vlan_id, c->vlan.id, l->name);
	return 0;
}

static const char *hint(int code)
{
	return code == -EEXIST ? "the node or a pod has a VLAN interface with this id on the master"
			       : NULL;
}

const struct link_driver vlan_kind = {
	.type = "vlan",
	.order = RAIL_VLAN,
	.flags = RAIL_QUERIES_KERNEL,
	.module = "8021q",
	.read = read_conf,
	.fits = rail_mtu_fits,
	.spec = spec,
	.same_link = same_link,
	.check = check,
	.hint = hint,
};

const struct cni_plugin cni_vlan =
	RAIL_PLUGIN(vlan_kind, "vlan", &table, &rail_made_table, &rail_common_table);
