/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/trouble.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { SAY_MS = 200 };

void kube_troubles_init(struct kube_troubles *t, struct loop *l, const char *who)
{
	*t = (struct kube_troubles){.loop = l, .who = who, .end = &t->first};
}

void kube_troubles_add(struct kube_troubles *t, struct kube_trouble *k,
		       const struct kube_kind *kind, bool ours)
{
	*k = (struct kube_trouble){.all = t, .kind = kind, .ours = ours};
	*t->end = k;
	t->end = &k->next;
}

void kube_troubles_done(struct kube_troubles *t)
{
	loop_del_timer(t->say);
}

static bool is_not_installed(const struct kube_trouble *k)
{
	return k->why.code == -ENOENT && k->ours;
}

static void say_not_installed(void *arg)
{
	struct kube_troubles *t = arg;
	auto_buf struct buf b;

	t->say = NULL;
	buf_init(&b, 1024);
	for (const struct kube_trouble *k = t->first; k; k = k->next)
		if (is_not_installed(k))
			buf_printf(&b, "%s%s.%s", b.len ? ", " : "", k->kind->plural,
				   k->kind->group);
	if (b.len)
		log_error("the API server does not know some kinds: install their definitions "
			  "(kubectl apply -f deploy/crds -f deploy/); they are asked for again",
			  LOG_S("kinds", b.p));
}

static void say(const struct kube_trouble *t)
{
	const struct kube_kind *k = t->kind;
	auto_free char *what = NULL;

	if (t->why.code == -EPERM)
		what = xasprintf("the %s may not read %s: allow it to 'list' and 'watch' %s%s%s",
				 t->all->who, k->plural, k->plural, *k->group ? "." : "", k->group);
	else
		what = xasprintf("%s are not followed for now", k->plural);
	log_error(what, LOG_S("error", t->why.text));
}

void kube_trouble_is(struct kube_trouble *k, const struct err *why)
{
	struct kube_troubles *t = k->all;

	if (!why) {
		if (k->why.kind != ERR_AGAIN)
			log_info("followed now", LOG_S("kind", k->kind->plural));
		err_clear(&k->why);
		return;
	}
	k->why = *why;
	if (why->kind == ERR_AGAIN)
		return;
	if (!is_not_installed(k))
		say(k);
	else if (!t->say)
		t->say = loop_add_timer(t->loop, SAY_MS, say_not_installed, t);
}

int kube_trouble_words(const struct kube_trouble *k, bool synced, struct err *e)
{
	const char *name = k->kind->plural;

	if (k->why.code == 0 && synced)
		return 0;
	if (k->why.code == 0)
		return err_kind(e, ERR_AGAIN, -EAGAIN, "%s are not read from the API server yet",
				name);
	return err_kind(e, ERR_AGAIN, k->why.code, "%s are not known: %s", name, k->why.text);
}
