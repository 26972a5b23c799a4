/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/ipvlan.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cni/attach/attach.h"

struct raw {
	const char *mode;
};

static const struct json_field fields[] = {
	JSON_FIELD("mode", J_STR, struct raw, mode, JSON_DOC("l2", "l2, l3 or l3s")),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

/* Names of the modes in the order of the kernel's IPVLAN_MODE_*. */
static const char *const modes[] = {"l2", "l3", "l3s"};
enum { N_MODES = sizeof(modes) / sizeof(modes[0]) };

const char *ipvlan_mode_name(uint16_t mode)
{
	return mode < N_MODES ? modes[mode] : "unknown";
}

static int read_mode(const char *text, uint16_t *ret, struct err *e)
{
	*ret = 0;
	if (!text || !*text)
		return 0;
	for (uint16_t i = 0; i < N_MODES; i++) {
		if (strcmp(modes[i], text) == 0) {
			*ret = i;
			return 0;
		}
	}
	return err_kind(e, ERR_CONF, -EINVAL,
			"unknown ipvlan mode: \"%s\" (conf.mode: expected l2, l3 or l3s)", text);
}

static int read_conf(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_made(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &table, &raw, e);
	if (r >= 0)
		r = read_mode(raw.mode, &c.ipvlan.mode, e);
	if (r < 0)
		return r;
	/* In modes l3 and l3s the kernel neither sends nor answers ARP and NDP requests. */
	c.no_arp = c.ipvlan.mode != 0;
	*ret = c;
	return 0;
}

static void spec(const struct rail_conf *c, const struct link *master, struct link_spec *s)
{
	(void)master;
	s->ipvlan_mode = c->ipvlan.mode;
}

static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	if (strcmp(l->kind, "ipvlan") != 0)
		return err_set(e, -EINVAL, "Error: Container interface %s not of type ipvlan",
			       l->name);
	if (l->ipvlan_mode != c->ipvlan.mode)
		return err_set(e, -EINVAL,
			       "Container IPVlan mode %s does not match expected value: %s "
			       "(interface %s)",
			       ipvlan_mode_name(l->ipvlan_mode), ipvlan_mode_name(c->ipvlan.mode),
			       l->name);
	return 0;
}

static const char *hint(int code)
{
	return code == -EBUSY ? "the master is a port of a bridge or bond, or carries macvlans: a "
				"device carries macvlans or ipvlans, not both"
			      : NULL;
}

static int chained(const struct cni_result *prev, struct rail *rail, struct err *e)
{
	if (!rail_has_ipam(rail) && prev->n_ips)
		rail->given = prev;
	if (rail->conf.master)
		return 0;
	if (prev->n_ifaces != 1 || !prev->ifaces[0].name || !*prev->ifaces[0].name)
		return err_kind(e, ERR_CONF, -EINVAL,
				"chained master failure. PrevResult lacks a single named "
				"interface (name the device in conf.master)");
	rail->conf.master = prev->ifaces[0].name;
	return 0;
}

const struct link_driver ipvlan_kind = {
	.type = "ipvlan",
	.order = RAIL_IPVLAN,
	.flags = RAIL_QUERIES_KERNEL,
	.module = "ipvlan",
	.read = read_conf,
	.spec = spec,
	.check = check,
	.hint = hint,
	.chained = chained,
};

const struct cni_plugin cni_ipvlan =
	RAIL_PLUGIN(ipvlan_kind, "ipvlan", &table, &rail_made_table, &rail_common_table);
