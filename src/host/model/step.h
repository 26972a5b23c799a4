/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_MODEL_STEP_H
#define UNIRAIL_HOST_MODEL_STEP_H

/*
 * Steps of host preparation. The difference between requested and observed state is a list of steps
 * (struct host_plan); each step holds, as data, the operation that makes the change and the one
 * that reverts it. So a plan can be printed, compared in a test, carried out, and written to the
 * journal before it is carried out.
 *
 * An operation is a verb and named arguments. host/apply.c carries out the verbs `file`, `link` and
 * `attr` (below) of every kind; it passes any other verb to the act() of the step's kind
 * (host/model/kind.h). Requirements for every operation:
 *  - idempotent: a second execution succeeds and leaves the same state, since after a kill it is
 *    unknown whether the last operation was carried out
 *  - `undo` restores the observed state, not a default: decide() copies the observed value into it
 */

#include "base/buf.h"
#include "base/err.h"
#include "wire/json/json.h"

/* --- operations --- */

struct host_arg {
	char *key, *value;
};

/* An operation, which owns its strings. A zeroed struct means "no operation": a step whose `undo`
 * is zeroed cannot be reverted. */
struct host_op {
	char *verb;
	struct host_arg *args;
	size_t n;
};

void host_op_done(struct host_op *op);
/* Sets the verb; `op` must be empty. */
void host_op_begin(struct host_op *op, const char *verb);
void host_op_add(struct host_op *op, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Returns the value of an argument; NULL: the operation does not have it. */
const char *host_op_get(const struct host_op *op, const char *key);
/* Reads an argument as a number. -EINVAL, kind ERR_CONF: it is missing, or is not a number from min
 * to max; the error names verb and key. */
int host_op_number(const struct host_op *op, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct err *e);
/* Writes the operation as a JSON object: {"verb": ..., KEY: VALUE, ...}. */
void host_op_write(const struct host_op *op, struct json_out *o);
int host_op_read(const struct json *v, struct host_op *ret, struct err *e);

/*
 * Verbs of the model:
 *
 *	file	path, mode (octal), text	replaces the file; without `text` removes it. Directories
 *						are created as needed.
 *	link	path, target			the same for a symbolic link
 *	attr	path, value			one write to a file of /sys, /proc or a configfs
 */
#define HOST_FILE "file"
#define HOST_LINK "link"
#define HOST_ATTR "attr"

/* --- steps --- */

/* When the change takes effect. */
enum host_effect { HOST_NOW, HOST_REBOOT, HOST_POWER_CYCLE };
const char *host_effect_name(enum host_effect e); /* "now", "reboot", "power-cycle" */

struct host_step {
	const char *kind; /* the kind's name; not owned */
	char *subject; /* the device: "ens1f0", "0000:3b:00.0"; "host" for a step without a device */
	char *current, *desired; /* present and desired state: "mtu 1500", "mtu 4200" */
	char *command;		 /* equivalent command */
	/* reason why the step cannot be carried out now, and the remedy; NULL: it can be carried
	 * out */
	char *blocked;
	struct host_op action, undo;
	bool interrupts;    /* traffic of the subject stops for a moment */
	bool lacks_program; /* blocked, until a program is installed on the host */
	enum host_effect effect;
};

/* Information in addition to the steps: "initramfs contains ib_core: run 'update-initramfs -u'". */
struct host_remark {
	const char *kind;
	char *subject, *text;
};

struct host_plan {
	struct host_step *v;
	size_t n;
	struct host_remark *remarks;
	size_t n_remarks;
};

void host_plan_done(struct host_plan *p);
#define auto_host_plan __attribute__((cleanup(host_plan_done)))

/* Adds a step and returns it; the pointer is valid until the next step is added. The caller sets
 * the texts by the host_step_ functions below, and `action` and `undo` by host_op_begin() and
 * host_op_add(). */
struct host_step *host_plan_add(struct host_plan *p, const char *kind, const char *subject);
void host_step_text(struct host_step *s, const char *current, const char *desired);
void host_step_command(struct host_step *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void host_step_blocked(struct host_step *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void host_plan_remark(struct host_plan *p, const char *kind, const char *subject, const char *fmt,
		      ...) __attribute__((format(printf, 4, 5)));

/* Content and mode of a file as observed; text NULL: the file does not exist. */
struct host_file {
	char *path, *text;
	unsigned int mode;
};
void host_file_done(struct host_file *f);
/*
 * Adds a step that gives the file this text and mode; text NULL: removes the file. Returns NULL if
 * the file is in this state already. The undo restores the observed text and mode. `current`,
 * `desired` and `command` are set; the caller may replace them.
 */
struct host_step *host_plan_file(struct host_plan *p, const char *kind, const char *subject,
				 const struct host_file *found, const char *text,
				 unsigned int mode);
/* Like host_plan_file(), for a symbolic link. found: observed target, NULL: the link does not
 * exist; target: requested target, NULL: removes the link. */
struct host_step *host_plan_link(struct host_plan *p, const char *kind, const char *subject,
				 const char *path, const char *found, const char *target);
/* Like host_plan_file(), for a file of /sys or /proc; found must not be NULL. */
struct host_step *host_plan_attr(struct host_plan *p, const char *kind, const char *subject,
				 const char *path, const char *found, const char *value);

/* Returns a text as one word of a shell, in quotes if necessary. The caller frees it. */
char *host_shell_word(const char *s);

#endif
