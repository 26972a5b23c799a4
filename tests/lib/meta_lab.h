/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_META_LAB_H
#define UNIRAIL_TEST_META_LAB_H

/*
 * Runs a chained plugin in the test's process. The lab creates one network namespace and passes it
 * as that of the pod and as that of the host.
 */

#include "kern_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/chained.h"

struct chained_lab {
	struct kern_lab lab;
	struct cni_call call;
	struct chained_call m;
	struct undo undo;
	char netns[64];
};

/* Sets the configuration: `conf` is a JSON object with single quotes in place of double ones. */
static inline void chained_set(struct chained_lab *l, const char *conf)
{
	json_cleanup(&l->m.doc);
	l->m.doc = t_json_quoted(conf);
	l->m.conf = json_root(l->m.doc);
}

/* with_netns false: for tests that need neither a namespace nor root. */
static inline void chained_open(struct chained_lab *l, bool with_netns, const char *conf)
{
	*l = (struct chained_lab){.lab.ns = -1};
	l->call = (struct cni_call){.container_id = "c1", .args_text = "", .netns = l->netns};
	OK(root_open(&l->call.root, NULL, &e));
	l->m = (struct chained_call){.call = &l->call,
				     .ifname = "net1",
				     .version = CNI_1_0_0,
				     .has_prev = true,
				     .netns = -1};
	if (with_netns) {
		kern_open(&l->lab);
		snprintf(l->netns, sizeof(l->netns), "/proc/self/fd/%d", l->lab.ns);
		l->m.netns = l->lab.ns;
		l->m.pod = l->m.host = l->lab.w;
	}
	chained_set(l, conf);
}

static inline void chained_close(struct chained_lab *l)
{
	undo_disarm(&l->undo);
	json_cleanup(&l->m.doc);
	root_close(&l->call.root);
	if (l->lab.ns >= 0)
		kern_close(&l->lab);
}

/* For chained_prev(): an address of interface net1 in the pod, and its gateway (NULL: none). */
struct chained_ip {
	const char *net, *gw;
};

static inline void chained_prev(struct cni_result *r, const struct chained_ip *ips, size_t n)
{
	*r = (struct cni_result){0};
	cni_result_iface(r, "net1", "0a:58:00:00:00:01", "/ns");
	for (size_t i = 0; i < n; i++) {
		struct cni_ip ip = {.address = t_net(ips[i].net)};

		if (ips[i].gw)
			ip.gateway = t_ip(ips[i].gw);
		cni_result_ip(r, &ip);
	}
}

#endif
