/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of users' objects. To add code that reads objects of a kind, add one function and
 * one row of subjects[]. */
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/internal.h"
#include "agent/endpoint/endpoint.h"
#include "agent/blocks/adopt.h"
#include "agent/network/plan.h"
#include "base/alloc.h"
#include "controller/admission/admit.h"
#include "controller/gc/gc_cache.h"
#include "controller/injection/inject.h"
#include "controller/nad/diff.h"
#include "controller/webhook/review.h"
#include "controller/subnet/plan.h"
#include "controller/cache/cache.h"
#include "growth.h"
#include "block/codec.h"
#include "spec/pool_annotation.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/kinds.h"
#include "wire/json/stream.h"
#include "wire/yaml/yaml.h"

enum { TEXT_BYTES = 16 << 20 };

static const struct {
	const char *kind, *object;
} bases[] = {
	{"SpiderIPPool", "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
			 "\"spec\":{\"subnet\":\"10.0.0.0/8\",\"ipVersion\":4}}"},
	{"SpiderSubnet", "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
			 "\"spec\":{\"subnet\":\"10.0.0.0/8\",\"ipVersion\":4}}"},
	{"SpiderReservedIP",
	 "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
	 "\"spec\":{\"ipVersion\":4}}"},
	{"SpiderCoordinator",
	 "{\"metadata\":{\"name\":\"default\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
	 "\"spec\":{\"podCIDRType\":\"cluster\"}}"},
	{"SpiderMultusConfig", "{\"metadata\":{\"name\":\"x\",\"namespace\":\"t\",\"uid\":\"u\","
			       "\"resourceVersion\":\"1\"},\"spec\":{}}"},
	{"NetworkAttachmentDefinition",
	 "{\"metadata\":{\"name\":\"x\",\"namespace\":\"t\",\"uid\":\"u\","
	 "\"resourceVersion\":\"1\"},\"spec\":{\"config\":\"{}\"}}"},
	{"SpiderEndpoint", "{\"metadata\":{\"name\":\"x\",\"namespace\":\"t\",\"uid\":\"u\","
			   "\"resourceVersion\":\"1\"},\"status\":{\"current\":{\"uid\":\"u\"}}}"},
	{"SpiderIPBlock",
	 "{\"metadata\":{\"name\":\"x-0\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
	 "\"spec\":{\"pool\":\"x\",\"cidr\":\"10.0.0.0/28\",\"node\":\"n\",\"nodeUID\":\"u\","
	 "\"claim\":\"c\"}}"},
	{"Pod",
	 "{\"metadata\":{\"name\":\"x\",\"namespace\":\"t\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
	 "\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\"}]}}"},
	{"Node", "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}"},
	{"CNI",
	 "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"type\":\"x\",\"master\":\"ens1\",\"interfaces\":"
	 "[\"ens1\"],\"ipam\":{\"addresses\":[{\"address\":\"10.9.0.9/24\"}],\"range\":\"10.0.0.0/8\","
	 "\"ranges\":[[{\"subnet\":\"10.0.0.0/8\"}]]},"
	 "\"networks\":[{\"name\":\"a\",\"type\":\"macvlan\",\"master\":\"ens1\"}],"
	 "\"prevResult\":{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"net1\",\"mac\":"
	 "\"02:00:00:00:00:01\",\"sandbox\":\"/run/netns/not-there\"}],\"ips\":[{\"address\":"
	 "\"172.16.1.20/24\",\"interface\":0}],\"routes\":[]}}"},
	{"Agent",
	 "{\"ip\":{\"containerID\":\"c\",\"ifName\":\"eth0\",\"netNamespace\":\"\",\"podName\":\"p\","
	 "\"podNamespace\":\"s\",\"podUID\":\"u\"},"
	 "\"plan\":{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"net1\"}]},"
	 "\"check\":{\"containerID\":\"c\"},\"report\":{\"containerID\":\"c\"},"
	 "\"release\":{\"containerID\":\"c\"},\"networks\":{\"podNamespace\":\"s\",\"podName\":\"p\"},"
	 "\"gc\":{\"network\":\"n\",\"valid\":[]},\"pools\":{\"command\":\"list\"}}"},
	{"Namespace", "{\"metadata\":{\"name\":\"t\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}"},
};

const char *subject_base(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(bases); i++)
		if (strcmp(bases[i].kind, kind) == 0)
			return bases[i].object;
	return NULL;
}

static const struct json *meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

static const char *text(const struct json *v)
{
	return json_string(v) ? json_string(v) : "";
}

static void write_value(struct buf *b, const struct json *v)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_val(&o, v, false);
}

/* --- any kind --- */

static void put_review(struct buf *b, const struct sample *s)
{
	buf_printf(
		b,
		"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"
		"\"uid\":\"u\",\"kind\":{\"group\":\"g\",\"version\":\"v1\",\"kind\":\"%s\"},"
		"\"operation\":\"%s\",\"object\":",
		s->kind, s->old ? "UPDATE" : "CREATE");
	write_value(b, s->object);
	buf_str(b, ",\"oldObject\":");
	write_value(b, s->old);
	buf_str(b, "}}");
}

static void run_review(const struct sample *s)
{
	auto_buf struct buf b, answer;
	struct review_doc d = {0};

	buf_init(&b, TEXT_BYTES);
	buf_init(&answer, TEXT_BYTES);
	put_review(&b, s);
	if (review_parse(&d, buf_span(&b), NULL) == 0) {
		struct review_answer a;

		review_allow(&a);
		review_write(&answer, &d.q, &a);
		review_drop(&a);
	}
	review_doc_done(&d);
}

/* Reads the object as an event of a watch, and as the only item of a list. */
static void run_split(const struct sample *s)
{
	auto_buf struct buf b;

	for (int mode = 0; mode < 2; mode++) {
		struct json_split split;
		struct span in, piece;
		bool item;

		buf_init(&b, TEXT_BYTES);
		buf_str(&b, mode ? "{\"items\":[" : "");
		write_value(&b, s->object);
		buf_str(&b, mode ? "]}" : "");
		json_split_init(&split, mode ? JSON_SPLIT_LIST : JSON_SPLIT_STREAM, TEXT_BYTES);
		in = buf_span(&b);
		while (json_split_in(&split, &in, &piece, &item, NULL) > 0)
			;
		json_split_done(&split);
		buf_done(&b);
	}
	buf_init(&b, 1);
}

/* Reads the object as YAML, of which JSON is a subset. */
static void run_yaml(const struct sample *s)
{
	auto_buf struct buf b, json;

	buf_init(&b, TEXT_BYTES);
	buf_init(&json, TEXT_BYTES);
	write_value(&b, s->object);
	yaml_to_json(buf_span(&b), &json, NULL);
}

static void run_diff(const struct sample *s)
{
	struct kube_patch p;

	kube_patch_init(&p);
	kube_patch_diff(&p, s->old, s->object);
	kube_patch_end(&p);
	kube_patch_done(&p);
}

static void run_cache(const struct sample *s)
{
	auto_buf struct buf b;

	for (int k = 0; k < CLUSTER_CACHE_KINDS; k++) {
		struct cluster_cache_object v = {0};

		buf_init(&b, TEXT_BYTES);
		cluster_cache_trim_large((enum cluster_cache_kind)k, s->object, &b);
		buf_done(&b);
		cluster_cache_decode((enum cluster_cache_kind)k, &v, s->object, NULL);
		json_free(v.doc);
	}
	buf_init(&b, 1);
}

/* Decodes the object as the agent's cache does. */
static void run_cluster(const struct sample *s)
{
	for (size_t i = 0; i < CLUSTER_KINDS; i++) {
		const struct kube_cache_kind *d = &cluster_kinds[i];
		auto_free void *value = NULL;

		if (strcmp(d->kind->name, s->kind) != 0)
			continue;
		value = xcalloc(1, d->size);
		d->decode(value, s->object, NULL);
		d->drop(value);
	}
}

/* --- admission --- */

static struct admit_request request_from(const struct sample *s, bool old)
{
	return (struct admit_request){s->kind,
				      s->old ? ADMIT_UPDATE : ADMIT_CREATE,
				      "t",
				      "x",
				      old ? NULL : s->object,
				      s->old,
				      NULL};
}

/* Returns a cache that has, for a SpiderIPPool or SpiderSubnet, the object's previous version
 * (without one, the object itself) as its one pool and its one subnet, and is empty for other
 * kinds. */
static struct admit_cache cluster_cache_of(const struct sample *s, const struct json **others)
{
	bool pool = strcmp(s->kind, "SpiderIPPool") == 0,
	     net = strcmp(s->kind, "SpiderSubnet") == 0;

	others[0] = s->old ? s->old : s->object;
	return (struct admit_cache){.agent_ns = "kube-system",
				    .pools = others,
				    .subnets = others,
				    .n_pools = pool || net,
				    .n_subnets = pool || net};
}

static void run_default(const struct sample *s)
{
	const struct json *others[1];
	struct admit_cache w = cluster_cache_of(s, others);
	struct admit_request q = request_from(s, false);
	struct admit_answer a;

	admit_default(&w, &q, &a);
	admit_answer_done(&a);
}

static void check(const struct sample *s, const char *name)
{
	const struct json *others[1];
	struct admit_cache w = cluster_cache_of(s, others);
	struct admit_request q = request_from(s, false);
	struct admit_answer a;

	q.name = name;
	admit_check(&w, &q, &a);
	admit_answer_done(&a);
	admit_is_contended(&q);
}

static void run_check(const struct sample *s)
{
	check(s, "x");
}

static void run_check_beside(const struct sample *s)
{
	check(s, "y");
}

static void run_delete(const struct sample *s)
{
	const struct json *others[1];
	struct admit_cache w = cluster_cache_of(s, others);
	struct admit_request q = {s->kind, ADMIT_DELETE, "t", "x", NULL, s->object, NULL};
	struct admit_answer a;

	admit_check(&w, &q, &a);
	admit_answer_done(&a);
}

/* --- pools --- */

/* Builds the set of pools from the object and its previous version, as an agent does. */
static void run_pools(const struct sample *s)
{
	char *lines[2] = {0};
	struct pool_set set;
	size_t n = 0;

	if (pool_kube_text(s->object, s->kind, &lines[n], NULL) == 0)
		n++;
	if (s->old && pool_kube_text(s->old, s->kind, &lines[n], NULL) == 0)
		n++;
	pool_kube_set((const char *const *)lines, n, "kube-system", &set);
	pool_set_done(&set);
	for (size_t i = 0; i < 2; i++)
		free(lines[i]);
}

static void take_record(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	(void)pod, (void)uid;
	ip_set_collect(arg, &(struct ip_range){*ip, *ip});
}

static void run_subnet(const struct sample *s)
{
	const char *noted = text(json_get(json_get(s->object, "status"), "controlledIPPools"));
	const char *used = text(json_get(json_get(s->object, "status"), "allocatedIPs"));
	struct subnet_entries l = {0};
	struct ip_set ips = {0}, old = {0}, records = {0};
	auto_buf struct buf b;

	buf_init(&b, TEXT_BYTES);
	if (subnet_spec_ips(json_get(s->object, "spec"), &ips, NULL) == 0 &&
	    subnet_spec_ips(json_get(s->old, "spec"), &old, NULL) == 0)
		ip_set_intersect(&ips, &old, &records);
	ip_set_done(&records);
	ip_set_done(&ips);
	ip_set_done(&old);
	if (subnet_entries_read(noted, 4, &l, NULL) == 0)
		subnet_entries_write(&l, &b);
	subnet_entries_done(&l);
	pool_records_read(used, take_record, &records, NULL);
	ip_set_merge(&records);
	ip_set_done(&records);
}

/* --- networks --- */

static void run_nad(const struct sample *s)
{
	static const struct nad_state state = {"x", false, "Invalid", "because"};
	const struct json *there = s->old ? s->old : s->object;
	auto_buf struct buf b;
	struct nad n;

	buf_init(&b, TEXT_BYTES);
	if (nad_write(s->object, &n, NULL) == 0) {
		nad_put(&b, &n, s->object);
		buf_reset(&b);
		nad_patch(&b, &n, s->object, there);
		nad_done(&n);
	}
	buf_reset(&b);
	nad_status_patch(&b, s->object, &state, 0);
}

/* Sets cniType to the type whose settings the object has, so that they are rendered. */
static void run_nad_types(const struct sample *s)
{
	static const char *const types[][2] = {{"macvlan", "macvlan"},	{"ipvlan", "ipvlan"},
					       {"vlan", "vlan"},	{"sriov", "sriov"},
					       {"ib-sriov", "ibsriov"}, {"ipoib", "ipoib"},
					       {"ovs", "ovs"}};
	auto_json struct json_doc *doc = NULL;
	auto_tree struct json_tree *t = NULL;
	auto_buf struct buf b = {0};
	struct json_out o;

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (!t && json_get(json_get(s->object, "spec"), types[i][1])) {
			t = json_tree_over(s->object);
			json_tree_put_text(json_tree_member(t, "spec"), "cniType", types[i][0]);
		}
	if (!t)
		return;
	buf_init(&b, TEXT_BYTES);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	if (json_parse(&doc, buf_span(&b), TEXT_BYTES, NULL) == 0) {
		struct sample typed = {s->kind, json_root(doc), s->old};

		run_nad(&typed);
		run_default(&typed);
		run_check(&typed);
	}
}

/* Reads the network as the injection of networks into pods does. */
static void run_inject_net(const struct sample *s)
{
	struct inject_net n;

	inject_net_read(s->object, &n);
	inject_net_done(&n);
}

/* --- pods --- */

static void inject(const struct sample *s, size_t n)
{
	static struct inject_net net = {.ns = "s",
					.name = "n",
					.nad = "n",
					.type = "sriov",
					.rail = "r",
					.resource = "x.io/r",
					.takes = true,
					.pools = true,
					.group = {"w0", "w0"}};
	const struct inject_net *list[1] = {&net};
	struct inject_index *index = inject_index_new(list, n);
	struct inject_request q = {.pod = s->object, .ns = "t", .index = index, .ipc_lock = true};
	struct kube_patch p;

	q.ns_group[INJECT_RDMA] = n ? "w0" : NULL;
	inject_is_requested(meta(s->object, "annotations"));
	kube_patch_init(&p);
	inject_pod(&q, &p, NULL);
	kube_patch_end(&p);
	kube_patch_done(&p);
	inject_index_free(index);
}

static void run_inject(const struct sample *s)
{
	inject(s, 1);
}

static bool find_nad(void *arg, const char *ns, const char *name, struct net_nad *ret)
{
	(void)arg, (void)ns, (void)name;
	*ret = (struct net_nad){.config = "{\"name\":\"n\",\"type\":\"macvlan\"}"};
	return true;
}

static void run_net_plan(const struct sample *s)
{
	const struct net_lookup lookup = {find_nad, NULL};
	const struct net_request request = {
		.ifname = "eth0", .pod_uid = "u", .multus_ns = "kube-system"};
	struct pod_facts pod = {0};
	auto_net_plan struct net_plan plan = {0};
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, TEXT_BYTES);
	if (pod_facts_read(s->object, &pod, NULL) < 0)
		return;
	if (net_plan_make(&request, &pod, &lookup, &plan, NULL) == 0) {
		jo_init(&o, &b, 0);
		jo_obj(&o);
		net_plan_put(&plan, &o);
		jo_end_obj(&o);
	}
	pod_facts_done(&pod);
}

/* Reads the pod's routes, and its pools for two interfaces. */
static void run_pod_pools(const struct sample *s)
{
	static const struct pod_nic nics[2] = {{.ifname = "eth0"}, {.ifname = "n1"}};
	struct pod_pool_request pod_requests[2] = {0};
	struct pool_route *routes = NULL;
	struct pod_facts pod = {0};
	struct pod_pools_facts f = {.pod = &pod, .ns_annotations = &pod.annotations};
	size_t n;

	if (pod_facts_read(s->object, &pod, NULL) < 0)
		return;
	if (pod_routes_read(&pod, &routes, &n, NULL) == 0)
		pod_routes_give(routes, n, NULL, 0, NULL, 0);
	free(routes);
	if (pod_pools_request(&f, nics, 2, pod_requests, NULL) >= 0)
		for (size_t i = 0; i < 2; i++)
			pod_pool_request_done(&pod_requests[i]);
	pod_facts_done(&pod);
}

static void run_traces(const struct sample *s)
{
	struct json_walk w = json_walk_start(meta(s->object, "annotations"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct adopt_traces t = {0};

		adopt_read_status(text(v), &t, NULL);
		adopt_traces_done(&t);
	}
}

/* --- endpoints, blocks, nodes --- */

static void run_endpoint(const struct sample *s)
{
	auto_free char *status = endpoint_status_of(s->object);
	struct gc_cache_endpoint e = {0};
	struct adopt_traces t = {0};

	gc_cache_read_endpoint(s->object, &e);
	gc_cache_endpoint_done(&e);
	adopt_read_endpoint(status, &t, NULL);
	adopt_traces_done(&t);
}

static void run_block(const struct sample *s)
{
	struct block_object o = {0};

	block_object_read(s->object, &o, NULL);
	block_object_done(&o);
}

static void run_node(const struct sample *s)
{
	struct gc_cache_node n = {0};

	gc_cache_read_node(s->object, &n);
}

const struct subject subjects[] = {
	{"review", NULL, run_review, false},
	{"split", NULL, run_split, false},
	{"YAML", NULL, run_yaml, false},
	{"patch", NULL, run_diff, true},
	{"controller's cache", NULL, run_cache, false},
	{"agent's cache", NULL, run_cluster, false},
	{"admission, defaults", NULL, run_default, true},
	{"admission", NULL, run_check, true},
	{"admission beside others", NULL, run_check_beside, true},
	{"admission, deletion", NULL, run_delete, false},
	{"agent's pools", "SpiderIPPool SpiderReservedIP SpiderSubnet", run_pools, true},
	{"subnets", "SpiderIPPool SpiderSubnet", run_subnet, true},
	{"network definition", "SpiderMultusConfig", run_nad, true},
	{"network definition by type", "SpiderMultusConfig", run_nad_types, false},
	{"injection's networks", "SpiderMultusConfig", run_inject_net, false},
	{"injection", "Pod", run_inject, false},
	{"pod's networks", "Pod", run_net_plan, false},
	{"pod's pools", "Pod", run_pod_pools, false},
	{"pod's traces", "Pod", run_traces, false},
	{"endpoint", "SpiderEndpoint", run_endpoint, false},
	{"block", "SpiderIPBlock", run_block, false},
	{"node", "Node", run_node, false},
	{"coordinator", "CNI", growth_coordinator, false},
	{"tuning", "CNI", growth_tuning, false},
	{"sbr", "CNI", growth_sbr, false},
	{"ifacer", "CNI", growth_ifacer, false},
	{"macvlan", "CNI", growth_macvlan, false},
	{"sriov", "CNI", growth_sriov, false},
	{"unirail-cni", "CNI", growth_multi, false},
	{"host-local", "CNI", growth_host_local, false},
	{"whereabouts", "CNI", growth_whereabouts, false},
	{"spiderpool", "CNI", growth_spiderpool, false},
	{"static", "CNI", growth_static, false},
	{"agent's API", "Agent", growth_api, false},
};
const size_t n_subjects = ARRAY_LEN(subjects);
