/* SPDX-License-Identifier: Apache-2.0 */
/* ADD of the networks that a pod has in the cluster. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "cni/multi/all_in_one.h"
#include "cni/cluster/net_status.h"
#include "cni/cluster/network_record.h"
#include "cni/cluster/pod_agent.h"
#include "cni/cluster/pod_note.h"
#include "cni/cluster/pod_verbs.h"

enum {
	DOC_MAX = 16 << 20,
	STATUS_MAX = 256 << 10,
	WORDS_MAX = 1000, /* an event has 1024 */
	READY_MS = 45 * 1000,
	LOOK_MS = 100,
};

/* Part of the agent's warning (agent/network/net_plan.c). */
#define NET_NO_DEVICE " has no device of resource "

struct adding {
	struct cni_call *call; /* as it came */
	bool multus;
	struct pod_conf conf;
	struct json_doc *answer;
	struct cni_call own;	  /* with the document that was made */
	enum cni_version printed; /* the first network's */
};

/* --- the document --- */

/* What stands beside the networks in a netconf of unirail-cni. */
static bool is_kept(const char *key)
{
	static const char *const keys[] = {"defaults", "coordinator", "timeoutMs", "runtimeConfig",
					   "multusCniDir"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

static void put_kept(const struct adding *a, struct json_out *o)
{
	struct json_walk w = json_walk_start(a->call->conf);
	const struct json *v;
	const char *key;

	while (!a->multus && (v = json_walk_next(&w, &key))) {
		if (!is_kept(key))
			continue;
		jo_key(o, key);
		jo_val(o, v, false);
	}
}

static const struct json *answer_of(const struct adding *a)
{
	return a->answer ? json_root(a->answer) : NULL;
}

static struct pod_nets nets_of(const struct adding *a)
{
	return (struct pod_nets){
		.call = a->call,
		.conf_dir = a->conf.conf_dir,
		.bin_dir = a->conf.bin_dir,
		.agent = a->conf.agent,
		.state_dir = json_string(json_get(answer_of(a), "stateDir")),
		.coordinator = json_get(answer_of(a), "coordinator"),
		.runtime = json_get_go(a->call->conf, "runtimeConfig"),
	};
}

/* One that the netconf has itself. */
static int put_own(const struct adding *a, struct json_out *o, size_t i, struct err *e)
{
	const struct pod_nets p = nets_of(a);
	struct pod_net net = {.path = a->conf.cluster_path};

	if (a->conf.networks) {
		jo_val(o, json_at(a->conf.networks, i), false);
		return 0;
	}
	if (a->conf.delegates) {
		net.config = json_at(a->conf.delegates, i);
		net.name = json_string(json_get_go(net.config, "name"));
	}
	return pod_net_put(o, &p, &net, i, e);
}

static void copy_devinfo(const struct adding *a, const struct pod_net *net)
{
	const char *device = pod_net_device(net);
	auto_free char *to = NULL;

	if (!device || !net->resource || !net->ifname)
		return;
	to = pod_net_devinfo(pod_net_label(net), a->call->container_id, net->ifname);
	pod_devinfo_copy(&a->call->root, net->resource, device, to);
}

static int put_answered(const struct adding *a, struct json_out *o, const struct json *v, size_t k,
			size_t index, struct err *e)
{
	auto_free char *place = xasprintf("networks[%zu]", k);
	const struct pod_nets p = nets_of(a);
	auto_json struct json_doc *keep = NULL;
	struct pod_net net = {0};
	int r = pod_net_read(a->answer, v, place, &net, e);

	if (r < 0)
		return err_wrap(e, r, "the agent's answer");
	r = pod_net_check(&p, &net, &keep, e);
	if (r >= 0)
		r = pod_net_put(o, &p, &net, index, e);
	if (r >= 0)
		copy_devinfo(a, &net);
	return r;
}

static int put_networks(const struct adding *a, struct json_out *o, struct err *e)
{
	bool replaced = json_bool(json_get(answer_of(a), "replacesFirst"));
	struct json_walk w = json_walk_start(json_get(answer_of(a), "networks"));
	size_t own = pod_conf_own(&a->conf), k = 0;
	size_t first = replaced && own ? 1 : 0;
	const struct json *v;
	int r = 0;

	/* The one in the first's place comes before the others. */
	if (first && (v = json_walk_next(&w, NULL)))
		r = put_answered(a, o, v, k++, 0, e);
	for (size_t i = first; r >= 0 && i < own; i++)
		r = put_own(a, o, i, e);
	while (r >= 0 && (v = json_walk_next(&w, NULL))) {
		r = put_answered(a, o, v, k, own + k - first, e);
		k++;
	}
	return r;
}

static int put_document(const struct adding *a, struct buf *b, struct err *e)
{
	struct json_out o;
	int r;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(a->call->version));
	jo_kstr(&o, "name", a->call->name);
	jo_kstr(&o, "type", "unirail-cni");
	jo_kstr(&o, "cniDir", a->conf.cni_dir);
	jo_kstr(&o, "binDir", a->conf.bin_dir);
	put_kept(a, &o);
	jo_key(&o, "networks");
	jo_arr(&o);
	r = put_networks(a, &o, e);
	jo_end_arr(&o);
	jo_end_obj(&o);
	return r >= 0 && b->over ? err_set(e, -E2BIG, "the pod's networks are too long") : r;
}

static int make_call(struct adding *a, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, DOC_MAX);
	a->own = *a->call;
	a->own.doc = NULL;
	r = put_document(a, &text, e);
	if (r >= 0)
		r = json_parse(&a->own.doc, buf_span(&text), DOC_MAX, e);
	if (r >= 0)
		a->own.conf = json_root(a->own.doc);
	return r;
}

/* --- before and after --- */

static int wait_ready(const struct adding *a, struct err *e)
{
	int64_t end = now_mono_ms() + READY_MS;
	const char *path = a->conf.ready_file;

	while (path && !file_exists(&a->call->root, path)) {
		if (now_mono_ms() >= end)
			return err_kind(
				e, ERR_AGAIN, -ETIMEDOUT,
				"have you checked that your default network is ready? still "
				"waiting for readinessindicatorfile @ %s",
				path);
		poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

static char *devinfo_of(const struct aio *x, const struct aio_net *net)
{
	return pod_net_devinfo(net->nad ? net->nad : net->name, x->call->container_id, net->ifname);
}

static void forget_devinfo(const struct aio *x)
{
	for (size_t i = 0; i < x->n_nets; i++) {
		auto_free char *path = x->nets[i].device ? devinfo_of(x, &x->nets[i]) : NULL;

		if (path)
			pod_devinfo_remove(&x->call->root, path);
	}
}

static void tell(const struct adding *a, const struct aio *x)
{
	auto_free struct net_status *v = xcalloc(x->n_nets, sizeof(*v));
	auto_free struct json_doc **docs = xcalloc(x->n_nets, sizeof(*docs));
	auto_buf struct buf status, words;

	buf_init(&status, STATUS_MAX);
	buf_init(&words, WORDS_MAX);
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct aio_net *net = &x->nets[i];
		auto_free char *path = net->device ? devinfo_of(x, net) : NULL;

		docs[i] = path ? pod_devinfo_read(&x->call->root, path) : NULL;
		v[i] = (struct net_status){.name = net->nad ? net->nad : net->name,
					   .result = net->told.n_ifaces ? &net->told : &net->result,
					   .version = net->call.version,
					   .is_default = i == 0,
					   .device = docs[i] ? json_root(docs[i]) : NULL};
	}
	net_status_write(v, x->n_nets, &status);
	net_status_words(v, x->n_nets, &words);
	pod_agent_done(a->call, &a->conf, json_string(json_get(answer_of(a), "stateDir")), &status,
		       &words);
	for (size_t i = 0; i < x->n_nets; i++)
		json_free(docs[i]);
}

/* Also after a failure: what it did not take back is for GC to find. The note is written before. */
static void record_networks(const struct adding *a)
{
	const char *state_dir = json_string(json_get(answer_of(a), "stateDir"));
	struct json_walk w = json_walk_start(json_get(answer_of(a), "networks"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct pod_net net = {0};

		if (pod_net_read(a->answer, v, "networks", &net, NULL) >= 0)
			network_record_write(a->call, &a->conf, state_dir, &net);
	}
}

static int attach(struct adding *a, struct cni_result *out, struct err *e)
{
	auto_result struct cni_result all = {0};
	auto_aio struct aio x = {0};
	int r = aio_read(&a->own, &x, e);

	if (r < 0)
		return r;
	r = aio_read_plugins(&x, e);
	if (r >= 0) {
		r = aio_add(&x, &all, e);
		record_networks(a);
	}
	if (r < 0) {
		forget_devinfo(&x);
		return r;
	}
	if (a->conf.agent)
		tell(a, &x);
	cni_result_copy(out, a->multus ? &x.nets[0].result : &all);
	a->printed = x.nets[0].call.version;
	return 0;
}

static bool has_version(const struct cni_call *c)
{
	const char *text = json_string(json_get_go(c->conf, "cniVersion"));

	return text && *text;
}

/* A network without its device fails with a plugin's words about a missing deviceID: the agent knows why. */
static void add_reasons(const struct adding *a, struct err *e)
{
	struct json_walk w = json_walk_start(json_get(answer_of(a), "warnings"));
	const struct json *v;

	while (e && (v = json_walk_next(&w, NULL))) {
		size_t n = strlen(e->text);

		if (json_string(v) && strstr(json_string(v), NET_NO_DEVICE))
			snprintf(e->text + n, sizeof(e->text) - n, "; %s", json_string(v));
	}
}

int pod_add(struct cni_call *c, bool multus, struct cni_result *out, struct err *e)
{
	struct adding a = {.call = c, .multus = multus};
	int r = pod_conf_read(c, multus, &a.conf, e);

	if (r >= 0)
		r = wait_ready(&a, e);
	if (r >= 0 && a.conf.agent)
		r = pod_agent_networks(c, &a.conf, &a.answer, e);
	if (r >= 0)
		r = make_call(&a, e);
	if (r >= 0)
		r = attach(&a, out, e);
	/* Multus prints what its first delegate said; a version of the netconf's own counts here. */
	if (r >= 0 && multus && !has_version(c))
		c->version = a.printed;
	if (r < 0)
		add_reasons(&a, e);
	json_free(a.own.doc);
	json_free(a.answer);
	return r;
}

int pod_own_networks(struct cni_call *c, bool multus, const struct pod_conf *conf,
		     struct cni_call *ret, struct err *e)
{
	struct adding a = {.call = c, .multus = multus, .conf = *conf};
	int r = make_call(&a, e);

	if (r < 0)
		json_free(a.own.doc);
	else
		*ret = a.own;
	return r;
}

/* --- STATUS --- */

static int status_of_own(struct adding *a, struct err *e)
{
	auto_aio struct aio x = {0};
	int r = make_call(a, e);

	if (r >= 0)
		r = aio_read(&a->own, &x, e);
	if (r >= 0)
		r = aio_read_plugins(&x, e);
	return r < 0 ? r : aio_status(&x, e);
}

int pod_status(struct cni_call *c, bool multus, struct err *e)
{
	struct adding a = {.call = c, .multus = multus};
	int r = pod_conf_read(c, multus, &a.conf, e);

	if (r >= 0 && a.conf.ready_file && !file_exists(&c->root, a.conf.ready_file))
		r = err_kind(e, ERR_UNAVAILABLE, -ENOENT,
			     "readinessindicatorfile '%s' is not there", a.conf.ready_file);
	if (r >= 0)
		r = a.conf.agent ? pod_agent_status(c, &a.conf, e) : status_of_own(&a, e);
	json_free(a.own.doc);
	return r;
}
