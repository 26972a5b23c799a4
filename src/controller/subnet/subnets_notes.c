/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of a pool while it matters, and what is told about it. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/subnet/subnets_priv.h"

static void note_free(struct subnets_pool_note *n)
{
	free(n->pool);
	free(n->said);
	ip_set_done(&n->used);
	ip_set_done(&n->looked);
	free(n);
}

static int by_pool(const void *a, const void *b)
{
	return strcmp(((const struct subnets_pool_note *)a)->pool,
		      ((const struct subnets_pool_note *)b)->pool);
}

/* NULL: none. */
static struct subnets_pool_note *find(const struct subnets *s, const char *pool)
{
	const struct subnets_pool_note want = {.pool = (char *)pool};
	struct subnets_pool_note *const *found = tfind(&want, &s->notes, by_pool);

	return found ? *found : NULL;
}

struct subnets_pool_note *subnets_note(struct subnets *s, const char *pool)
{
	struct subnets_pool_note *n = find(s, pool);

	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->pool = xstrdup(pool);
	if (!tsearch(n, &s->notes, by_pool))
		abort(); /* as any other lack of memory */
	return n;
}

void subnets_forget(struct subnets *s, const char *pool)
{
	struct subnets_pool_note *n = find(s, pool);

	if (!n)
		return;
	tdelete(n, &s->notes, by_pool);
	note_free(n);
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

static void note_drop(void *n)
{
	note_free(n);
}

void subnets_notes_done(struct subnets *s)
{
	tdestroy(s->notes, note_drop);
	s->notes = NULL;
}
