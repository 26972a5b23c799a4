/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/spiderpool/spiderpool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "base/paths.h"
#include "cni/ipam/spiderpool/internal.h"
#include "cni/protocol/ipam_call.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

/* The spiderpool IPAM as a plugin of its own, for other plugins that execute it, such as the
 * original macvlan. */

enum { PATH_BYTES = 600 };

/* A log that cannot be written must not fail the pod's ADD. */
static void open_log(const struct cni_ipam_call *call)
{
	struct spiderpool_conf conf;
	struct err e = ERR_INIT;
	struct log_conf l;

	if (spiderpool_conf_read(call, &conf, NULL) < 0 || spiderpool_conf_log(&conf, &l, NULL) < 0)
		return; /* not reported here, because the verb reports the error */
	if (log_setup(&l, &e) < 0)
		log_warn("cannot open the log file, logging to stderr", LOG_S("error", e.text));
	log_context("container_id", call->call->container_id);
	log_context("ifname", call->ifname);
}

/* --- the master, for match_master_subnet --- */

/* Finds the first network device of the PF that a VF belongs to. */
static int pf_of(const struct root *r, const char *vf, char name[static 16], struct err *e)
{
	char path[PATH_BYTES], **names = NULL;
	size_t n = 0;
	int ret;

	if (strspn(vf, "0123456789abcdefABCDEF:.") != strlen(vf))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.deviceID '%s' is not a PCI address",
				vf);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/physfn/net", vf);
	ret = dir_list(r, path, &names, &n, e);
	if (ret < 0)
		return err_wrap(e, ret, "find the PF of VF '%s'", vf);
	if (n == 0)
		ret = err_set(e, -ENODEV, "the PF of VF '%s' has no network device", vf);
	else if (!str_copy(name, LINK_NAME_MAX, names[0]))
		ret = err_set(e, -ENAMETOOLONG,
			      "the name of the network device '%s', PF of VF '%s', is too long",
			      names[0], vf);
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
		return err_wrap(e, r, "match_master_subnet: cannot read the addresses of '%s'",
				dev);
	for (size_t i = 0; i < count; i++)
		VEC_PUSH(*nets, *n) = list[i].net;
	return 0;
}

/*
 * For a plugin that runs as its own process and has only the netconf: reads the addresses of the
 * master, which is the device conf.master, or without this key the PF of the VF conf.deviceID. The
 * caller frees *nets.
 */
static int spiderpool_master(const struct cni_call *c, const char **master, struct ipnet **nets,
			     size_t *n, char name[static 16], struct err *e)
{
	const char *dev = json_string(json_get_go(c->conf, "master"));
	const char *vf = json_string(json_get_go(c->conf, "deviceID"));
	int r = 0;

	if (dev && *dev && !str_copy(name, LINK_NAME_MAX, dev))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.master '%s' is not a device's name",
				dev);
	if ((!dev || !*dev) && vf && *vf)
		r = pf_of(&c->root, vf, name, e);
	else if (!dev || !*dev)
		r = err_kind(e, ERR_CONF, -EINVAL,
			     "conf.ipam.match_master_subnet requires conf.master or conf.deviceID");
	if (r == 0)
		r = addresses(name, nets, n, e);
	if (r == 0)
		*master = name;
	return r;
}

/* --- verbs of the IPAM plugin spiderpool --- */

static int allocate(const struct cni_ipam_call *call, int netns, struct err *e)
{
	int r = spiderpool_add(&call, 1, e);

	if (r < 0)
		return r;
	r = spiderpool_probe(call, netns, e);
	if (r < 0)
		spiderpool_undo(&call, 1);
	return r;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);
	auto_free struct ipnet *nets = NULL;
	struct cni_ipam_flags flags;
	struct spiderpool_conf conf;
	char name[LINK_NAME_MAX];
	auto_fd int netns = -1;
	int r = spiderpool_conf_read(&call, &conf, e);

	if (r < 0)
		return r;
	call.out = out;
	call.flags = &flags;
	open_log(&call);
	r = netns_open(c->netns, &netns, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("failed to GetNS \"%s\" for pod"), c->netns);
	if (conf.match_subnet) {
		r = spiderpool_master(c, &call.master, &nets, &call.n_nets, name, e);
		call.nets = nets;
	}
	return r < 0 ? r : allocate(&call, netns, e);
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

static const struct json_table table;

const struct cni_plugin cni_spiderpool = {
	.name = "spiderpool",
	.about = "CNI spiderpool plugin unirail",
	.keys = JSON_TABLES(&ipam_request_table),
	.ipam_keys = JSON_TABLES(&table),
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};

/* --- CHECK, GC, STATUS and conflicts, on the local store or a server --- */

static bool in_prev(const struct cni_result *prev, const struct ipnet *net)
{
	for (size_t i = 0; i < prev->n_ips; i++)
		if (ip_eq(&prev->ips[i].address.ip, &net->ip))
			return true;
	return false;
}

/* Reads the addresses of the interface; sets *known to false if the server does not report them. */
static int held(const struct cni_ipam_call *call, const struct spiderpool_conf *conf,
		struct ipnet **ret, size_t *n_ret, bool *known, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ip_allocation *g = NULL;
	size_t n = 0;
	int r;

	if (spiderpool_has_server(conf))
		return spiderpool_socket_held(conf->socket, call, ret, n_ret, known, e);
	r = spiderpool_open(call, conf, &store, e);
	if (r == 0)
		r = ipam_held(store, call->call->container_id, call->ifname, &g, &n, e);
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(*ret, *n_ret) = g[i].address;
	ip_allocations_free(g, n);
	*known = true;
	return r;
}

int spiderpool_check(const struct cni_ipam_call *call, struct err *e)
{
	const struct cni_call *c = call->call;
	auto_free struct ipnet *v = NULL;
	struct spiderpool_conf conf;
	char text[IP_TEXT_MAX];
	bool known = true;
	size_t n = 0;
	int r = spiderpool_conf_read(call, &conf, e);

	if (r == 0)
		r = held(call, &conf, &v, &n, &known, e);
	if (r == 0 && known && n == 0)
		r = err_set(e, -ENOENT,
			    "spiderpool: no address is held by container %s interface %s",
			    c->container_id, call->ifname);
	for (size_t i = 0; i < n && r == 0 && c->has_prev; i++)
		if (!in_prev(&c->prev, &v[i]))
			r = err_set(e, -ENOENT,
				    "spiderpool: %s holds %s, which is not in prevResult",
				    call->ifname, ipnet_str(&v[i], text));
	return r;
}

static int gc_store(const struct cni_ipam_call *call, const struct spiderpool_conf *conf,
		    struct err *e)
{
	const struct cni_call *c = call->call;
	auto_free struct ipam_valid *v = xcalloc(c->n_valid + 1, sizeof(*v));
	auto_ipam struct ipam *store = NULL;
	int r = spiderpool_open(call, conf, &store, e);

	for (size_t i = 0; i < c->n_valid; i++)
		v[i] = (struct ipam_valid){c->valid[i].container_id, c->valid[i].ifname};
	if (r == 0)
		r = ipam_gc(store, call->name, v, c->n_valid, e);
	return r < 0 ? r : 0;
}

int spiderpool_gc(const struct cni_ipam_call *call, struct err *e)
{
	struct spiderpool_conf conf;
	int r = spiderpool_conf_read(call, &conf, e);

	if (r < 0)
		return r;
	if (!spiderpool_has_server(&conf))
		return gc_store(call, &conf, e);
	r = spiderpool_socket_gc(conf.socket, call, e);
	if (r >= 0 || r == -EREMOTEIO || !conf.server_state || !*conf.server_state)
		return r;
	/* As in DEL: if the server does not answer or answers 503, and server_state_dir names
	 * its store, the store is used. */
	log_warn("the IPAM server is unavailable, its store is used directly",
		 LOG_S("error", e ? e->text : ""));
	return gc_store(call, &(struct spiderpool_conf){.state_dir = conf.server_state}, e);
}

static int try_store(const struct rail_request *rail, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ip_request request = spiderpool_request(rail);
	int r = spiderpool_open(rail->call, &rail->conf, &store, e);

	return r < 0 ? r : ipam_try(store, &request, 1, e);
}

/* STATUS: checks that the ADD of a pod could succeed, apart from match_master_subnet: the master is
 * unknown here. */
int spiderpool_status(const struct cni_ipam_call *call, struct err *e)
{
	struct cni_call probe_call = *call->call;
	struct cni_ipam_call copy = *call;
	struct rail_request rail = {.call = &copy};
	int r = spiderpool_conf_read(call, &rail.conf, e);

	probe_call.container_id = copy.ifname = "status";
	copy.call = &probe_call;
	rail.conf.match_subnet = rail.conf.sticky = false;
	if (r == 0)
		r = spiderpool_has_server(&rail.conf) ? spiderpool_socket_try(&rail, e)
						      : try_store(&rail, e);
	if (r < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return r;
}

int spiderpool_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
			const struct mac *other, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct spiderpool_conf conf;
	int r;

	spiderpool_conf_store(call, &conf);
	if (spiderpool_has_server(&conf))
		return spiderpool_socket_conflict(conf.socket, call, a, other, e);
	r = spiderpool_open(call, &conf, &store, e);
	return r < 0 ? r : ipam_quarantine(store, a, other, e);
}

#define FIELD(key, kind, member, ...)                                                              \
	JSON_FIELD(key, kind, struct spiderpool_conf, member, ##__VA_ARGS__)
#define HAS(member) .has = offsetof(struct spiderpool_conf, member)

enum { TRIES_MAX = 20, INTERVAL_MAX_MS = 10 * 1000, TOTAL_MAX_MS = 60 * 1000 };

static const struct json_field detect_fields[] = {
	FIELD("tries", J_INT, tries, .min = 1, .max = TRIES_MAX,
	      JSON_DOC("3", "number of probes of a test")),
	FIELD("interval_ms", J_INT, interval_ms, .min = 10, .max = INTERVAL_MAX_MS,
	      JSON_DOC("100", "time between probes")),
	FIELD("total_ms", J_INT, total_ms, .min = 100, .max = TOTAL_MAX_MS,
	      JSON_DOC("1000", "time limit of conflict and gateway detection together, from the "
			       "time the link has carrier")),
	FIELD("carrier_ms", J_INT, carrier_ms, .min = 100, .max = TOTAL_MAX_MS,
	      JSON_DOC("10000", "limit of the wait for carrier")),
	{0}};
static const struct json_table detect_table = {detect_fields, JSON_GO, 0};

static const struct json_field fields[] = {
	FIELD("log_level", J_STR, log_level, JSON_DOC(NULL, "debug, info, warn or error")),
	FIELD("log_file_path", J_STR, log_file_path,
	      JSON_DOC(NULL, "file to which the plugin writes its log")),
	FIELD("log_file_max_size", J_VAL, log_size,
	      JSON_DOC("100", "size in MB at which the log is rotated")),
	FIELD("log_file_max_age", J_VAL, log_age,
	      JSON_DOC(NULL, "accepted, but has no effect: the number of rotated log files is "
			     "limited, not their age")),
	FIELD("log_file_max_count", J_VAL, log_count,
	      JSON_DOC("10", "number of rotated log files that are "
			     "retained")),
	FIELD("default_ipv4_ippool", J_STRS, pools4,
	      JSON_DOC("the default pools", "names or wildcards of pools, in order of preference")),
	FIELD("default_ipv6_ippool", J_STRS, pools6,
	      JSON_DOC("the default pools", "names or wildcards of pools, in order of preference")),
	FIELD("clean_gateway", J_BOOL, clean_gateway,
	      JSON_DOC("false", "true: do not add a default route via "
				"the pool's gateway")),
	FIELD("match_master_subnet", J_BOOL, match_subnet,
	      JSON_DOC("false", "use only pools whose subnet contains an address of the master")),
	FIELD("ipam_unix_socket_path", J_STR, socket,
	      JSON_DOC(NULL,
		       "socket of `unirail agent`, `unirail ipam serve` or Spiderpool's agent; "
		       "without it the store of this node is used")),
	FIELD("server_state_dir", J_STR, server_state,
	      JSON_OWN(NULL, "directory of the server's store, for DEL and GC without the server")),
	FIELD("pool_dir", J_STR, pool_dir, JSON_OWN(PATH_POOLS, "directory of the pools")),
	FIELD("state_dir", J_STR, state_dir, JSON_OWN(PATH_IPAM_STATE, "directory of the journal")),
	FIELD("hostlocal_dir", J_STR, hostlocal_dir,
	      JSON_OWN(PATH_HOST_LOCAL,
		       "directory of host-local's allocations; addresses in it are not allocated")),
	FIELD("node_name", J_STR, node,
	      JSON_OWN("the host name", "this node's name, for pools that are restricted to "
					"certain nodes")),
	FIELD("sticky", J_BOOL, sticky,
	      JSON_OWN("false",
		       "retain the address for a pod that is created again under the same name")),
	FIELD("enable_ip_conflict_detection", J_BOOL, conflict, HAS(has_conflict),
	      JSON_DOC("the pools' setting", "probe each address for conflicts")),
	FIELD("enable_gateway_detection", J_BOOL, gateway, HAS(has_gateway),
	      JSON_DOC("the pools' setting", "probe whether the gateway is reachable")),
	{"detect", J_OBJ, .sub = &detect_table,
	 JSON_OWN(NULL, "limits of conflict and gateway detection")},
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

static int check_dir(const char *key, const char *path, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s is '%s', expected an absolute path",
			key, path);
}

/* Reads a number, or a string of digits as in the original's documentation. A negative number
 * stands for the default `otherwise`. */
static int log_number(const char *key, const struct json *v, int64_t otherwise, int64_t *ret,
		      struct err *e)
{
	const char *text = json_string(v);
	int64_t n = 0;

	if (json_kind(v) != JSON_NULL && json_int(v, &n) < 0 &&
	    (!text || num_i64(span_of(text), INT32_MIN, INT32_MAX, &n) < 0))
		return err_kind(e, ERR_CONF, -EINVAL, "conf.ipam.%s: expected a whole number", key);
	*ret = n < 0 ? otherwise : n;
	return 0;
}

int spiderpool_conf_log(const struct spiderpool_conf *c, struct log_conf *ret, struct err *e)
{
	struct log_conf l = {.level = LOG_INFO, .format = LOG_JSON};
	int64_t mb, count, age;
	int n;

	if (c->log_level && *c->log_level && log_level_parse(c->log_level, &l.level) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "unsupported log level %s", c->log_level);
	n = log_number("log_file_max_size", c->log_size, 100, &mb, e);
	if (n == 0)
		n = log_number("log_file_max_age", c->log_age, 30, &age, e);
	if (n == 0)
		n = log_number("log_file_max_count", c->log_count, 10, &count, e);
	if (n < 0)
		return n;
	l.path = c->log_file_path;
	l.max_bytes = (mb ? mb : 100) << 20;
	l.max_files = count > 0 && count < 1000 ? (int)count : 10;
	*ret = l;
	return 0;
}

int spiderpool_conf_read(const struct cni_ipam_call *call, struct spiderpool_conf *ret,
			 struct err *e)
{
	struct spiderpool_conf c = {0};
	struct log_conf unused;
	int r = json_read(call->doc, json_get_go(call->conf, "ipam"), &table, &c, "conf.ipam", e);

	if (r == 0)
		r = check_dir("pool_dir", c.pool_dir, e);
	if (r == 0)
		r = check_dir("ipam_unix_socket_path", c.socket, e);
	if (r == 0)
		r = check_dir("server_state_dir", c.server_state, e);
	if (r == 0)
		r = check_dir("state_dir", c.state_dir, e);
	if (r == 0)
		r = check_dir("hostlocal_dir", c.hostlocal_dir, e);
	if (r == 0)
		r = spiderpool_conf_log(&c, &unused, e);
	if (r == 0)
		*ret = c;
	return r;
}

void spiderpool_conf_store(const struct cni_ipam_call *call, struct spiderpool_conf *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct spiderpool_conf){0};
	if (spiderpool_conf_read(call, ret, &e) == 0)
		return;
	log_warn("configuration is not valid, the default address store is used",
		 LOG_S("error", e.text));
	*ret = (struct spiderpool_conf){0};
}
