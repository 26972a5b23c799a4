/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/del.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "cni/cluster/agent_client.h"
#include "cni/cluster/internal.h"
#include "cni/multi/multi.h"
#include "cni/multus/import.h"
#include "cni/multus/internal.h"
#include "cni/protocol/cni_call.h"
#include "ipam/ipam.h"

/* DEL and CHECK of a pod's networks in the cluster, from its cache entry. */

static void forget_devinfo(const struct multi *x)
{
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct multi_net *net = &x->nets[i];
		auto_free char *path = NULL;

		if (!net->device)
			continue;
		path = pod_net_devinfo(net->nad ? net->nad : net->name, x->call->container_id,
				       net->ifname);
		pod_devinfo_remove(&x->call->root, path);
	}
}

static void multus_cache_results(struct multus_cache_entry *n, struct multi *x)
{
	for (size_t i = 0; n->has_results && i < n->n_results && i < x->n_nets; i++)
		multi_set_prev(x, i, n->results[i]);
}

int multus_cache_del(struct multus_cache_entry *entry, struct err *e)
{
	auto_multi struct multi x = {0};
	int r = multi_read(&entry->call, &x, e);

	if (r < 0)
		return r;
	multus_cache_results(entry, &x);
	forget_devinfo(&x);
	return multi_del(&x, e);
}

/*
 * Without a cache entry nothing was attached, or everything is already deleted. If the entry was
 * removed by hand, addresses may still be allocated: this function releases them.
 */
static void del_addresses(const struct cni_call *c, const struct pod_conf *conf)
{
	const struct ipam_paths paths = {0};
	auto_ipam struct ipam *store = NULL;
	struct err reason = ERR_INIT;
	int r;

	if (conf->agent && file_exists(&c->root, conf->agent) &&
	    pod_agent_release(c, conf, &reason) >= 0)
		return;
	err_clear(&reason);
	if (!file_exists(&c->root, PATH_IPAM_STATE "/journal"))
		return;
	r = ipam_open(&store, &c->root, &paths, &reason);
	if (r >= 0)
		r = ipam_release(store, c->container_id, NULL, &reason);
	if (r < 0)
		log_warn("cannot release the container's addresses", LOG_S("error", reason.text));
}

/* As in Multus, plugins are searched in binDir first. */
static int del_others(const struct cni_call *c, const struct pod_conf *conf, struct err *e)
{
	auto_free char *path = xasprintf("%s%s%s", conf->bin_dir, *c->path ? ":" : "", c->path);
	struct cni_call call = *c;

	call.path = path;
	return multus_del_in(&call, conf->cni_dir, e);
}

static bool is_half(const char *name, const char *middle)
{
	size_t n = strlen(name);

	return *name == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0 && strstr(name, middle);
}

/* Removes temporary files of a killed ADD. No other process writes files of this container now. */
static void sweep(const struct cni_call *c, const char *dir, const char *middle)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(&c->root, dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		if (is_half(names[i], middle))
			file_remove(&c->root, path, NULL);
	}
	str_list_free(names, n);
}

static void sweep_entries(const struct cni_call *c, const struct pod_conf *conf)
{
	auto_free char *results = xasprintf("%s/results", conf->cni_dir);
	auto_free char *scratch = xasprintf(".%s.", c->container_id);
	auto_free char *cached = xasprintf("-%s-", c->container_id);

	sweep(c, conf->cni_dir, scratch);
	sweep(c, results, cached);
}

int pod_del(struct cni_call *c, bool multus, struct err *e)
{
	auto_multus_cache_entry struct multus_cache_entry entry = {0};
	struct pod_conf conf;
	enum multus_cache_kind kind;
	int r;

	pod_conf_or_default(c, multus, &conf);
	sweep_entries(c, &conf);
	kind = multus_cache_read(c, conf.cni_dir, conf.bin_dir, &entry);
	if (kind == MULTUS_CACHE_OWN)
		return multus_cache_del(&entry, e);
	r = del_others(c, &conf, e);
	if (r == 0 && kind == MULTUS_CACHE_NONE)
		del_addresses(c, &conf);
	return r < 0 ? r : 0;
}

int pod_check(struct cni_call *c, bool multus, struct err *e)
{
	auto_multus_cache_entry struct multus_cache_entry entry = {0};
	auto_multi struct multi x = {0};
	struct pod_conf conf;
	enum multus_cache_kind kind;
	int r = pod_conf_read(c, multus, &conf, e);

	if (r < 0)
		return r;
	kind = multus_cache_read(c, conf.cni_dir, conf.bin_dir, &entry);
	if (kind == MULTUS_CACHE_OTHER)
		/* succeeds without a check: CHECK of Multus does not read its cache entry either */
		return 0;
	if (kind == MULTUS_CACHE_NONE)
		return err_kind(
			e, ERR_OTHER, -ENOENT,
			"no record of container '%s' in '%s' (conf.cniDir): the container is not "
			"attached",
			c->container_id, conf.cni_dir);
	r = multi_read(&entry.call, &x, e);
	if (r < 0)
		return r;
	multus_cache_results(&entry, &x);
	r = multi_read_plugins(&x, e);
	return r < 0 ? r : multi_check(&x, e);
}

enum { DOC_MAX = 16 << 20, DEVINFO_MAX = 64 << 10 };

/* --- the document: recorded networks as a netconf of unirail-cni --- */

static void put_plugins(struct json_out *o, const struct json *conf)
{
	const struct json *list = json_get_go(conf, "plugins");

	jo_key(o, "plugins");
	jo_arr(o);
	if (json_kind(list) == JSON_ARRAY)
		for (size_t i = 0; i < json_len(list); i++)
			jo_val(o, json_at(list, i), false);
	else
		jo_val(o, conf, false);
	jo_end_arr(o);
}

static const char *text_of(const struct json *v, const char *key)
{
	const char *text = json_string(json_get_go(v, key));

	return text ? text : "";
}

int multus_cache_put_network(struct json_out *o, const struct network *net, bool attached,
			     struct err *e)
{
	auto_json struct json_doc *d = NULL;
	const struct json *conf;
	int r = json_parse(&d, net->conf, MULTUS_CONF_MAX, e);

	if (r < 0)
		return r;
	conf = json_root(d);
	jo_obj(o);
	jo_kstr(o, "name", text_of(conf, "name"));
	jo_kstr(o, "nad", net->name ? net->name : text_of(conf, "name"));
	if (attached)
		jo_kstr(o, "ifname", net->ifname);
	jo_kstr(o, "cniVersion", net->version ? net->version : text_of(conf, "cniVersion"));
	if (attached && net->args)
		jo_kstr(o, "cniArgs", net->args);
	if (attached && net->device)
		jo_kstr(o, "deviceID", net->device);
	put_plugins(o, conf);
	jo_end_obj(o);
	return 0;
}

static int put_document(const struct multus *m, const char *bin_dir, struct buf *b, struct err *e)
{
	struct json_out o;
	int r = 0;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(m->call->version));
	jo_kstr(&o, "name", m->call->name);
	jo_kstr(&o, "type", "unirail-cni");
	jo_kstr(&o, "cniDir", m->dir);
	jo_kstr(&o, "binDir", bin_dir);
	jo_key(&o, "networks");
	jo_arr(&o);
	for (size_t i = 0; r == 0 && i < m->n_nets; i++)
		r = multus_cache_put_network(&o, &m->nets[i], true, e);
	jo_end_arr(&o);
	jo_end_obj(&o);
	return r == 0 && b->over ? err_set(e, -E2BIG, "the networks' configurations exceed %d MiB",
					   DOC_MAX >> 20)
				 : r;
}

/* --- prevResult --- */

/* Reads a recorded result; NULL: there is none, or it is unreadable. */
static struct cni_result *result_of(const struct network *net)
{
	const struct libcni_cached *c = net->file ? &net->file->cached : NULL;
	const struct json *v = c && c->full ? c->full : c ? c->result : NULL;
	enum cni_version version = CNI_1_0_0;
	struct cni_result one = {0}, *ret;
	struct err reason = ERR_INIT;

	if (json_kind(v) != JSON_OBJECT)
		return NULL;
	cni_version_parse(text_of(v, "cniVersion"), &version);
	if (cni_result_parse(c->doc, v, version, &one, &reason) < 0) {
		log_warn("ignoring the recorded result of a network",
			 LOG_S("file", net->file->path), LOG_S("error", reason.text));
		return NULL;
	}
	ret = xcalloc(1, sizeof(*ret));
	*ret = one;
	return ret;
}

/* Without recorded results the runtime's prevResult is used, for the networks that it contains. */
static void take_results(const struct multus *m, struct multus_cache_entry *n)
{
	n->results = xcalloc(m->n_nets, sizeof(*n->results));
	n->n_results = m->n_nets;
	for (size_t i = 0; i < m->n_nets; i++) {
		n->results[i] = result_of(&m->nets[i]);
		n->has_results |= n->results[i] != NULL;
	}
	if (n->call.has_prev)
		cni_result_copy(&n->call.prev, &m->call->prev);
}

enum multus_cache_kind multus_cache_read(const struct cni_call *c, const char *cni_dir,
					 const char *bin_dir, struct multus_cache_entry *ret)
{
	auto_multus struct multus m = {.call = c, .dir = cni_dir};
	struct err reason = ERR_INIT;
	auto_buf struct buf text;

	buf_init(&text, DOC_MAX);
	*ret = (struct multus_cache_entry){.call = *c};
	ret->call.doc = NULL;
	ret->call.prev = (struct cni_result){0};
	multus_find(&m);
	if (!m.found)
		return MULTUS_CACHE_NONE;
	if (!multus_is_own(&m))
		return MULTUS_CACHE_OTHER;
	if (put_document(&m, bin_dir, &text, &reason) < 0 ||
	    json_parse(&ret->call.doc, buf_span(&text), DOC_MAX, &reason) < 0) {
		log_warn("cannot read this pod's cache entry", LOG_S("file", m.scratch),
			 LOG_S("error", reason.text));
		return MULTUS_CACHE_OTHER;
	}
	ret->call.conf = json_root(ret->call.doc);
	take_results(&m, ret);
	return MULTUS_CACHE_OWN;
}

void multus_cache_done(struct multus_cache_entry *n)
{
	for (size_t i = 0; i < n->n_results; i++) {
		if (n->results[i])
			cni_result_done(n->results[i]);
		free(n->results[i]);
	}
	free(n->results);
	cni_result_done(&n->call.prev);
	json_free(n->call.doc);
	*n = (struct multus_cache_entry){0};
}

/* --- device information --- */

void pod_devinfo_copy(const struct root *r, const char *resource, const char *device,
		      const char *to)
{
	auto_free char *from = xasprintf(PATH_DEVINFO_DP "/%s-%s-device.json", resource, device);
	auto_free char *dir = xstrdup(to);
	struct err reason = ERR_INIT;
	auto_buf struct buf text;
	int n;

	for (char *at = from + strlen(PATH_DEVINFO_DP "/"); (at = strchr(at, '/'));)
		*at = '-';
	*strrchr(dir, '/') = '\0';
	buf_init(&text, DEVINFO_MAX);
	n = file_read(r, from, DEVINFO_MAX, &text, &reason);
	if (n == -ENOENT)
		return;
	if (n >= 0)
		n = dir_make(r, dir, 0755, &reason);
	if (n >= 0)
		n = file_replace(r, to, buf_span(&text), 0444, &reason);
	if (n < 0)
		log_warn("cannot copy device information", LOG_S("error", reason.text));
}

struct json_doc *pod_devinfo_read(const struct root *r, const char *path)
{
	struct json_doc *d = NULL;
	struct err reason = ERR_INIT;
	auto_buf struct buf text;
	int n;

	buf_init(&text, DEVINFO_MAX);
	n = file_read(r, path, DEVINFO_MAX, &text, &reason);
	if (n >= 0)
		n = json_parse(&d, buf_span(&text), DEVINFO_MAX, &reason);
	if (n < 0 && n != -ENOENT)
		log_warn("cannot read device information", LOG_S("file", path),
			 LOG_S("error", reason.text));
	return d;
}

void pod_devinfo_remove(const struct root *r, const char *path)
{
	struct err reason = ERR_INIT;

	if (file_remove(r, path, &reason) < 0)
		log_warn("cannot remove device information", LOG_S("error", reason.text));
}
