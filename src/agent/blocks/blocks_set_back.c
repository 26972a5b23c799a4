/* SPDX-License-Identifier: Apache-2.0 */
/* That the API server's data was set back, told to a controller that could not see it. */
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"
#include "block/block_wire.h"
#include "kube/time.h"

enum { AGAIN_MS = 2000 };

static void try(void *arg);

static void later(struct blocks *b)
{
	if (!b->tell_again)
		b->tell_again =
			loop_add_timer(b->loop, kube_jitter(AGAIN_MS / 2, AGAIN_MS), try, b);
}

/* The block may be gone by now; else it is tried again as long as it is news. */
static void on_told(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks *b = arg;

	(void)status;
	(void)object;
	b->telling = NULL;
	if (e)
		later(b);
	else
		b->tell_at = 0;
}

/* As the API server has it: what only the log has is to be written first. */
static const struct block_object *own(const struct blocks *b)
{
	for (size_t i = 0; i < b->t.n_objects; i++)
		if (strcmp(b->t.objects[i].node, b->node) == 0 && *b->t.objects[i].version)
			return &b->t.objects[i];
	return NULL;
}

static void tell(struct blocks *b, const struct block_object *o)
{
	char at[KUBE_TIME_MAX];
	auto_free char *body = NULL;
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &blocks_kind, .name = o->name},
				 .timeout_ms = BLOCKS_REQUEST_MS,
				 .once = true};

	kube_time_text(b->tell_at, at);
	body = xasprintf("{\"metadata\":{\"annotations\":{\"" BLOCK_SET_BACK_NOTE "\":\"%s\"}}}",
			 at);
	r.body = span_of(body);
	b->telling = kube_send(b->c.kube, &r, on_told, b);
}

static void try(void *arg)
{
	struct blocks *b = arg;
	const struct block_object *o = own(b);

	b->tell_again = NULL;
	if (!b->log.set_back || !b->tell_at || b->telling)
		return;
	if (o)
		tell(b, o);
	else
		later(b);
}

void blocks_tell_set_back(struct blocks *b)
{
	b->tell_at = blocks_real_ms(b);
	loop_del_timer(b->tell_again);
	b->tell_again = loop_add_timer(b->loop, 0, try, b);
}

void blocks_set_back_stop(struct blocks *b)
{
	kube_cancel(b->telling);
	loop_del_timer(b->tell_again);
}
