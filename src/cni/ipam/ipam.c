/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the IPAM plugins of all rails: spiderpool in process, with one ADD or DEL for all its
 * rails; host-local, static and whereabouts in process, one rail after the other; any other type
 * is executed from CNI_PATH, except a plugin that makes interfaces, which is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/ipam/spiderpool/spiderpool.h"
#include "cni/protocol/delegate.h"
#include "spec/definition.h"

struct ipam_type {
	const char *name;
	int (*add)(const struct cni_ipam_call *c, struct cni_result *out, struct err *e);
	int (*del)(const struct cni_ipam_call *c, struct err *e);
	int (*check)(const struct cni_ipam_call *c, struct err *e);
	int (*gc)(const struct cni_ipam_call *c, struct err *e);
	int (*status)(const struct cni_ipam_call *c, struct err *e);
};

/* --- IPAM plugins that are executed --- */

/* Returns whether conf_text() writes the key itself. */
static bool conf_text_writes(const char *key, bool gc)
{
	return strcasecmp(key, "name") == 0 || strcasecmp(key, "cniVersion") == 0 ||
	       (gc && (strcmp(key, "cni.dev/valid-attachments") == 0 ||
		       strcmp(key, "cni.dev/attachments") == 0));
}

/*
 * Writes the configuration for an IPAM plugin as libcni does: with name and version of the network,
 * and for GC with the call's valid attachments (under the keys cni.dev/valid-attachments and
 * cni.dev/attachments), which the plugin's object in a netconf of unirail-cni does not contain.
 */
static int conf_text(const struct cni_ipam_call *c, bool gc, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	if (!c->call->no_version)
		jo_kstr(&o, "cniVersion", cni_version_str(c->version));
	jo_kstr(&o, "name", c->name ? c->name : "");
	for (size_t i = 0; i < json_len(c->conf); i++) {
		const char *key;
		const struct json *v = json_pair(c->conf, i, &key);

		if (conf_text_writes(key, gc))
			continue;
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	if (gc)
		cni_put_valid(&o, c->call->valid, c->call->n_valid);
	jo_end_obj(&o);
	return b->over ? -EFBIG : 0;
}

enum { CONF_MAX = 8 << 20 };

static int exec_verb(const struct cni_ipam_call *c, const char *command, struct cni_result *out,
		     struct err *e)
{
	struct cni_delegate d = {
		.type = c->type, .command = command, .call = c->call, .ifname = c->ifname};
	auto_buf struct buf b;

	buf_init(&b, CONF_MAX);
	if (conf_text(c, strcmp(command, "GC") == 0, &b) < 0)
		return err_kind(e, ERR_CONF, -EFBIG, "netconf is longer than %d MiB",
				CONF_MAX >> 20);
	d.conf = buf_span(&b);
	return out ? cni_delegate_add(&d, c->version, out, e) : cni_delegate_run(&d, e);
}

static int exec_add(const struct cni_ipam_call *c, struct cni_result *out, struct err *e)
{
	return exec_verb(c, "ADD", out, e);
}

static int exec_del(const struct cni_ipam_call *c, struct err *e)
{
	return exec_verb(c, "DEL", NULL, e);
}

/* A verb that the version does not have (CHECK before 0.4.0, GC and STATUS before 1.1.0) succeeds
 * without a call. */
static int exec_check(const struct cni_ipam_call *c, struct err *e)
{
	return c->version < CNI_0_4_0 ? 0 : exec_verb(c, "CHECK", NULL, e);
}

static int exec_gc(const struct cni_ipam_call *c, struct err *e)
{
	return c->version < CNI_1_1_0 ? 0 : exec_verb(c, "GC", NULL, e);
}

static int exec_status(const struct cni_ipam_call *c, struct err *e)
{
	return c->version < CNI_1_1_0 ? 0 : exec_verb(c, "STATUS", NULL, e);
}

/* --- IPAM plugins in this process --- */

static int nothing(const struct cni_ipam_call *c, struct err *e)
{
	(void)c;
	(void)e;
	return 0;
}

/* spiderpool has no function for ADD and DEL here: spiderpool_add() and spiderpool_del() get all
 * attachments at once. */
static const struct ipam_type types[] = {
	{"spiderpool", NULL, NULL, spiderpool_check, spiderpool_gc, spiderpool_status},
	{"host-local", host_local_add, host_local_del, host_local_check, host_local_gc,
	 host_local_status},
	{"static", static_add, nothing, static_check, nothing, static_status},
	{"whereabouts", whereabouts_add, whereabouts_del, whereabouts_check, whereabouts_gc,
	 whereabouts_status},
};
static const struct ipam_type executed = {"", exec_add, exec_del, exec_check, exec_gc, exec_status};

/* --- refused IPAM types --- */

/*
 * Refuses an ipam.type that makes interfaces: executed with the same netconf, it would execute its
 * ipam.type again, without end. Since every ADD is refused, no address is allocated, so DEL and GC
 * succeed.
 */
static int refuse(const struct cni_ipam_call *c, struct err *e)
{
	return err_kind(
		e, ERR_CONF, -ELOOP,
		"network '%s': conf.ipam.type is '%s', which is not an IPAM plugin, expected one "
		"such as 'spiderpool' or 'host-local'",
		c->name, c->type);
}

static int refuse_add(const struct cni_ipam_call *c, struct cni_result *out, struct err *e)
{
	(void)out;
	return refuse(c, e);
}

static const struct ipam_type refused = {"", refuse_add, nothing, refuse, nothing, refuse};

static const struct ipam_type *built_in(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i].name, type) == 0)
			return &types[i];
	return NULL;
}

static const struct ipam_type *type_of(const struct cni_ipam_call *c)
{
	const struct ipam_type *t = built_in(c->type);

	if (t)
		return t;
	return definition_is_interface_plugin(c->type) ? &refused : &executed;
}

bool cni_ipam_is_built_in(const char *type)
{
	return built_in(type) != NULL;
}

static bool is_spiderpool(const struct cni_ipam_call *c)
{
	return type_of(c) == &types[0];
}

/* Sets *ret to the calls whose IPAM is spiderpool and returns their number; the caller frees
 * *ret. */
static size_t spiderpools(const struct cni_ipam_call *calls, size_t n,
			  const struct cni_ipam_call ***ret)
{
	const struct cni_ipam_call **v = xcalloc(n + 1, sizeof(*v));
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (is_spiderpool(&calls[i]))
			v[count++] = &calls[i];
	*ret = v;
	return count;
}

static void others_undo(const struct cni_ipam_call *calls, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		struct err e = ERR_INIT;

		if (!is_spiderpool(&calls[i]) && type_of(&calls[i])->del(&calls[i], &e) < 0)
			log_warn("failed to release the addresses of a failed ADD",
				 LOG_S("ifname", calls[i].ifname), LOG_S("error", e.text));
	}
}

static int no_type(const struct cni_ipam_call *c, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "network '%s': conf.ipam.type is missing", c->name);
}

int cni_ipam_add(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	auto_free const struct cni_ipam_call **pooled = NULL;
	size_t n_pooled, i;
	int r = 0;

	for (i = 0; i < n; i++) {
		*calls[i].flags = (struct cni_ipam_flags){0};
		if (!*calls[i].type)
			return no_type(&calls[i], e);
	}
	n_pooled = spiderpools(calls, n, &pooled);
	if (n_pooled > 0)
		r = spiderpool_add(pooled, n_pooled, e);
	if (r < 0)
		return r;
	for (i = 0; i < n && r >= 0; i++)
		if (!is_spiderpool(&calls[i]))
			r = type_of(&calls[i])->add(&calls[i], calls[i].out, e);
	if (r >= 0)
		return 0;
	others_undo(calls, i - 1); /* the call that failed has released its addresses itself */
	spiderpool_undo(pooled, n_pooled);
	for (i = 0; i < n; i++)
		cni_result_done(calls[i].out);
	return r;
}

/* Runs all calls even if one fails; returns the first failure. */
static int each(const struct cni_ipam_call *calls, size_t n, struct err *e,
		int (*verb)(const struct cni_ipam_call *c, struct err *e))
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		struct err reason = ERR_INIT;
		int r = verb(&calls[i], &reason);

		if (r >= 0 || first < 0)
			continue;
		first = r;
		if (e)
			*e = reason;
	}
	return first;
}

/* DEL of all IPAMs but spiderpool, in reverse order. Runs all calls even if one fails; returns the
 * first failure. */
static int del_others(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	int first = 0;

	for (size_t i = n; i-- > 0;) {
		struct err reason = ERR_INIT;
		int r = is_spiderpool(&calls[i]) || !*calls[i].type
				? 0
				: type_of(&calls[i])->del(&calls[i], &reason);

		if (r >= 0 || first < 0)
			continue;
		first = r;
		if (e)
			*e = reason;
	}
	return first;
}

int cni_ipam_del(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	auto_free const struct cni_ipam_call **pooled = NULL;
	size_t n_pooled = spiderpools(calls, n, &pooled);
	struct err reason = ERR_INIT;
	int others = del_others(calls, n, &reason), r = 0;

	if (n_pooled > 0)
		r = spiderpool_del(pooled, n_pooled, e);
	if (r >= 0 && others < 0) {
		if (e)
			*e = reason;
		return others;
	}
	return r;
}

int cni_ipam_check(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = type_of(&calls[i])->check(&calls[i], e);
	return r < 0 ? r : 0;
}

static int gc_one(const struct cni_ipam_call *c, struct err *e)
{
	return type_of(c)->gc(c, e);
}

int cni_ipam_gc(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	return each(calls, n, e, gc_one);
}

int cni_ipam_status(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = type_of(&calls[i])->status(&calls[i], e);
	return r < 0 ? r : 0;
}

int cni_ipam_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
		      const struct mac *other, struct err *e)
{
	if (is_spiderpool(call))
		return spiderpool_conflict(call, a, other, e);
	return type_of(call)->del(call, e);
}
