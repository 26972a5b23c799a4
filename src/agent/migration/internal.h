/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_INTERNAL_H
#define UNIRAIL_AGENT_MIGRATION_INTERNAL_H

/*
 * Shared by both sides: import runs on the node of the pod, export on the node that has its
 * addresses.
 */

#include "agent/migration/migration.h"
#include "base/backoff.h"
#include "block/migration.h"
#include "kube/informer.h"

/* A pod's name whose addresses are imported. */
struct import {
	struct migration *h;
	char *ns, *name, *pod, *uid;
	char *ifname; /* interface to use if the endpoint does not name interfaces */
	bool migrating;
	struct migration_place place;
	bool done;
	int64_t requested_ms; /* loop time of the last request of its pod */
	/* state of the current round, which tries each address once */
	bool in_round;
	size_t at; /* index of the current address in place.v */
	/* the operation that migration_next() required for the current address was tried */
	bool tried;
	bool open;	    /* some addresses of the name may become available later */
	bool waits;	    /* the name's SpiderEndpoint already has a request for its addresses */
	char owner[254];    /* node to request the addresses from; "": none */
	struct block_op op; /* the next request, valid if has_op */
	bool has_op;
	struct kube_call *call;
	struct loop_alarm timer;
	struct backoff backoff;
	char *cause; /* reason of the wait, for errors; NULL: none */
};

/* An address that this node released to another node, which has not borrowed it yet. */
struct given {
	struct ipaddr ip;
	int64_t since;
	bool seen;
};

struct migration {
	struct migration_conf conf;
	struct import **v;
	size_t n;
	struct kube_informer *informer; /* values: struct migration_place */
	struct kube_call *refusing;
	struct loop_alarm sweep;
	struct backoff again;
	struct given *given;
	size_t n_exported;
};

static inline int64_t migration_now(const struct migration *h)
{
	return loop_now_ms(kube_loop(h->conf.kube));
}

/* Updates the list of exported addresses: those with an entry "@node" in the SpiderIPBlock
 * objects of t. The list also has those with an entry "@-", which migration_reclaim() ignores. */
void migration_scan(struct migration *h, const struct block_table *t);

#endif
