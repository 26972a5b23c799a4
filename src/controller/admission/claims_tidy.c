/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims of objects that were seen to go are taken out of the ConfigMap: one read and at most one write
 * for all that go in a moment. When it fails, time does the same. Each replica tries; the second finds
 * nothing left to do.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/admission/claims_priv.h"
#include "base/backoff.h"
#include "kube/kinds.h"

enum { SOON_MIN_MS = 50, SOON_MAX_MS = 250, TIDY_TIME_MS = 5000 };

bool claims_is_gone(const struct claims *c, const char *uid)
{
	for (size_t i = 0; uid && *uid && i < CLAIMS_GONE_MAX; i++)
		if (strcmp(c->gone[i], uid) == 0)
			return true;
	return false;
}

static void send(struct claims *c, enum kube_verb verb, struct span body, kube_done_fn fn)
{
	struct kube_request r = {.verb = verb,
				 .on = {&kube_configmaps, c->ns, CLAIMS_NAME, NULL},
				 .body = body,
				 .timeout_ms = TIDY_TIME_MS};

	c->tidy = kube_send(c->k, &r, fn, c);
}

static void on_written(void *arg, int status, const struct json *map, const struct err *e)
{
	struct claims *c = arg;

	(void)map;
	(void)e;
	c->tidy = NULL;
	if (status == 409)
		claims_gone(c, "");
}

static bool drop_gone(const struct claims *c, struct claims_list *l)
{
	bool any = false;

	for (size_t i = 0; i < l->n; i++) {
		const struct json *meta = json_get(json_root(l->v[i].doc), "metadata");

		l->v[i].drop = claims_is_gone(c, json_string(json_get(meta, "uid")));
		any |= l->v[i].drop;
	}
	return any;
}

static void on_map(void *arg, int status, const struct json *map, const struct err *e)
{
	const char *version = json_string(json_get(json_get(map, "metadata"), "resourceVersion"));
	struct claims *c = arg;
	struct claims_list list;
	auto_buf struct buf body;

	(void)status;
	c->tidy = NULL;
	if (e || !version)
		return;
	claims_read(map, &list);
	buf_init(&body, KUBE_BODY_MAX);
	if (drop_gone(c, &list)) {
		claims_write(&list, NULL, c->ns, version, now_real_ms(), &body);
		send(c, KUBE_REPLACE, buf_span(&body), on_written);
	}
	claims_list_done(&list);
}

static void on_timer(void *arg)
{
	struct claims *c = arg;

	c->tidy_timer = NULL;
	if (c->tidy)
		claims_gone(c, "");
	else
		send(c, KUBE_GET, (struct span){0}, on_map);
}

void claims_gone(struct claims *c, const char *uid)
{
	if (*uid) {
		str_copy(c->gone[c->next_gone], CLAIMS_UID_MAX, uid);
		c->next_gone = (c->next_gone + 1) % CLAIMS_GONE_MAX;
	}
	if (!c->tidy_timer)
		c->tidy_timer = loop_add_timer(kube_loop(c->k),
					       kube_jitter(SOON_MIN_MS, SOON_MAX_MS), on_timer, c);
}

void claims_tidy_stop(struct claims *c)
{
	kube_cancel(c->tidy);
	loop_del_timer(c->tidy_timer);
}
