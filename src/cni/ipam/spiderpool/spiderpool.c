/* SPDX-License-Identifier: Apache-2.0 */
/* The spiderpool IPAM as a plugin of its own, for whoever executes it: Debian's macvlan, say. */
#include "cni/ipam/spiderpool/spiderpool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

enum { PATH_BYTES = 600 };

/* A log that cannot be written must not cost a pod its network. */
static void open_log(const struct cni_ipam_call *call)
{
	struct spiderpool_conf conf;
	struct err e = ERR_INIT;
	struct log_conf l;

	if (spiderpool_conf_read(call, &conf, NULL) < 0 || spiderpool_conf_log(&conf, &l, NULL) < 0)
		return; /* the verb says so */
	if (log_setup(&l, &e) < 0)
		log_warn("log goes to stderr", LOG_S("error", e.text));
	log_context("container_id", call->call->container_id);
	log_context("ifname", call->ifname);
}

/* --- the master, for match_master_subnet --- */

/* The first network device of the PF that a VF belongs to. */
static int pf_of(const struct root *r, const char *vf, char name[static 16], struct err *e)
{
	char path[PATH_BYTES], **names = NULL;
	size_t n = 0;
	int ret;

	if (strspn(vf, "0123456789abcdefABCDEF:.") != strlen(vf))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.deviceID '%s' is no PCI address", vf);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/physfn/net", vf);
	ret = dir_list(r, path, &names, &n, e);
	if (ret < 0)
		return err_wrap(e, ret, "find the PF of VF '%s'", vf);
	if (n == 0)
		ret = err_set(e, -ENODEV, "the PF of VF '%s' has no network device", vf);
	else if (!str_copy(name, LINK_NAME_MAX, names[0]))
		ret = err_set(e, -ENAMETOOLONG, "the PF of VF '%s' is '%s'", vf, names[0]);
	str_list_free(names, n);
	return ret;
}

static int addresses(const char *dev, struct ipnet **nets, size_t *n, struct err *e)
{
	auto_free struct addr *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	struct link link;
	size_t count = 0;
	int r = nl_open(&w, NL_ROUTE, -1, e);

	if (r == 0)
		r = link_get(w, dev, &link, e);
	if (r == 0)
		r = addr_list(w, 0, link.index, &list, &count, e);
	if (r < 0)
		return err_wrap(e, r, "match_master_subnet: addresses of '%s'", dev);
	for (size_t i = 0; i < count; i++)
		VEC_PUSH(*nets, *n) = list[i].net;
	return 0;
}

int spiderpool_master(const struct cni_call *c, const char **master, struct ipnet **nets, size_t *n,
		      char name[static 16], struct err *e)
{
	const char *dev = json_string(json_get_go(c->conf, "master"));
	const char *vf = json_string(json_get_go(c->conf, "deviceID"));
	int r = 0;

	if (dev && *dev && !str_copy(name, LINK_NAME_MAX, dev))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.master '%s' is no device's name", dev);
	if ((!dev || !*dev) && vf && *vf)
		r = pf_of(&c->root, vf, name, e);
	else if (!dev || !*dev)
		r = err_kind(e, ERR_CONF, -EINVAL,
			     "conf.ipam.match_master_subnet wants conf.master or conf.deviceID");
	if (r == 0)
		r = addresses(name, nets, n, e);
	if (r == 0)
		*master = name;
	return r;
}

/* --- verbs --- */

static int release(const struct cni_ipam_call *call)
{
	struct err e = ERR_INIT;
	int r = spiderpool_del(&call, 1, &e);

	if (r < 0)
		log_warn("give back address", LOG_S("error", e.text));
	return r;
}

static int allocate(const struct cni_ipam_call *call, int netns, struct cni_result *out,
		    struct err *e)
{
	struct cni_ipam_flags flags, *flags_of = &flags;
	bool fresh = false;
	int r = spiderpool_add(&call, 1, &out, &flags_of, &fresh, e);

	if (r < 0)
		return r;
	r = spiderpool_probe(call, netns, &flags, out, e);
	if (r < 0) {
		cni_result_done(out);
		if (fresh)
			release(call);
	}
	return r;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);
	auto_free struct ipnet *nets = NULL;
	struct spiderpool_conf conf;
	char name[LINK_NAME_MAX];
	auto_fd int netns = -1;
	int r = spiderpool_conf_read(&call, &conf, e);

	if (r < 0)
		return r;
	open_log(&call);
	r = netns_open(c->netns, &netns, e);
	if (r < 0)
		return err_wrap(e, r, "failed to GetNS \"%s\" for pod", c->netns);
	if (conf.match_subnet) {
		r = spiderpool_master(c, &call.master, &nets, &call.n_nets, name, e);
		call.nets = nets;
	}
	return r < 0 ? r : allocate(&call, netns, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = cni_ipam_call_of(c), *list = &call;

	open_log(&call);
	return spiderpool_del(&list, 1, e);
}

static int check(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return spiderpool_check(&call, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = cni_ipam_call_of(c);

	open_log(&call);
	return spiderpool_gc(&call, e);
}

static int status(struct cni_call *c, struct err *e)
{
	const struct cni_ipam_call call = cni_ipam_call_of(c);

	return spiderpool_status(&call, e);
}

const struct cni_plugin cni_spiderpool = {
	.name = "spiderpool",
	.about = "CNI spiderpool plugin unirail",
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
