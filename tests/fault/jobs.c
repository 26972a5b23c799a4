/* SPDX-License-Identifier: Apache-2.0 */
/* The list of points: for each system call of each scene, a kill at the call and a failure of
 * the call with each errno. */
#include "fault.h"

#include "base/alloc.h"

/* The number of calls differs a little between runs, so SLACK calls after the last counted call
 * are tested as well. */
enum { SLACK = 2 };

static const char *const acts[] = {"kill", "ENOBUFS", "EINTR", "ENOMEM", "EBUSY", "ENOSPC", "EIO"};
enum { ACTS = ARRAY_LEN(acts), KILL = 0 };

/* The points of ADD also interrupt DEL. */
static const enum verb verbs[] = {V_ADD, V_GC, V_LOST, V_COMMAND};

void job_counts_take(struct job_counts *c, struct stage *s)
{
	const struct scene *sc = s->sc;

	if (sc->argv) {
		c->calls[V_COMMAND] = stage_count(s, V_COMMAND);
		return;
	}
	c->calls[V_ADD] = stage_count(s, V_ADD);
	if (sc->arm)
		return;
	c->calls[V_DEL] = stage_count(s, V_DEL);
	if (sc->no_gc)
		return;
	c->calls[V_GC] = stage_count(s, V_GC);
	c->calls[V_LOST] = c->calls[V_ADD];
}

static long longer(long a, long b)
{
	return a > b ? a : b;
}

static long calls_of(const struct job_counts *c, enum verb v)
{
	long n = v == V_ADD ? longer(c->calls[V_ADD], c->calls[V_DEL]) : c->calls[v];

	return n ? n + SLACK : 0;
}

static long acts_of(enum verb v)
{
	return v == V_LOST ? 1 : ACTS;
}

long jobs_total(const struct job_counts *all)
{
	long n = 0;

	for (size_t i = 0; scenes[i].name; i++)
		for (size_t v = 0; v < ARRAY_LEN(verbs); v++)
			n += calls_of(&all[i], verbs[v]) * acts_of(verbs[v]);
	return n;
}

bool job_find(const struct job_counts *all, long j, struct job *ret)
{
	for (size_t i = 0; scenes[i].name; i++)
		for (size_t v = 0; v < ARRAY_LEN(verbs); v++) {
			long n_acts = acts_of(verbs[v]);
			long n = calls_of(&all[i], verbs[v]) * n_acts;

			if (j < n) {
				*ret = (struct job){
					i, verbs[v], (size_t)(j % n_acts), {.n = j / n_acts + 1}};
				act_parse(acts[ret->act], &ret->shot);
				return true;
			}
			j -= n;
		}
	return false;
}

bool job_is_kill(const struct job *j)
{
	return j->act == KILL;
}

/*
 * In small scenes: kills at each call; in every third group of six calls each call fails, with a
 * different errno. In other scenes: kills at every SPARSE-th call; each errno at one of every 6 *
 * SPARSE calls. V_LOST: kills at every third call of small scenes, at every SPARSE-th call of other
 * scenes.
 */
bool job_is_quick(const struct job *j)
{
	enum { SPARSE = 16 };
	const struct scene *sc = &scenes[j->scene];
	long n = j->shot.n, errnos = ACTS - 1;

	if (j->verb == V_LOST)
		return n % (sc->small ? 3 : SPARSE) == 0;
	if (j->act == KILL)
		return sc->small || n % SPARSE == 0;
	if (n % errnos != (long)j->act - 1)
		return false;
	return sc->small ? n / errnos % 3 == 0 : n / errnos % SPARSE == (long)j->act;
}

void job_do(struct stage *s, const struct job *j, const struct job_counts *c)
{
	struct shot a = j->shot, b = j->shot;

	switch (j->verb) {
	case V_ADD:
		stage_pair(s, a.n <= c->calls[V_ADD] + SLACK ? &a : NULL,
			   b.n <= c->calls[V_DEL] + SLACK ? &b : NULL);
		break;
	case V_GC: stage_gc(s, &a); break;
	case V_LOST: stage_lost(s, &a); break;
	default: stage_command(s, &a); break;
	}
}

void job_do_one(struct stage *s, enum verb v, struct shot *shot)
{
	switch (v) {
	case V_ADD: stage_pair(s, shot, NULL); break;
	case V_DEL: stage_pair(s, NULL, shot); break;
	case V_GC: stage_gc(s, shot); break;
	case V_LOST: stage_lost(s, shot); break;
	default: stage_command(s, shot); break;
	}
}
