/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/macvlan.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cni/attach/rail.h"

struct runtime_conf {
	const char *mac;
};

/* The netconf fields that macvlan reads besides those of every created link (rail_read_made()). */
struct raw {
	const char *mode, *mac;
	int64_t bcqueuelen;
	struct runtime_conf runtime;
};

static const struct json_field runtime_fields[] = {
	JSON_FIELD(
		"mac", J_STR, struct runtime_conf, mac,
		JSON_DOC(
			NULL,
			"MAC of the interface; the first given of runtimeConfig.mac, CNI_ARGS MAC and mac is used")),
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};

static const struct json_field fields[] = {
	JSON_FIELD("mode", J_STR, struct raw, mode,
		   JSON_DOC("bridge", "bridge, private, vepa or passthru")),
	JSON_FIELD(
		"mac", J_STR, struct raw, mac,
		JSON_DOC(
			NULL,
			"MAC of the interface, used if neither runtimeConfig.mac nor CNI_ARGS MAC is set")),
	JSON_FIELD("bcqueuelen", J_INT, struct raw, bcqueuelen, .min = 0, .max = UINT32_MAX,
		   JSON_DOC("0", "length of the queue of broadcast packets; 0: the kernel's "
				 "default")),
	JSON_FIELD("runtimeConfig", J_OBJ, struct raw, runtime, .sub = &runtime_table,
		   JSON_DOC(NULL,
			    "set by the runtime, for the capabilities that the netconf declares")),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static const struct {
	const char *name;
	enum macvlan_mode mode;
} modes[] = {
	{"bridge", MACVLAN_BRIDGE},
	{"private", MACVLAN_PRIVATE},
	{"vepa", MACVLAN_VEPA},
	{"passthru", MACVLAN_PASSTHRU},
};

const char *macvlan_mode_name(uint32_t mode)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (modes[i].mode == mode)
			return modes[i].name;
	return "unknown";
}

static int read_mode(const char *text, enum macvlan_mode *ret, struct err *e)
{
	*ret = MACVLAN_BRIDGE;
	if (!text || !*text)
		return 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, text) == 0) {
			*ret = modes[i].mode;
			return 0;
		}
	}
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"unknown macvlan mode: \"%s\" (conf.mode: expected bridge, private, vepa or "
		"passthru)",
		text);
}

static int read_mac(const char *text, const char *place, struct mac *ret, struct err *e)
{
	static const uint8_t zero[MAC_MAX];
	struct mac m;

	if (mac_parse(span_of(text), &m) < 0 || m.len != 6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%s', expected a MAC address such as 02:00:5e:10:00:01",
				place, text);
	if ((m.b[0] & 1) || memcmp(m.b, zero, 6) == 0)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s is '%s', expected the address of one interface (first byte even, "
			"not all zero)",
			place, text);
	*ret = m;
	return 0;
}

static int pick_mac(const struct raw *raw, const char *args_mac, struct mac *ret, struct err *e)
{
	if (str_if_set(raw->runtime.mac))
		return read_mac(raw->runtime.mac, "conf.runtimeConfig.mac", ret, e);
	if (str_if_set(args_mac))
		return read_mac(args_mac, "CNI_ARGS MAC", ret, e);
	if (str_if_set(raw->mac))
		return read_mac(raw->mac, "conf.mac", ret, e);
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
		r = read_mode(raw.mode, &c.macvlan.mode, e);
	if (r >= 0)
		r = pick_mac(&raw, s->args_mac, &c.mac, e);
	if (r < 0)
		return r;
	c.macvlan.bcqueuelen = (uint32_t)raw.bcqueuelen;
	*ret = c;
	return 0;
}

static void spec(const struct rail_conf *c, const struct link *master, struct link_spec *s)
{
	(void)master;
	s->macvlan_mode = c->macvlan.mode;
	s->macvlan_bcqueuelen = c->macvlan.bcqueuelen;
}

static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	if (strcmp(l->kind, "macvlan") != 0)
		return err_set(e, -EINVAL, "error: Container interface %s not of type macvlan",
			       l->name);
	if (l->macvlan_mode != c->macvlan.mode)
		return err_set(e, -EINVAL,
			       "container macvlan mode %s does not match expected value: %s "
			       "(interface %s)",
			       macvlan_mode_name(l->macvlan_mode),
			       macvlan_mode_name(c->macvlan.mode), l->name);
	return 0;
}

static const char *hint(int code)
{
	return code == -EBUSY ? "the master is a port of a bridge or bond, or carries ipvlans: a "
				"device carries macvlans or ipvlans, not both"
			      : NULL;
}

const struct link_driver macvlan_kind = {
	.type = "macvlan",
	.order = RAIL_MACVLAN,
	.flags = RAIL_READS_ARGS,
	.module = "macvlan",
	.read = read_conf,
	.fits = rail_mtu_fits,
	.spec = spec,
	.check = check,
	.hint = hint,
};

const struct cni_plugin cni_macvlan =
	RAIL_PLUGIN(macvlan_kind, "macvlan", &table, &rail_made_table, &rail_common_table);
