/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CERTS_PLAN_H
#define UNIRAIL_CONTROLLER_CERTS_PLAN_H

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
 * So what is served is trusted at any time, by who has what was trusted before as well.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* As in the Secret; PEM, owned, NULL: not there. */
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

enum certs_step { CERTS_FINE, CERTS_ALL, CERTS_CA, CERTS_LEAF, CERTS_PRUNE };

/*
 * What is to be done to `is` at `now`, and when to look again (*wake, seconds since the epoch).
 * `trusted`: the API server is known to have all of is->ca by now.
 */
enum certs_step certs_step(const struct certs_set *is, const struct certs_wish *w, int64_t now,
			   bool trusted, int64_t *wake);
/* That. *ret is a set of its own. */
int certs_take_step(const struct certs_set *is, enum certs_step step, const struct certs_wish *w,
		    int64_t now, struct certs_set *ret, struct err *e);
const char *certs_step_words(enum certs_step step);

#endif
