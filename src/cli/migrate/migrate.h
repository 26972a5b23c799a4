/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_MIGRATE_H
#define UNIRAIL_CLI_MIGRATE_MIGRATE_H

/*
 * `unirail migrate`: migrates a cluster from Spiderpool, Multus and their device plugins to
 * unirail, while pods run, and back.
 *
 * Observe: cluster.c turns the objects of the API server into struct migrate_cluster, observe.c
 * lists them. Decide: plan.c compares that with the goal; the result is a list of steps, and of
 * problems that prevent them. Act: act.c carries out the steps. The state is in the cluster, so any
 * command may be killed and repeated, also from another machine: a step whose result is observed is
 * not in the plan. State that cannot be observed after a change is in the journal, the ConfigMap
 * MIGRATE_JOURNAL in unirail's namespace, which is written before the first change: affinity,
 * replicas and webhooks of the originals, the nodes, the pools that had a block prefix, the
 * addresses that no pool had recorded, and the values of the manifests.
 *
 * Order of `apply`, and the reasons:
 *
 *	save		writes the journal
 *	webhooks	removes Spiderpool's webhooks: their failurePolicy is Fail, so without
 *			Spiderpool's controller the API server refuses pools and pods
 *	controllers	scales Spiderpool's controller to 0 replicas: two controllers would
 *			reconcile the same objects, on the same ports
 *	exclude		excludes nodes with the label LABEL_MIGRATED from the DaemonSets of Multus
 *			and of the device plugins
 *	addresses	ends Spiderpool's agents on every node: they and unirail's agents would allocate the
 *			same addresses. Until a node is migrated, no new pod with addresses of
 *			pools starts there (the kubelet retries); running pods need no agent
 *	install		creates unirail's objects. The controller copies the records of
 *			Spiderpool's addresses to an annotation; then every recorded address of a
 *			running pod must still be recorded
 *	node		migrates one node after another: with the label "stopping" the originals'
 *			pods end; with the label "yes" unirail's agent becomes ready, and the
 *			SpiderEndpoints of the node's pods are as before
 *
 * `undo` has the reverse order: unirail's agents end, status.allocatedIPs must name the addresses
 * of all pods except those that no pool had recorded, the controller ends, node by node unirail's
 * files are removed and Multus and the device plugins return, then Spiderpool's agents, controllers
 * and webhooks. Pools, endpoints, blocks, definitions and the namespace stay.
 */

#include "base/ip.h"
#include "wire/json/tree.h"

#define MIGRATE_JOURNAL "unirail-migration"

/* MIGRATE_TEXT_MAX: maximum length of a JSON text, in bytes. MIGRATE_UNRECORDED_MAX: maximum
 * number of addresses without a record (was_missing): the journal lists them and must fit into a
 * ConfigMap. */
enum { MIGRATE_TEXT_MAX = 4 << 20, MIGRATE_UNRECORDED_MAX = 2000 };

enum migrate_role {
	ROLE_ADDRESSES,	 /* Spiderpool's agent */
	ROLE_CONTROLLER, /* Spiderpool's controller */
	ROLE_NETWORKS,	 /* Multus */
	ROLE_SHARED,	 /* RDMA shared device plugin */
	ROLE_VF,	 /* SR-IOV network device plugin */
};

/* A DaemonSet or Deployment of the originals (Spiderpool, Multus and the device plugins).
 * Strings and values of this and the other structs in migrate_cluster are borrowed from its
 * `docs` and `texts`. */
struct migrate_workload {
	enum migrate_role role;
	const char *ns, *name;
	const struct json *v;
	const char *owner; /* kind of an object that would revert changes; NULL: none */
	int64_t replicas;  /* replicas of a Deployment */
	bool excluded;	   /* has the selector or affinity that plan.c sets, or no replicas */
	size_t pods;
};

struct migrate_node {
	const char *name, *label; /* label: value of LABEL_MIGRATED; "": none */
	bool ready, has_network, windows, files_label;
	const char *reason; /* message of the Node's condition Ready */
	/* pods on this node of the originals' DaemonSets, except DaemonSets with an `owner` */
	size_t originals;
	bool planned; /* runs originals, has LABEL_MIGRATED, or is in the journal */
	bool agent, agent_ready;
	size_t addresses; /* of SpiderEndpoints */
};

struct migrate_hooks {
	bool mutating;
	const char *name;
	const struct json *v;
	size_t n;
};

/* An address of a SpiderEndpoint. */
struct migrate_address {
	const char *pool, *ns, *pod, *uid, *node;
	struct ipaddr ip;
	/* in_status: status.allocatedIPs of the pool records the address for this pod; adopted:
	 * the pool's annotation unirail.io/adopted does. */
	bool in_status, adopted;
	/* at the start of the migration no pool had recorded the address (from the journal) */
	bool was_missing;
};

struct migrate_pod {
	const char *ns, *owner, *node;
	bool ready, daemon, unirail;
};

struct migrate_record {
	const char *pool, *pod; /* namespace/name */
	struct ipaddr ip;
	bool adopted;
};

struct migrate_network {
	const char *ns, *name, *config;
};

/* A CustomResourceDefinition that 'helm uninstall' of a release deletes. */
struct migrate_definition {
	const char *name, *release, *release_ns;
};

struct migrate_cluster {
	const char *ns; /* unirail's */
	struct json_doc **docs;
	size_t n_docs;
	char **texts;
	size_t n_texts;
	struct migrate_workload *workloads;
	size_t n_workloads;
	struct migrate_node *nodes; /* sorted by name */
	size_t n_nodes;
	struct migrate_hooks *hooks;
	size_t n_hooks;
	struct migrate_address *addresses;
	size_t n_addresses;
	struct migrate_pod *pods;
	size_t n_pods;
	struct migrate_record *records;
	size_t n_records;
	struct migrate_network *networks;
	size_t n_networks;
	struct migrate_definition *definitions;
	size_t n_definitions;
	const struct json **pools, **namespaces, **configs;
	size_t n_pools, n_namespaces, n_configs;
	const struct json *journal; /* journal of the migration; NULL: there is none */
	const char *agent_ns;	    /* namespace of a DaemonSet unirail-agent; NULL: none */
	bool controller, controller_ready;
};

/* Copies what the plan needs of an object. Objects of kinds that the plan does not use are ignored. */
void migrate_add(struct migrate_cluster *c, const char *kind, const struct json *object);
/*
 * Call after the last object: sorts, and relates pods, nodes, endpoints and records to each other.
 * O(n log n).
 */
void migrate_resolve(struct migrate_cluster *c);
void migrate_done(struct migrate_cluster *c);
#define auto_migrate __attribute__((cleanup(migrate_done)))
/* Returns the journal's key of an address: "POOL ADDRESS"; the caller frees it. */
char *migrate_address_key(const struct migrate_address *a);
struct migrate_node *migrate_node_find(const struct migrate_cluster *c, const char *name);
/* Returns the value at a path of keys; NULL ends the list. */
const struct json *migrate_at(const struct json *v, ...) __attribute__((sentinel));

/* --- values.c: Spiderpool's settings as values of the chart --- */

/*
 * Returns the values that give unirail the settings of the originals; the caller frees them.
 * Appends a line to *remarks for each setting that unirail does not have, for a conf.yml that
 * cannot be read, and for each device plugin whose configuration is missing.
 */
struct json_tree *migrate_values(const struct migrate_cluster *c, struct buf *remarks);

/* --- plan.c: the steps of a migration or an undo --- */

enum migrate_do {
	DO_SAVE,
	DO_WEBHOOKS, /* `at` is an index in hooks, also for UNDO_WEBHOOKS */
	/* `at` is an index in workloads, also for DO_EXCLUDE, DO_ADDRESSES and UNDO_WORKLOAD */
	DO_CONTROLLER,
	DO_EXCLUDE,
	DO_ADDRESSES,
	DO_INSTALL,
	DO_NODE, /* `at` is an index in nodes, also for UNDO_NODE */
	UNDO_AGENTS,
	UNDO_RECORDS,
	UNDO_CONTROLLER,
	UNDO_POOL, /* `at` is an index in pools */
	UNDO_NODE,
	UNDO_WORKLOAD,
	UNDO_WEBHOOKS,
	UNDO_OBJECTS,
	UNDO_SAVED,
};

struct migrate_step {
	enum migrate_do what;
	size_t at;
	char *subject, *current, *desired;
	char *body;    /* a merge patch, or a JSON Patch if it begins with '['; NULL: none */
	char *command; /* equivalent command for a shell; may be NULL */
	/* command that reverts the step, or a description; NULL in the steps of undo */
	char *undo;
};

struct migrate_lines {
	char **v;
	size_t n;
};

struct migrate_plan {
	struct migrate_step *steps;
	size_t n;
	struct migrate_lines problems; /* if there are problems, no step is carried out */
	struct migrate_lines warnings;
	/* printed after the last step: commands for the user to run (migration), or what remains
	 * (undo) */
	struct migrate_lines follow_up;
};

/* only: names of n nodes; n 0: all planned nodes. For a name that no Node has, adds a line to
 * ret->problems. */
void migrate_plan(const struct migrate_cluster *c, const char *const *only, size_t n,
		  struct migrate_plan *ret);
void migrate_plan_undo(const struct migrate_cluster *c, struct migrate_plan *ret);
void migrate_plan_done(struct migrate_plan *p);
/*
 * Writes the journal: its present entries, and the state of the objects that are not in the journal
 * yet. values: the values of unirail's manifests, for undo.
 */
void migrate_journal(const struct migrate_cluster *c, const struct json_tree *values,
		     struct json_out *o);

#endif
