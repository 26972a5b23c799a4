/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/endpoint/endpoints_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "block/handover.h"

const struct kube_kind endpoints_kind = {"spiderpool.spidernet.io", "v2beta1", "spiderendpoints",
					 "spiderendpoint", true};

/* --- what is there --- */

static int read_there(void *value, const struct json *object, struct err *e)
{
	struct endpoints_there *t = value;

	(void)e;
	t->status = endpoint_status_of(object);
	t->wanted = json_get(json_get(json_get(object, "metadata"), "annotations"),
			     HANDOVER_NOTE) != NULL;
	return 0;
}

static void drop_there(void *value)
{
	free(((struct endpoints_there *)value)->status);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	(void)was, (void)is;
	endpoints_soon(arg, 0);
}

static void on_synced(void *arg)
{
	endpoints_soon(arg, 0);
}

/* agent/cluster/cluster.c says it of the other kinds of that group. */
static void on_trouble(void *arg, const struct err *why)
{
	(void)arg;
	if (why && why->code == -EPERM)
		log_error("the agent may not read spiderendpoints: allow it to 'list' and 'watch' "
			  "spiderendpoints.spiderpool.spidernet.io",
			  LOG_S("error", why->text));
}

/* --- from outside --- */

struct endpoints *endpoints_new(const struct endpoints_conf *c)
{
	struct endpoints *e = xcalloc(1, sizeof(*e));
	char label[BLOCK_LABEL_MAX];
	auto_free char *select = NULL;

	*e = (struct endpoints){.conf = *c,
				.backoff = {ENDPOINTS_AGAIN_MS, ENDPOINTS_AGAIN_MOST_MS, 0}};
	str_copy(e->label, sizeof(e->label), block_label(c->node, label));
	select = xasprintf("%s=%s", ENDPOINT_NODE_LABEL, e->label);
	e->informer = kube_informer_new(
		c->kube, &(struct kube_informer_conf){.kind = &endpoints_kind,
						      .select = {.labels = select},
						      .cached = true,
						      .wary = true,
						      .size = sizeof(struct endpoints_there),
						      .decode = read_there,
						      .drop = drop_there,
						      .changed = on_changed,
						      .synced = on_synced,
						      .trouble = on_trouble,
						      .arg = e});
	return e;
}

void endpoints_free(struct endpoints *e)
{
	if (!e)
		return;
	kube_cancel(e->call);
	kube_informer_free(e->informer);
	loop_del_timer(e->timer);
	endpoints_job_done(e);
	free(e->taken);
	settled_done(&e->settled);
	endpoints_wanted_done(&e->wanted);
	free(e);
}

void endpoints_leases(struct endpoints *e, const struct lease_table *t, const struct pool_set *s)
{
	endpoints_wanted_done(&e->wanted);
	endpoints_wanted(t, s, &e->wanted);
	e->known = true;
	endpoints_soon(e, 0);
}

void endpoints_pod_changed(struct endpoints *e)
{
	endpoints_soon(e, 0);
}

void endpoints_hold(struct endpoints *e, bool hold)
{
	e->hold = hold;
}

bool endpoints_synced(const struct endpoints *e)
{
	return kube_informer_synced(e->informer) && kube_informer_behind_ms(e->informer) == 0;
}

const char *endpoints_status(const struct endpoints *e, const char *ns, const char *name)
{
	const struct kube_object *o = kube_informer_get(e->informer, ns, name);

	return o ? ((const struct endpoints_there *)o->value)->status : NULL;
}
