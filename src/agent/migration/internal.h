/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_MIGRATION_INTERNAL_H
#define UNIRAIL_AGENT_MIGRATION_INTERNAL_H

/* Between the handover*.c files: _come is where the pod is now, _give where its addresses are. */

#include "agent/migration/migration.h"
#include "base/backoff.h"
#include "block/migration.h"
#include "kube/informer.h"

/* A name whose addresses are being fetched. */
struct coming {
	struct migration *h;
	char *ns, *name, *pod, *uid;
	char *ifname; /* for an endpoint that has no names of interfaces */
	bool migrating;
	struct migration_place place;
	bool done;
	int64_t asked_ms; /* when its pod last asked */
	/* this round */
	bool in_round;
	size_t at;	    /* of place.v */
	bool tried;	    /* a request for it was carried out */
	bool open;	    /* some are to be had yet */
	bool waits;	    /* the node that has one was asked */
	char holder[254];   /* whom to ask; "": nobody */
	struct block_op op; /* to be carried out next, with has_op */
	bool has_op;
	struct kube_call *call;
	struct loop_timer *timer;
	struct kube_backoff backoff;
	char *why; /* what is waited for */
};

/* An address that was given to a node which has not come for it. */
struct given {
	struct ipaddr ip;
	int64_t since;
	bool seen;
};

struct migration {
	struct migration_conf conf;
	struct coming **v;
	size_t n;
	struct kube_informer *informer; /* of struct migration_place */
	struct kube_call *refusing;
	struct loop_timer *sweep;
	struct kube_backoff again;
	struct given *given;
	size_t n_given;
};

extern const struct kube_kind migration_kind;

static inline int64_t migration_now(const struct migration *h)
{
	return loop_now_ms(kube_loop(h->conf.kube));
}

/* migration.c */
struct coming *coming_new(struct migration *h, const struct identity *who, const char *uid,
			  const char *ifname);
/* Another pod of the name: what came so far stays pinned. */
void coming_renew(struct coming *c, const struct identity *who, const char *uid);
void coming_free(struct coming *c);
/* Between borrowing and the lease addresses would be given back at once. */
void coming_pin(struct migration *h);
/* migration.c */
void migration_watch(struct migration *h);

#endif
