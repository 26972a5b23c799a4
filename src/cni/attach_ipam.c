/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses for all rails in one call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/attach_private.h"
#include "cni/chain.h"

/* The IPAM's own arrays are by call, ours by rail. */
struct asked {
	struct cni_ipam_call *calls;
	size_t *rails; /* calls[i] is of rail rails[i] */
	size_t n;
};

static void asked_done(struct asked *s)
{
	free(s->calls);
	free(s->rails);
}

static void ask_all(const struct attach *a, struct asked *ret)
{
	size_t n = 0;

	ret->calls = xcalloc(a->n_rails, sizeof(*ret->calls));
	ret->rails = xcalloc(a->n_rails, sizeof(*ret->rails));
	for (size_t i = 0; i < a->n_rails; i++) {
		if (!rail_has_ipam(&a->rails[i]))
			continue;
		ret->calls[n] = a->rails[i].ipam;
		ret->rails[n++] = i;
	}
	ret->n = n;
}

static int undo_ipam(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	__attribute__((cleanup(asked_done))) struct asked s = {0};

	ask_all(a, &s);
	return cni_ipam_del(s.calls, s.n, e);
}

static int take_addresses(struct rail *rail, struct cni_result *got,
			  const struct cni_ipam_flags *flags, struct err *e)
{
	cni_result_done(&rail->got);
	rail->got = *got;
	*got = (struct cni_result){0};
	rail->flags = *flags;
	if (!rail->got.n_ips) {
		err_kind(e, ERR_CONF, -ENODATA, "IPAM plugin returned missing IP config");
		return rail_err(rail, -ENODATA, e);
	}
	return 0;
}

static int ask(struct attach *a, const struct asked *s, struct err *e)
{
	auto_free struct cni_ipam_flags *flags = xcalloc(s->n, sizeof(*flags));
	struct cni_result *got = xcalloc(s->n, sizeof(*got));
	int r = cni_ipam_add(s->calls, s->n, got, flags, e);

	/* All of them are taken in whatever one says, so that undo frees all of them. */
	for (size_t i = 0; i < s->n; i++) {
		if (r >= 0)
			r = take_addresses(&a->rails[s->rails[i]], &got[i], &flags[i], e);
		cni_result_done(&got[i]);
	}
	free(got);
	return r < 0 ? r : 0;
}

int attach_ipam(struct attach *a, struct err *e)
{
	__attribute__((cleanup(asked_done))) struct asked s = {0};

	ask_all(a, &s);
	if (!s.n)
		return 0;
	/* Before the call: what an executed IPAM did before it failed is given back, too. */
	undo_push(&a->undo, "give back addresses", undo_ipam, &a, sizeof(a));
	return ask(a, &s, e);
}

int attach_ask_again(struct attach *a, size_t rail, struct err *e)
{
	struct asked s = {&a->rails[rail].ipam, &rail, 1};

	return ask(a, &s, e);
}

/* --- GC and STATUS --- */

static const struct cni_plugin *ours(const char *type)
{
	static const struct cni_plugin *const plugins[] = {&cni_host_local, &cni_static,
							   &cni_spiderpool};

	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (strcmp(plugins[i]->name, type) == 0)
			return plugins[i];
	return NULL;
}

static int foreign_verb(const struct cni_ipam_call *c, const char *type, const char *command,
			struct err *e)
{
	const struct chain_call chain = {
		.call = c->call,
		.plugin = c->conf,
		.type = type,
		.network = c->name,
		.ifname = c->ifname,
		.valid = c->call->valid,
		.n_valid = c->call->n_valid,
	};

	return chain_run(&chain, command, e);
}

static int verb(const struct cni_ipam_call *c, const char *command, struct err *e)
{
	const char *type = c->conf ? cni_ipam_type(c->conf) : "";
	const struct cni_plugin *p = ours(type);
	struct cni_call call = *c->call;
	int (*fn)(struct cni_call *, struct err *);

	if (!*type)
		return 0;
	if (!p)
		return foreign_verb(c, type, command, e);
	call.doc = c->doc;
	call.conf = c->conf;
	call.name = c->name;
	call.type = type;
	call.version = c->version;
	fn = strcmp(command, "GC") == 0 ? p->gc : p->status;
	return fn ? fn(&call, e) : 0;
}

int attach_ipam_gc(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	int first = 0;

	/* What cannot be collected for one network is no reason to leave the others'. */
	for (size_t i = 0; i < n; i++) {
		int r = verb(&calls[i], "GC", first < 0 ? NULL : e);

		if (first >= 0)
			first = r;
	}
	return first < 0 ? first : 0;
}

int attach_ipam_status(const struct cni_ipam_call *calls, size_t n, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = verb(&calls[i], "STATUS", e);
	return r < 0 ? r : 0;
}
