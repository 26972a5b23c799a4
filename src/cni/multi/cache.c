/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache entries that let a node return to Multus: the scratch file and libcni's cache, as if Multus
 * had attached each network separately. Configurations have version 1.0.0 at most, since the
 * plugins that Multus calls may not support newer ones.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sweep.h"
#include "cni/multi/internal.h"
#include "cni/multus/cache.h"
#include "cni/multus/import.h"
#include "cni/protocol/cni_call.h"

enum { TEXT_MAX = 4 << 20 };

static enum cni_version version_for_multus(const struct multi_net *net)
{
	return net->call.version < CNI_1_0_0 ? net->call.version : CNI_1_0_0;
}

/* Returns the network's CNI version ("": none) if the configuration for Multus has a different
 * one; otherwise NULL. */
static const char *other_version(const struct multi_net *net)
{
	if (net->call.no_version)
		return "";
	return net->call.version == version_for_multus(net) ? NULL
							    : cni_version_str(net->call.version);
}

/* --- a network as a list of plugins --- */

static bool is_one_of(const char *key, const char *const *list)
{
	for (; *list; list++)
		if (strcasecmp(key, *list) == 0)
			return true;
	return false;
}

/* Keys of a plugin's object that are not copied: libcni sets cniVersion and name from the list,
 * put_plugin() writes type. */
static const char *const lists[] = {"cniVersion", "name", "type", NULL};
/* If the plugin's object is that of the network, these keys belong to the network and are not
 * copied; deviceID belongs to both. */
static const char *const networks[] = {"cniVersion", "name",	"type",		"ifname",
				       "nad",	     "cniArgs", "defaultRoute", NULL};

static void put_keys(struct json_out *o, const struct json *from, const char *const *but,
		     const struct json *unless)
{
	struct json_walk w = json_walk_start(from);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (is_one_of(key, but) || json_kind(json_get_go(unless, key)) != JSON_NULL)
			continue;
		jo_key(o, key);
		jo_val(o, v, false);
	}
}

static void put_plugin(struct json_out *o, const char *type, const struct json *conf,
		       const char *const *but, const struct json *defaults)
{
	jo_obj(o);
	jo_kstr(o, "type", type);
	put_keys(o, conf, but, NULL);
	put_keys(o, defaults, lists, conf);
	jo_end_obj(o);
}

static void put_each(struct json_out *o, const struct multi_plugin *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_plugin(o, v[i].type, v[i].conf, lists, NULL);
}

static void put_network(const struct multi *x, const struct multi_net *net, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(version_for_multus(net)));
	jo_kstr(&o, "name", net->name);
	jo_key(&o, "plugins");
	jo_arr(&o);
	put_each(&o, net->ahead, net->n_ahead);
	put_plugin(&o, net->main.type, net->main.conf, net->flat ? networks : lists,
		   net->kind ? x->defaults : NULL);
	put_each(&o, net->before, net->n_before);
	if (net->co)
		put_plugin(&o, "coordinator", net->co, lists, NULL);
	put_each(&o, net->after, net->n_after);
	jo_end_arr(&o);
	jo_end_obj(&o);
}

/* --- the scratch file and libcni's cache files --- */

static char *scratch_path(const struct multi *x)
{
	return xasprintf("%s/%s", x->keep_dir, x->call->container_id);
}

static int make_scratch(const struct multi *x, struct buf *text, struct err *e)
{
	struct json_out o;
	int r = 0;

	jo_init(&o, text, 0);
	jo_arr(&o);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++) {
		const struct multi_net *net = &x->nets[i];
		auto_buf struct buf conf;

		buf_init(&conf, TEXT_MAX);
		put_network(x, net, &conf);
		r = multus_delegates_put(
			&o,
			&(struct multus_entry){.name = net->nad ? net->nad : net->name,
					       .keeper = x->call->name,
					       .ifname = net->named ? net->ifname : NULL,
					       .device = net->device,
					       .args = net->own_cni_args,
					       .version = other_version(net),
					       .conf = buf_span(&conf)},
			e);
	}
	jo_end_arr(&o);
	return r < 0 || !text->over
		       ? r
		       : err_set(e, -E2BIG, "the entry exceeds %d MiB", TEXT_MAX >> 20);
}

static int forget(void *arg, struct err *e)
{
	const struct multi *x = *(const struct multi **)arg;

	(void)e;
	multus_forget(x->call, x->keep_dir);
	return 0;
}

static int cannot(const struct multi *x, int code, struct err *e)
{
	return err_wrap(e, code, "save the pod's entry for Multus in '%s' (conf.cniDir)",
			x->keep_dir);
}

int multi_keep(const struct multi *x, struct undo *u, struct err *e)
{
	auto_free char *path = NULL;
	auto_buf struct buf text;
	int r;

	buf_init(&text, TEXT_MAX);
	if (!x->keep_dir)
		return 0;
	path = scratch_path(x);
	if (multus_has(x->call, x->keep_dir)) {
		log_debug("writing no entry for Multus, because the pod has one that Multus or "
			  "another network configuration wrote",
			  LOG_S("file", path));
		return 0;
	}
	r = make_scratch(x, &text, e);
	if (r >= 0)
		r = dir_make(&x->call->root, x->keep_dir, 0700, e);
	if (r >= 0)
		undo_push(u, "remove the entry for Multus", forget, &x, sizeof(x));
	if (r >= 0)
		r = file_replace(&x->call->root, path, buf_span(&text), 0600, e);
	return r < 0 ? cannot(x, r, e) : 0;
}

static int keep_result(const struct multi *x, const struct multi_net *net, const char *dir,
		       struct err *e)
{
	const struct cni_call *c = x->call;
	auto_free char *path =
		xasprintf("%s/%s-%s-%s", dir, net->name, c->container_id, net->ifname);
	auto_buf struct buf conf, result, full, text;
	struct json_out o;
	int r;

	buf_init(&conf, TEXT_MAX);
	buf_init(&result, TEXT_MAX);
	buf_init(&full, TEXT_MAX);
	buf_init(&text, TEXT_MAX);
	put_network(x, net, &conf);
	cni_result_relay(&net->result, version_for_multus(net), &result);
	if (version_for_multus(net) < CNI_1_0_0)
		cni_result_relay(&net->result, CNI_1_1_0, &full);
	jo_init(&o, &text, 0);
	r = libcni_cached_put(&o,
			      &(struct libcni_entry){c->container_id, net->name, net->ifname,
						     c->netns, c->args_text, buf_span(&conf),
						     buf_span(&result), buf_span(&full)},
			      e);
	return r < 0 ? r : file_replace(&c->root, path, buf_span(&text), 0600, e);
}

int multi_keep_results(const struct multi *x, struct err *e)
{
	auto_free char *dir = NULL;
	int r;

	if (!x->keep_dir || multus_has(x->call, x->keep_dir))
		return 0;
	dir = xasprintf("%s/results", x->keep_dir);
	r = dir_make(&x->call->root, dir, 0700, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = keep_result(x, &x->nets[i], dir, e);
	return r < 0 ? cannot(x, r, e) : 0;
}

/* Removes temporary files that a killed ADD left: those of this container, and old ones. */
static void sweep(const struct multi *x)
{
	auto_free char *own = scratch_path(x), *results = xasprintf("%s/results", x->keep_dir);

	file_sweep(&x->call->root, own);
	file_sweep_old(&x->call->root, x->keep_dir);
	file_sweep_old(&x->call->root, results);
}

void multi_forget(const struct multi *x)
{
	if (!x->keep_dir)
		return;
	multus_forget(x->call, x->keep_dir);
	sweep(x);
}

void multi_forget_others(const struct multi *x)
{
	struct cni_call c = *x->call;
	char **names = NULL;
	size_t n = 0;

	if (!x->keep_dir || !c.has_valid || dir_list(&c.root, x->keep_dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		c.container_id = names[i];
		if (cni_name_ok(names[i]) && !cni_is_valid(&c, names[i], NULL))
			multus_forget(&c, x->keep_dir);
	}
	str_list_free(names, n);
}
