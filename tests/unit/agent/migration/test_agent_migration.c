/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that wait until the addresses retained for their name have moved from another node. No API
 * server is involved.
 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "agent/migration/migration.h"
#include "base/log.h"
#include "ipam_lab.h"
#include "ipam/pools.h"

static struct ipam_lab lab;
static struct loop *loop;
static struct kube_conf conf;
static struct kube *kube;
static struct cluster *cluster;
static struct node_pools *node_pools;
static struct migration *migration;

static void nothing(void *arg)
{
	(void)arg;
}

static void no_pool(void *arg, const char *pool)
{
	(void)arg, (void)pool;
}

static int setup(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	log_threshold = LOG_NONE;
	il_make(&lab);
	il_pools(&lab, "[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.19\n");
	ASSERT_EQ(loop_new(&loop, &e), 0);
	ASSERT_EQ(kube_conf_server(&conf, "https://127.0.0.1:1", &e), 0);
	kube = kube_new(loop, &lab.root, &conf, &(struct kube_settings){0});
	cluster = cluster_new(&(struct cluster_conf){.kube = kube,
						     .root = &lab.root,
						     .node = "n1",
						     .ns = "default",
						     .state_dir = lab.paths.state_dir});
	ASSERT_EQ(node_pools_new(&node_pools,
				 &(struct node_pools_conf){.kube = kube,
							   .cluster = cluster,
							   .root = &lab.root,
							   .state_dir = lab.paths.state_dir,
							   .node = "n1",
							   .changed = no_pool},
				 &e),
		  0);
	migration = migration_new(&(struct migration_conf){.kube = kube,
							   .cluster = cluster,
							   .node_pools = node_pools,
							   .node = "n1",
							   .touch = nothing,
							   .changed = nothing});
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	migration_free(migration);
	node_pools_free(node_pools);
	cluster_free(cluster);
	kube_free(kube);
	kube_conf_done(&conf);
	loop_free(loop);
	il_drop(&lab);
	return 0;
}

static struct ip_request request_for(const char *ifname)
{
	static const char *const pools[] = {"rail0"};

	return (struct ip_request){.owner = {.container_id = "c1",
					     .ifname = ifname,
					     .pod_namespace = "a",
					     .pod_name = "web-0",
					     .pod_uid = "u1"},
				   .pools4 = pools,
				   .n_pools4 = 1,
				   .sticky = true};
}

static int wait_for(struct ipam *store, const struct identity *pod, const char *ifname, bool last,
		    struct err *e)
{
	struct ip_request a = request_for(ifname);

	return migration_wait(migration, store, pod, "u1", &a, 1, last, e);
}

static const struct identity web = {.kind = IDENTITY_STATEFULSET,
				    .ns = "a",
				    .name = "web-0",
				    .pod = "web-0"};

static void take(struct ipam *store)
{
	struct ip_request a = request_for("net1");
	struct ip_allocation *g;
	struct err e = ERR_INIT;
	size_t n;

	ASSERT_EQ(ipam_allocate(store, &a, 1, &g, &n, &e), 0);
	ip_allocations_free(g, n);
}

static void test_name_with_local_addresses_does_not_wait_for_migration(void **state)
{
	struct ipam *store = il_open(&lab);
	struct err e = ERR_INIT;
	struct pool *p;

	(void)state;
	take(store);
	ASSERT_EQ(wait_for(store, &web, "net1", false, &e), 0);
	ASSERT_EQ(ipam_release(store, "c1", NULL, &e), 1);
	ASSERT_EQ(wait_for(store, &web, "net1", false, &e), 0);
	/* The address is still retained in the journal, but this node may not use it any more:
	 * the pod waits. */
	p = (struct pool *)ipam_pools(store)->v;
	ip_set_done(&p->usable);
	ASSERT_EQ(wait_for(store, &web, "net1", false, &e), 1);
	ipam_close(store);
}

static void test_pod_waits_until_the_import_for_its_name_has_ended(void **state)
{
	struct identity pod = web;
	struct ipam *store = il_open(&lab);
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(wait_for(store, &pod, "net1", false, &e), 1);
	ASSERT_EQ(wait_for(store, &pod, "net1", true, &e), -EAGAIN);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	ASSERT_STR_EQ(e.text, "retained addresses of 'a/web-0': the import of the addresses in "
			      "the pod's SpiderEndpoint still waits for the API server");
	/* `migrating` (the pod is a migrating virtual machine) has no effect on the current
	 * import for the name. In the next import, a request that cannot wait any longer
	 * continues without the migrated addresses. */
	pod.migrating = true;
	ASSERT_EQ(wait_for(store, &pod, "net1", true, &e), -EAGAIN);
	migration_imported(migration, &pod);
	ASSERT_EQ(wait_for(store, &pod, "net1", false, &e), 1);
	ASSERT_EQ(wait_for(store, &pod, "net1", true, &e), 0);
	/* Nothing was migrated, so nothing is retained. */
	migration_begin(migration, store);
	ASSERT_EQ(ipam_leases(store)->n, 0);
	ipam_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_name_with_local_addresses_does_not_wait_for_migration, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_pod_waits_until_the_import_for_its_name_has_ended, setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
