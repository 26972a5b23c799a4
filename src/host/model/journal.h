/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_MODEL_JOURNAL_H
#define UNIRAIL_HOST_MODEL_JOURNAL_H

/*
 * The journal makes undo exact, also after kill -9 at any instruction. One JSON object a line, appended and
 * synchronized before the next action:
 *
 *	{"seq": 1, "time": ..., "kind": "addr", "subject": "ens1", "current": ..., "desired": ...,
 *	 "command": ..., "action": {...}, "undo": {...}}
 *	{"done": 1}	the operation was carried out
 *	{"failed": 1}	it failed, or is not in effect: undo skips it
 *	{"undone": 1}	its undo was carried out
 * If a record has no mark, the process was killed before or after it carried out the operation.
 * Undo reverts the operation if it is in effect (host_kind.in_effect). Otherwise undo marks the
 * record `failed`: the operation was not carried out, or another program has overwritten its
 * result. A last line that was cut by a kill is removed. The file is emptied when an undo leaves no
 * active record. If an active record already has the operation, the operation is not recorded
 * again: the undo of the first record restores the oldest state, and continuous reconciling does
 * not let the file grow.
 *
 * While the journal is open for writing, the process holds the lock on DIR/lock, and so do the
 * programs that steps run, until they end: one apply or undo at a time.
 */

#include "host/model/kind.h"

#define HOST_STATE_DIR "/var/lib/unirail/host"

enum host_record_state {
	HOST_RECORD_INTENT,
	HOST_RECORD_DONE,
	HOST_RECORD_FAILED,
	HOST_RECORD_UNDONE
};

struct host_record {
	uint64_t seq;
	char *kind, *subject, *current, *desired;
	struct host_op action, undo;
	enum host_record_state state;
};

struct host_journal {
	int fd, lock;
	char *path;
	struct host_record *v; /* oldest first */
	size_t n;
};

/*
 * Opens DIR/journal under root, creating it. Kind ERR_AGAIN: another process has locked it.
 * -EBADMSG: the error names the damaged line. `write` false: only reads, without lock; an absent
 * journal is empty.
 */
int host_journal_open(struct host_journal *j, const struct root *root, const char *dir, bool write,
		      struct err *e);
void host_journal_close(struct host_journal *j);
#define HOST_JOURNAL_INIT                                                                          \
	{                                                                                          \
		.fd = -1, .lock = -1                                                               \
	}
#define auto_host_journal __attribute__((cleanup(host_journal_close)))

/* Returns whether the record is active (state INTENT or DONE), so that `unirail host undo` has to
 * undo it. */
bool host_record_is_active(const struct host_record *r);
/* Records a step before it is carried out; sets *index for host_journal_mark(). */
int host_journal_intent(struct host_journal *j, const struct host_step *s, size_t *index,
			struct err *e);
/* Sets the state of a record. Returns 0 without a write if the record already has this state, or
 * if it is DONE and `state` is FAILED: a repetition of the operation has failed, but its first
 * execution still has to be undone. */
int host_journal_mark(struct host_journal *j, size_t index, enum host_record_state state,
		      struct err *e);
/* Empties the file if no record is active. */
int host_journal_clean_up(struct host_journal *j, struct err *e);

#endif
