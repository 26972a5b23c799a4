/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_CHAINED_H
#define UNIRAIL_CNI_PLUGINS_CHAINED_H

/*
 * Chained plugins: they create no interface in the pod, but change one, or prepare the node for one
 * (ifacer creates the node's bond and VLAN interfaces). Each is a table of functions. They use
 * namespaces and sockets that the caller has opened, so one process can run a whole chain.
 * META_PLUGIN defines an applet with the plugin's name, which runs only this plugin.
 *
 *	const struct cni_meta *p = chained_find(type);
 *
 *	if (p) {
 *		struct chained_call m = chained_call_of(&attach, doc, object, ifname);
 *
 *		m.has_prev = true;
 *		r = p->add(&m, &result, &attach.undo, e);
 *	}
 */

#include "base/undo.h"
#include "cni/attach/attach.h"

struct chained_call {
	/* the environment of the call: container id, netns, CNI_ARGS, root, list of valid
	 * attachments for GC */
	const struct cni_call *call;
	struct json_doc *doc;
	const struct json *conf; /* the plugin's own object */
	/* runtimeConfig from the runtime, of which only keys that conf.capabilities declares are
	 * used. NULL: runtimeConfig is read from conf, where the runtime writes it when it calls
	 * this plugin as a separate process. */
	const struct json *runtime;
	/* name of the network; in unirail-cni it differs from the call's name */
	const char *network;
	const char *ifname;
	enum cni_version version;
	bool has_prev;
	/* the pod's network namespace; -1: not opened (GC, STATUS, META_HOST), or deleted (DEL) */
	int netns;
	struct nl_wire *pod;  /* netlink socket of the pod's namespace; NULL if netns is -1 */
	struct nl_wire *host; /* NULL for GC and STATUS */
};

enum {
	META_HOST = 1 << 0, /* does not use the pod's namespace */
};

struct cni_meta {
	const char *type;
	unsigned int flags;
	/*
	 * `prev` is prevResult (empty without one) and becomes the result. After each change, add()
	 * pushes the reverse onto `u`; if add() fails, the caller runs `u`. The entries of `u`
	 * borrow the call's sockets, namespace and root.
	 */
	int (*add)(const struct chained_call *m, struct cni_result *prev, struct undo *u,
		   struct err *e);
	/* Succeeds if nothing is left to remove, even with a configuration that ADD would reject.
	 */
	int (*del)(const struct chained_call *m, const struct cni_result *prev, struct err *e);
	int (*check)(const struct chained_call *m, const struct cni_result *prev, struct err *e);
	/* Reverts the changes recorded for attachments of m->network that are not in
	 * m->call->valid; m->pod and m->host are NULL, m->ifname is "". NULL: the plugin records no
	 * changes. */
	int (*gc)(const struct chained_call *m, struct err *e);
	/* Succeeds if an ADD could succeed; m->pod and m->host are NULL, m->ifname is "". */
	int (*status)(const struct chained_call *m, struct err *e);
};

/* Returns the arguments of a plugin's call in the namespaces that `a` has opened. */
struct chained_call chained_call_of(const struct attach *a, struct json_doc *doc,
				    const struct json *conf, const char *ifname);
/* Returns the value of a capability: from m->runtime if conf.capabilities declares it, or without
 * m->runtime from conf.runtimeConfig. NULL: none. */
const struct json *chained_runtime(const struct chained_call *m, const char *capability);

/* --- the verbs of an applet whose cni_plugin.kind is a struct cni_meta --- */
int chained_run_add(struct cni_call *c, struct cni_result *out, struct err *e);
int chained_run_del(struct cni_call *c, struct err *e);
int chained_run_check(struct cni_call *c, struct err *e);
int chained_run_gc(struct cni_call *c, struct err *e);
int chained_run_status(struct cni_call *c, struct err *e);

extern const struct cni_meta chained_tuning, chained_sbr, chained_loopback, chained_ifacer,
	chained_rdma;

/* Defines the applet of a chained plugin. The arguments after the plugin are the tables of its
 * keys. */
#define META_PLUGIN(word, ...)                                                                     \
	{                                                                                          \
		.name = #word, .about = "CNI " #word " plugin unirail", .prints_prev = true,       \
		.keys = JSON_TABLES(__VA_ARGS__), .kind = &chained_##word, .add = chained_run_add, \
		.check = chained_run_check, .del = chained_run_del, .gc = chained_run_gc,          \
		.status = chained_run_status,                                                      \
	}

#endif
