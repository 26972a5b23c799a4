/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/pool/pool_draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pool_text_done(struct pool_text *t)
{
	free(t->place);
	free(t->text);
	*t = (struct pool_text){0};
}

void pool_texts_add(struct pool_texts *l, const char *place, struct span text)
{
	VEC_PUSH(l->v, l->n) = (struct pool_text){xstrdup(place), span_dup(text)};
}

void pool_texts_done(struct pool_texts *l)
{
	for (size_t i = 0; i < l->n; i++)
		pool_text_done(&l->v[i]);
	free(l->v);
	*l = (struct pool_texts){0};
}

void pool_draft_done(struct pool_draft *d)
{
	struct pool_text *one[] = {&d->subnet,	&d->gateway, &d->is_default,
				   &d->disable, &d->rest,    &d->version};
	struct pool_texts *lists[] = {&d->ips,	 &d->exclude,	 &d->routes,
				      &d->nodes, &d->namespaces, &d->networks};

	free(d->name);
	free(d->where);
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		pool_text_done(one[i]);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		pool_texts_done(lists[i]);
	selector_done(&d->node_affinity);
	selector_done(&d->namespace_affinity);
	selector_done(&d->pod_affinity);
	*d = (struct pool_draft){0};
}

static struct selector take_selector(struct selector *s)
{
	struct selector r = *s;

	*s = (struct selector){0};
	return r;
}

int pool_set_add(struct pool_set *s, struct pool_draft *d, struct err *e)
{
	struct pool p;
	int n = pool_build(d, &p, e);

	if (n == 0) {
		p.node_affinity = take_selector(&d->node_affinity);
		p.namespace_affinity = take_selector(&d->namespace_affinity);
		p.pod_affinity = take_selector(&d->pod_affinity);
		VEC_PUSH(s->v, s->n) = p;
	}
	pool_draft_done(d);
	return n;
}

int pool_reserve(struct pool_set *s, const struct pool_texts *ips, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < ips->n; i++) {
		const char *text = ips->v[i].text;
		uint8_t family = strchr(text, ':') ? 6 : 4;
		struct err why = ERR_INIT;
		struct ip_range r;
		int n = ip_range_parse(span_of(text), family, &r, &why);

		if (n == 0) {
			ip_set_collect(family == 4 ? &s->reserved4 : &s->reserved6, &r);
		} else if (ret == 0) {
			ret = n;
			if (e)
				*e = why;
			err_wrap(e, n, "%s", ips->v[i].place);
		}
	}
	ip_set_merge(&s->reserved4);
	ip_set_merge(&s->reserved6);
	return ret;
}
