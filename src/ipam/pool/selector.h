/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_SELECTOR_H
#define UNIRAIL_IPAM_POOL_SELECTOR_H

/*
 * Kubernetes' label selectors: matchLabels and matchExpressions (In, NotIn, Exists, DoesNotExist),
 * all of which must match. An empty selector matches everything; NotIn also matches if the label is
 * absent.
 */

#include "base/buf.h"
#include "spec/pod.h"

enum selector_op { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_ABSENT };

struct selector_term {
	enum selector_op op;
	char *key, **values;
	size_t n_values;
};

struct selector {
	bool given; /* false: there is no selector; matches everything */
	struct selector_term *v;
	size_t n;
};

/* Reads a selector from JSON; if v is null or absent, ret->given is false. Fails with kind
 * ERR_CONF and the name of the field if the API server's validation would refuse the operator, a
 * label key or a value. *ret is unchanged on failure. */
int selector_read(const struct json *v, const char *place, struct selector *ret, struct err *e);
/* Returns whether the API server accepts the string as a label value. */
bool selector_is_label_value(const char *value);
void selector_done(struct selector *s);
bool selector_matches(const struct selector *s, const struct labels *l);
/* Appends the selector to b, formatted like kubectl: "app=job,tier in (a,b),!old". */
void selector_str(const struct selector *s, struct buf *b);

#endif
