/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/demo/demo.h"
#include "wire/json/json.h"

/*
 * What an administrator writes: a pools file and the netconf. configs/ holds the same two plans
 * as files.
 */

enum { CONF_MAX = 1 << 20 };

static void subnet_part(struct buf *b, const char *name, size_t nic, int base, int bits)
{
	int gateway = base + 1, first = base + (bits == 24 ? 10 : 3);
	int last = base + (1 << (32 - bits)) - (bits == 24 ? 6 : 2);

	buf_printf(b,
		   "[pool %s]\n"
		   "subnet  = 172.16.%zu.%d/%d\n"
		   "ips     = 172.16.%zu.%d-172.16.%zu.%d\n"
		   "gateway = 172.16.%zu.%d\n\n",
		   name, nic, base, bits, nic, first, nic, last, nic, gateway);
}

/* A /27 for each of eight nodes; ours is the first, its pool the one that matches the master. */
static void exclusive_rail(struct buf *b, const struct demo_nic *n, size_t nic)
{
	for (int node = 0; node < 8; node++) {
		char name[48];

		snprintf(name, sizeof(name), "%s-node%d", n->name, node + 1);
		subnet_part(b, name, nic, node * 32, 27);
	}
}

int demo_conf_pools(const struct demo *d, struct err *e)
{
	auto_buf struct buf b;
	char dir[96], path[128];
	int r;

	buf_init(&b, CONF_MAX);
	for (size_t i = 0; i < d->n_nics; i++) {
		if (d->nics[i].node.len == 24)
			subnet_part(&b, d->nics[i].name, i, 0, 24);
		else
			exclusive_rail(&b, &d->nics[i], i);
	}
	snprintf(dir, sizeof(dir), "%s/pools", d->dir);
	snprintf(path, sizeof(path), "%s/rails.conf", dir);
	r = dir_make(&d->root, dir, 0755, e);
	return r < 0 ? r : file_replace(&d->root, path, buf_span(&b), 0644, e);
}

static void ipam(const struct demo *d, const struct demo_nic *n, struct json_out *o)
{
	char path[96];

	jo_key(o, "ipam");
	jo_obj(o);
	jo_kstr(o, "type", "spiderpool");
	jo_key(o, "default_ipv4_ippool");
	jo_arr(o);
	jo_str(o, n->pool);
	jo_end_arr(o);
	if (strchr(n->pool, '*'))
		jo_kbool(o, "match_master_subnet", true);
	snprintf(path, sizeof(path), "%s/pools", d->dir);
	jo_kstr(o, "pool_dir", path);
	snprintf(path, sizeof(path), "%s/state", d->dir);
	jo_kstr(o, "state_dir", path);
	/* This host's own host-local addresses are none of the demo's business. */
	snprintf(path, sizeof(path), "%s/host-local", d->dir);
	jo_kstr(o, "hostlocal_dir", path);
	jo_kbool(o, "enable_gateway_detection", true);
	jo_kbool(o, "enable_ip_conflict_detection", true);
	jo_end_obj(o);
}

static void network(const struct demo *d, const struct demo_nic *n, struct json_out *o)
{
	jo_obj(o);
	jo_kstr(o, "name", n->name);
	jo_kstr(o, "ifname", n->pod_if);
	jo_key(o, "plugins");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "type", "macvlan");
	jo_kstr(o, "master", n->name);
	jo_kstr(o, "mode", "bridge");
	ipam(d, n, o);
	jo_end_obj(o);
	jo_obj(o);
	jo_kstr(o, "type", "coordinator");
	jo_kstr(o, "mode", "underlay");
	jo_end_obj(o);
	jo_end_arr(o);
	jo_end_obj(o);
}

int demo_conf_net(const struct demo *d, struct span prev, struct buf *b, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct json_out o;
	int r = prev.n ? json_parse(&doc, prev, CONF_MAX, e) : 0;

	if (r < 0)
		return err_wrap(e, r, "read the result of ADD");
	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", "1.1.0");
	jo_kstr(&o, "name", "rails");
	jo_kstr(&o, "type", "unirail-cni");
	/* No pod of ours was ever Multus'; its folder may be closed to who runs this without root. */
	jo_kstr(&o, "multusCniDir", "");
	jo_key(&o, "networks");
	jo_arr(&o);
	for (size_t i = 0; i < d->n_nics; i++)
		network(d, &d->nics[i], &o);
	jo_end_arr(&o);
	if (doc) {
		jo_key(&o, "prevResult");
		jo_val(&o, json_root(doc), false);
	}
	jo_end_obj(&o);
	return 0;
}
