/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_SELECTOR_H
#define UNIRAIL_IPAM_POOL_SELECTOR_H

/*
 * Kubernetes' label selectors: matchLabels and matchExpressions (In, NotIn, Exists, DoesNotExist),
 * all of which must hold. An empty one matches everything; NotIn matches where the label is absent,
 * too.
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
	bool given; /* false: there is none, which matches as well */
	struct selector_term *v;
	size_t n;
};

/* From its JSON; null or absent is none. What the API server's validation of such a selector
 * refuses (operator, values, characters of a label) is an error of kind ERR_CONF that names the
 * place. *ret is left alone on failure. */
int selector_read(const struct json *v, const char *place, struct selector *ret, struct err *e);
/* Whether the API server takes it as the value of a label. */
bool selector_is_label_value(const char *value);
void selector_done(struct selector *s);
bool selector_matches(const struct selector *s, const struct labels *l);
/* As kubectl has it: "app=job,tier in (a,b),!old". */
void selector_str(const struct selector *s, struct buf *b);

#endif
