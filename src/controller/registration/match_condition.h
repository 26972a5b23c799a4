/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_MATCH_CONDITION_H
#define UNIRAIL_CONTROLLER_REGISTRATION_MATCH_CONDITION_H

/*
 * Which pods the API server need not send, as a condition (CEL) for it: those without an annotation that
 * asks, of namespaces that have none, either.
 *
 * The condition lists the namespaces that are known to have none, not those that have one: a namespace
 * with the annotation and a pod in it may come in one file, and the pod must not be faster than the
 * list. So a namespace that comes to ask is taken off at once, as is one that is being deleted; one that
 * does not is put on after a minute, all that have come by then in one go. The leader does so: while there
 * is none, pods of a namespace on the list are not sent when it comes to ask.
 */

#include "controller/injection/inject.h"
#include "controller/cache/cache.h"

enum { QUIET_MS = 60 * 1000, QUIET_TEXT_MAX = 60000 };

struct quiet;

/* changed: the condition is another one. */
struct quiet *quiet_new(struct loop *l, struct world *w, void (*changed)(void *arg), void *arg);
void quiet_free(struct quiet *q); /* NULL is fine */
/* NULL: none can be made (namespaces are not known yet, or too many). Valid until `changed`. */
const char *quiet_condition(const struct quiet *q);

/* Of these namespaces, in CEL; *ret is left empty when it is too long. */
void quiet_write(const char *const *names, size_t n, struct buf *ret);

#endif
