/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_MATCH_CONDITION_H
#define UNIRAIL_CONTROLLER_REGISTRATION_MATCH_CONDITION_H

/*
 * The matchCondition (CEL) that exempts pods from the webhook: pods without a requesting annotation
 * in namespaces without one.
 *
 * The condition lists the namespaces known to have no annotation, not those that have one: a
 * manifest may create an annotated namespace and a pod in it, and the API server must send that
 * pod although the leader has not seen the namespace yet. So a namespace that gets the annotation
 * or is being deleted is removed from the list at once, and namespaces without the annotation are
 * added to it within a minute, all together. The leader maintains the list: while there is no
 * leader, pods without a requesting annotation in a listed namespace are not sent, even if the
 * namespace gets the annotation.
 */

#include "controller/injection/inject.h"
#include "controller/cache/cache.h"

enum { DELAY_MS = 60 * 1000, MATCH_CONDITION_TEXT_MAX = 60000 };

struct match_condition;

/* changed: called when the condition has changed. */
struct match_condition *match_condition_new(struct loop *l, struct kube_cache *w,
					    void (*changed)(void *arg), void *arg);
void match_condition_free(struct match_condition *q); /* accepts NULL */
/*
 * Returns the condition, valid until `changed`; NULL: none is possible, because namespaces are not
 * listed yet or are too many.
 */
const char *match_condition_text(const struct match_condition *q);

/* Writes the condition for these namespaces in CEL; *ret stays empty if it would be longer than
 * MATCH_CONDITION_TEXT_MAX. */
void match_condition_write(const char *const *names, size_t n, struct buf *ret);

#endif
