/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_APPLY_H
#define UNIRAIL_HOST_APPLY_H

/* Observes the host, decides on the steps, carries them out, undoes them. */

#include "host/conf.h"
#include "host/model/journal.h"

/* The selected kinds; a NULL pointer selects all. */
struct host_select {
	const struct host_kind **v;
	size_t n; /* 0: all */
};
bool host_selected(const struct host_select *s, const char *kind);

/* Observes the host and decides on the steps, for each selected kind that has a section. Changes
 * nothing. */
int host_plan_make(struct host *h, const struct host_conf *c, const struct host_select *s,
		   struct host_plan *p, struct err *e);
/*
 * Adds a remark for each subject with active records that no section requires any more: the removal
 * of a section causes no step, and `unirail host undo` restores the earlier state. A subject gets
 * no remark if its newest active record is a removal, or if the kind is HOST_BARE. Call it after
 * host_plan_make(), so that these remarks come last.
 */
void host_plan_unwanted(const struct host_conf *c, const struct host_journal *j,
			const struct host_select *s, struct host_plan *p);
/* Observes the host for `unirail host show`: each selected kind that has show(), with or without a
 * section. */
int host_show(struct host *h, const struct host_conf *c, const struct host_select *s,
	      struct host_rows *rows, struct err *e);

/* step() is called before each step (of an undo: before each record). stop() returns whether to
 * stop before the next step. Both may be NULL. */
struct host_progress {
	void (*step)(void *arg, size_t i, size_t n, const char *kind, const char *subject,
		     const char *text);
	bool (*stop)(void *arg);
	void *arg;
};

struct host_outcome {
	size_t done; /* apply: steps carried out; undo: records undone */
	/* apply: steps not carried out, because host_step.blocked is set, or because the root is
	 * not that of the running host and the operation is not on a file */
	size_t blocked;
	/* apply: steps not carried out because of a failure or an interruption; undo: records whose
	 * undo failed */
	size_t left;
};

/*
 * Checks whether the plan can be carried out: the process has enough rights, the host may be
 * changed, the directories are writable. Changes nothing.
 */
int host_apply_check(const struct host *h, const struct host_plan *p, struct err *e);
/*
 * Carries out the steps in order, and records each in the journal. After the first failure no
 * further step is carried out. Completed steps stay in effect until an undo reverts them. -EINTR:
 * stopped between two steps.
 */
int host_apply(struct host *h, const struct host_plan *p, struct host_journal *j,
	       const struct host_progress *progress, struct host_outcome *ret, struct err *e);
/*
 * Undoes the active records of the selected kinds, newest first. A record without a mark (the
 * process was killed before it wrote one) is undone only if its operation is in effect
 * (host/model/journal.h). If the undo of a record fails, the record stays active and the other
 * records are undone; the first failure is returned. -EINTR: stopped between two records.
 */
int host_undo(struct host *h, struct host_journal *j, const struct host_select *s,
	      const struct host_progress *progress, struct host_outcome *ret, struct err *e);

#endif
