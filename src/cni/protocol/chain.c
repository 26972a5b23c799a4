/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/chain.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "spec/definition.h"
#include "cni/protocol/delegate.h"

/* What libcni puts in, whatever the plugin's object says. */
static bool is_ours(const char *key)
{
	static const char *const keys[] = {"cniVersion",
					   "name",
					   "prevResult",
					   "runtimeConfig",
					   "cni.dev/valid-attachments",
					   "cni.dev/attachments"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcasecmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* Of what the runtime offers, the keys that plugin.capabilities.<key> asks for. */
static void put_runtime(const struct chain_call *c, struct json_out *o)
{
	const struct json *caps = json_get(c->plugin, "capabilities");
	const struct json *own = json_get(c->plugin, "runtimeConfig");
	bool open = false;

	for (size_t i = 0; json_kind(c->runtime) == JSON_OBJECT && i < json_len(c->runtime); i++) {
		const char *key;
		const struct json *v = json_pair(c->runtime, i, &key);

		if (json_kind(caps) != JSON_OBJECT || !json_bool(json_get(caps, key)))
			continue;
		if (!open) {
			jo_key(o, "runtimeConfig");
			jo_obj(o);
			open = true;
		}
		jo_key(o, key);
		jo_val(o, v, true);
	}
	if (open) {
		jo_end_obj(o);
	} else if (own) {
		jo_key(o, "runtimeConfig");
		jo_val(o, own, true);
	}
}

static int put_prev(const struct chain_call *c, struct json_out *o, struct err *e)
{
	enum { PREV_MAX = 1 << 20 };
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf text;
	int r;

	buf_init(&text, PREV_MAX);
	cni_result_relay(c->prev, c->call->version, &text);
	r = json_parse(&d, buf_span(&text), PREV_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "prevResult for '%s'", c->type);
	jo_key(o, "prevResult");
	jo_val(o, json_root(d), false);
	return 0;
}

int chain_conf(const struct chain_call *c, bool gc, struct buf *b, struct err *e)
{
	struct json_out o;
	int r = 0;

	jo_init(&o, b, 0);
	jo_obj(&o);
	if (!c->call->no_version)
		jo_kstr(&o, "cniVersion", cni_version_str(c->call->version));
	jo_kstr(&o, "name", c->network);
	for (size_t i = 0; i < json_len(c->plugin); i++) {
		const char *key;
		const struct json *v = json_pair(c->plugin, i, &key);

		if (is_ours(key))
			continue;
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	put_runtime(c, &o);
	if (c->prev)
		r = put_prev(c, &o, e);
	if (gc)
		cni_put_valid(&o, c->valid, c->n_valid);
	jo_end_obj(&o);
	if (r >= 0 && b->over)
		r = err_set(e, -E2BIG, "netconf for '%s' is too long", c->type);
	return r;
}

enum { CONF_MAX = 4 << 20 };

static int wrap(const struct chain_call *c, int code, struct err *e)
{
	err_wrap(e, code, "plugin '%s'", c->type);
	return c->label ? err_wrap(e, code, "%s", c->label) : code;
}

/* The plugin would execute its own ipam.type, and so on for ever. */
static int check_ipam(const struct chain_call *c, struct err *e)
{
	const char *type = cni_ipam_type(c->plugin);

	if (!definition_is_interface_plugin(type))
		return 0;
	return err_kind(
		e, ERR_CONF, -ELOOP,
		"conf.ipam.type is '%s', which makes interfaces, wants an IPAM plugin such as "
		"'host-local'",
		type);
}

int chain_add(const struct chain_call *c, struct cni_result *out, struct err *e)
{
	auto_buf struct buf conf;
	int r;

	buf_init(&conf, CONF_MAX);
	r = check_ipam(c, e);
	if (r >= 0)
		r = chain_conf(c, false, &conf, e);
	if (r >= 0) {
		const struct cni_delegate d = {c->type, "ADD", c->call, c->ifname, buf_span(&conf)};

		r = cni_delegate_add(&d, c->call->version, out, e);
	}
	return r < 0 ? wrap(c, r, e) : 0;
}

int chain_run(const struct chain_call *c, const char *command, struct err *e)
{
	auto_buf struct buf conf;
	int r;

	buf_init(&conf, CONF_MAX);
	r = check_ipam(c, e);
	/* Its ADD was refused: there is nothing to delete. */
	if (r < 0 && (strcmp(command, "DEL") == 0 || strcmp(command, "GC") == 0)) {
		err_clear(e);
		return 0;
	}
	if (r >= 0)
		r = chain_conf(c, strcmp(command, "GC") == 0, &conf, e);
	if (r >= 0) {
		const struct cni_delegate d = {c->type, command, c->call, c->ifname,
					       buf_span(&conf)};

		r = cni_delegate_run(&d, e);
	}
	return r < 0 ? wrap(c, r, e) : 0;
}
