/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the host with host.conf and host.d, and reports the steps and remarks of `unirail
 * host plan` as findings. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/checks.h"
#include "host/apply.h"
#include "host/dropin.h"

/* The steps of one kind for one subject. */
struct group {
	const struct host_step *first;
	size_t n;
	bool blocked;
};

static void report_group(struct doctor *d, const struct group *g)
{
	const struct host_step *s = g->first;
	auto_free char *where = xasprintf("%s %s", s->kind, s->subject);
	auto_free char *remedy = s->blocked ? xstrdup(s->blocked)
					    : xasprintf("'unirail host apply %s'%s", s->kind,
							s->effect == HOST_NOW ? ""
							: s->effect == HOST_REBOOT
								? ", then a reboot"
								: ", then a power cycle");
	auto_free char *more = g->n > 1 ? xasprintf(", and %zu more settings differ", g->n - 1)
					: xstrdup("");

	doctor_find(d, s->effect == HOST_NOW ? FINDING_PROBLEM : FINDING_REMARK, where, remedy,
		    "differs from " HOST_CONF ": %s, expected %s%s",
		    s->current ? s->current : "nothing", s->desired ? s->desired : "nothing", more);
	if (!g->blocked)
		doctor_fix(d, "apply %s", s->kind);
}

static int by_subject(const void *a, const void *b)
{
	const struct host_step *x = *(const struct host_step *const *)a,
			       *y = *(const struct host_step *const *)b;
	int r = strcmp(x->kind, y->kind);

	if (!r)
		r = strcmp(x->subject, y->subject);
	return r ? r : (x > y) - (x < y);
}

static void report_plan(struct doctor *d, const struct host_plan *p)
{
	auto_free const struct host_step **list = xcalloc(p->n + 1, sizeof(*list));
	struct group g = {0};

	for (size_t i = 0; i < p->n; i++)
		list[i] = &p->v[i];
	if (p->n)
		qsort(list, p->n, sizeof(*list), by_subject);
	for (size_t i = 0; i < p->n; i++) {
		if (g.n && (strcmp(g.first->kind, list[i]->kind) != 0 ||
			    strcmp(g.first->subject, list[i]->subject) != 0)) {
			report_group(d, &g);
			g = (struct group){0};
		}
		if (!g.n)
			g.first = list[i];
		g.n++;
		g.blocked |= list[i]->blocked != NULL;
	}
	if (g.n)
		report_group(d, &g);
	for (size_t i = 0; i < p->n_remarks; i++)
		doctor_find(d, FINDING_REMARK, p->remarks[i].subject, "see 'unirail host plan'",
			    "%s: %s", p->remarks[i].kind, p->remarks[i].text);
}

/* Facts that a test has composed have no root directory, so nothing can be planned. */
void doctor_host_drift(struct doctor *d)
{
	auto_host_plan struct host_plan p = {0};
	auto_host_conf struct host_conf conf;
	struct err e = ERR_INIT;
	struct host h;
	int r;

	host_conf_init(&conf);
	if ((!d->f->live && !d->f->dir) || host_open(&h, d->f->dir, NULL) < 0)
		return;
	r = host_dropin_read(&conf, &h.root, HOST_CONF, false, &e);
	if (r >= 0)
		r = host_plan_make(&h, &conf, NULL, &p, &e);
	if (r >= 0)
		report_plan(d, &p);
	else if (!doctor_skip(d, HOST_CONF, r))
		doctor_find(d, e.kind == ERR_CONF ? FINDING_PROBLEM : FINDING_SKIPPED, HOST_CONF,
			    "see 'unirail host plan'", "%s", e.text);
	host_close(&h);
}
