/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How injection changes a pod because of an annotation, and what injection refuses. In JSON texts,
 * ' stands for ", for readability.
 */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/alloc.h"
#include "controller/injection/inject.h"

#define RDMA	"'cni.spidernet.io/rdma-resource-inject'"
#define NETWORK "'cni.spidernet.io/network-resource-inject'"
#define NETS	"'k8s.v1.cni.cncf.io/networks'"
#define GATE	"'ippools':{'ipv4':['p']}"

/* namespace, name, annotations, cniType, other fields of spec */
static const char *const smcs[][5] = {
	/* three rails whose names have another order than their netdevs */
	{"net", "rail-a", RDMA ":'gpu'", "macvlan",
	 "'macvlan':{'master':['eth10'],'rdmaResourceName':'x/r10'," GATE "}"},
	{"net", "rail-b", RDMA ":'gpu'", "macvlan",
	 "'macvlan':{'master':['eth2'],'rdmaResourceName':'x/r2'," GATE "}"},
	{"net", "rail-c", RDMA ":'gpu'," NETWORK ":'slow'", "ipvlan",
	 "'ipvlan':{'master':['e1','e2'],'bond':{'name':'bond3','mode':1},"
	 "'rdmaResourceName':'x/r2'," GATE "}"},
	/* two networks whose VFs belong to one resource; an annotation sets the name of the
	 * second one's NetworkAttachmentDefinition */
	{"net", "vf-1", RDMA ":'vf, both'", "sriov", "'sriov':{'resourceName':'x/vf'," GATE "}"},
	{"net", "vf-2", RDMA ":'vf','multus.spidernet.io/cr-name':'vf-two'", "sriov",
	 "'sriov':{'resourceName':'x/vf'," GATE "}"},
	{"net", "ib-10", RDMA ":'ib'", "ib-sriov", "'ibsriov':{'resourceName':'x/a'," GATE "}"},
	{"net", "ib-9", RDMA ":'ib,both'", "ib-sriov", "'ibsriov':{'resourceName':'x/b'," GATE "}"},
	{"net", "ipoib", NETWORK ":'store'", "ipoib", "'ipoib':{'master':'ib0'," GATE "}"},
	{"net", "plain", NETWORK ":'store'", "macvlan", "'macvlan':{'master':['eth1']}"},
	{"net", "no-ipam", RDMA ":'bare'", "sriov",
	 "'disableIPAM':true,'sriov':{'resourceName':'x/vf'}"},
	/* networks that injection must refuse */
	{"bad", "custom", RDMA ":'custom'", "custom", "'customCNI':'{}'"},
	{"bad", "none", RDMA ":'none'", "macvlan", "'macvlan':{'master':['eth0']," GATE "}"},
	{"bad", "pool", RDMA ":'pool'", "ib-sriov", "'ibsriov':{'resourceName':'x/vf'}"},
	{"bad", "netpool", NETWORK ":'pool'", "sriov", "'sriov':{'resourceName':'x/vf'}"},
};

static struct inject_net nets[ARRAY_LEN(smcs)];
static const struct inject_net *list[ARRAY_LEN(smcs)];

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(smcs); i++) {
		const char *const *s = smcs[i];
		auto_free char *text =
			xasprintf("{'metadata':{'namespace':'%s','name':'%s','annotations':{%s}},"
				  "'spec':{'cniType':'%s',%s}}",
				  s[0], s[1], s[2], s[3], s[4]);
		auto_json struct json_doc *d = t_json_quoted(text);

		inject_net_read(json_root(d), &nets[i]);
		list[i] = &nets[i];
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(smcs); i++)
		inject_net_done(&nets[i]);
	return 0;
}

/* --- one pod --- */

static void on_warning(void *arg, const char *text)
{
	buf_printf(arg, "%s%s", ((struct buf *)arg)->len ? "; " : "", text);
}

struct run {
	const char *ns_rdma, *ns_network;
	bool ipc_lock;
	struct buf warnings;
	struct err e;
};

static int run(struct run *r, const struct json *pod, struct kube_patch *p)
{
	struct inject_request q = {.pod = pod,
				   .ns = "team",
				   .ns_group = {r->ns_rdma, r->ns_network},
				   .ipc_lock = r->ipc_lock,
				   .warn = on_warning,
				   .arg = &r->warnings};

	struct inject_index *index = inject_index_new(list, ARRAY_LEN(list));
	int n;

	q.index = index;
	buf_init(&r->warnings, 4096);
	err_clear(&r->e);
	n = inject_pod(&q, p, &r->e);
	inject_index_free(index);
	return n;
}

/* Returns the pod with the patch, which an independent implementation (yyjson) applies. */
static char *patched(const char *pod, const char *patch)
{
	yyjson_doc *a = yyjson_read(pod, strlen(pod), 0), *b;
	yyjson_patch_err reason = {0};
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *v;
	char *text;

	b = yyjson_read(patch, strlen(patch), 0);
	v = yyjson_patch(d, yyjson_doc_get_root(a), yyjson_doc_get_root(b), &reason);
	if (!v)
		fail_msg("%s does not apply: %s", patch, reason.msg);
	yyjson_mut_doc_set_root(d, v);
	text = yyjson_mut_write(d, 0, NULL);
	yyjson_mut_doc_free(d);
	yyjson_doc_free(a);
	yyjson_doc_free(b);
	return text;
}

static void expect(const char *name, const char *is, const char *wanted)
{
	auto_free char *w = t_quoted(wanted);

	if (strcmp(is, w) != 0)
		fail_msg("%s:\n is       %s\n expected %s", name, is, w);
}

/* --- injected pods --- */

#define C0 "'spec':{'containers':[{'name':'c'}]}"
#define MORE(x)                                                                                    \
	"{'op':'add','path':'/metadata/annotations/k8s.v1.cni.cncf.io~1networks','value':'" x "'}"
#define FIRST	 "{'op':'add','path':'/metadata/annotations','value':{" NETS ":'"
#define RES(x)	 "{'op':'add','path':'/spec/containers/0/resources','value':{'limits':{" x "}}}"
#define LIM	 "'/spec/containers/0/resources/limits"
#define NI(x, i) "{\\'name\\':\\'" x "\\',\\'namespace\\':\\'net\\',\\'interface\\':\\'" i "\\'}"
#define REPLACED                                                                                      \
	"[{'op':'replace','path':'/metadata/annotations/k8s.v1.cni.cncf.io~1networks','value':'[" NI( \
		"ib-9", "net1") "," NI("ib-10", "net2") "]'}"
#define OVERWRITTEN(list)                                                                          \
	"the pod's annotation 'k8s.v1.cni.cncf.io/networks' (" list                                \
	") is replaced with the networks of the pod's annotation "                                 \
	"'cni.spidernet.io/rdma-resource-inject': use one of the two"
#define RAILS	       NI("rail-c", "net1") "," NI("rail-b", "net2") "," NI("rail-a", "net3")
#define RAIL_RESOURCES "'x/r2':'1','x/r10':'1'"
#define POD(a, more)   "{'metadata':{'annotations':{" a "}}," more "}"

static const struct {
	const char *name, *ns_rdma, *ns_network, *pod, *patch, *warning;
	bool ipc_lock;
} good[] = {
	{.name = "without an annotation of pod and namespace nothing is injected",
	 NULL,
	 NULL,
	 "{'metadata':{'generateName':'x-'}," C0 "}",
	 "[]"},
	{.name = "an annotation with only commas and blanks requests nothing",
	 NULL,
	 NULL,
	 POD(RDMA ":' , '", C0),
	 "[]"},
	{.name = "rails are injected in the order of their netdevs",
	 NULL,
	 NULL,
	 POD(RDMA ":'gpu'", C0),
	 "[" MORE("[" RAILS "]") "," RES(RAIL_RESOURCES) "]"},
	{.name = "the namespace requests injection for a pod without annotations",
	 "gpu",
	 NULL,
	 "{'metadata':{'generateName':'job-'}," C0 "}",
	 "[" FIRST "[" RAILS "]'}}," RES(RAIL_RESOURCES) "]"},
	{.name = "the namespace requests injection for a pod whose annotations are null",
	 "gpu",
	 NULL,
	 "{'metadata':{'annotations':null}," C0 "}",
	 "[" FIRST "[" RAILS "]'}}," RES(RAIL_RESOURCES) "]"},
	{.name = "the namespace requests injection for a pod whose metadata has only a name",
	 "gpu",
	 NULL,
	 "{'metadata':{'name':'x'}," C0 "}",
	 "[" FIRST "[" RAILS "]'}}," RES(RAIL_RESOURCES) "]"},
	{.name = "the pod's annotation takes precedence over the namespace's",
	 "ib",
	 NULL,
	 POD(RDMA ":'gpu'", C0),
	 "[" MORE("[" RAILS "]") "," RES(RAIL_RESOURCES) "]"},
	{.name = "an empty annotation of the pod disables the namespace's",
	 "gpu",
	 NULL,
	 POD(RDMA ":''", C0),
	 "[]"},
	{.name = "the namespace's RDMA annotation takes precedence over the pod's network annotation",
	 "ib",
	 NULL,
	 POD(NETWORK ":'store'", C0),
	 "[" MORE("[" NI("ib-9", "net1") "," NI("ib-10", "net2") "]") "," RES(
		 "'x/b':'1','x/a':'1'") "]",
	 "the pod's annotation 'cni.spidernet.io/network-resource-inject' is ignored: the "
	 "namespace's 'cni.spidernet.io/rdma-resource-inject' takes precedence"},
	{.name = "an empty RDMA annotation of the pod leaves the namespace's network annotation in force",
	 "ib",
	 "store",
	 POD(RDMA ":''", C0),
	 "[" MORE("[" NI("ipoib", "net1") "," NI("plain", "net2") "]") "]"},
	{.name = "networks without a resource are injected, and no resource is added",
	 NULL,
	 NULL,
	 POD(NETWORK ":'store'", C0),
	 "[" MORE("[" NI("ipoib", "net1") "," NI("plain", "net2") "]") "]"},
	{.name = "networks of several groups are sorted together, by rail and name",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib , vf,ib'", C0),
	 "[" MORE("[" NI("ib-9", "net1") "," NI("ib-10", "net2") "," NI("vf-1", "net3") "," NI(
		 "vf-two", "net4") "]") "," RES("'x/b':'1','x/a':'1','x/vf':'2'") "]"},
	{.name = "a network that is in two requested groups is injected once",
	 NULL,
	 NULL,
	 POD(RDMA ":'both,ib'", C0),
	 "[" MORE("[" NI("ib-9", "net1") "," NI("ib-10", "net2") "," NI(
		 "vf-1", "net3") "]") "," RES("'x/b':'1','x/a':'1','x/vf':'1'") "]"},
	{.name = "two networks of one resource add two devices; a NAD may have another name than its SpiderMultusConfig",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", C0),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "," RES("'x/vf':'2'") "]"},
	{.name = "a network with disableIPAM needs no pool",
	 NULL,
	 NULL,
	 POD(RDMA ":'bare'", C0),
	 "[" MORE("[" NI("no-ipam", "net1") "]") "," RES("'x/vf':'1'") "]"},

	/* pods that already have a list of networks */
	{.name = "a list of other networks is replaced, with a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":'mine, net/b@eth5'", C0),
	 REPLACED "," RES("'x/b':'1','x/a':'1'") "]",
	 OVERWRITTEN("mine, net/b@eth5")},
	{.name = "a JSON list of other networks is replaced, with a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":'[{\\'name\\':\\'m\\'}]'", C0),
	 REPLACED "," RES("'x/b':'1','x/a':'1'") "]",
	 OVERWRITTEN("[{\"name\":\"m\"}]")},
	{.name = "an invalid list of networks is replaced, with a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":'a/b/c'", C0),
	 REPLACED "," RES("'x/b':'1','x/a':'1'") "]",
	 OVERWRITTEN("a/b/c")},
	{.name = "a list of the same networks in another order is replaced, with a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":'net/ib-10,net/ib-9'", C0),
	 REPLACED "," RES("'x/b':'1','x/a':'1'") "]",
	 OVERWRITTEN("net/ib-10,net/ib-9")},
	{.name = "an empty list of networks is replaced, without a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":''", C0),
	 REPLACED "," RES("'x/b':'1','x/a':'1'") "]"},
	{.name = "a list of the same networks in the same order is not changed",
	 NULL,
	 NULL,
	 POD(RDMA ":'ib'," NETS ":'net/ib-9@ib7,net/ib-10'",
	     "'spec':{'containers':[{'resources':{'limits':{'x/a':'1','x/b':1}}}]}"),
	 "[]"},

	/* pods whose containers already have limits or requests */
	{.name = "the resource is added to the container's other limits",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'",
	     "'spec':{'containers':[{'resources':{'limits':{'cpu':'1'}}},{'name':'d'}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") ",{'op':'add','path':" LIM
								       "/x~1vf',"
								       "'value':'2'}]"},
	{.name = "limits are added to a container that has only requests",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'containers':[{'resources':{'requests':{'cpu':'1'}}}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") ",{'op':'add','path':" LIM
								       "',"
								       "'value':{'x/vf':'2'}}]"},
	{.name = "no resource is added if the second container has it",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'",
	     "'spec':{'containers':[{'name':'c'},{'resources':{'limits':{'x/vf':'2'}}}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "]"},
	{.name = "no resource is added if a sidecar has it",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'containers':[{'name':'c'}],'initContainers':["
			   "{'restartPolicy':'Always','resources':{'limits':{'x/vf':'2'}}}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "]"},
	{.name = "the resource of an init container, which ends, does not count",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'containers':[{'name':'c'}],'initContainers':["
			   "{'resources':{'limits':{'x/vf':'2'}}}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "," RES("'x/vf':'2'") "]"},
	{.name = "limits with fewer devices than the networks need are not changed, with a warning",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'containers':[{'resources':{'limits':{'x/vf':'1'}}}]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "]",
	 "the pod's containers request 1 of resource 'x/vf' but its networks need 2: requests are "
	 "not changed"},
	{.name = "a pod without containers gets networks and no resource",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'containers':[]}"),
	 "[" MORE("[" NI("vf-1", "net1") "," NI("vf-two", "net2") "]") "]"},

	{.name = "a pod on the host's network is not changed; a warning names its annotation",
	 NULL,
	 NULL,
	 POD(RDMA ":'vf'", "'spec':{'hostNetwork':true,'containers':[{}]}"),
	 "[]",
	 "ignoring annotation 'cni.spidernet.io/rdma-resource-inject': the pod is on the host's "
	 "network"},
	{.name = "a pod on the host's network is not changed if only its namespace requests injection, without a warning",
	 "vf",
	 NULL,
	 "{'metadata':{},'spec':{'hostNetwork':true,'containers':[{}]}}",
	 "[]"},

	/* locking memory */
	{.name = "IPC_LOCK is added to the container that gets the resource",
	 NULL,
	 NULL,
	 POD(RDMA ":'bare'", "'spec':{'containers':[{'name':'c'},{'name':'d'}]}"),
	 "[" MORE("[" NI("no-ipam", "net1") "]") "," RES(
		 "'x/vf':'1'") ",{'op':'add','path':"
			       "'/spec/containers/0/securityContext','value':{'capabilities':{'add':['IPC_LOCK']}}}]",
	 .ipc_lock = true},
	{.name = "IPC_LOCK is added only to containers with the resource, not to init containers that end",
	 NULL,
	 NULL,
	 POD(RDMA ":'bare'",
	     "'spec':{'containers':[{'name':'c'},{'resources':{'limits':{'x/vf':1}},"
	     "'securityContext':{'runAsUser':1}}],'initContainers':[{'name':'i'},"
	     "{'restartPolicy':'Always','resources':{'limits':{'x/vf':1}},"
	     "'securityContext':{'capabilities':{'drop':['ALL']}}}]}"),
	 "[" MORE("[" NI(
		 "no-ipam",
		 "net1") "]") ",{'op':'add','path':"
			      "'/spec/containers/1/securityContext/capabilities','value':{'add':['IPC_LOCK']}},"
			      "{'op':'add','path':'/spec/initContainers/1/securityContext/capabilities/add','value':"
			      "['IPC_LOCK']}]",
	 .ipc_lock = true},
	{.name = "IPC_LOCK is appended to existing capabilities",
	 NULL,
	 NULL,
	 POD(RDMA ":'bare'", "'spec':{'containers':[{'resources':{'limits':{'x/vf':1}},"
			     "'securityContext':{'capabilities':{'add':['NET_RAW']}}}]}"),
	 "[" MORE("[" NI(
		 "no-ipam",
		 "net1") "]") ",{'op':'add','path':"
			      "'/spec/containers/0/securityContext/capabilities/add/-','value':'IPC_LOCK'}]",
	 .ipc_lock = true},
	{.name = "containers that are privileged or have IPC_LOCK are not changed",
	 NULL,
	 NULL,
	 POD(RDMA ":'bare'",
	     "'spec':{'containers':[{'resources':{'limits':{'x/vf':1}},"
	     "'securityContext':{'privileged':true}},{'resources':{'limits':{'x/vf':1}},"
	     "'securityContext':{'capabilities':{'add':['SYS_ADMIN','IPC_LOCK']}}}]}"),
	 "[" MORE("[" NI("no-ipam", "net1") "]") "]",
	 .ipc_lock = true},
	{.name = "networks without a resource add no IPC_LOCK",
	 NULL,
	 NULL,
	 POD(NETWORK ":'store'", C0),
	 "[" MORE("[" NI("ipoib", "net1") "," NI("plain", "net2") "]") "]",
	 .ipc_lock = true},
};

static void one_good(size_t i)
{
	auto_free char *pod = t_quoted(good[i].pod), *after = NULL;
	struct run r = {.ns_rdma = good[i].ns_rdma,
			.ns_network = good[i].ns_network,
			.ipc_lock = good[i].ipc_lock};
	auto_json struct json_doc *d = t_json_quoted(pod);
	struct kube_patch p, again;
	int n;

	kube_patch_init(&p);
	n = run(&r, json_root(d), &p);
	if (n < 0)
		fail_msg("%s: %s", good[i].name, r.e.text);
	expect(good[i].name, kube_patch_end(&p).p, good[i].patch);
	ASSERT_EQ(n == 0, !strcmp(p.b.p, "[]"));
	ASSERT_STR_EQ(r.warnings.p ? r.warnings.p : "", good[i].warning ? good[i].warning : "");
	buf_done(&r.warnings);

	/* a second review of the patched pod changes nothing */
	after = patched(pod, p.b.p);
	json_free(d);
	d = t_json_quoted(after);
	kube_patch_init(&again);
	n = run(&r, json_root(d), &again);
	if (n != 0)
		fail_msg("%s: a second injection changes the pod: %s %s", good[i].name,
			 kube_patch_end(&again).p, r.e.text);
	buf_done(&r.warnings);
	kube_patch_done(&again);
	kube_patch_done(&p);
}

static void test_annotations_inject_networks_and_resources(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		one_good(i);
}

static const struct {
	const char *name, *ns_rdma, *pod, *text;
} bad[] = {
	{"the pod requests a group that does not exist", NULL, POD(RDMA ":'gpux'", C0),
	 "no spidermultusconfigs with annotation: cni.spidernet.io/rdma-resource-inject:gpux "
	 "found, requested by the pod; there are 'bare' (1), 'both' (2), 'custom' (1), 'gpu' (3), "
	 "'ib' (2), 'none' (1), 'pool' (1), 'vf' (2)"},
	{"the namespace requests two groups, one of which does not exist", "gpu,nope",
	 "{'metadata':{}," C0 "}",
	 "rdma-resource-inject:nope found, requested by namespace 'team'; there are"},
	{"the RDMA annotation names a group of the network annotation", NULL,
	 POD(RDMA ":'slow'", C0),
	 "; 1 SpiderMultusConfig(s) with 'slow' in annotation 'cni.spidernet.io/network-resource-inject'"},
	{"the group has characters that no label may have", NULL, POD(RDMA ":'a b/c!'", C0),
	 "cni.spidernet.io/rdma-resource-inject:a b/c! found"},
	{"a network of the group has cniType custom", NULL, POD(RDMA ":'custom'", C0),
	 "SpiderMultusConfig 'bad/custom' with annotation 'cni.spidernet.io/rdma-resource-inject': "
	 "RDMA resource injection does not support cniType: custom, remove the annotation"},
	{"a network of an RDMA group has no resource", NULL, POD(RDMA ":'none'", C0),
	 "'bad/none' with annotation 'cni.spidernet.io/rdma-resource-inject': no resource to "
	 "inject is named, set spec.macvlan.rdmaResourceName"},
	{"a network of an RDMA group has no pool", NULL, POD(RDMA ":'pool'", C0),
	 "no pool is named, set spec.ibsriov.ippools.ipv4 or ipv6"},
	{"a network of a network group has a resource and no pool", NULL,
	 POD(NETWORK ":'pool'", C0),
	 "'bad/netpool' with annotation 'cni.spidernet.io/network-resource-inject': no pool is "
	 "named, set spec.sriov.ippools.ipv4 or ipv6"},
};

static void test_invalid_injections_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct run r = {.ns_rdma = bad[i].ns_rdma};
		auto_json struct json_doc *d = t_json_quoted(bad[i].pod);
		struct kube_patch p;

		kube_patch_init(&p);
		if (run(&r, json_root(d), &p) >= 0)
			fail_msg("%s was not refused", bad[i].name);
		if (!strstr(r.e.text, bad[i].text))
			fail_msg("%s: '%s' does not contain '%s'", bad[i].name, r.e.text,
				 bad[i].text);
		ASSERT_EQ_MSG(r.e.kind, ERR_CONF, "bad[%zu]", i);
		kube_patch_done(&p);
		buf_done(&r.warnings);
	}
}

static void test_injection_without_networks_in_the_cluster_is_refused(void **state)
{
	auto_json struct json_doc *d = t_json_quoted(POD(RDMA ":'gpu'", C0));
	struct inject_index *index = inject_index_new(NULL, 0);
	struct inject_request q = {.pod = json_root(d), .ns = "team", .index = index};
	struct kube_patch p;
	struct err e = ERR_INIT;

	(void)state;
	kube_patch_init(&p);
	ASSERT_EQ(inject_pod(&q, &p, &e), -ENOENT);
	assert_non_null(strstr(e.text, "; no SpiderMultusConfig has this annotation"));
	kube_patch_done(&p);
	inject_index_free(index);
}

/* Injects a group of `n` networks into a pod; the first `same` of them share one
 * NetworkAttachmentDefinition. Returns the result of inject_pod(), and the patch in *text. */
static int with_group(size_t n, size_t same, char **text, struct err *e)
{
	auto_json struct json_doc *d = t_json_quoted(POD(RDMA ":'gpu, gpu'", C0));
	struct inject_net *all = xcalloc(n, sizeof(*all));
	const struct inject_net **v = xcalloc(n, sizeof(*v));
	struct inject_request q = {.pod = json_root(d), .ns = "team"};
	struct inject_index *index;
	struct kube_patch p;
	int r;

	for (size_t i = 0; i < n; i++) {
		auto_free char *name = xasprintf("n%zu", i),
			       *nad = xasprintf("d%zu", i < same ? 0 : i);

		all[i] = (struct inject_net){.ns = xstrdup("s"),
					     .name = take(name),
					     .nad = take(nad),
					     .type = xstrdup("sriov"),
					     .rail = xstrdup(""),
					     .resource = xstrdup("x.io/r"),
					     .takes = true,
					     .pools = true,
					     .group = {xstrdup("other, gpu, gpu")}};
		v[i] = &all[i];
	}
	index = inject_index_new(v, n);
	q.index = index;
	kube_patch_init(&p);
	r = inject_pod(&q, &p, e);
	*text = r < 0 ? NULL : span_dup(kube_patch_end(&p));
	kube_patch_done(&p);
	inject_index_free(index);
	for (size_t i = 0; i < n; i++)
		inject_net_done(&all[i]);
	free(all);
	free(v);
	return r;
}

static void test_group_with_too_many_networks_is_refused(void **state)
{
	auto_free char *most = NULL, *none = NULL, *one = NULL;
	struct err e = ERR_INIT;

	(void)state;
	assert_true(with_group(127, 0, &most, &e) > 0);
	assert_non_null(strstr(most, "d126"));
	ASSERT_EQ(with_group(128, 0, &none, &e), -E2BIG);
	ASSERT_STR_EQ(e.text, "more than 127 networks would be injected");
	/* Networks that share a NetworkAttachmentDefinition count once. */
	assert_true(with_group(5000, 5000, &one, &e) > 0);
	assert_non_null(strstr(one, "d0"));
}

/* Objects that were stored without validation by the webhook may have any content. */
static void test_malformed_network_objects_are_read_with_empty_fields(void **state)
{
	static const char *const odd[] = {
		"{}",
		"[]",
		"{'metadata':[],'spec':7}",
		"{'metadata':{'annotations':'x'},'spec':{'cniType':'macvlan','macvlan':{}}}",
		"{'spec':{'cniType':'sriov','sriov':null}}",
		"{'spec':{'cniType':'macvlan','macvlan':{'master':'eth0','ippools':[]}}}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		auto_json struct json_doc *d = t_json_quoted(odd[i]);
		struct inject_net n;

		inject_net_read(json_root(d), &n);
		ASSERT_STR_EQ_MSG(n.ns, "", "odd[%zu]", i);
		ASSERT_STR_EQ_MSG(n.nad, "", "odd[%zu]", i);
		ASSERT_STR_EQ_MSG(n.rail, "", "odd[%zu]", i);
		assert_null(n.resource);
		assert_false(n.pools);
		inject_net_done(&n);
	}
}

/* --- namespaces in scope --- */

static const struct {
	const char *include, *exclude, *ns;
	bool in;
} scopes[] = {
	{NULL, NULL, "a", true},
	{"", "", "a", true},
	{NULL, INJECT_EXCLUDE, "kube-system", false},
	{NULL, INJECT_EXCLUDE, "kube-system2", true},
	{NULL, "kube-*", "kube-system", false},
	{NULL, "kube-*", "kube", true},
	{NULL, "*", "a", false},
	{"a, b", NULL, "b", true},
	{"a, b", NULL, "c", false},
	{"team-*", NULL, "team-1", true},
	{"team-*", "team-1", "team-1", false},
	{"team-*", "team-1", "other", false},
};

static void test_include_and_exclude_decide_the_namespaces_in_scope(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
		struct inject_scope s = {scopes[i].include, scopes[i].exclude};

		if (inject_in_scope(&s, scopes[i].ns) != scopes[i].in)
			fail_msg("include '%s', exclude '%s': wrong decision about '%s'", s.include,
				 s.exclude, scopes[i].ns);
	}
}

#define NAME "'key':'kubernetes.io/metadata.name'"

static const struct {
	const char *include, *exclude, *json;
} selectors[] = {
	{NULL, NULL, "{'matchExpressions':[]}"},
	{"", "a", "{'matchExpressions':[{" NAME ",'operator':'NotIn','values':['a']}]}"},
	{"b,c", "a",
	 "{'matchExpressions':[{" NAME ",'operator':'NotIn','values':['a']},{" NAME
	 ",'operator':'In','values':['b','c']}]}"},
	/* A selector cannot express patterns: an include list with a pattern is left out as a
	 * whole, of the exclude list only the patterns are left out. */
	{"b,c-*", "a,d-*", "{'matchExpressions':[{" NAME ",'operator':'NotIn','values':['a']}]}"},
	{NULL, "d-*", "{'matchExpressions':[]}"},
};

static void test_injection_scope_becomes_a_namespace_selector(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(selectors); i++) {
		struct inject_scope s = {selectors[i].include, selectors[i].exclude};
		struct json_out o;
		auto_buf struct buf b;

		buf_init(&b, 4096);
		jo_init(&o, &b, 0);
		inject_scope_write(&s, &o);
		expect("selector", b.p, selectors[i].json);
	}
}

static void test_injection_is_requested_by_a_non_empty_annotation(void **state)
{
	auto_json struct json_doc *yes = t_json_quoted("{'x':'y'," NETWORK ":'a'}");
	auto_json struct json_doc *no = t_json_quoted("{'x':'y'," RDMA ":' ,'}");

	(void)state;
	assert_true(inject_is_requested(json_root(yes)));
	assert_false(inject_is_requested(json_root(no)));
	assert_false(inject_is_requested(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_annotations_inject_networks_and_resources),
		cmocka_unit_test(test_invalid_injections_are_refused),
		cmocka_unit_test(test_injection_without_networks_in_the_cluster_is_refused),
		cmocka_unit_test(test_group_with_too_many_networks_is_refused),
		cmocka_unit_test(test_include_and_exclude_decide_the_namespaces_in_scope),
		cmocka_unit_test(test_injection_scope_becomes_a_namespace_selector),
		cmocka_unit_test(test_injection_is_requested_by_a_non_empty_annotation),
		cmocka_unit_test(test_malformed_network_objects_are_read_with_empty_fields),
	};

	return T_RUN(tests, setup, teardown);
}
