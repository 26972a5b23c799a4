/* SPDX-License-Identifier: Apache-2.0 */
/* What an informer keeps, and who is told of it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/informer_priv.h"

void informer_object_free(struct kube_informer *i, struct kube_object *o)
{
	if (!o)
		return;
	if (i->c.drop)
		i->c.drop(o->value);
	free(o);
}

static void tell(struct kube_informer *i, struct kube_object *was, struct kube_object *is)
{
	if (was || is)
		i->c.changed(i->c.arg, was, is);
	informer_object_free(i, was);
}

void informer_remove_object(struct kube_informer *i, const char *ns, const char *name)
{
	size_t at;

	if (kube_store_find(&i->store, ns, name, &at))
		tell(i, kube_store_take(&i->store, at), NULL);
}

static void not_decoded(struct kube_informer *i, const struct kube_object *o, const struct err *e)
{
	struct kube_object *known = kube_store_get(&i->store, o->ns, o->name);

	log_limited(LOG_WARN, 3, "kube: an object cannot be read; what was known of it stays",
		    LOG_S("kind", i->c.kind->name), LOG_S("namespace", o->ns),
		    LOG_S("name", o->name), LOG_S("error", e->text));
	if (known)
		known->round = i->round;
}

static void put_object(struct kube_informer *i, struct kube_object *o)
{
	struct kube_object *was = kube_store_put(&i->store, o);

	o->round = i->round;
	/* Another one of the same name: the first is gone, whoever missed it. */
	if (was && strcmp(was->uid, o->uid)) {
		tell(i, was, NULL);
		was = NULL;
	}
	tell(i, was, o);
}

void informer_take_object(struct kube_informer *i, const struct json *object)
{
	struct kube_object *o = kube_object_new(object, i->c.size), *known;
	struct err e = ERR_INIT;
	int r;

	if (!o)
		return;
	known = kube_store_get(&i->store, o->ns, o->name);
	if (known && !strcmp(known->version, o->version) && !strcmp(known->uid, o->uid)) {
		known->round = i->round;
		free(o);
		return;
	}
	r = i->c.decode(o->value, object, &e);
	if (r == 0) {
		put_object(i, o);
		return;
	}
	if (r < 0)
		not_decoded(i, o, &e);
	else
		informer_remove_object(i, o->ns, o->name);
	informer_object_free(i, o);
}

void informer_sweep(struct kube_informer *i)
{
	for (size_t at = 0; at < i->store.n;) {
		if (i->store.v[at]->round == i->round)
			at++;
		else
			tell(i, kube_store_take(&i->store, at), NULL);
	}
}
