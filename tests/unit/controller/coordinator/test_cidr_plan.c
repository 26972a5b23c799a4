/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of the cluster's pod and Service CIDRs. */
#include "testlib.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "controller/coordinator/cidr_plan.h"
#include "ipam_lab.h"

static char *text_of(const struct cidr_list *l)
{
	struct buf b;

	buf_init(&b, 4096);
	buf_str(&b, "");
	for (size_t i = 0; i < l->n; i++)
		buf_printf(&b, "%s%s", i ? " " : "", l->v[i]);
	return b.p ? buf_take(&b) : xstrdup("");
}

/* --- reading --- */

static const struct {
	const char *what;
	void (*read)(const struct json *object, struct cidr_facts *f);
	const char *object, *pods, *services;
} objects[] = {
	{"kubeadm's ConfigMap", cidr_of_kubeadm,
	 "{\"data\":{\"ClusterConfiguration\":\"kind: ClusterConfiguration\\nnetworking:\\n"
	 "  dnsDomain: cluster.local\\n  podSubnet: 10.244.0.0/16,fd00:1::/48\\n"
	 "  serviceSubnet: 10.96.0.0/12\\n\"}}",
	 "10.244.0.0/16 fd00:1::/48", "10.96.0.0/12"},
	{"kubeadm: quotes, a comment, and an entry that is not a CIDR", cidr_of_kubeadm,
	 "{\"data\":{\"ClusterConfiguration\":\"podSubnet: \\\"10.244.0.0/16, x\\\" # 1.0.0.0/8\\n"
	 "serviceSubnet:\\nmyserviceSubnet: 1.0.0.0/8\\n\"}}",
	 "10.244.0.0/16", ""},
	{"kubeadm: no key ClusterConfiguration", cidr_of_kubeadm,
	 "{\"data\":{\"ClusterStatus\":\"\"}}", "", ""},
	{"kube-controller-manager: arguments", cidr_of_manager,
	 "{\"spec\":{\"containers\":[{\"name\":\"sidecar\"},{\"command\":[\"kcm\","
	 "\"--cluster-cidr=10.1.0.0/16,fd00::/48\",\"--service-cluster-ip-range\",\"10.2.0.0/16\"],"
	 "\"args\":[\"--cluster-cidr=10.3.0.0/16\",\"--cluster-cidr-x=1.0.0.0/8\"]}]}}",
	 "10.1.0.0/16 fd00::/48 10.3.0.0/16", "10.2.0.0/16"},
	{"ServiceCIDR", cidr_of_service_cidr,
	 "{\"spec\":{\"cidrs\":[\"10.96.0.0/16\",\"fd00::/108\"]}}", "", "10.96.0.0/16 fd00::/108"},
	{"Node", cidr_of_node,
	 "{\"spec\":{\"podCIDR\":\"10.244.1.0/24\",\"podCIDRs\":[\"10.244.1.0/24\",\"fd00::/64\"]}}",
	 "10.244.1.0/24 fd00::/64", ""},
	{"Calico's IPPool", cidr_of_calico,
	 "{\"spec\":{\"cidr\":\"10.5.0.0/16\",\"disabled\":true}}", "10.5.0.0/16", ""},
	{"Calico's IPPool with a deletionTimestamp", cidr_of_calico,
	 "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{\"cidr\":"
	 "\"10.5.0.0/16\"}}",
	 "", ""},
	{"Cilium's ConfigMap", cidr_of_cilium,
	 "{\"data\":{\"ipam\":\"cluster-pool\",\"cluster-pool-ipv4-cidr\":\"10.0.0.0/8\","
	 "\"cluster-pool-ipv6-cidr\":\"fd00::/104\"}}",
	 "10.0.0.0/8 fd00::/104", ""},
	{"Cilium with the IPAM of a cloud provider", cidr_of_cilium,
	 "{\"data\":{\"ipam\":\"eni\",\"cluster-pool-ipv4-cidr\":\"10.0.0.0/8\"}}", "", ""},
	{"Cilium's pool", cidr_of_cilium_pool,
	 "{\"spec\":{\"ipv6\":{\"cidrs\":[\"fd00::/104\"]},\"ipv4\":{\"cidrs\":[\"10.9.0.0/16\"]}}}",
	 "10.9.0.0/16 fd00::/104", ""},
	{"kube-controller-manager: containers and arguments of other types", cidr_of_manager,
	 "{\"spec\":{\"containers\":[3,{\"args\":[4]}]}}", "", ""},
};

static void test_cidrs_are_read_from_each_kind_of_object(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
		auto_json struct json_doc *doc = NULL;
		struct cidr_facts f = {0};
		auto_free char *pods = NULL, *services = NULL;

		ASSERT_EQ_MSG(json_parse(&doc, span_of(objects[i].object), 4096, NULL), 0, "%s",
			      objects[i].what);
		objects[i].read(json_root(doc), &f);
		pods = text_of(&f.pods);
		services = text_of(&f.services);
		ASSERT_STR_EQ_MSG(pods, objects[i].pods, "%s", objects[i].what);
		ASSERT_STR_EQ_MSG(services, objects[i].services, "%s", objects[i].what);
		cidr_facts_done(&f);
	}
}

static void test_adjacent_cidrs_are_joined(void **state)
{
	static const struct {
		const char *in, *out;
	} v[] = {
		{"", ""},
		{"10.244.3.0/24 10.244.0.0/24 10.244.2.0/24 10.244.1.0/24", "10.244.0.0/22"},
		{"10.244.1.0/24 10.244.2.0/24", "10.244.1.0/24 10.244.2.0/24"},
		{"10.0.0.0/8 10.1.0.0/16 fd00:0:0:1::/64 fd00::/64", "10.0.0.0/8 fd00::/63"},
		{"0.0.0.0/1 128.0.0.0/1", "0.0.0.0/0"},
		{"10.0.0.7/24 10.0.0.9/24", "10.0.0.0/24"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct cidr_list l = {0};
		auto_free char *out = NULL;

		cidr_list_add(&l, v[i].in);
		cidr_list_join(&l);
		out = text_of(&l);
		ASSERT_STR_EQ_MSG(out, v[i].out, "v[%zu]", i);
		cidr_list_done(&l);
	}
}

/* --- the cluster's CNI --- */

static void test_cluster_cni_is_recognized_by_the_first_file_of_the_directory(void **state)
{
	static const struct {
		const char *file, *text;
		enum cidr_type type;
	} v[] = {
		{"05-x.json", "{\"name\":\"cilium\"}", CIDR_NONE},
		{"30-x.conflist", "{\"name\":\"macvlan-default\",\"plugins\":[]}", CIDR_NONE},
		{"20-flannel.conflist", "{\"name\":\"cbr0\",\"plugins\":[{\"type\":\"flannel\"}]}",
		 CIDR_CLUSTER},
		{"15-cilium.conf", "{\"name\":\"cilium\",\"type\":\"cilium-cni\"}", CIDR_CILIUM},
		{"10-calico.conflist", "{\"name\":\"k8s-pod-network\"}", CIDR_CALICO},
		{"01-broken.conf", "{", CIDR_CALICO},
		/* Configurations of Multus and unirail are recognized by their content, not by
		 * the name of the file, and are skipped. */
		{"00-other.conf", "{\"name\":\"multus-cni-network\",\"type\":\"multus\"}",
		 CIDR_CALICO},
		{"00-a.conflist", "{\"name\":\"unirail\",\"plugins\":[{\"type\":\"unirail-cni\"}]}",
		 CIDR_CALICO},
	};
	const struct cidr_cni cni = {"/etc/cni/net.d", "/run/published"};
	struct ipam_lab lab;

	(void)state;
	il_make(&lab);
	ASSERT_EQ(cidr_probe(&lab.root, &cni, NULL), CIDR_NONE);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_free char *path = xasprintf("/etc/cni/net.d/%s", v[i].file);

		il_write(&lab, path, v[i].text);
		ASSERT_EQ_MSG(cidr_probe(&lab.root, &cni, NULL), v[i].type, "v[%zu]", i);
	}
	il_drop(&lab);
}

/* Calls cidr_probe() without root privileges. */
static enum cidr_type probe_as_user(const struct ipam_lab *lab, const struct cidr_cni *cni,
				    struct err *e)
{
	enum cidr_type type;
	bool root = geteuid() == 0;

	if (root)
		ASSERT_EQ(seteuid(65534), 0);
	type = cidr_probe(&lab->root, cni, e);
	if (root)
		ASSERT_EQ(seteuid(0), 0);
	return type;
}

/* A configuration that only root may read is an error, unless the agent has published the
 * network's name: skipping the configuration would select the network of the next file. */
static void test_unreadable_cni_file_is_an_error(void **state)
{
	const struct cidr_cni cni = {"/etc/cni/net.d", "/run/published"};
	auto_free char *file = NULL, *dir = NULL;
	struct err e = ERR_INIT;
	struct ipam_lab lab;

	(void)state;
	il_make(&lab);
	ASSERT_EQ(chmod(lab.dir, 0755), 0);
	il_write(&lab, "/etc/cni/net.d/10-calico.conflist", "{\"name\":\"k8s-pod-network\"}");
	il_write(&lab, "/etc/cni/net.d/20-flannel.conflist", "{\"name\":\"cbr0\"}");
	file = il_path(&lab, "/etc/cni/net.d/10-calico.conflist");
	dir = il_path(&lab, "/etc/cni/net.d");
	ASSERT_EQ(probe_as_user(&lab, &cni, &e), CIDR_CALICO);
	ASSERT_EQ(chmod(file, 0), 0);
	ASSERT_EQ(probe_as_user(&lab, &cni, &e), CIDR_UNREADABLE);
	ASSERT_EQ(e.code, -EACCES);
	ASSERT_HAS(e.text, "'/etc/cni/net.d/10-calico.conflist' is readable by root only");
	il_write(&lab, "/run/published", "k8s-pod-network\n");
	ASSERT_EQ(probe_as_user(&lab, &cni, &e), CIDR_CALICO);
	ASSERT_EQ(chmod(dir, 0), 0);
	ASSERT_EQ(probe_as_user(&lab, &cni, &e), CIDR_CALICO);
	ASSERT_EQ(chmod(dir, 0755), 0);
	ASSERT_EQ(chmod(file, 0600), 0);
	il_drop(&lab);
}

/* --- decision from all sources --- */

/* Response of each source: "pods;services", each a list of CIDRs separated by blanks; "-" or
 * NULL: the object does not exist; "?": no response; "!": access refused. mode: Cilium's ipam
 * mode. */
struct cidr_texts {
	const char *kubeadm, *manager, *services, *services_old, *nodes, *calico, *cilium, *pools;
	const char *mode;
};

static void set(struct cidr_known *k, const char *text)
{
	const char *semi = text ? strchr(text, ';') : NULL;

	*k = (struct cidr_known){.state = CIDR_ABSENT, .cause = ""};
	if (!text || *text == '-')
		return;
	if (*text == '?' || *text == '!') {
		k->state = *text == '?' ? CIDR_UNKNOWN : CIDR_FAILED;
		k->cause = "403 Forbidden";
		return;
	}
	k->state = CIDR_KNOWN;
	k->objects = 1;
	if (semi) {
		auto_free char *pods = span_dup((struct span){text, (size_t)(semi - text)});

		cidr_list_add(&k->facts.pods, pods);
		cidr_list_add(&k->facts.services, semi + 1);
	}
}

static const struct {
	const char *what;
	enum cidr_type type, cni;
	struct cidr_texts w;
	enum cidr_phase phase;
	/* reason: a substring of the reported reason; NULL: no reason */
	const char *pods, *services, *reason;
} plans[] = {
	{"pods' and services' CIDRs of kubeadm",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"pods' CIDRs of kubeadm, services' CIDRs of kube-controller-manager",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.kubeadm = "10.1.0.0/16;", .manager = "10.9.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"without kubeadm: pods' and services' CIDRs of kube-controller-manager",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.manager = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"without kubeadm and kube-controller-manager: pods' CIDRs of the Nodes",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.nodes = "10.1.0.0/24;", .services = ";10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/24",
	 "10.2.0.0/16",
	 NULL},
	{"type cluster, and no source has CIDRs",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {0},
	 CIDR_SYNCED,
	 "",
	 "",
	 "the pods' CIDRs are not known"},
	{"type none, and no source has CIDRs",
	 CIDR_NONE,
	 CIDR_NONE,
	 {0},
	 CIDR_SYNCED,
	 "",
	 "",
	 "the services' CIDRs are not known"},
	{"the CNI's configuration is not readable",
	 CIDR_AUTO,
	 CIDR_UNREADABLE,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "",
	 "10.2.0.0/16",
	 "is readable by root only"},
	{"ServiceCIDRs take precedence over kubeadm",
	 CIDR_NONE,
	 CIDR_NONE,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16", .services = ";10.3.0.0/16 10.4.0.0/16"},
	 CIDR_SYNCED,
	 "",
	 "10.3.0.0/16 10.4.0.0/16",
	 NULL},
	{"ServiceCIDRs of Kubernetes 1.31",
	 CIDR_NONE,
	 CIDR_NONE,
	 {.services_old = ";10.3.0.0/16"},
	 CIDR_SYNCED,
	 "",
	 "10.3.0.0/16",
	 NULL},
	{"access to kubeadm's ConfigMap is refused: all CIDRs of kube-controller-manager",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.kubeadm = "!", .manager = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"waits for the response about kubeadm's ConfigMap",
	 CIDR_CLUSTER,
	 CIDR_NONE,
	 {.kubeadm = "?"},
	 CIDR_WAIT,
	 NULL,
	 NULL,
	 NULL},
	{"type calico: pods' CIDRs of the IPPools, services' CIDRs of kubeadm",
	 CIDR_CALICO,
	 CIDR_NONE,
	 {.calico = "10.5.0.0/16;", .kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.5.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"type calico, and no IPPool exists",
	 CIDR_CALICO,
	 CIDR_NONE,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_NOT_READY,
	 "",
	 "",
	 "pod CIDRs of Calico: its IPPools do not exist or cannot be read"},
	{"type auto, Calico's file exists, and no IPPool: as type cluster",
	 CIDR_AUTO,
	 CIDR_CALICO,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"type calico, and access to the IPPools is refused",
	 CIDR_CALICO,
	 CIDR_NONE,
	 {.calico = "!", .kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_NOT_READY,
	 "",
	 "",
	 "cannot be read: 403 Forbidden"},
	{"type calico, and no source has services' CIDRs",
	 CIDR_CALICO,
	 CIDR_NONE,
	 {.calico = "10.5.0.0/16;"},
	 CIDR_SYNCED,
	 "10.5.0.0/16",
	 "",
	 "the services' CIDRs are not known"},
	{"type cilium with ipam cluster-pool",
	 CIDR_CILIUM,
	 CIDR_NONE,
	 {.cilium = "10.0.0.0/8;", .mode = "cluster-pool", .services = ";10.96.0.0/16"},
	 CIDR_SYNCED,
	 "10.0.0.0/8",
	 "10.96.0.0/16",
	 NULL},
	{"type cilium with ipam multi-pool",
	 CIDR_CILIUM,
	 CIDR_NONE,
	 {.cilium = ";", .mode = "multi-pool", .pools = "10.7.0.0/16;", .services = ";10.96.0.0/16"},
	 CIDR_SYNCED,
	 "10.7.0.0/16",
	 "10.96.0.0/16",
	 NULL},
	{"Cilium with ipam kubernetes: as type cluster",
	 CIDR_AUTO,
	 CIDR_CILIUM,
	 {.cilium = ";", .mode = "kubernetes", .kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "10.1.0.0/16",
	 "10.2.0.0/16",
	 NULL},
	{"type cilium with ipam eni",
	 CIDR_CILIUM,
	 CIDR_NONE,
	 {.cilium = ";", .mode = "eni", .services = ";10.96.0.0/16"},
	 CIDR_NOT_READY,
	 "",
	 "",
	 "Cilium's ipam 'eni' publishes no CIDRs of pods"},
	{"type auto, Cilium with ipam eni",
	 CIDR_AUTO,
	 CIDR_CILIUM,
	 {.cilium = ";", .mode = "eni", .services = ";10.96.0.0/16"},
	 CIDR_SYNCED,
	 "",
	 "10.96.0.0/16",
	 "the pods' CIDRs are not known"},
	{"type auto, and no CNI is recognized",
	 CIDR_AUTO,
	 CIDR_NONE,
	 {.kubeadm = "10.1.0.0/16;10.2.0.0/16"},
	 CIDR_SYNCED,
	 "",
	 "10.2.0.0/16",
	 NULL},
};

static void fill(const struct cidr_texts *w, struct cidr_known *known)
{
	set(&known[CIDR_KUBEADM], w->kubeadm);
	set(&known[CIDR_MANAGER], w->manager);
	set(&known[CIDR_SERVICES], w->services);
	set(&known[CIDR_SERVICES_OLD], w->services_old);
	set(&known[CIDR_NODES], w->nodes);
	set(&known[CIDR_CALICO_POOLS], w->calico);
	set(&known[CIDR_CILIUM_CONFIG], w->cilium);
	set(&known[CIDR_CILIUM_POOLS], w->pools);
	known[CIDR_CILIUM_CONFIG].facts.mode = w->mode ? xstrdup(w->mode) : NULL;
}

static void test_sources_of_cidrs_are_combined_by_type_and_cluster_cni(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
		struct cidr_known known[CIDR_SOURCES];
		auto_free char *pods = NULL, *services = NULL;
		struct cidr_plan p;

		fill(&plans[i].w, known);
		cidr_plan(plans[i].type, plans[i].cni, known, &p);
		ASSERT_EQ_MSG(p.phase, plans[i].phase, "%s", plans[i].what);
		pods = text_of(&p.pods);
		services = text_of(&p.services);
		if (plans[i].pods) {
			ASSERT_STR_EQ_MSG(pods, plans[i].pods, "%s", plans[i].what);
			ASSERT_STR_EQ_MSG(services, plans[i].services, "%s", plans[i].what);
		}
		if (plans[i].reason && !strstr(p.reason, plans[i].reason))
			fail_msg("%s: %s", plans[i].what, p.reason);
		if (!plans[i].reason)
			ASSERT_STR_EQ_MSG(p.reason, "", "%s", plans[i].what);
		ASSERT_EQ_MSG(p.unread, plans[i].w.calico && *plans[i].w.calico == '!', "%s",
			      plans[i].what);
		cidr_plan_done(&p);
		for (int s = 0; s < CIDR_SOURCES; s++)
			cidr_facts_done(&known[s].facts);
	}
}

/* A cluster has many Nodes: they are listed only if no other source has the CIDRs. */
static void test_nodes_are_requested_only_without_another_source(void **state)
{
	struct cidr_known known[CIDR_SOURCES];
	const struct cidr_texts w = {.kubeadm = "10.1.0.0/16;10.2.0.0/16"}, none = {0};
	struct cidr_plan p;

	(void)state;
	fill(&w, known);
	cidr_plan(CIDR_CLUSTER, CIDR_NONE, known, &p);
	ASSERT_EQ(p.wants, 1u << CIDR_KUBEADM | 1u << CIDR_SERVICES | 1u << CIDR_SERVICES_OLD);
	cidr_plan_done(&p);
	for (int s = 0; s < CIDR_SOURCES; s++)
		cidr_facts_done(&known[s].facts);
	fill(&none, known);
	cidr_plan(CIDR_NONE, CIDR_NONE, known, &p);
	assert_false(p.wants & 1u << CIDR_NODES);
	cidr_plan_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cidrs_are_read_from_each_kind_of_object),
		cmocka_unit_test(test_adjacent_cidrs_are_joined),
		cmocka_unit_test(test_cluster_cni_is_recognized_by_the_first_file_of_the_directory),
		cmocka_unit_test(test_unreadable_cni_file_is_an_error),
		cmocka_unit_test(test_sources_of_cidrs_are_combined_by_type_and_cluster_cni),
		cmocka_unit_test(test_nodes_are_requested_only_without_another_source),
	};

	return T_RUN(tests, NULL, NULL);
}
