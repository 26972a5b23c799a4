/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CNI_H
#define UNIRAIL_CNI_PROTOCOL_CNI_H

/*
 * The CNI protocol around a plugin: environment, stdin, version rules, verbs, error object.
 * A plugin is a table of functions; cni_run() is its main().
 */

#include "base/file.h"
#include "cni/protocol/result.h"

/* CNI_ARGS as parsed. Keys are case-sensitive; unknown ones fail unless IgnoreUnknown. */
struct cni_args {
	bool ignore_unknown;
	const char *ip, *mac, *gateway; /* raw text, NULL: absent */
	const char *pod_namespace, *pod_name, *pod_uid, *infra_container_id;
};

struct cni_attachment {
	const char *container_id, *ifname;
};

struct cni_call {
	const struct cni_plugin *plugin;			      /* whose call it is */
	const char *command;					      /* "ADD" ... */
	const char *container_id, *netns, *ifname, *args_text, *path; /* "" when absent */
	bool netns_override;
	struct root root;	/* "/" or UNIRAIL_ROOT (tests) */
	struct span stdin_text; /* the whole netconf, for delegates */
	struct json_doc *doc;
	const struct json *conf;
	struct json_doc *daemon; /* settings that count before conf (multus-shim); NULL: none */
	const char *name;	 /* network name */
	const char *type;
	enum cni_version version;
	bool no_version; /* a delegate's configuration has no cniVersion; `version` is 0.1.0 then */
	bool has_prev;
	struct cni_result prev;
	/* GC: a caller that sends no list at all (has_valid false) wants nothing freed, and gc() of a
	 * plugin is not called. */
	bool has_valid;
	struct cni_attachment *valid;
	size_t n_valid;
};

/* GC: is (container, interface) among the valid ones? ifname NULL: any interface of it. */
bool cni_is_valid(const struct cni_call *c, const char *container_id, const char *ifname);
/* GC: whether a file that another program named "<container id>-<interface>" is of an attachment that
 * is not valid; a name that does not begin with 64 hex digits, as containerd and CRI-O make them, tells
 * nothing. */
bool cni_file_is_stale(const struct cni_call *c, const char *name);

/* What an ADD leaves in *out is printed; nothing is printed when it is left empty and the plugin
 * says prints_prev (then prevResult goes out unchanged). */
struct cni_plugin {
	const char *name;
	const char *about; /* "CNI macvlan plugin unirail ..."; printed when CNI_COMMAND is absent */
	unsigned int versions; /* bit mask 1 << enum cni_version; 0: all */
	bool prints_prev;
	bool relays; /* prints what another plugin said, as it is in c->version: cni_result_relay() */
	const void *kind; /* of a family's plugin, whose functions are the family's */
	int (*add)(struct cni_call *c, struct cni_result *out, struct err *e);
	int (*check)(struct cni_call *c, struct err *e);
	int (*del)(struct cni_call *c, struct err *e);
	int (*gc)(struct cni_call *c, struct err *e);	  /* NULL: success */
	int (*status)(struct cni_call *c, struct err *e); /* NULL: success */
};

/* Whole protocol on this process's environment, stdin and stdout; returns the exit status. */
int cni_run(const struct cni_plugin *p);
/* The same for given inputs and a buffer for stdout (tests, fuzzers): env is "K=V" strings. */
int cni_run_with(const struct cni_plugin *p, char *const env[], struct span in, struct buf *out);

/* types.LoadArgs: kind ERR_ENV on failure, texts as the originals'. */
int cni_args_parse(const char *text, struct cni_args *ret, struct buf *keep, struct err *e);
/* The one table from err to CNI code. */
int cni_code(const struct err *e);
/* {"code","msg","details"}, 4-space indented. */
void cni_error_print(const struct err *e, struct buf *b);

/* The attachments that GC keeps, into the configuration of a plugin that is executed; in both spellings, as libcni sends them
 * (containernetworking/cni#1101). */
void cni_put_valid(struct json_out *o, const struct cni_attachment *v, size_t n);

/* --- IPAM: in process where we have the type, else `<type>` executed from CNI_PATH --- */

struct cni_ipam_flags {
	bool conflict_detection, gateway_detection;   /* asked for by the IPAM */
	int tries, interval_ms, total_ms, carrier_ms; /* 0: as struct probe_limits has it */
};

/* One rail's IPAM call. `conf` is the main plugin's whole netconf (it holds "ipam"). */
struct cni_ipam_call {
	const struct cni_call *call; /* environment; its conf is not used */
	struct json_doc *doc;
	const struct json *conf;
	const char *name;   /* network name */
	const char *nad;    /* "team/rail0", the definition that it comes from; NULL: none */
	bool own_args;	    /* CNI_ARGS are this rail's alone */
	const char *ifname; /* of this rail */
	enum cni_version version;
	const char *master;	  /* for matchMasterSubnet; NULL: none */
	const struct ipnet *nets; /* the master's addresses */
	size_t n_nets;
};

const char *cni_ipam_type(const struct json *conf); /* "" when there is none */
/* All rails in one go: rails of the same store share one lock and one journal write. On failure
 * nothing is left allocated. flags[i], out[i] belong to calls[i]. */
int cni_ipam_add(const struct cni_ipam_call *calls, size_t n, struct cni_result *out,
		 struct cni_ipam_flags *flags, struct err *e);
int cni_ipam_del(const struct cni_ipam_call *calls, size_t n, struct err *e);
int cni_ipam_check(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* Frees what the network holds for attachments that are not among calls[i].call->valid. */
int cni_ipam_gc(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* Whether an ADD could work now. */
int cni_ipam_status(const struct cni_ipam_call *calls, size_t n, struct err *e);
/* After a detected conflict: quarantine (stores that know it) and release. */
int cni_ipam_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
		      const struct mac *other, struct err *e);

extern const struct cni_plugin cni_macvlan, cni_coordinator, cni_host_local, cni_static,
	cni_spiderpool, cni_all_in_one, cni_tuning, cni_sbr, cni_loopback, cni_ifacer, cni_ipvlan,
	cni_vlan, cni_host_device, cni_sriov, cni_rdma, cni_ipoib, cni_ib_sriov, cni_multus,
	cni_multus_shim;

#endif
