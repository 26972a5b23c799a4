/* SPDX-License-Identifier: Apache-2.0 */
/* The configurations of the plugins below, read and validated as in fuzz_netconf.c, without the
 * kernel and real files. */
#include "netconf.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "cni/protocol/cni_call.h"
#include "growth.h"
#include "wire/json/json.h"

enum { TEXT_BYTES = 16 << 20 };

static netconf_read *reads; /* of the current plugin */

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return reads(c, out, e);
}

static int check(struct cni_call *c, struct err *e)
{
	auto_result struct cni_result out = {0};

	return reads(c, &out, e);
}

static void run(const struct sample *s, const char *name, netconf_read *fn, const char *ipam)
{
	static char *const verbs[] = {"CNI_COMMAND=ADD", "CNI_COMMAND=CHECK", "CNI_COMMAND=GC"};
	const struct cni_plugin p = {.name = name,
				     .add = add,
				     .check = check,
				     .del = check,
				     .gc = check,
				     .status = check};
	auto_tree struct json_tree *t = json_tree_of(s->object);
	auto_buf struct buf in, out;
	struct json_out o;

	reads = fn;
	json_tree_put_text(json_tree_member(t, "ipam"), "type", ipam);
	buf_init(&in, TEXT_BYTES);
	jo_init(&o, &in, 0);
	json_tree_write(t, &o);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		char *env[] = {verbs[i],
			       "CNI_CONTAINERID=c",
			       "CNI_IFNAME=net1",
			       "CNI_ARGS=IgnoreUnknown=1",
			       "CNI_PATH=/none",
			       "CNI_NETNS=/run/netns/not-there",
			       "CNI_NETNS_OVERRIDE=1",
			       NULL};

		buf_init(&out, TEXT_BYTES);
		cni_run_with(&p, env, buf_span(&in), &out);
		buf_done(&out);
	}
	buf_init(&out, 1);
}

#define PLUGIN(name, fn, ipam)                                                                     \
	void growth_##fn(const struct sample *s)                                                   \
	{                                                                                          \
		run(s, name, netconf_##fn, ipam);                                                  \
	}
PLUGIN("coordinator", coordinator, "static")
PLUGIN("tuning", tuning, "static")
PLUGIN("sbr", sbr, "static")
PLUGIN("ifacer", ifacer, "static")
PLUGIN("macvlan", macvlan, "static")
PLUGIN("sriov", sriov, "spiderpool")
PLUGIN("unirail-cni", multi, "static")
PLUGIN("host-local", host_local, "host-local")
PLUGIN("whereabouts", whereabouts, "whereabouts")
PLUGIN("spiderpool", spiderpool, "spiderpool")
PLUGIN("static", static, "static")
