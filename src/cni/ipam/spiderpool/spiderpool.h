/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_SPIDERPOOL_SPIDERPOOL_H
#define UNIRAIL_CNI_IPAM_SPIDERPOOL_SPIDERPOOL_H

/*
 * The "spiderpool" IPAM on the local store, or on a server. Its netconf, keys matched as Go's
 * encoding/json does:
 *
 *	type                     "spiderpool"
 *	default_ipv4_ippool      pool names or wildcards in order of preference; the
 *	default_ipv6_ippool      default pools if neither list is given
 *	clean_gateway            no default route via the pool's gateway
 *	match_master_subnet      only pools whose subnet holds an address of the master
 *	log_level, log_file_path, log_file_max_size (MB), _max_age (days), _max_count
 *	                         of a plugin that runs as its own process; numbers, or digits as a
 *	                         string. _max_age is checked, but has no effect: the number of old
 *	                         files is limited, not their age
 *	ipam_unix_socket_path    absolute path of a server's socket: `unirail ipam serve`, `unirail
 *	                         agent` or Spiderpool's own agent then gets all requests
 *	                         (agent_client.h).
 *	                         Without this key the local store is used, which a server of
 *	                         unirail may have open at the same time
 *
 * and unirail's own:
 *
 *	server_state_dir         directory of that server's store: if the server does not answer or
 *	                         answers 503, DEL and GC release the addresses there
 *	pool_dir, state_dir, hostlocal_dir
 *	                         absolute; default as in ipam.h
 *	node_name                default: this host's name
 *	sticky                   keep the address for (namespace, pod, interface) after DEL
 *	enable_ip_conflict_detection, enable_gateway_detection
 *	                         default: what the pools' [settings] say
 *	detect                   {tries, interval_ms, total_ms, carrier_ms}: default 3, 100, 1000 and
 *	                         10000; carrier_ms limits the wait for the link's carrier, total_ms
 *	                         the two tests that follow
 *
 * A user requests specific addresses with runtimeConfig.ips, args.cni.ips or IP of CNI_ARGS.
 * CNI_ARGS belongs to the whole pod, so a call for several rails refuses IP, unless it is from the
 * network's own cniArgs.
 */

#include "base/log.h"
#include "cni/protocol/ipam_call.h"
#include "ipam/ipam.h"

struct spiderpool_conf {
	const char *log_level, *log_file_path;
	const struct json *log_size, *log_age, *log_count;
	struct json_strs pools4, pools6;
	bool clean_gateway, match_subnet, sticky;
	const char *socket, *server_state, *pool_dir, *state_dir, *hostlocal_dir, *node;
	bool has_conflict, conflict, has_gateway, gateway;
	int64_t tries, interval_ms, total_ms, carrier_ms; /* 0: default */
};

/* Reads and validates the whole configuration. */
int spiderpool_conf_read(const struct cni_ipam_call *call, struct spiderpool_conf *ret,
			 struct err *e);
/* For DEL and conflicts: reads the netconf. If it is invalid, logs the error and uses the defaults
 * of all keys. */
void spiderpool_conf_store(const struct cni_ipam_call *call, struct spiderpool_conf *ret);
int spiderpool_conf_log(const struct spiderpool_conf *c, struct log_conf *ret, struct err *e);

/* spiderpool_add() and spiderpool_del() run in the calling process, for rails of one pod, whose
 * netconfs may name different stores. A failed ADD releases the addresses that it has newly
 * allocated. */
int spiderpool_add(const struct cni_ipam_call *const *calls, size_t n, struct err *e);
/* Empties the results of an ADD and releases all addresses of each attachment that got a new
 * one. An attachment that had all its addresses from an earlier ADD retains them. */
void spiderpool_undo(const struct cni_ipam_call *const *calls, size_t n);
int spiderpool_del(const struct cni_ipam_call *const *calls, size_t n, struct err *e);
int spiderpool_check(const struct cni_ipam_call *call, struct err *e);
int spiderpool_gc(const struct cni_ipam_call *call, struct err *e);
int spiderpool_status(const struct cni_ipam_call *call, struct err *e);
int spiderpool_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
			const struct mac *other, struct err *e);

/* Probes the addresses of *call->out on CNI_IFNAME in the pod's namespace, and announces them.
 * After a conflict it requests another address and replaces *call->out. */
int spiderpool_probe(const struct cni_ipam_call *call, int netns, struct err *e);

#endif
