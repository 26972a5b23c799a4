/* SPDX-License-Identifier: Apache-2.0 */
/* Records of allocated addresses: whereabouts' flat file and store, host-local's directory,
 * blocks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/ipam_plugins.h"
#include "files.h"
#include "block/log.h"
#include "block/codec.h"
#include "ipam/hostlocal/hostlocal.h"
#include "state.h"

#define FLAT_FILE "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf"
#define FOLDER	  "/var/lib/cni/networks/rails"

enum { TEXT_MAX = 4 << 20, FILES_MAX = 16 };

/* --- whereabouts --- */

static struct cni_ipam_call ipam_call(const struct cni_call *c, struct json_doc *d)
{
	return (struct cni_ipam_call){.call = c,
				      .doc = d,
				      .conf = json_root(d),
				      .name = "rails",
				      .ifname = "net1",
				      .version = CNI_1_0_0};
}

/* A repeated ADD gives the same addresses, and DEL succeeds. */
static int add_and_del(const struct cni_ipam_call *call, struct err *e)
{
	auto_result struct cni_result first = {0}, again = {0};
	int r = whereabouts_add(call, &first, e);

	if (r < 0)
		return r;
	if (whereabouts_add(call, &again, e) < 0)
		fuzz_fail(e->text, 0, "the repeated ADD is refused");
	must(first.n_ips == again.n_ips);
	for (size_t i = 0; i < first.n_ips; i++) {
		must(first.ips[i].address.ip.family);
		must(ipnet_eq(&first.ips[i].address, &again.ips[i].address));
	}
	if (whereabouts_del(call, e) < 0)
		fuzz_fail(e->text, 0, "DEL fails");
	return 0;
}

int state_whereabouts(struct feed f, struct err *e)
{
	const struct cni_call c = {.command = "ADD",
				   .container_id = "c1",
				   .ifname = "net1",
				   .netns = "/run/netns/x",
				   .args_text = "K8S_POD_NAME=a;K8S_POD_NAMESPACE=default",
				   .path = "",
				   .root = *fuzz_root()};
	struct span conf = state_part(&f);
	auto_json struct json_doc *d = NULL;
	struct cni_ipam_call call;
	int r = json_parse(&d, conf, TEXT_MAX, e);

	if (r < 0)
		return r;
	if (f.n > 0)
		files_put(FLAT_FILE, state_part(&f));
	call = ipam_call(&c, d);
	return add_and_del(&call, e);
}

/* --- host-local --- */

static void put_addresses(struct feed *f)
{
	for (size_t i = 0; i < FILES_MAX && f->n > 0; i++) {
		struct span content = state_part(f), name;
		auto_free char *path = NULL;

		if (!span_cut(&content, '\n', &name) || name.n == 0 || memchr(name.p, '/', name.n))
			continue;
		path = xasprintf(FOLDER "/%.*s", (int)name.n, name.p);
		if (strlen(path) < 200)
			files_put(path, content);
	}
}

static void check_records(const struct hostlocal *h)
{
	for (size_t i = 0; i < h->n; i++) {
		must(h->v[i].ip.family && h->v[i].container_id);
		must(i == 0 || ip_cmp(&h->v[i - 1].ip, &h->v[i].ip) <= 0);
	}
}

static int take_one(struct hostlocal *h, struct err *e)
{
	struct hostlocal_range range = {.subnet = {{4, {10, 0, 0, 0}}, 29}};
	struct hostlocal_set set = {.v = &range, .n = 1};
	const struct hostlocal_owner owner = {"mine", "net1"};
	struct ipnet got, again;
	struct ipaddr gateway;
	int r;

	must(hostlocal_set_check(&set, e) == 0);
	r = hostlocal_take(h, &set, 0, &owner, NULL, &got, &gateway, e);
	must(r < 0 || ipnet_contains(&range.subnet, &got.ip));
	must(r < 0 || hostlocal_take(h, &set, 0, &owner, NULL, &again, &gateway, NULL) == -EEXIST);
	hostlocal_set_done(&set);
	if (r < 0)
		return r;
	must(hostlocal_release(h, &owner, e) >= 1);
	return 0;
}

int state_host_local(struct feed f, struct err *e)
{
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int r;

	put_addresses(&f);
	r = hostlocal_open(&h, fuzz_root(), "/var/lib/cni/networks", "rails", true, e);
	if (r >= 0)
		r = hostlocal_records(&h, e);
	if (r < 0)
		return r;
	check_records(&h);
	return take_one(&h, e);
}

/* --- blocks --- */

int state_log(struct feed f, struct err *e)
{
	struct block_table t = {0}, again = {0};
	struct block_log l;
	int r;

	files_put("/blocks", state_part(&f));
	r = block_log_open(&l, fuzz_root(), "/blocks", "n1", &t, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < t.n_claims; i++)
		must(t.claims[i].name && t.claims[i].pool && t.claims[i].uid);
	for (size_t i = 0; i < t.n_borrowed; i++)
		must(t.borrowed[i].block && t.borrowed[i].pool && t.borrowed[i].ip.family);
	if (t.n_claims > 0)
		must(block_log_claim(&l, &t, &t.claims[0], e) == 0);
	else
		must(block_log_claim(&l, &t,
				     &(struct block_claim){.name = (char *)"p-1",
							   .pool = (char *)"p",
							   .uid = (char *)"u",
							   .token = "t",
							   .net = {{4, {10, 0, 0, 0}}, 28}},
				     e) == 0);
	block_log_close(&l);
	if (block_log_open(&l, fuzz_root(), "/blocks", "n1", &again, e) < 0)
		fuzz_fail(e->text, 0, "the second open of the block log fails");
	must(t.n_claims == again.n_claims && t.n_borrowed == again.n_borrowed);
	block_log_close(&l);
	block_table_done(&t);
	block_table_done(&again);
	return 0;
}

int state_block(struct feed f, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct block_object o = {0};
	int r = json_parse(&d, state_part(&f), TEXT_MAX, e);

	if (r >= 0)
		r = block_object_read(json_root(d), &o, e);
	if (r < 0)
		return r;
	must(o.name && o.pool && o.uid && o.version && o.node && o.claim);
	must(!ipnet_has_host_bits(&o.net));
	for (size_t i = 0; i < o.n_released; i++)
		must(o.released[i].ip.family && o.released[i].to);
	for (size_t i = 0; i < o.n_requested; i++)
		must(o.requested[i].key && o.requested[i].count > 0);
	block_object_done(&o);
	return 0;
}
