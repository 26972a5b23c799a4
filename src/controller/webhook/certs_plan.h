/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_CERTS_PLAN_H
#define UNIRAIL_CONTROLLER_WEBHOOK_CERTS_PLAN_H

/*
 * A CA and the webhook's certificate by it, and when they are renewed: pure, what there is in, what
 * there is to be out.
 *
 *	2/3 of a certificate's time are over	a new one, by the CA
 *	2/3 of the CA's time are over		a new CA in front of the old one; the certificate stays
 *						the old one's until everybody trusts the new one
 *	a CA has expired			it is not trusted any more
 *	the names are others			a new certificate
 *	half of it is missing			what is missing is made anew
 *
 * Two Secrets hold it: one the certificate, its key and all CAs that are trusted, the other the CA that signs and its
 * key. A new CA is written to its own Secret first and then trusted, so a crash between the two writes loses nothing:
 * the next plan takes the CA that it finds there.
 *
 * So what is served is trusted at any time, by who has what was trusted before as well.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* As in the Secrets; PEM, owned, NULL: not there. */
struct certs_set {
	char *ca;     /* all that are trusted; the first is the one that signs */
	char *ca_key; /* its key */
	char *cert, *key;
	int64_t ca_since; /* when the first CA was put there, seconds since the epoch; 0: long ago */
};

void certs_set_done(struct certs_set *s);

struct certs_wish {
	const char *name;	  /* common name */
	const char *const *names; /* what the API server calls us */
	size_t n_names;
	int64_t ca_life, life; /* seconds */
	int64_t settle;	       /* how long a new CA is trusted before it signs what is served */
};

/* Whether it can be served: -EINVAL, e names the key of the Secret and the remedy. */
int certs_usable(const struct certs_set *s, struct err *e);
/* Whether the API server will take what is served: -EKEYREJECTED and why not. */
int certs_believed(const struct certs_set *s, const char *name, struct err *e);

enum certs_step {
	CERTS_FINE,
	CERTS_ALL,
	CERTS_CA,
	CERTS_LEAF,
	CERTS_PRUNE,
	/* of certs_next() only */
	CERTS_TRUST, /* the CA that its Secret has is trusted beside the old ones */
	CERTS_MOVE_KEY, /* the key that an earlier version left in the certificate's Secret, to the CA's */
	CERTS_REMOVE_KEY, /* and away from there */
};

/*
 * What is to be done to `is` at `now`, and when to look again (*wake, seconds since the epoch).
 * `trusted`: the API server is known to have all of is->ca by now.
 */
enum certs_step certs_step(const struct certs_set *is, const struct certs_wish *w, int64_t now,
			   bool trusted, int64_t *wake);
/* That. *ret is a set of its own. */
int certs_take_step(const struct certs_set *is, enum certs_step step, const struct certs_wish *w,
		    int64_t now, struct certs_set *ret, struct err *e);

/*
 * Whether certs_next() may have something to do, found without the CA's key: only then has its Secret to be read. *wake
 * as above.
 */
bool certs_is_due(const struct certs_set *serving, const struct certs_wish *w, int64_t now,
		  bool trusted, int64_t *wake);

/* The next write. */
struct certs_write {
	enum certs_step step; /* CERTS_FINE: none */
	bool to_ca; /* ca and ca_key, to the CA's Secret; otherwise all but ca_key, to the certificate's */
	struct certs_set set; /* the caller's to certs_set_done() */
};

/*
 * One write at a time, each planned from what both Secrets have by then. `serving` is what the certificate's Secret has;
 * with a ca_key it is from an earlier version. Of `ca` only ca (one certificate) and ca_key count. -errno: *ret is not set.
 */
int certs_next(const struct certs_set *serving, const struct certs_set *ca,
	       const struct certs_wish *w, int64_t now, bool trusted, struct certs_write *ret,
	       struct err *e);
const char *certs_step_words(enum certs_step step);

#endif
