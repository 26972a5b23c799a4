/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_INTERNAL_H
#define UNIRAIL_AGENT_MIGRATION_INTERNAL_H

/*
 * Shared by the files of this directory: import runs where the pod is, export where its addresses
 * are.
 */

#include "agent/migration/migration.h"
#include "base/backoff.h"
#include "block/migration.h"
#include "kube/informer.h"

/* A name whose addresses are being fetched. */
struct import {
	struct migration *h;
	char *ns, *name, *pod, *uid;
	char *ifname; /* for an endpoint that has no names of interfaces */
	bool migrating;
	struct migration_place place;
	bool done;
	int64_t requested_ms; /* when its pod last asked */
	/* this round */
	bool in_round;
	size_t at;	    /* of place.v */
	bool tried;	    /* a request for it was carried out */
	bool open;	    /* some may become available */
	bool waits;	    /* the node that has one got a request */
	char owner[254];    /* the node to request them from; "": none */
	struct block_op op; /* to be carried out next, with has_op */
	bool has_op;
	struct kube_call *call;
	struct loop_timer *timer;
	struct backoff backoff;
	char *cause; /* what is waited for */
};

/* An address released to a node that has not taken it yet. */
struct given {
	struct ipaddr ip;
	int64_t since;
	bool seen;
};

struct migration {
	struct migration_conf conf;
	struct import **v;
	size_t n;
	struct kube_informer *informer; /* of struct migration_place */
	struct kube_call *refusing;
	struct loop_timer *sweep;
	struct backoff again;
	struct given *given;
	size_t n_exported;
};

static inline int64_t migration_now(const struct migration *h)
{
	return loop_now_ms(kube_loop(h->conf.kube));
}

/* Updates the list of exported addresses from the entries of this node's objects. */
void migration_scan(struct migration *h, const struct block_table *t);

#endif
