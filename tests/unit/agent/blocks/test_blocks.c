/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a node: which requests the node sends when pods need addresses, and what it may
 * allocate after each answer, lost answer, crash and restore of etcd. The API server is that of
 * api_lab.h; the test advances the loop's clock, so it does not wait in real time. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "agent/blocks/blocks.h"
#include "api_lab.h"
#include "base/alloc.h"
#include "base/log.h"
#include "kube/config.h"
#include "tls_certs.h"

#define BLOCKS "/apis/unirail.io/v1/spideripblocks"
#define POOL   "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/p"

enum { IN_A_BLOCK = 8, BLOCKS_OF_POOL = 8, FREEZE_MS = 30000, IDLE_MS = BLOCKS_IDLE_MS };

/* One node, n1, and one pool, p: 10.0.0.0/26, eight blocks of eight addresses. */
struct lab {
	char dir[T_DIR_MAX];
	struct root root;
	struct loop *loop;
	struct kube_conf conf;
	struct kube *kube;
	struct blocks *blocks;
	struct pool pool;
	struct pool_set set;
	struct lease_table leases;
	char version[32]; /* of the pool, as the watch delivered it; "": not yet */
	int notified;	  /* calls of `changed` for the pool */
};

static struct lab *lab;

static void on_changed(void *arg, const char *pool)
{
	(void)arg;
	lab->notified += strcmp(pool, "p") == 0;
}

/* The watch of pools delivers the pool's present version. */
static void read_pool(void)
{
	auto_json struct json_doc *d = api_get(POOL);

	str_copy(lab->version, sizeof(lab->version),
		 json_string(json_get(json_get(json_root(d), "metadata"), "resourceVersion")));
}

static const char *pool_version(void *arg, const char *pool)
{
	(void)arg;
	(void)pool;
	return *lab->version ? lab->version : NULL;
}

/* Runs the loop for `ms` milliseconds of its clock. */
static void pass(int64_t ms)
{
	t_loop_run(lab->loop, ms);
}

/* Starts the agent, which opens the block log, connects to the API server and lists n1's blocks. */
static void agent_start(void)
{
	const struct blocks_conf c = {.root = &lab->root,
				      .state_dir = "/state",
				      .node = "n1",
				      .node_uid = "node-uid",
				      .seed = 1,
				      .changed = on_changed,
				      .pool_version = pool_version};
	struct blocks_conf conf = c;
	struct err e = ERR_INIT;

	lab->kube = kube_new(lab->loop, &lab->root, &lab->conf, &(struct kube_settings){0});
	conf.kube = lab->kube;
	ASSERT_OK(blocks_new(&lab->blocks, &conf, &e), &e);
	blocks_pools(lab->blocks, &lab->set);
	blocks_leases(lab->blocks, &lab->leases);
	pass(100);
}

/* The agent ends without a request to the API server, as after kill -9. */
static void agent_stop(void)
{
	blocks_free(lab->blocks);
	kube_free(lab->kube);
	lab->blocks = NULL;
	lab->kube = NULL;
}

static int setup(void **state)
{
	struct ip_range r = {t_ip("10.0.0.0"), t_ip("10.0.0.63")};
	struct err e = ERR_INIT;

	(void)state;
	log_threshold = LOG_NONE;
	lab = xcalloc(1, sizeof(*lab));
	t_dir_make(lab->dir, &lab->root);
	ASSERT_EQ(loop_new(&lab->loop, NULL), 0);
	loop_set_now(lab->loop, 1000000);
	api_start(lab->loop);
	ASSERT_EQ(kube_conf_server(&lab->conf, "https://10.96.0.1:443", &e), 0);
	lab->conf.ca_pem = xstrdup(TLS_TEST_CA);
	lab->pool = (struct pool){.name = (char *)"p",
				  .family = 4,
				  .subnet = t_net("10.0.0.0/26"),
				  .shared = true,
				  .cut_is_written = true};
	ASSERT_EQ(block_cut_choose(&lab->pool.subnet, 29, false, &lab->pool.cut, &e), 0);
	ip_set_add(&lab->pool.ips, &r);
	ip_set_add(&lab->pool.open, &r);
	lab->set = (struct pool_set){.v = &lab->pool, .n = 1};
	agent_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	agent_stop();
	api_stop();
	kube_conf_done(&lab->conf);
	loop_free(lab->loop);
	ip_set_done(&lab->pool.ips);
	ip_set_done(&lab->pool.open);
	lease_table_done(&lab->leases);
	t_dir_remove(lab->dir, &lab->root);
	free(lab);
	return 0;
}

/* How many addresses of the pool the node may allocate now. */
static uint64_t usable(void)
{
	struct ip_set s = {0};
	uint64_t n;

	blocks_usable(lab->blocks, "p", &lab->pool.open, &s);
	n = (uint64_t)ip_set_count(&s);
	ip_set_done(&s);
	return n;
}

static bool may_allocate(const char *ip)
{
	struct ipaddr a = t_ip(ip);
	struct ip_set s = {0};
	bool ret;

	blocks_usable(lab->blocks, "p", &lab->pool.open, &s);
	ret = ip_set_has(&s, &a);
	ip_set_done(&s);
	return ret;
}

/* Allocates the address to a pod, and calls blocks_leases() as the agent does after a batch. */
static void pod_gets(const char *ip)
{
	struct lease l = LEASE_INIT;

	l.address = (struct ipnet){t_ip(ip), 26};
	l.state = LEASE_USED;
	lease_put(&lab->leases, &l);
	blocks_leases(lab->blocks, &lab->leases);
}

static void pods_end(void)
{
	lease_table_done(&lab->leases);
	lab->leases = (struct lease_table){0};
	blocks_leases(lab->blocks, &lab->leases);
}

/* The first address of the block that the request is about. */
static const char *first_address(const struct api_request *q, char ret[static IP_TEXT_MAX])
{
	auto_json struct json_doc *d = t_json(q->body);
	struct ipnet n = t_net(json_string(json_get(json_get(json_root(d), "spec"), "cidr")));

	return ip_str(&n.ip, ret);
}

/* The path of the object that a POST creates. The caller frees. */
static char *path_of(const struct api_request *q)
{
	auto_json struct json_doc *d = t_json(q->body);

	return xasprintf("%s/%s", q->path,
			 json_string(json_get(json_get(json_root(d), "metadata"), "name")));
}

/* Creates block `index` of the pool as a block of node n2. released: the members of
 * spec.released, as JSON with ' in place of ". */
static void put_peer(unsigned int index, const char *released)
{
	auto_free char *path = xasprintf(BLOCKS "/p-%u", index);
	auto_free char *text = xasprintf(
		"{'apiVersion':'unirail.io/v1','kind':'SpiderIPBlock','metadata':{'labels':{"
		"'unirail.io/node':'n2','unirail.io/pool':'p'}},'spec':{'pool':'p',"
		"'cidr':'10.0.0.%u/29','node':'n2','nodeUID':'u2','claim':'n2-log/1',"
		"'released':{%s},'requested':{}}}",
		index * IN_A_BLOCK, released);

	api_put(path, text);
}

/* --- demand --- */

static void test_demand_leads_to_a_claim_whose_addresses_are_usable(void **state)
{
	const struct api_request *q;

	(void)state;
	ASSERT_EQ(usable(), 0);
	ASSERT_EQ(api_requests(NULL, NULL), 0);
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	ASSERT_EQ(api_requests(NULL, &q), 1);
	ASSERT_STR_EQ(q[0].method, "POST");
	ASSERT_EQ(q[0].status, 201);
	ASSERT_HAS(q[0].body, "\"pool\":\"p\"");
	ASSERT_HAS(q[0].body, "\"node\":\"n1\"");
	ASSERT_HAS(q[0].body, "\"nodeUID\":\"node-uid\"");
	ASSERT_EQ(usable(), IN_A_BLOCK);
	assert_true(lab->notified > 0);
	/* Eight addresses are enough for one pod and the four that are pre-allocated. */
	pass(60000);
	ASSERT_EQ(api_requests(NULL, NULL), 1);
}

static void test_larger_demand_leads_to_as_many_blocks_as_it_needs(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 20);
	pass(5000);
	ASSERT_EQ(usable(), 3 * IN_A_BLOCK);
	ASSERT_EQ(api_count(BLOCKS "/"), 3);
}

static void test_no_block_is_claimed_before_the_leases_are_known(void **state)
{
	struct blocks_conf c;
	struct err e = ERR_INIT;

	(void)state;
	agent_stop();
	lab->kube = kube_new(lab->loop, &lab->root, &lab->conf, &(struct kube_settings){0});
	c = (struct blocks_conf){.kube = lab->kube,
				 .root = &lab->root,
				 .state_dir = "/state",
				 .node = "n1",
				 .node_uid = "node-uid"};
	ASSERT_OK(blocks_new(&lab->blocks, &c, &e), &e);
	blocks_pools(lab->blocks, &lab->set);
	blocks_want(lab->blocks, "p", 1);
	pass(60000);
	ASSERT_EQ(api_requests(NULL, NULL), 0);
	blocks_leases(lab->blocks, &lab->leases);
	pass(1000);
	ASSERT_EQ(api_requests("POST", NULL), 1);
}

static void test_addresses_of_an_expected_pod_are_claimed_before_its_request(void **state)
{
	(void)state;
	blocks_prefetch(lab->blocks, "p", 10);
	pass(2000);
	assert_true(usable() >= 10);
}

/* --- answers --- */

static void claim_by_peer(const struct api_request *q)
{
	char first[IP_TEXT_MAX];

	put_peer((unsigned int)atoi(strrchr(first_address(q, first), '.') + 1) / IN_A_BLOCK, "");
}

static void test_claim_refused_with_409_is_retried_with_another_block(void **state)
{
	const struct api_request *q;
	char refused[IP_TEXT_MAX], claimed[IP_TEXT_MAX];

	(void)state;
	api_plan_fault(&(struct api_fault){.method = "POST", .count = 1, .before = claim_by_peer});
	blocks_want(lab->blocks, "p", 1);
	pass(2000);
	ASSERT_EQ(api_requests("POST", &q), 2);
	ASSERT_EQ(q[0].status, 409);
	ASSERT_EQ(q[1].status, 201);
	first_address(&q[0], refused);
	first_address(&q[1], claimed);
	assert_string_not_equal(refused, claimed);
	assert_false(may_allocate(refused));
	assert_true(may_allocate(claimed));
	ASSERT_EQ(usable(), IN_A_BLOCK);
	ASSERT_EQ(blocks_stats(lab->blocks).refused, 1);
}

static void test_claim_whose_answer_was_lost_is_found_by_the_watch(void **state)
{
	(void)state;
	api_plan_fault(&(struct api_fault){.method = "POST", .count = 1, .loss = API_LOST_AFTER});
	blocks_want(lab->blocks, "p", 1);
	pass(20000);
	/* One object: the claim that was carried out is used, and no second block is claimed. */
	ASSERT_EQ(api_count(BLOCKS "/"), 1);
	ASSERT_EQ(usable(), IN_A_BLOCK);
}

static void test_claim_that_never_arrived_is_sent_again(void **state)
{
	(void)state;
	api_plan_fault(&(struct api_fault){.method = "POST", .count = 1, .loss = API_LOST_BEFORE});
	blocks_want(lab->blocks, "p", 1);
	pass(20000);
	ASSERT_EQ(api_requests("POST", NULL), 2);
	ASSERT_EQ(api_count(BLOCKS "/"), 1);
	ASSERT_EQ(usable(), IN_A_BLOCK);
	ASSERT_EQ(blocks_stats(lab->blocks).unanswered, 1);
}

static void test_claims_refused_with_403_are_retried_with_a_growing_backoff(void **state)
{
	const struct api_request *q;
	int64_t longest = 0;
	size_t n;

	(void)state;
	api_plan_fault(&(struct api_fault){.method = "POST", .count = 1000, .status = 403});
	blocks_want(lab->blocks, "p", 1);
	pass(120000);
	n = api_requests("POST", &q);
	assert_in_range(n, 10, 25);
	/* Each wait is half to one and a half times its nominal value, which doubles up to 15 s. */
	for (size_t i = 1; i < n; i++) {
		int64_t wait = q[i].at_ms - q[i - 1].at_ms;

		if (wait > longest)
			longest = wait;
		assert_true(4 * wait >= longest);
	}
	assert_in_range(longest, 7500, 22510);
	ASSERT_EQ(usable(), 0);
	/* The API server accepts requests again: the next attempt succeeds. */
	api_plan_fault(&(struct api_fault){0});
	pass(23000);
	ASSERT_EQ(usable(), IN_A_BLOCK);
}

/* --- the log --- */

static void test_claim_in_the_block_log_is_used_after_a_crash_without_a_write_request(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	ASSERT_EQ(usable(), IN_A_BLOCK);
	agent_stop();
	api_forget();
	agent_start();
	ASSERT_EQ(usable(), IN_A_BLOCK);
	ASSERT_EQ(api_requests(NULL, NULL), 0);
}

static void test_blocks_in_the_block_log_are_used_while_the_api_server_is_unavailable(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	agent_stop();
	api_down();
	agent_start();
	assert_false(blocks_ready(lab->blocks));
	ASSERT_EQ(usable(), 0);
	pass(6000);
	assert_true(blocks_ready(lab->blocks));
	ASSERT_EQ(usable(), IN_A_BLOCK);
	api_up();
	pass(60000);
	ASSERT_EQ(usable(), IN_A_BLOCK);
	ASSERT_EQ(api_count(BLOCKS "/"), 1);
}

static void test_demand_during_an_outage_is_met_when_the_api_server_is_back(void **state)
{
	(void)state;
	api_down();
	blocks_want(lab->blocks, "p", 1);
	pass(60000);
	ASSERT_EQ(api_requests(NULL, NULL), 0);
	ASSERT_EQ(usable(), 0);
	api_up();
	pass(60000);
	ASSERT_EQ(api_requests("POST", NULL), 1);
	ASSERT_EQ(usable(), IN_A_BLOCK);
}

static void
test_block_of_a_lost_log_is_not_used_and_is_deleted_when_all_pods_are_known(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	blocks_want(lab->blocks, "p", 0);
	agent_stop();
	ASSERT_EQ(file_remove(&lab->root, "/state/blocks.json", NULL), 0);
	agent_start();
	ASSERT_EQ(blocks_unadopted_count(lab->blocks), 1);
	ASSERT_EQ(usable(), 0);
	/* No pod has an address of the block, so the block is deleted. */
	blocks_inventory_complete(lab->blocks);
	pass(2 * IDLE_MS);
	ASSERT_EQ(blocks_unadopted_count(lab->blocks), 0);
	ASSERT_EQ(api_count(BLOCKS "/"), 0);
}

/* --- release --- */

static uint64_t usable_at_delete;

static void on_delete(const struct api_request *q)
{
	ASSERT_HAS(q->body, "\"preconditions\":{\"uid\":\"uid-");
	usable_at_delete = usable();
}

static void test_idle_block_is_released_after_the_idle_time(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	blocks_want(lab->blocks, "p", 0);
	pass(IDLE_MS / 2);
	ASSERT_EQ(api_count(BLOCKS "/"), 1);
	usable_at_delete = UINT64_MAX;
	api_plan_fault(&(struct api_fault){.method = "DELETE", .count = 1, .before = on_delete});
	pass(2 * IDLE_MS);
	ASSERT_EQ(api_requests("DELETE", NULL), 1);
	/* No address of the block could be allocated while the DELETE was in progress. */
	ASSERT_EQ(usable_at_delete, 0);
	ASSERT_EQ(api_count(BLOCKS "/"), 0);
	ASSERT_EQ(usable(), 0);
}

static void test_block_with_an_address_of_a_pod_is_not_released(void **state)
{
	const struct api_request *q;
	char first[IP_TEXT_MAX];

	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	ASSERT_EQ(api_requests("POST", &q), 1);
	first_address(q, first);
	pod_gets(first);
	blocks_want(lab->blocks, "p", 0);
	pass(10 * IDLE_MS);
	ASSERT_EQ(api_requests("DELETE", NULL), 0);
	ASSERT_EQ(usable(), IN_A_BLOCK);
	pods_end();
	pass(3 * IDLE_MS);
	ASSERT_EQ(api_count(BLOCKS "/"), 0);
}

static void test_release_whose_request_was_lost_is_sent_again(void **state)
{
	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	blocks_want(lab->blocks, "p", 0);
	api_plan_fault(
		&(struct api_fault){.method = "DELETE", .count = 1, .loss = API_LOST_BEFORE});
	pass(3 * IDLE_MS);
	ASSERT_EQ(api_requests("DELETE", NULL), 2);
	ASSERT_EQ(api_count(BLOCKS "/"), 0);
	ASSERT_EQ(usable(), 0);
	ASSERT_EQ(blocks_stats(lab->blocks).claims, 0);
}

/* --- peers --- */

static void test_address_is_borrowed_from_a_peer_when_no_block_is_free(void **state)
{
	auto_json struct json_doc *d = NULL;
	const struct api_request *q;
	const char *entry;

	(void)state;
	for (unsigned int i = 0; i < BLOCKS_OF_POOL; i++)
		put_peer(i, i == 5 ? "'10.0.0.43':'*'" : "");
	blocks_want(lab->blocks, "p", 1);
	pass(5000);
	assert_true(may_allocate("10.0.0.43"));
	ASSERT_EQ(usable(), 1);
	/* The node tried to create a block before it knew the blocks of its peers. */
	ASSERT_EQ(api_requests("POST", &q), 1);
	ASSERT_EQ(q[0].status, 409);
	ASSERT_EQ(api_requests("PATCH", &q), 1);
	ASSERT_HAS(q[0].body,
		   "{\"op\":\"test\",\"path\":\"/spec/released/10.0.0.43\",\"value\":\"*\"}");
	d = api_get(BLOCKS "/p-5");
	entry = json_string(
		json_get(json_get(json_get(json_root(d), "spec"), "released"), "10.0.0.43"));
	assert_non_null(entry);
	ASSERT_EQ(strncmp(entry, "n1/", 3), 0);
	ASSERT_EQ(blocks_stats(lab->blocks).borrowed_now, 1);
}

static void test_borrowed_address_is_returned_when_no_pod_needs_it(void **state)
{
	auto_json struct json_doc *d = NULL;

	(void)state;
	for (unsigned int i = 0; i < BLOCKS_OF_POOL; i++)
		put_peer(i, i == 5 ? "'10.0.0.43':'*'" : "");
	blocks_want(lab->blocks, "p", 1);
	pass(5000);
	assert_true(may_allocate("10.0.0.43"));
	blocks_want(lab->blocks, "p", 0);
	pass(3 * IDLE_MS);
	assert_false(may_allocate("10.0.0.43"));
	d = api_get(BLOCKS "/p-5");
	assert_null(json_get(json_get(json_get(json_root(d), "spec"), "released"), "10.0.0.43"));
	ASSERT_EQ(blocks_stats(lab->blocks).borrowed_now, 0);
}

static void test_peers_get_requests_when_no_address_is_free(void **state)
{
	const struct api_request *q;
	size_t n, asked = 0;

	(void)state;
	for (unsigned int i = 0; i < BLOCKS_OF_POOL; i++)
		put_peer(i, "");
	blocks_want(lab->blocks, "p", 1);
	pass(5000);
	n = api_requests("PATCH", &q);
	for (size_t i = 0; i < n; i++)
		asked += strstr(q[i].body, "/spec/requested/n1@*") != NULL;
	assert_true(asked > 0);
	ASSERT_EQ(usable(), 0);
}

/* --- a restore of etcd --- */

static void test_claims_are_frozen_after_a_restore_of_etcd(void **state)
{
	const struct api_request *q;
	int64_t restored;

	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	api_backup();
	/* The restore loses the writes that follow this backup. */
	blocks_want(lab->blocks, "p", 12);
	pass(1000);
	ASSERT_EQ(api_count(BLOCKS "/"), 2);
	api_forget();
	restored = loop_now_ms(lab->loop);
	api_restore();
	ASSERT_EQ(api_count(BLOCKS "/"), 1);
	blocks_want(lab->blocks, "p", 20);
	pass(FREEZE_MS - 5000);
	ASSERT_EQ(api_requests("POST", NULL), 0);
	/* The restore is reported to the controller by an annotation of a block. */
	assert_true(api_requests("PATCH", &q) > 0);
	ASSERT_HAS(q[0].body, "unirail.io/etcd-restored");
	pass(60000);
	assert_true(api_requests("POST", &q) > 0);
	assert_true(q[0].at_ms - restored >= FREEZE_MS);
	assert_true(usable() >= 20);
}

static void test_restore_while_no_agent_ran_is_found_by_a_lower_resource_version(void **state)
{
	const struct api_request *q;
	int64_t started;

	(void)state;
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	api_backup();
	blocks_want(lab->blocks, "p", 12);
	pass(1000);
	agent_stop();
	api_restore();
	api_forget();
	started = loop_now_ms(lab->loop);
	agent_start();
	blocks_want(lab->blocks, "p", 20);
	pass(FREEZE_MS - 5000);
	ASSERT_EQ(api_requests("POST", NULL), 0);
	pass(60000);
	assert_true(api_requests("POST", &q) > 0);
	assert_true(q[0].at_ms - started >= FREEZE_MS);
	assert_true(usable() >= 20);
}

static void test_address_of_a_pod_survives_a_restore_that_lost_its_block(void **state)
{
	auto_json struct json_doc *d = NULL;
	auto_free char *path = NULL;
	const struct json *entries;
	const struct api_request *q;
	char first[IP_TEXT_MAX];

	(void)state;
	api_backup();
	blocks_want(lab->blocks, "p", 1);
	pass(1000);
	ASSERT_EQ(api_requests("POST", &q), 1);
	path = path_of(q);
	first_address(q, first);
	pod_gets(first);
	blocks_want(lab->blocks, "p", 0);
	pass(1000);
	api_restore();
	pass(180000);
	/* The block is created again. Its other addresses have the entry "?", because pods that
	 * the agent does not know may have them. */
	d = api_get(path);
	assert_non_null(d);
	entries = json_get(json_get(json_root(d), "spec"), "released");
	assert_null(json_get(entries, first));
	assert_true(may_allocate(first));
	for (unsigned int i = 0; i < IN_A_BLOCK; i++) {
		struct ipaddr a = t_ip(first);
		char text[IP_TEXT_MAX];

		a.b[3] = (uint8_t)(a.b[3] / IN_A_BLOCK * IN_A_BLOCK + i);
		ip_str(&a, text);
		if (strcmp(text, first) != 0)
			ASSERT_STR_EQ_MSG(json_string(json_get(entries, text)), "?", "%s", text);
	}
}

/* --- the block size --- */

/* Creates the pool's object without a block size, and restarts the agent. */
static void forget_block_size(void)
{
	api_put(POOL, "{'metadata':{},'spec':{}}");
	read_pool();
	lab->pool.cut_is_written = false;
	lab->pool.cut = (struct block_cut){0};
	agent_stop();
	agent_start();
}

static void test_block_size_is_written_to_the_pool_before_the_first_claim(void **state)
{
	auto_json struct json_doc *d = NULL;
	const struct api_request *q;

	(void)state;
	forget_block_size();
	blocks_want(lab->blocks, "p", 1);
	pass(2000);
	assert_true(api_requests(NULL, &q) >= 2);
	ASSERT_STR_EQ(q[0].method, "PATCH");
	ASSERT_STR_EQ(q[0].path, POOL);
	ASSERT_STR_EQ(q[1].method, "POST");
	d = api_get(POOL);
	assert_non_null(
		json_string(json_get(json_get(json_get(json_root(d), "metadata"), "annotations"),
				     "unirail.io/block-prefix")));
	assert_true(usable() > 0);
}

static void write_pool(const struct api_request *q)
{
	(void)q;
	api_put(POOL, "{'metadata':{'annotations':{'unirail.io/block-prefix':'30'}},'spec':{}}");
}

static void test_block_size_that_another_node_wrote_first_is_used(void **state)
{
	struct err e = ERR_INIT;
	const struct api_request *q;
	size_t n;

	(void)state;
	forget_block_size();
	api_plan_fault(&(struct api_fault){.method = "PATCH", .count = 1, .before = write_pool});
	blocks_want(lab->blocks, "p", 1);
	pass(2000);
	/* Each attempt has the version from before the other node's write and is refused. */
	n = api_requests("PATCH", &q);
	assert_true(n > 1);
	for (size_t i = 0; i < n; i++)
		ASSERT_EQ_MSG(q[i].status, 409, "request %zu", i);
	ASSERT_EQ(api_requests("POST", NULL), 0);
	/* The watch of pools delivers what the other node wrote. */
	ASSERT_EQ(block_cut_choose(&lab->pool.subnet, 30, false, &lab->pool.cut, &e), 0);
	lab->pool.cut_is_written = true;
	read_pool();
	blocks_pools(lab->blocks, &lab->set);
	pass(2000);
	assert_true(api_requests("POST", &q) > 0);
	ASSERT_HAS(q[0].body, "/30\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
		TEST(test_demand_leads_to_a_claim_whose_addresses_are_usable),
		TEST(test_larger_demand_leads_to_as_many_blocks_as_it_needs),
		TEST(test_no_block_is_claimed_before_the_leases_are_known),
		TEST(test_addresses_of_an_expected_pod_are_claimed_before_its_request),
		TEST(test_claim_refused_with_409_is_retried_with_another_block),
		TEST(test_claim_whose_answer_was_lost_is_found_by_the_watch),
		TEST(test_claim_that_never_arrived_is_sent_again),
		TEST(test_claims_refused_with_403_are_retried_with_a_growing_backoff),
		TEST(test_claim_in_the_block_log_is_used_after_a_crash_without_a_write_request),
		TEST(test_blocks_in_the_block_log_are_used_while_the_api_server_is_unavailable),
		TEST(test_demand_during_an_outage_is_met_when_the_api_server_is_back),
		TEST(test_block_of_a_lost_log_is_not_used_and_is_deleted_when_all_pods_are_known),
		TEST(test_idle_block_is_released_after_the_idle_time),
		TEST(test_block_with_an_address_of_a_pod_is_not_released),
		TEST(test_release_whose_request_was_lost_is_sent_again),
		TEST(test_address_is_borrowed_from_a_peer_when_no_block_is_free),
		TEST(test_borrowed_address_is_returned_when_no_pod_needs_it),
		TEST(test_peers_get_requests_when_no_address_is_free),
		TEST(test_claims_are_frozen_after_a_restore_of_etcd),
		TEST(test_restore_while_no_agent_ran_is_found_by_a_lower_resource_version),
		TEST(test_address_of_a_pod_survives_a_restore_that_lost_its_block),
		TEST(test_block_size_is_written_to_the_pool_before_the_first_claim),
		TEST(test_block_size_that_another_node_wrote_first_is_used),
	};

	return T_RUN(tests, NULL, NULL);
}
