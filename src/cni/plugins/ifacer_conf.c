/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/ifacer.h"

struct raw_bond {
	const char *name, *options;
	int64_t mode;
};

static const struct json_field bond_fields[] = {
	{.name = "name", .type = J_STR, .offset = offsetof(struct raw_bond, name)},
	{.name = "mode", .type = J_INT, .offset = offsetof(struct raw_bond, mode)},
	{.name = "options", .type = J_STR, .offset = offsetof(struct raw_bond, options)},
	{0},
};
static const struct json_table bond_table = {bond_fields, JSON_GO, sizeof(struct raw_bond)};

struct raw {
	struct json_strs interfaces;
	int64_t vlan;
	const struct json *bond;
};

static const struct json_field fields[] = {
	{.name = "interfaces", .type = J_STRS, .offset = offsetof(struct raw, interfaces)},
	{.name = "vlanID", .type = J_INT, .offset = offsetof(struct raw, vlan)},
	{.name = "bond", .type = J_VAL, .offset = offsetof(struct raw, bond)},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int read_bond(struct json_doc *d, const struct json *v, struct ifacer_conf *c, struct err *e)
{
	struct raw_bond raw = {0};
	int r;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "conf.bond is %s, wants an object",
				json_kind_name(v));
	r = json_read(d, v, &bond_table, &raw, "conf.bond", e);
	if (r < 0)
		return r;
	c->has_bond = true;
	c->bond_name = raw.name && *raw.name ? raw.name : IFACER_BOND;
	if (!link_name_ok(c->bond_name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.bond.name is '%s', wants an interface's name", c->bond_name);
	if (raw.mode < 0 || raw.mode > 6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"unknown bond mode: %lld, available mode: [0,6] (conf.bond.mode)",
				(long long)raw.mode);
	link_bond_set(&c->bond, LINK_BOND_MODE, (uint32_t)raw.mode);
	return raw.options ? ifacer_options(raw.options, c, e) : 0;
}

static int check_name(const struct ifacer_conf *c, size_t i, void **seen, struct err *e)
{
	const char *name = c->interfaces[i];
	const char *const *found;

	if (!link_name_ok(name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.interfaces[%zu] is '%s', wants an interface's name", i, name);
	if (ifacer_wants_bond(c) && strcmp(name, c->bond_name) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.interfaces[%zu] is '%s', which conf.bond.name is too", i,
				name);
	found = tsearch(name, seen, (int (*)(const void *, const void *))strcmp);
	if (!found)
		abort(); /* as any other lack of memory */
	if (*found != name)
		return err_kind(e, ERR_CONF, -EINVAL, "conf.interfaces has '%s' twice", name);
	return 0;
}

static void nothing(void *name)
{
	(void)name;
}

static int check_names(const struct ifacer_conf *c, struct err *e)
{
	void *seen = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n_interfaces; i++)
		r = check_name(c, i, &seen, e);
	tdestroy(seen, nothing);
	return r;
}

/* Options that name a port of the bond. */
static int check_port(const struct ifacer_conf *c, const char *option, const char *name,
		      struct err *e)
{
	if (!*name || !ifacer_wants_bond(c))
		return 0;
	for (size_t i = 0; i < c->n_interfaces; i++)
		if (strcmp(c->interfaces[i], name) == 0)
			return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.bond.options: %s is '%s', which is not in conf.interfaces", option,
			name);
}

static int check_vlan_name(const struct ifacer_conf *c, struct err *e)
{
	const char *parent = ifacer_wants_bond(c) ? c->bond_name : c->interfaces[0];
	auto_free char *name = xasprintf("%s.%u", parent, c->vlan);

	if (!ifacer_wants_vlan(c) || link_name_ok(name))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"VLAN interface '%s' would have a name of more than 15 bytes", name);
}

int ifacer_conf_read(struct json_doc *d, const struct json *conf, struct ifacer_conf *ret,
		     struct err *e)
{
	struct ifacer_conf c = {0};
	struct raw raw = {0};
	int r = json_read(d, conf, &table, &raw, "conf", e);

	if (r < 0)
		return r;
	if (!raw.interfaces.n)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid config: interfaces have at least one interface "
				"(conf.interfaces)");
	if (raw.vlan < 0 || raw.vlan > IFACER_VLAN_MAX)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid vlanID %lld: vlanID must be in range [0,4094] (conf.vlanID)",
			(long long)raw.vlan);
	c.interfaces = raw.interfaces.v;
	c.n_interfaces = raw.interfaces.n;
	c.vlan = (uint16_t)raw.vlan;
	r = read_bond(d, raw.bond, &c, e);
	if (r >= 0)
		r = check_names(&c, e);
	if (r >= 0)
		r = check_port(&c, "primary", c.primary, e);
	if (r >= 0)
		r = check_port(&c, "active_slave", c.active_slave, e);
	if (r >= 0)
		r = check_vlan_name(&c, e);
	if (r < 0)
		return r;
	*ret = c;
	return 0;
}
