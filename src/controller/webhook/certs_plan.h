/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_CERTS_PLAN_H
#define UNIRAIL_CONTROLLER_WEBHOOK_CERTS_PLAN_H

/*
 * Decides when the CA and the webhook's certificate are renewed. Pure: the current state in, the
 * new state out.
 *
 * 	2/3 of the certificate's life are over	new certificate, signed by the CA
 * 	2/3 of the CA's life are over		new CA in front of the old one; the old one's certificate
 * 						stays in use until the new CA is trusted everywhere
 * 	a CA has expired			removed from the trusted CAs
 * 	the names have changed			new certificate
 * 	a part is missing			created again
 *
 * There are two Secrets: the certificate's Secret has the certificate, its key and all trusted CAs;
 * the CA's Secret has the signing CA and the signing CA's key. A new CA is written to the CA's
 * Secret first and trusted afterwards, so that a crash between the two writes loses nothing: the
 * next plan uses the CA of that Secret.
 *
 * Because a new CA signs only once it is trusted, a client with the previous set of trusted CAs
 * accepts the certificate in use. Only if there is no usable certificate does a new CA sign at
 * once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Content of the Secrets: texts in PEM, owned; NULL: missing. */
struct certs_set {
	char *ca;     /* all trusted CAs; the first one signs */
	char *ca_key; /* key of the first CA */
	char *cert, *key;
	/* time at which the first CA was added, in seconds since the epoch; 0: long ago */
	int64_t ca_since;
};

void certs_set_done(struct certs_set *s);

struct certs_goal {
	const char *name;	  /* common name */
	const char *const *names; /* names of the controller that the API server connects to */
	size_t n_names;
	int64_t ca_life, life; /* seconds */
	/* seconds for which a new CA must be trusted before it signs a certificate that replaces
	 * a usable one */
	int64_t publish_s;
};

/* Checks whether the certificate can be served. -EINVAL: e names the item of the Secret
 * (tls.crt, tls.key) and the reason. */
int certs_usable(const struct certs_set *s, struct err *e);
/* Checks whether the API server accepts the certificate: 0, also without a CA; -EKEYREJECTED
 * with the reason; -EINVAL: the CA or the certificate is not valid PEM. */
int certs_believed(const struct certs_set *s, const char *name, struct err *e);

enum certs_step {
	CERTS_FINE,
	CERTS_ALL,
	CERTS_CA,
	CERTS_LEAF,
	CERTS_PRUNE,
	/* The steps below are set by certs_next() only; certs_step() does not return them. */
	CERTS_TRUST,	  /* trust the CA of the CA's Secret besides the old ones */
	CERTS_MOVE_KEY,	  /* move the key that an earlier version stored in the certificate's Secret
	                 * to the CA's Secret */
	CERTS_REMOVE_KEY, /* remove that key from the certificate's Secret */
};

/*
 * Returns the next step for `is` at `now`. *wake: time of the next call, in seconds since the
 * epoch. `trusted`: the API server is known to trust all of is->ca.
 */
enum certs_step certs_step(const struct certs_set *is, const struct certs_goal *w, int64_t now,
			   bool trusted, int64_t *wake);
/* Carries out the step. *ret is a new set, which the caller frees. */
int certs_take_step(const struct certs_set *is, enum certs_step step, const struct certs_goal *w,
		    int64_t now, struct certs_set *ret, struct err *e);

/*
 * Returns whether certs_next() may return a write. Decided without the CA's key, so that the CA's
 * Secret is read only if needed. *wake is set as by certs_step().
 */
bool certs_is_due(const struct certs_set *serving, const struct certs_goal *w, int64_t now,
		  bool trusted, int64_t *wake);

/* The next write of a Secret. */
struct certs_write {
	enum certs_step step; /* CERTS_FINE: nothing to write */
	bool to_ca; /* write ca and ca_key to the CA's Secret; otherwise all but ca_key to the
	             * certificate's Secret */
	struct certs_set set; /* the caller frees it with certs_set_done() */
};

/*
 * Plans one write at a time from the current content of both Secrets. `serving` is the content of
 * the certificate's Secret; it has a ca_key only when an earlier version wrote it. `ca` is the
 * content of the CA's Secret: only its ca (one certificate) and ca_key are used. Returns 0, or
 * -errno without setting *ret.
 */
int certs_next(const struct certs_set *serving, const struct certs_set *ca,
	       const struct certs_goal *w, int64_t now, bool trusted, struct certs_write *ret,
	       struct err *e);
const char *certs_describe_step(enum certs_step step);

#endif
