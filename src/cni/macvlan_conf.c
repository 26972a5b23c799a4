/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/macvlan.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct runtime_conf {
	const char *mac;
};

/* The netconf as it stands in JSON. */
struct raw {
	const char *master, *mode, *mac;
	int64_t mtu, bcqueuelen;
	bool in_container;
	struct runtime_conf runtime;
	const struct json *ipam, *dns;
};

static const struct json_field runtime_fields[] = {
	{.name = "mac", .type = J_STR, .offset = offsetof(struct runtime_conf, mac)},
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};

static const struct json_field fields[] = {
	{.name = "master", .type = J_STR, .offset = offsetof(struct raw, master)},
	{.name = "mode", .type = J_STR, .offset = offsetof(struct raw, mode)},
	{.name = "mtu", .type = J_INT, .offset = offsetof(struct raw, mtu)},
	{.name = "mac", .type = J_STR, .offset = offsetof(struct raw, mac)},
	{.name = "linkInContainer", .type = J_BOOL, .offset = offsetof(struct raw, in_container)},
	{.name = "bcqueuelen",
	 .type = J_INT,
	 .offset = offsetof(struct raw, bcqueuelen),
	 .min = 0,
	 .max = UINT32_MAX},
	{.name = "runtimeConfig",
	 .type = J_OBJ,
	 .offset = offsetof(struct raw, runtime),
	 .sub = &runtime_table},
	{.name = "ipam", .type = J_VAL, .offset = offsetof(struct raw, ipam)},
	{.name = "dns", .type = J_VAL, .offset = offsetof(struct raw, dns)},
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
	return err_kind(e, ERR_CONF, -EINVAL,
			"unknown macvlan mode: \"%s\" (conf.mode wants bridge, private, vepa or "
			"passthru)",
			text);
}

static int read_mac(const char *text, const char *place, struct mac *ret, struct err *e)
{
	static const uint8_t zero[MAC_MAX];
	struct mac m;

	if (mac_parse(span_of(text), &m) < 0 || m.len != 6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%s', wants a MAC address such as 02:00:5e:10:00:01", place,
				text);
	if ((m.b[0] & 1) || memcmp(m.b, zero, 6) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%s', wants the address of one interface (first byte even, "
				"not all zero)",
				place, text);
	*ret = m;
	return 0;
}

static bool given(const char *s)
{
	return s && *s;
}

static int pick_mac(const struct raw *raw, const char *args_mac, struct mac *ret, struct err *e)
{
	if (given(raw->runtime.mac))
		return read_mac(raw->runtime.mac, "conf.runtimeConfig.mac", ret, e);
	if (given(args_mac))
		return read_mac(args_mac, "CNI_ARGS MAC", ret, e);
	if (given(raw->mac))
		return read_mac(raw->mac, "conf.mac", ret, e);
	return 0;
}

int macvlan_conf_read(struct json_doc *d, const struct json *defaults, const struct json *conf,
		      const char *args_mac, struct macvlan_conf *ret, struct err *e)
{
	struct macvlan_conf c = {0};
	struct raw raw = {0};
	int r = 0;

	if (defaults)
		r = json_read(d, defaults, &table, &raw, "conf.defaults", e);
	if (r >= 0)
		r = json_read(d, conf, &table, &raw, "conf", e);
	if (r < 0)
		return r;
	r = read_mode(raw.mode, &c.mode, e);
	if (r < 0)
		return r;
	/* The upper limit is the master's, which is not known yet. */
	if (raw.mtu < 0 || raw.mtu > INT32_MAX)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid MTU %lld, must be [0, master MTU] (conf.mtu)",
				(long long)raw.mtu);
	r = pick_mac(&raw, args_mac, &c.mac, e);
	if (r < 0)
		return r;
	c.master = given(raw.master) ? raw.master : NULL;
	c.mtu = (uint32_t)raw.mtu;
	c.bcqueuelen = (uint32_t)raw.bcqueuelen;
	c.in_container = raw.in_container;
	c.ipam = raw.ipam;
	c.dns = raw.dns;
	*ret = c;
	return 0;
}

int macvlan_fits(const struct macvlan_conf *c, const struct link *master, struct err *e)
{
	if (c->mtu > master->mtu)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid MTU %u, must be [0, master MTU(%u)] (conf.mtu; master is '%s')",
			c->mtu, master->mtu, master->name);
	return 0;
}

struct raw_dns {
	const char *domain;
	struct json_strs nameservers, search, options;
};

static const struct json_field dns_fields[] = {
	{.name = "domain", .type = J_STR, .offset = offsetof(struct raw_dns, domain)},
	{.name = "nameservers", .type = J_STRS, .offset = offsetof(struct raw_dns, nameservers)},
	{.name = "search", .type = J_STRS, .offset = offsetof(struct raw_dns, search)},
	{.name = "options", .type = J_STRS, .offset = offsetof(struct raw_dns, options)},
	{0},
};
static const struct json_table dns_table = {dns_fields, JSON_GO, sizeof(struct raw_dns)};

static void copy_strs(const struct json_strs *from, char ***to, size_t *n)
{
	for (size_t i = 0; i < from->n; i++)
		VEC_PUSH(*to, *n) = xstrdup(from->v[i]);
}

int cni_dns_read(struct json_doc *d, const struct json *dns, struct cni_dns *ret, struct err *e)
{
	struct raw_dns raw = {0};
	int r;

	if (json_kind(dns) == JSON_NULL)
		return 0;
	r = json_read(d, dns, &dns_table, &raw, "conf.dns", e);
	if (r < 0)
		return r;
	if (given(raw.domain))
		ret->domain = xstrdup(raw.domain);
	copy_strs(&raw.nameservers, &ret->nameservers, &ret->n_nameservers);
	copy_strs(&raw.search, &ret->search, &ret->n_search);
	copy_strs(&raw.options, &ret->options, &ret->n_options);
	return 0;
}
