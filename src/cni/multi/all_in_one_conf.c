/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/multi/all_in_one_private.h"

enum { MAX_NETWORKS = 128, MAX_TIMEOUT_MS = 60000 };

struct raw {
	const struct json *networks, *defaults, *coordinator;
	const char *cni_dir, *bin_dir;
	int64_t timeout_ms;
};

static const struct json_field fields[] = {
	{.name = "networks", .type = J_VAL, .offset = offsetof(struct raw, networks)},
	{.name = "defaults", .type = J_VAL, .offset = offsetof(struct raw, defaults)},
	{.name = "coordinator", .type = J_VAL, .offset = offsetof(struct raw, coordinator)},
	{.name = "timeoutMs",
	 .type = J_INT,
	 .offset = offsetof(struct raw, timeout_ms),
	 .min = 1,
	 .max = MAX_TIMEOUT_MS},
	{.name = "cniDir", .type = J_STR, .offset = offsetof(struct raw, cni_dir)},
	{.name = "binDir", .type = J_STR, .offset = offsetof(struct raw, bin_dir)},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

/* The common coordinator is for our own networks: a foreign default network has its own ways. */
static void share_coordinator(struct aio *x, const struct json *co)
{
	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].kind && !x->nets[i].co)
			x->nets[i].co = co;
}

static int want_object(const struct json *v, const char *place, struct err *e)
{
	if (!v || json_kind(v) == JSON_OBJECT)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, wants an object", place,
			json_kind_name(v));
}

static int want_absolute(const char *path, const char *place, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%s', wants an absolute path", place, path);
}

/* Multus puts it first, and hands the whole to what it calls. */
static void add_bin_dir(struct aio *x, const char *dir)
{
	struct cni_call *c = x->call;

	if (!dir || !*dir)
		return;
	x->path = xasprintf("%s%s%s", dir, *c->path ? ":" : "", c->path);
	c->path = x->path;
}

static int read_all(struct cni_call *c, struct aio *x, struct err *e)
{
	struct raw raw = {0};
	int r = json_read(c->doc, c->conf, &table, &raw, "conf", e);

	if (r >= 0)
		r = want_object(raw.defaults, "conf.defaults", e);
	if (r >= 0)
		r = want_object(raw.coordinator, "conf.coordinator", e);
	if (r >= 0)
		r = want_absolute(raw.cni_dir, "conf.cniDir", e);
	if (r >= 0)
		r = want_absolute(raw.bin_dir, "conf.binDir", e);
	if (r < 0)
		return r;
	if (json_kind(raw.networks) != JSON_ARRAY || !json_len(raw.networks))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"conf.networks is not there, wants an array with a network or more");
	if (json_len(raw.networks) > MAX_NETWORKS)
		return err_kind(e, ERR_CONF, -E2BIG,
				"conf.networks has %zu networks, wants %d at most",
				json_len(raw.networks), MAX_NETWORKS);
	add_bin_dir(x, raw.bin_dir);
	x->keep_dir = raw.cni_dir && *raw.cni_dir ? raw.cni_dir : NULL;
	x->defaults = raw.defaults;
	x->later_args = aio_later_args(c->args_text);
	x->timeout_ms = (int)raw.timeout_ms;
	for (size_t i = 0; r >= 0 && i < json_len(raw.networks); i++)
		r = aio_take_net(x, json_at(raw.networks, i), i, e);
	if (r >= 0 && raw.coordinator)
		share_coordinator(x, raw.coordinator);
	return r < 0 ? r : aio_check_gateways(x, e);
}

int aio_read(struct cni_call *c, struct aio *ret, struct err *e)
{
	struct aio x = {.call = c};
	int r = read_all(c, &x, e);

	if (r < 0) {
		aio_done(&x);
		return r;
	}
	*ret = x;
	return 0;
}

static void net_done(struct aio_net *net)
{
	free(net->label);
	free(net->ifname);
	free(net->args);
	free(net->gateways);
	free(net->ahead);
	free(net->before);
	free(net->after);
	co_conf_done(&net->co_conf);
	cni_result_done(&net->result);
	cni_result_done(&net->told);
	cni_result_done(&net->prev);
}

void aio_done(struct aio *x)
{
	for (size_t i = 0; i < x->n_nets; i++)
		net_done(&x->nets[i]);
	free(x->later_args);
	free(x->path);
	free(x->nets);
	free(x->rails);
	free(x->nics);
	*x = (struct aio){0};
}
