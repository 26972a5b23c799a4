/* SPDX-License-Identifier: Apache-2.0 */
/* One point: a fault in a CNI call or a command, the state that it leaves, and whether the next
 * calls succeed. */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

/* --- verdict --- */

/* Returns whether the fault may end the process by a signal: libc cannot start if arch_prctl()
 * does not set the thread pointer, and a process that cannot return to its network namespace by
 * setns() must abort (kern/sys/netns.h). */
static bool may_crash(const struct stage *s)
{
#ifdef SYS_arch_prctl
	if (s->shot->nr == SYS_arch_prctl)
		return true;
#endif
	return s->shot->nr == SYS_setns && s->o.sig == SIGABRT;
}

static bool is_out_of_memory(const struct stage *s)
{
	return s->o.err.len && strstr(s->o.err.p, "out of memory");
}

static bool is_answer(const struct shot *s)
{
	return (s->nr == SYS_write || s->nr == SYS_writev) && s->args[0] == STDOUT_FILENO;
}

static void judge_end(struct stage *s, enum end end)
{
	if (end == END_LATE)
		stage_wrong(s, "does not terminate in time", NULL);
	else if (end == END_CRASH && !may_crash(s) && !is_out_of_memory(s))
		stage_wrong(s, "crashed", NULL);
	else if (end == END_MUTE && !is_out_of_memory(s) && !is_answer(s->shot))
		stage_wrong(s, "failed without an error", NULL);
}

/* Counts an error text that does not name the injected errno. The point does not fail, since
 * some failures are detected and reported by their consequence. */
static void judge_text(struct stage *s)
{
	auto_free char *text = error_text(&s->o);

	if (s->shot->act == ACT_FAIL && s->verb != V_COMMAND && !s->sc->arm && text &&
	    !strstr(text, errno_text(s->shot->err)))
		stage_unnamed(s, text);
}

/*
 * Returns whether a run that failed must have restored the state before it. An ADD that cannot
 * write its answer is undone by the plugin's DEL, which in a chain may remove more or less than
 * this ADD created. In a scene whose ADD always fails, the system call that fails may belong to the
 * undo.
 */
static bool takes_back(const struct stage *s, enum end end)
{
	if (s->sc->arm)
		return false;
	return end == END_REFUSED ||
	       (end == END_MUTE && is_answer(s->shot) && !s->sc->steps[1].plugin);
}

/*
 * Checks that the outcome of the run is allowed, and that a run that should undo everything did so.
 */
static void judge(struct stage *s, enum end end, const struct buf *before)
{
	judge_end(s, end);
	if (end == END_REFUSED)
		judge_text(s);
	if (before && takes_back(s, end))
		stage_same(s, before, "failed and left changes behind");
	count(end == END_FINE	   ? &s->tally->survived
	      : end == END_REFUSED ? &s->tally->undone
				   : &s->tally->cleaned);
}

static bool begins(struct stage *s, enum verb v, const struct shot *shot)
{
	s->verb = v;
	s->shot = shot;
	return shot != NULL;
}

/*
 * If the run ended before the call at which the fault was due, the run must behave as without a
 * fault.
 */
static bool reached(struct stage *s, enum end end)
{
	if (s->shot->hit)
		count(&s->tally->points);
	else if (end != (s->sc->arm ? END_REFUSED : END_FINE))
		stage_wrong(s, "failed although no fault was injected", NULL);
	return s->shot->hit;
}

/* --- ADD and DEL --- */

/* Checks that nothing is left, and restores the files. A stage with leftovers is not used for
 * further points. */
static void must_be_clean(struct stage *s, const char *reason)
{
	if (!stage_same(s, &s->base, reason))
		s->dirty = true;
	lab_reset(s->l);
}

static void clean_up(struct stage *s, const char *reason)
{
	enum end end;

	if (!stage_detach(s, &pod_here, NULL, &end))
		stage_wrong(s, "DEL fails after the ADD with a fault", NULL);
	must_be_clean(s, reason);
}

/* True: the pod was attached in spite of the fault. */
static bool disturbed_add(struct stage *s, struct shot *shot)
{
	enum end end;
	bool whole = stage_attach(s, &pod_here, shot, &end);

	if (reached(s, end)) {
		judge(s, end, &s->step);
		if (whole && stage_is_attached(s, "ADD succeeded and something is missing") &&
		    !stage_each(s, V_CHECK, NULL, &end))
			stage_wrong(s, "ADD succeeded and CHECK fails", NULL);
	}
	/* A runtime has results, for the prevResult of a DEL, only if the whole chain succeeded. */
	if (!whole)
		stage_forget_results(s);
	return whole;
}

static void add_point(struct stage *s, struct shot *shot)
{
	bool whole = disturbed_add(s, shot);

	clean_up(s, whole ? "left after ADD and DEL" : "left after a failed ADD and DEL");
}

static void del_point(struct stage *s, struct shot *shot)
{
	enum end end;
	bool whole = stage_detach(s, &pod_here, shot, &end);

	if (reached(s, end))
		judge(s, end, NULL);
	if (!whole)
		clean_up(s, "left after a failed DEL and its repetition");
	else if (s->sc->lenient)
		clean_up(s, "left after a DEL and its repetition");
	else
		must_be_clean(s, "DEL succeeded and left something");
}

static bool attach_again(struct stage *s)
{
	enum end end;

	if (stage_attach(s, &pod_here, NULL, &end))
		return stage_is_attached(s, "a new ADD succeeds and something is missing");
	stage_wrong(s, "a new ADD fails", NULL);
	return false;
}

void stage_pair(struct stage *s, struct shot *add, struct shot *del)
{
	if (begins(s, V_ADD, add))
		add_point(s, add);
	if (s->dirty || s->sc->arm)
		return;
	if (attach_again(s) && begins(s, V_DEL, del))
		del_point(s, del);
	else
		clean_up(s, "left after a new ADD and DEL");
}

/* --- GC --- */

static void collect(struct stage *s)
{
	enum end end;

	if (!stage_each(s, V_GC, NULL, &end))
		stage_wrong(s, "GC fails", NULL);
}

void stage_gc(struct stage *s, struct shot *gc)
{
	enum end end;

	begins(s, V_GC, gc);
	attach_again(s);
	stage_each(s, V_GC, gc, &end);
	if (reached(s, end))
		judge(s, end, NULL);
	if (end != END_FINE || s->sc->lenient)
		collect(s);
	stage_is_collected(s, "left after GC");
	clean_up(s, "left after GC and DEL");
}

void stage_lost(struct stage *s, struct shot *add)
{
	begins(s, V_LOST, add);
	disturbed_add(s, add);
	stage_forget_results(s);
	collect(s);
	stage_is_collected(s, "left after GC");
	clean_up(s, "left after a lost ADD, GC and DEL");
}

/* --- commands --- */

/* Returns whether the call removes a file. A temporary file whose removal fails stays until the
 * next command removes old temporary files of the directory. */
static bool is_removal(const struct shot *s)
{
#ifdef SYS_unlink
	if (s->nr == SYS_unlink)
		return true;
#endif
	return s->nr == SYS_unlinkat;
}

void stage_command(struct stage *s, struct shot *shot)
{
	enum end end;

	begins(s, V_COMMAND, shot);
	call_command(s->l, s->sc->argv, shot, &s->o);
	end = end_of(&s->o, V_COMMAND, shot);
	if (reached(s, end)) {
		bool undo = shot->act == ACT_FAIL && is_removal(shot);

		judge(s, end, undo || is_answer(shot) ? NULL : &s->base);
		if (end != END_FINE || undo)
			call_command(s->l, s->sc->argv, NULL, &s->o);
	}
	stage_same(s, &s->attached,
		   end == END_FINE
			   ? "succeeded without reaching the requested state"
			   : "a second run of the command does not reach the requested state");
	lab_reset(s->l);
}
