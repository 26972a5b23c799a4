/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod's networks from its annotations to unirail-cni's own configuration. Parts with a NUL
 * between them: the annotation of the networks, the annotation of the default network, a
 * spec.config (every definition has it), the kubelet's checkpoint, the runtime's runtimeConfig, the
 * coordinator's settings; then a byte of options.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/network/plan.h"
#include "base/alloc.h"
#include "cni/multi/multi.h"
#include "cni/cluster/add.h"
#include "files.h"
#include "fuzz.h"
#include "kern/net/link.h"
#include "spec/annotations.h"

enum { TEXT_MAX = 4 << 20 };

static struct span part(struct feed *f)
{
	const uint8_t *nul = f->n ? memchr(f->p, 0, f->n) : NULL;
	struct span s = {(const char *)f->p, nul ? (size_t)(nul - f->p) : f->n};

	f->p += s.n + (nul != NULL);
	f->n -= s.n + (nul != NULL);
	return s;
}

struct scene {
	char *asked, *first, *config;
	struct span checkpoint;
	struct json_doc *runtime, *settings;
	uint8_t flags;
};

static bool find(void *arg, const char *ns, const char *name, struct net_nad *ret)
{
	const struct scene *s = arg;

	must(ns && name);
	*ret = (struct net_nad){.config = s->config,
				.resource = s->flags & 1 ? "x/vf" : NULL,
				.trusted = s->flags & 16,
				.distrusted = s->flags & 32};
	return !(s->flags & 2) || strcmp(name, "none") != 0;
}

static void check_names(const struct net_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *a = p->v[i].ifname ? p->v[i].ifname : "eth0";

		must(link_name_ok(a));
		for (size_t k = 0; k < i; k++)
			must(strcmp(a, p->v[k].ifname ? p->v[k].ifname : "eth0") != 0);
	}
}

static int choose(const struct scene *s, struct net_plan *p, struct err *e)
{
	static const char *const names[] = {"kube-system"};
	const struct net_lookup lookup = {find, (void *)s};
	const struct net_request w = {.ifname = "eth0",
				      .pod_uid = "u",
				      .n_netconf = s->flags >> 6,
				      .cluster_network = s->flags & 4 ? "cluster" : NULL,
				      .multus_ns = "kube-system",
				      .global_ns = "default,team",
				      .system_ns = {(const char **)names, 1},
				      .isolation = s->flags & 8};
	struct pod_facts pod = {.ns = xstrdup("ns"),
				.name = xstrdup("p"),
				.uid = xstrdup("u"),
				.node = xstrdup("n")};
	int r;

	if (*s->asked)
		labels_put(&pod.annotations, ANNOTATION_NETWORKS, s->asked);
	if (*s->first)
		labels_put(&pod.annotations, ANNOTATION_DEFAULT_NETWORK, s->first);
	r = net_plan_make(&w, &pod, &lookup, p, e);
	pod_facts_done(&pod);
	return r;
}

/*
 * Writes the networks as a configuration of unirail-cni and reads it as a CNI call does; a network
 * that cannot be written is refused with a message.
 */
static void write_down(const struct scene *s, struct json_doc *answer, struct cni_call *call)
{
	struct json_walk w = json_walk_start(json_get(json_root(answer), "networks"));
	const struct pod_nets p = {.call = call,
				   .conf_dir = "/net.d",
				   .bin_dir = "/none",
				   .agent = "/a",
				   .state_dir = "/s",
				   .coordinator = s->settings ? json_root(s->settings) : NULL,
				   .runtime = s->runtime ? json_root(s->runtime) : NULL};
	auto_json struct json_doc *d = NULL;
	struct multi x = {0};
	struct err e = ERR_INIT;
	const struct json *v;
	struct json_out o;
	auto_buf struct buf b;
	size_t i = 0;
	int r = 0;

	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "networks");
	jo_arr(&o);
	while (r == 0 && (v = json_walk_next(&w, NULL))) {
		auto_json struct json_doc *keep = NULL;
		struct pod_net net;

		must(pod_net_read(answer, v, "networks", &net, &e) == 0);
		r = pod_net_check(&p, &net, &keep, &e);
		if (r == 0)
			r = pod_net_put(&o, &p, &net, i++, &e);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	if (fuzz_refused(r, &e) || b.over)
		return;
	must(json_parse(&d, buf_span(&b), TEXT_MAX, &e) == 0);
	call->doc = d;
	call->conf = json_root(d);
	if (fuzz_refused(multi_read(call, &x, &e), &e))
		return;
	must(x.n_nets == i);
	fuzz_refused(multi_read_plugins(&x, &e), &e);
	multi_done(&x);
}

static void go_on(const struct scene *s, struct net_plan *p)
{
	struct cni_call call = {.container_id = "c",
				.netns = "/n",
				.ifname = "eth0",
				.path = "",
				.args_text = "",
				.name = "n",
				.version = CNI_1_0_0};
	auto_allocated struct allocated a = {0};
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;

	call.root = *fuzz_root();
	buf_init(&b, TEXT_MAX);
	fuzz_refused(allocated_checkpoint(&a, s->checkpoint, "u", &e), &e);
	net_plan_devices(p, &a);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	net_plan_put(p, &o);
	jo_end_obj(&o);
	if (b.over)
		return;
	must(json_parse(&d, buf_span(&b), TEXT_MAX, &e) == 0);
	write_down(s, d, &call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_net_plan struct net_plan p = {0};
	struct feed f = {data, size};
	struct scene s = {0};
	struct err e = ERR_INIT;
	struct span runtime, settings;

	s.asked = text_of(part(&f));
	s.first = text_of(part(&f));
	s.config = text_of(part(&f));
	s.checkpoint = part(&f);
	runtime = part(&f);
	settings = part(&f);
	s.flags = feed_byte(&f);
	json_parse(&s.runtime, runtime, TEXT_MAX, NULL);
	json_parse(&s.settings, settings, TEXT_MAX, NULL);
	if (!fuzz_refused(choose(&s, &p, &e), &e)) {
		check_names(&p);
		go_on(&s, &p);
	}
	json_free(s.runtime);
	json_free(s.settings);
	free(s.asked);
	free(s.first);
	free(s.config);
	files_clear();
	return 0;
}
