/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a pod's networks and devices that Multus or unirail's plugins write. */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/cni_cache.h"
#include "base/alloc.h"
#include "cni/device/vf_stores.h"
#include "cni/multus/internal.h"
#include "cni/plugins/rdma/rdma_plugin.h"
#include "cni/plugins/sriov/sriov.h"
#include "files.h"
#include "state.h"

#define MULTUS "/var/lib/cni/multus"

enum { TEXT_MAX = 4 << 20 };

static void check_networks(const struct multus *m)
{
	for (size_t i = 0; i < m->n_delegates; i++) {
		const struct multus_delegate *d = &m->delegates[i];

		must(d->name && (!d->conf || d->conf[d->conf_len] == '\0'));
	}
	must(m->n_nets >= m->n_delegates && m->n_nets <= m->n_delegates + m->n_files);
	for (size_t i = 0; i < m->n_nets; i++) {
		auto_json struct json_doc *d = NULL;

		must(m->nets[i].ifname && m->nets[i].name);
		must(multus_conf_name(m->nets[i].conf, &d));
		for (size_t k = 0; k < i; k++)
			must(!m->nets[i].file || m->nets[i].file != m->nets[k].file);
	}
}

/* Adds a file to libcni's cache, and parses it by the agent's function as well. */
static void put_cached(const char *name, struct span text)
{
	auto_free char *path = xasprintf(MULTUS "/results/%s", name);
	auto_cni_cache struct cni_cache c = {0};

	files_put(path, text);
	(void)cni_cache_parse(&c, path, text, NULL);
	for (size_t i = 0; i < c.n; i++)
		must(c.v[i].ip.family && c.v[i].ns && c.v[i].pod && c.v[i].uid && c.v[i].ifname);
}

int state_multus(struct feed f, struct err *e)
{
	const struct cni_call c = {
		.container_id = "c1", .ifname = "eth0", .netns = "", .root = *fuzz_root()};
	auto_multus struct multus m = {.call = &c, .dir = MULTUS};

	(void)e;
	files_put(MULTUS "/c1", state_part(&f));
	if (f.n > 0)
		put_cached("rail0-c1-net1", state_part(&f));
	if (f.n > 0)
		put_cached("rail1-c1-net2", state_part(&f));
	if (f.n > 0)
		put_cached("other-c1-net1", state_part(&f));
	multus_find(&m);
	must(m.found);
	check_networks(&m);
	return 0;
}

static void check_record(const struct vf_record *r)
{
	must(pci_bdf_ok(r->device) && (!*r->name || link_name_ok(r->name)));
	must(memchr(r->pf, '\0', sizeof(r->pf)) && r->network);
	must(r->was.mac.len <= MAC_MAX && r->was.n_vlans <= VF_VLANS_MAX);
	must(r->was.vlans[0].id < 4096 && r->was.vlans[0].qos < 8);
	for (size_t i = 0; i < r->n_altnames; i++)
		must(r->altnames[i]);
}

int state_sriov(struct feed f, struct err *e)
{
	const struct sriov_conf conf = {0};
	const struct sriov_netconf n = {&conf, NULL, "1.0.0", ""};
	auto_vf_record struct vf_record r = {0}, again = {0};
	auto_buf struct buf b = {0};
	int code = sriov_store.parse(state_part(&f), &r, e);

	if (code < 0)
		return code;
	check_record(&r);
	buf_init(&b, TEXT_MAX);
	sriov_record_print(&r, &n, &b);
	if (sriov_store.parse(buf_span(&b), &again, e) < 0)
		fuzz_fail(b.p, 0, e->text);
	must(!strcmp(r.device, again.device) && !strcmp(r.name, again.name));
	must(mac_eq(&r.was.mac, &again.was.mac) && mac_eq(&r.mac, &again.mac));
	must(r.was.vlans[0].id == again.was.vlans[0].id && r.was.vf == again.was.vf);
	return 0;
}

int state_rdma(struct feed f, struct err *e)
{
	struct rdma_state s, again;
	auto_buf struct buf b = {0};
	int code = rdma_state_parse(state_part(&f), &s, e);

	if (code < 0)
		return code;
	must(rdma_name_ok(s.host_name) && *s.in_pod);
	buf_init(&b, TEXT_MAX);
	rdma_state_print(&s, &b);
	if (rdma_state_parse(buf_span(&b), &again, e) < 0)
		fuzz_fail(b.p, 0, e->text);
	must(!strcmp(s.device, again.device) && !strcmp(s.host_name, again.host_name));
	must(!strcmp(s.in_pod, again.in_pod) && !strcmp(s.network, again.network));
	return 0;
}
