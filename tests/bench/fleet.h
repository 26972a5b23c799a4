/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FLEET_H
#define UNIRAIL_TESTS_FLEET_H

/*
 * Nodes of a cluster in one process: each has its connection, state directory, journal and blocks
 * of the pools, like an agent; only the pods are simulated. A pod is one request for an address of
 * every pool.
 */

#include <stdio.h>

#include "kube/config.h"
#include "agent/blocks/blocks.h"
#include "ipam/pools.h"

struct fleet_pod {
	uint64_t id;
	int64_t asked_us;
	bool there;
};

/* Progress of the rails of the pod that a node is serving, in the mode "shared": one object per
 * pool, for all nodes (fleet_shared.c). */
struct fleet_shared;

struct fleet_node {
	char name[16], dir[256], token[300];
	struct kube_conf conf; /* the fleet's, with this node's token */
	struct kube *kube;
	struct blocks *blocks;
	/* reads the pools' block sizes; NULL if the node is down, or `cut` or `shared` of struct
	 * fleet is set */
	struct kube_informer *watch;
	struct ipam_pools pools; /* `usable` of each: only addresses of this node */
	struct ipam_pools whole;
	struct fleet_pod *pods; /* in order of arrival */
	size_t n_pods, waiting;
	uint64_t next;
	struct loop_timer *retry;
	/* in the mode "shared", from the node's first pod on; otherwise NULL */
	struct fleet_shared *shared;
	bool down;
};

struct fleet {
	struct loop *loop;
	const struct root *root;
	const struct kube_conf *conf;
	const char *dir, *pool_dir;
	int64_t idle_ms;  /* of struct blocks_conf */
	bool shared, cut; /* shared: fleet_shared.c; cut: every pool has block size /28 */
	struct fleet_node *nodes;
	size_t n_nodes;
	int64_t *took_us; /* of each completed request */
	size_t n_took;
	uint64_t at_once;			   /* pods served without an API request */
	uint64_t requests, refused, failed, rails; /* fleet_shared.c */
	char error[512];			   /* the last error */
};
extern struct fleet fleet;

void fleet_took(struct fleet_pod *p);
void fleet_die(const char *what, const struct err *e) __attribute__((noreturn));

/* fleet_node.c */
void fleet_node_up(struct fleet_node *n);
void fleet_node_down(struct fleet_node *n); /* as if killed; its pods stay */
void fleet_node_add(struct fleet_node *n);
void fleet_node_del(struct fleet_node *n); /* deletes the oldest pod */
void fleet_node_print(struct fleet_node *n, FILE *out);

/* fleet_shared.c: the same requests with one object for each pool, which all nodes rewrite. */
void fleet_shared_add(struct fleet_node *n, struct fleet_pod *p);

#endif
