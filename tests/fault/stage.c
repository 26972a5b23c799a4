/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a scene in a lab; records the state before it and the state with the pod attached, and
 * counts the system calls of each verb. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { STATE_MAX = 1 << 22 };

/* --- chains --- */

void stage_forget_results(struct stage *s)
{
	for (size_t i = 0; i < STEPS_MAX; i++) {
		free(s->results[i]);
		s->results[i] = NULL;
	}
}

static const char *prev_of(const struct stage *s, size_t i)
{
	/* A step on another interface than the step before begins a new chain. */
	if (i == 0 || strcmp(s->sc->steps[i - 1].ifname, s->sc->steps[i].ifname) != 0)
		return NULL;
	return s->results[i - 1];
}

static bool attach_steps(struct stage *s, const struct pod *p, struct shot *shot, enum end *end)
{
	for (size_t i = 0; i < STEPS_MAX && s->sc->steps[i].plugin; i++) {
		if (shot && !shot->hit)
			lab_dump(s->l, &s->step);
		call_plugin(s->l, &s->sc->steps[i], V_ADD, p, prev_of(s, i), shot, &s->o);
		*end = end_of(&s->o, V_ADD, shot);
		if (*end != END_FINE)
			return false;
		s->results[i] = span_dup(buf_span(&s->o.out));
	}
	return true;
}

bool stage_attach(struct stage *s, const struct pod *p, struct shot *shot, enum end *end)
{
	bool whole;

	stage_forget_results(s);
	*end = END_FINE;
	if (s->sc->arm)
		s->sc->arm(s->l);
	whole = attach_steps(s, p, shot, end);
	if (s->sc->disarm)
		s->sc->disarm(s->l);
	return whole;
}

/* Calls the plugins in reverse order and, as libcni does, stops at a plugin that fails. */
bool stage_detach(struct stage *s, const struct pod *p, struct shot *shot, enum end *end)
{
	*end = END_FINE;
	for (size_t i = STEPS_MAX; i-- > 0;) {
		if (!s->sc->steps[i].plugin)
			continue;
		call_plugin(s->l, &s->sc->steps[i], V_DEL, p, s->results[i], shot, &s->o);
		*end = end_of(&s->o, V_DEL, shot);
		if (*end != END_FINE)
			return false;
	}
	return true;
}

bool stage_each(struct stage *s, enum verb v, struct shot *shot, enum end *end)
{
	*end = END_FINE;
	for (size_t i = 0; i < STEPS_MAX && s->sc->steps[i].plugin; i++) {
		call_plugin(s->l, &s->sc->steps[i], v, &pod_here,
			    v == V_CHECK ? s->results[i] : NULL, shot, &s->o);
		*end = end_of(&s->o, v, shot);
		if (*end != END_FINE)
			return false;
	}
	return true;
}

/* --- the undisturbed scene --- */

static void must(struct stage *s, bool ok, const char *what)
{
	if (ok)
		return;
	stage_wrong(s, what, NULL);
	die("scene '%s' does not work even without a fault", s->sc->name);
}

/* Creates the initial state of the scene: its files, the attachment of the other pod, the
 * attachment of the pod if the scene runs a command, and what the command `before` leaves;
 * stores this state as `base`. */
static void set_scene(struct stage *s)
{
	const struct scene *sc = s->sc;
	enum end end;

	if (sc->prepare)
		sc->prepare(s->l);
	if (sc->other)
		must(s, stage_attach(s, &pod_other, NULL, &end), "ADD of the other pod");
	if (sc->argv && sc->steps[0].plugin)
		must(s, stage_attach(s, &pod_here, NULL, &end), "ADD");
	if (sc->before) {
		call_command(s->l, sc->before, NULL, &s->o);
		must(s, s->o.status == 0, "the command before the scene");
	}
	stage_forget_results(s);
	lab_keep(s->l);
	lab_dump_stable(s->l, &s->base);
}

/* Runs the ADD with the obstacle in place: it must fail, and leave the state, including the
 * obstacle, as it was before the ADD. */
static void rehearse_failure(struct stage *s)
{
	enum end end;

	s->sc->arm(s->l);
	lab_dump_stable(s->l, &s->step);
	attach_steps(s, &pod_here, NULL, &end);
	must(s, end == END_REFUSED, "ADD succeeded, expected a failure");
	must(s, stage_same(s, &s->step, "left after ADD failed"), "ADD that fails");
	s->sc->disarm(s->l);
}

static void rehearse_pair(struct stage *s)
{
	enum end end;

	must(s, stage_attach(s, &pod_here, NULL, &end), "ADD");
	lab_dump_stable(s->l, &s->attached);
	must(s, stage_each(s, V_CHECK, NULL, &end), "CHECK");
	must(s, stage_detach(s, &pod_here, NULL, &end), "DEL");
	must(s, stage_same(s, &s->base, "left after ADD and DEL"), "ADD and DEL");
}

static void rehearse(struct stage *s)
{
	if (s->sc->argv) {
		call_command(s->l, s->sc->argv, NULL, &s->o);
		must(s, s->o.status == 0, "the command");
		lab_dump_stable(s->l, &s->attached);
	} else if (s->sc->arm) {
		rehearse_failure(s);
	} else {
		rehearse_pair(s);
	}
	lab_reset(s->l);
}

void stage_open(struct stage *s, struct lab *l, const struct scene *sc, struct tally *t)
{
	*s = (struct stage){.l = l, .sc = sc, .tally = t};
	buf_init(&s->base, STATE_MAX);
	buf_init(&s->attached, STATE_MAX);
	buf_init(&s->now, STATE_MAX);
	buf_init(&s->step, STATE_MAX);
	outcome_init(&s->o);
	set_scene(s);
	rehearse(s);
}

void stage_close(struct stage *s)
{
	enum end end;

	if (s->sc->other)
		stage_detach(s, &pod_other, NULL, &end);
	stage_forget_results(s);
	if (s->sc->dismantle)
		s->sc->dismantle(s->l);
	lab_clear(s->l);
	buf_done(&s->base);
	buf_done(&s->attached);
	buf_done(&s->now);
	buf_done(&s->step);
	outcome_done(&s->o);
}

long stage_count(struct stage *s, enum verb v)
{
	struct shot all = {.act = ACT_COUNT};
	enum end end;

	if (v == V_COMMAND) {
		call_command(s->l, s->sc->argv, &all, &s->o);
		lab_reset(s->l);
		return all.seen;
	}
	stage_attach(s, &pod_here, v == V_ADD ? &all : NULL, &end);
	if (v == V_GC)
		stage_each(s, V_GC, &all, &end);
	stage_detach(s, &pod_here, v == V_DEL ? &all : NULL, &end);
	lab_reset(s->l);
	return all.seen;
}
