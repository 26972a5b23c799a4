/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CNI_H
#define UNIRAIL_CNI_PROTOCOL_CNI_H

/*
 * The CNI protocol: environment, stdin, version rules, verbs, error object. A plugin is a table of
 * functions; cni_run() is its main().
 */

#include "base/file.h"
#include "cni/protocol/result.h"

/* CNI_ARGS as parsed. Keys are case-sensitive; a key that unirail does not use is an error
 * unless IgnoreUnknown is true. */
struct cni_args {
	bool ignore_unknown;
	const char *ip, *mac, *gateway; /* raw text, NULL: absent */
	const char *pod_namespace, *pod_name, *pod_uid, *infra_container_id;
};

struct cni_attachment {
	const char *container_id, *ifname;
};

struct cni_call {
	const struct cni_plugin *plugin;
	const char *command; /* "ADD" ... */
	/* values of the CNI_* variables; "": absent */
	const char *container_id, *netns, *ifname, *args_text, *path;
	bool netns_override;
	struct root root;	/* file system root: "/" or UNIRAIL_ROOT (tests) */
	struct span stdin_text; /* the whole netconf, for delegates */
	struct json_doc *doc;
	const struct json *conf;
	struct json_doc *daemon; /* settings that override conf (multus-shim); NULL: none */
	const char *name;	 /* network name */
	const char *type;
	enum cni_version version;
	/* the definition of the network has no cniVersion: its plugins get none, and `version` is
	 * 0.1.0 */
	bool no_version;
	bool has_prev;
	struct cni_result prev;
	/* GC: if the caller sends no list at all (has_valid false), nothing may be released, and
	 * the plugin's gc() is not called. */
	bool has_valid;
	struct cni_attachment *valid;
	size_t n_valid;
};

/* GC: returns whether (container, interface) is a valid attachment. ifname NULL: any interface of
 * the container. */
bool cni_is_valid(const struct cni_call *c, const char *container_id, const char *ifname);
/* GC: returns whether a file that another program named "<container id>-<interface>" belongs to an
 * attachment that is not valid. Only a container id of 64 hex digits, as containerd and CRI-O
 * assign, counts: any other name is never stale. */
bool cni_file_is_stale(const struct cni_call *c, const char *name);

/* A plugin. The result that add() stores in *out is printed; if *out is empty and prints_prev is
 * set, prevResult is printed instead, in the version of the netconf. */
struct cni_plugin {
	const char *name;
	const char *about; /* "CNI macvlan plugin unirail ..."; printed when CNI_COMMAND is absent */
	unsigned int versions; /* supported versions as bits 1 << enum cni_version; 0: all */
	bool prints_prev;
	bool relays;	  /* prints another plugin's result: cni_result_relay() */
	const void *kind; /* table of the driver, for plugins that share functions */
	/* Field tables for `unirail help`: of the plugin's netconf, and of the netconf's object
	 * `ipam` if this is an IPAM plugin; NULL: none. */
	const struct json_table *const *keys, *const *ipam_keys;
	/* The verbs. NULL: the verb does nothing and succeeds. */
	int (*add)(struct cni_call *c, struct cni_result *out, struct err *e);
	int (*check)(struct cni_call *c, struct err *e);
	int (*del)(struct cni_call *c, struct err *e);
	int (*gc)(struct cni_call *c, struct err *e);
	int (*status)(struct cni_call *c, struct err *e);
};

/* Keys of every netconf, ended by NULL. */
extern const struct json_table *const cni_keys[];

/* Runs the protocol with this process' environment, stdin and stdout; returns the exit status. */
int cni_run(const struct cni_plugin *p);
/*
 * Like cni_run(), with given input and a buffer for stdout (for tests and fuzzers): env has "K=V"
 * strings.
 */
int cni_run_with(const struct cni_plugin *p, char *const env[], struct span in, struct buf *out);

/* Parses CNI_ARGS like types.LoadArgs; *ret borrows from *keep. Errors are of kind ERR_ENV, with
 * the original's texts. */
int cni_args_parse(const char *text, struct cni_args *ret, struct buf *keep, struct err *e);
/* Returns the CNI code of an error. */
int cni_code(const struct err *e);
/* Writes {"code","msg","details"}, indented by 4. */
void cni_error_print(const struct err *e, struct buf *b);

/* For GC: writes the valid attachments into the configuration of an executed plugin, under both
 * keys, cni.dev/valid-attachments and cni.dev/attachments, as libcni does
 * (containernetworking/cni#1101). */
void cni_put_valid(struct json_out *o, const struct cni_attachment *v, size_t n);

/* --- IPAM: in process for built-in types, otherwise `<type>` is executed from CNI_PATH --- */

struct cni_ipam_flags {
	bool is_new; /* the attachment got an address that it did not have before */
	bool conflict_detection, gateway_detection;   /* enabled by the IPAM */
	int tries, interval_ms, total_ms, carrier_ms; /* 0: default of struct probe_limits */
};

/* The IPAM call of one attachment. `conf` is the main plugin's whole netconf (with "ipam"). */
struct cni_ipam_call {
	/* environment, prevResult, valid attachments; its conf is not used */
	const struct cni_call *call;
	struct json_doc *doc;
	const struct json *conf;
	const char *type; /* conf.ipam.type; "": none */
	const char *name; /* network name */
	const char *nad;  /* "team/rail0", the network's definition; NULL: none */
	/* CNI_ARGS contain the network's own cniArgs: IP is for this network only */
	bool own_args;
	const char *ifname; /* interface of this attachment */
	enum cni_version version;
	const char *master;	  /* name of the master, for match_master_subnet; NULL: none */
	const struct ipnet *nets; /* the master's networks */
	size_t n_nets;
	/* filled by ADD; *out must be empty before */
	struct cni_result *out;
	struct cni_ipam_flags *flags;
};

const char *cni_ipam_type(const struct json *conf); /* returns ipam.type; "": absent */
/* Allocates for all attachments at once; the allocations of spiderpool from the same store share
 * one lock and one journal write. On failure nothing is left allocated, and the results are
 * empty. */
int cni_ipam_add(const struct cni_ipam_call *calls, size_t n, struct err *e);
int cni_ipam_del(const struct cni_ipam_call *calls, size_t n, struct err *e);
int cni_ipam_check(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* Releases the network's addresses of attachments that are not in calls[i].call->valid. */
int cni_ipam_gc(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* Succeeds if an ADD could succeed now. */
int cni_ipam_status(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* Called after a detected conflict. spiderpool quarantines the address; an IPAM without quarantine
 * releases all addresses of the attachment. */
int cni_ipam_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
		      const struct mac *other, struct err *e);

extern const struct cni_plugin cni_macvlan, cni_coordinator, cni_host_local, cni_static,
	cni_spiderpool, cni_multi, cni_tuning, cni_sbr, cni_loopback, cni_ifacer, cni_ipvlan,
	cni_vlan, cni_host_device, cni_sriov, cni_rdma, cni_ipoib, cni_ib_sriov, cni_multus,
	cni_multus_shim;

#endif
