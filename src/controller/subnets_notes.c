/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of a pool while it matters, and what is told about it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/subnets_priv.h"

static void note_free(struct subnets_pool_note *n)
{
	free(n->pool);
	free(n->said);
	ip_set_done(&n->used);
	ip_set_done(&n->looked);
	free(n);
}

struct subnets_pool_note *subnets_note(struct subnets *s, const char *pool)
{
	struct subnets_pool_note *n = s->notes;

	while (n && strcmp(n->pool, pool) != 0)
		n = n->next;
	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->pool = xstrdup(pool);
	n->next = s->notes;
	s->notes = n;
	return n;
}

void subnets_forget(struct subnets *s, const char *pool)
{
	for (struct subnets_pool_note **p = &s->notes; *p; p = &(*p)->next)
		if (!strcmp((*p)->pool, pool)) {
			struct subnets_pool_note *n = *p;

			*p = n->next;
			note_free(n);
			return;
		}
}

static void put_event(struct subnets *s, const struct app_id *app, const char *reason,
		      const char *text)
{
	const struct kube_event e = {.api_version = app->api,
				     .kind = app->kind,
				     .ns = app->ns,
				     .name = app->name,
				     .uid = app->uid,
				     .warning = true,
				     .reason = reason,
				     .message = text};

	if (s->conf.events)
		kube_events_add(s->conf.events, &e);
}

/* Once, until it is another trouble. */
void subnets_say(struct subnets *s, const char *pool, const struct app_id *app, const char *reason,
		 const struct err *why)
{
	struct subnets_pool_note *n = subnets_note(s, pool);

	if (n->said && !strcmp(n->said, why->text))
		return;
	free(n->said);
	n->said = xstrdup(why->text);
	log_warn("a pool of a subnet is not as it is to be", LOG_S("pool", pool),
		 LOG_S("application", app ? app->name : ""), LOG_S("namespace", app ? app->ns : ""),
		 LOG_S("error", why->text));
	if (app)
		put_event(s, app, reason, why->text);
}

void subnets_notes_done(struct subnets *s)
{
	while (s->notes) {
		struct subnets_pool_note *n = s->notes;

		s->notes = n->next;
		note_free(n);
	}
}
