/* SPDX-License-Identifier: Apache-2.0 */
#include "host/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/kinds.h"

enum { MODE_MAX = 07777, FILE_MAX = 1 << 20 };

bool host_selected(const struct host_select *s, const char *kind)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (strcmp(s->v[i]->name, kind) == 0)
			return true;
	return !s || s->n == 0;
}

/* --- plan --- */

static bool concerns(const struct host_wants *w, const struct host_select *s)
{
	if (!host_selected(s, w->kind->name))
		return false;
	return w->n;
}

static int plan_kind(struct host *h, const struct host_wants *w, struct host_plan *p, struct err *e)
{
	const struct host_kind *k = w->kind;
	void *found = NULL;
	int r = k->observe(h, w, &found, e);

	if (r >= 0)
		r = k->decide(w, found, p, e);
	if (k->forget)
		k->forget(found);
	return r < 0 ? err_wrap(e, r, "%s", k->name) : 0;
}

int host_plan_make(struct host *h, const struct host_conf *c, const struct host_select *s,
		   struct host_plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r >= 0; i++)
		if (concerns(&c->wants[i], s))
			r = plan_kind(h, &c->wants[i], p, e);
	return r;
}

static bool is_wanted(const struct host_conf *c, const struct host_record *rec)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct host_wants *w = &c->wants[i];

		if (w->n && (w->kind->covers ? w->kind->covers(w, rec->kind, rec->subject)
					     : strcmp(w->kind->name, rec->kind) == 0))
			return true;
	}
	return false;
}

/* Returns whether the record is a removal (of a file, or by a verb such as addr-del): the section
 * that requested it (`mode = clean`) is not stored in host.d. */
static bool is_removal(const struct host_record *rec)
{
	const char *verb = rec->action.verb ? rec->action.verb : "";
	size_t n = strlen(verb);

	if (strcmp(verb, HOST_FILE) == 0)
		return !host_op_get(&rec->action, "text");
	return n > 4 && strcmp(verb + n - 4, "-del") == 0;
}

static bool is_noted(const struct host_journal *j, size_t i)
{
	for (size_t k = i + 1; k < j->n; k++)
		if (host_record_is_active(&j->v[k]) && strcmp(j->v[k].kind, j->v[i].kind) == 0 &&
		    strcmp(j->v[k].subject, j->v[i].subject) == 0)
			return true;
	return false;
}

void host_plan_unwanted(const struct host_conf *c, const struct host_journal *j,
			const struct host_select *s, struct host_plan *p)
{
	for (size_t i = j->n; i > 0; i--) {
		const struct host_record *rec = &j->v[i - 1];
		const struct host_kind *k = host_kind_find(rec->kind);
		const struct host_wants *w = k ? host_conf_wants(c, k) : NULL;

		if (!w || !host_record_is_active(rec) || !host_selected(s, rec->kind) ||
		    k->flags & HOST_BARE || is_wanted(c, rec) || is_removal(rec) ||
		    is_noted(j, i - 1))
			continue;
		host_plan_remark(
			p, k->name, rec->subject,
			"no section requests this state any more; undo with 'unirail host undo "
			"%s'%s",
			k->name, w->n ? ", then 'unirail host apply'" : "");
	}
}

int host_show(struct host *h, const struct host_conf *c, const struct host_select *s,
	      struct host_rows *rows, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r >= 0; i++) {
		const struct host_wants *w = &c->wants[i];
		void *found = NULL;

		if (!host_selected(s, w->kind->name) || !w->kind->show)
			continue;
		rows->kind = w->kind->name;
		r = w->kind->observe(h, w, &found, e);
		if (r >= 0)
			w->kind->show(found, rows);
		else
			err_wrap(e, r, "%s", w->kind->name);
		if (w->kind->forget)
			w->kind->forget(found);
	}
	return r;
}

/* --- operations --- */

static bool is_file_op(const struct host_op *op)
{
	return strcmp(op->verb, HOST_FILE) == 0 || strcmp(op->verb, HOST_LINK) == 0;
}

static int act_file(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *text = host_op_get(op, "text"), *mode = host_op_get(op, "mode");
	unsigned int bits = 0644;
	int r;

	/* Removes the temporary file of a killed write; the journal's lock excludes another
	 * writer. */
	file_sweep(&h->root, path);
	if (!text)
		return file_remove(&h->root, path, e);
	if (mode && sscanf(mode, "%o", &bits) != 1)
		return err_kind(e, ERR_CONF, -EINVAL, "mode '%s' is not octal", mode);
	r = dir_make_parent(&h->root, path, 0755, e);
	return r < 0 ? r : file_replace(&h->root, path, span_of(text), bits & MODE_MAX, e);
}

static int act_link(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *target = host_op_get(op, "target");
	int r;

	if (!target)
		return file_remove(&h->root, path, e);
	r = dir_make_parent(&h->root, path, 0755, e);
	return r < 0 ? r : link_replace(&h->root, path, target, e);
}

static int act_attr(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *value = host_op_get(op, "value");

	return value ? file_write_attr(&h->root, path, value, e)
		     : err_kind(e, ERR_CONF, -EINVAL, "operation 'attr' has no value");
}

static int carry_out(struct host *h, const char *kind, const struct host_op *op, struct err *e)
{
	const char *path = host_op_get(op, "path");
	const struct host_kind *k = host_kind_find(kind);
	static const struct {
		const char *verb;
		int (*act)(struct host *h, const struct host_op *op, const char *path,
			   struct err *e);
	} own[] = {{HOST_FILE, act_file}, {HOST_LINK, act_link}, {HOST_ATTR, act_attr}};

	host_net_forget(h);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (path && strcmp(op->verb, own[i].verb) == 0)
			return own[i].act(h, op, path, e);
	if (k && k->act)
		return k->act(h, op, e);
	return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"operation '%s' of kind '%s' is unknown to this version", op->verb, kind);
}

/* --- check that an operation is in effect --- */

static int file_in_effect(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *text = host_op_get(op, "text");
	auto_buf struct buf b;
	int r;

	/* Removes the temporary file of a killed write, which no record describes. */
	file_sweep(&h->root, path);
	buf_init(&b, FILE_MAX);
	if (!file_exists(&h->root, path))
		return !text;
	r = file_read(&h->root, path, FILE_MAX, &b, e);
	if (r == -EFBIG) {
		err_clear(e);
		return 0;
	}
	return r < 0 ? r : text && span_eq(buf_span(&b), text);
}

static int link_in_effect(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *target = host_op_get(op, "target");
	auto_free char *now = host_link_read(h, path);

	(void)e;
	return target && now ? strcmp(now, target) == 0 : !target && !now;
}

static bool same_values(const char *a, const char *b)
{
	static const char blanks[] = " \t\n";

	for (;;) {
		size_t n;

		a += strspn(a, blanks);
		b += strspn(b, blanks);
		n = strcspn(a, blanks);
		if (n != strcspn(b, blanks) || strncmp(a, b, n) != 0)
			return false;
		if (n == 0)
			return true;
		a += n;
		b += n;
	}
}

/* Compares only files of /proc/sys. For a file of /sys, which may print a value in another form
 * than the written one, and for a file that cannot be read, returns 1, so that the undo is
 * carried out. */
static int attr_in_effect(struct host *h, const struct host_op *op, const char *path, struct err *e)
{
	const char *value = host_op_get(op, "value");
	auto_free char *now = host_attr_read(h, path);

	(void)e;
	if (!value || !now || strncmp(path, "/proc/sys/", strlen("/proc/sys/")) != 0)
		return 1;
	return same_values(now, value);
}

static int in_effect(struct host *h, const char *kind, const struct host_op *op, struct err *e)
{
	const char *path = host_op_get(op, "path");
	const struct host_kind *k = host_kind_find(kind);

	host_net_forget(h);
	if (path && strcmp(op->verb, HOST_FILE) == 0)
		return file_in_effect(h, op, path, e);
	if (path && strcmp(op->verb, HOST_LINK) == 0)
		return link_in_effect(h, op, path, e);
	if (path && strcmp(op->verb, HOST_ATTR) == 0)
		return attr_in_effect(h, op, path, e);
	return op->verb && k && k->in_effect ? k->in_effect(h, op, e) : 1;
}

/*
 * Returns an error if the change is not in effect: a driver may acknowledge a change and ignore it.
 * Does not confirm the verbs `file` and `link`, which report such a failure themselves, and `attr`,
 * since a file of /sys may print a value in another form.
 */
static int confirm(struct host *h, const char *kind, const struct host_op *op, struct err *e)
{
	int r = is_file_op(op) || strcmp(op->verb, HOST_ATTR) == 0 ? 1 : in_effect(h, kind, op, e);

	if (r != 0)
		return r < 0 ? r : 0;
	return err_kind(
		e, ERR_UNAVAILABLE, -EIO,
		"the kernel accepted the value, but reports another one (EIO): the driver ignores "
		"the change, or another program overwrote the value");
}

/* --- execution of a plan --- */

/* Checks that the nearest existing directory above `path` is writable, so that EROFS and EACCES
 * occur before the first change. */
static int check_writable(const struct root *root, const char *path, struct err *e)
{
	auto_free char *dir = xstrdup(path);
	char *slash, proc[64];

	while ((slash = strrchr(dir, '/'))) {
		auto_fd int fd = -1;
		int r;

		slash[slash == dir] = '\0';
		fd = file_open(root, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, NULL);
		if (fd < 0 && strcmp(dir, "/") != 0)
			continue;
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		r = access(proc, W_OK);
		return r < 0 ? err_sys(e, -errno, "write '%s'", path) : 0;
	}
	return 0;
}

int host_apply_check(const struct host *h, const struct host_plan *p, struct err *e)
{
	int r = 0;

	if (p->n == 0)
		return 0;
	if (h->recorded)
		return err_kind(
			e, ERR_CONF, -EROFS,
			"'%s' is a snapshot, which cannot be changed; use 'plan' or --dry-run",
			h->dir);
	if (h->kernel && geteuid() != 0)
		return err_kind(e, ERR_UNAVAILABLE, -EPERM, "changes need root");
	for (size_t i = 0; i < p->n && r >= 0; i++)
		if (is_file_op(&p->v[i].action))
			r = check_writable(&h->root, host_op_get(&p->v[i].action, "path"), e);
	return r;
}

static void report(const struct host_progress *g, size_t i, size_t n, const char *kind,
		   const char *subject, const char *text)
{
	if (g && g->step)
		g->step(g->arg, i, n, kind, subject, text);
}

static bool stopped(const struct host_progress *g)
{
	return g && g->stop && g->stop(g->arg);
}

static int apply_one(struct host *h, const struct host_step *s, struct host_journal *j,
		     struct err *e)
{
	size_t index = 0;
	int r = host_journal_intent(j, s, &index, e);

	if (r < 0)
		return r;
	r = carry_out(h, s->kind, &s->action, e);
	if (r >= 0)
		r = confirm(h, s->kind, &s->action, e);
	if (r < 0) {
		(void)host_journal_mark(j, index, HOST_RECORD_FAILED, NULL);
		return err_wrap(e, r, "%s %s: %s", s->kind, s->subject,
				s->desired ? s->desired : "");
	}
	return host_journal_mark(j, index, HOST_RECORD_DONE, e);
}

int host_apply(struct host *h, const struct host_plan *p, struct host_journal *j,
	       const struct host_progress *g, struct host_outcome *ret, struct err *e)
{
	int r = 0;

	*ret = (struct host_outcome){0};
	for (size_t i = 0; i < p->n; i++) {
		const struct host_step *s = &p->v[i];

		if (s->blocked || (!h->kernel && !is_file_op(&s->action))) {
			ret->blocked++;
			continue;
		}
		if (r == 0 && stopped(g))
			r = err_set(e, -EINTR, "interrupted");
		if (r < 0) {
			ret->left++;
			continue;
		}
		report(g, i, p->n, s->kind, s->subject, s->desired);
		r = apply_one(h, s, j, e);
		if (r < 0)
			ret->left++;
		else
			ret->done++;
	}
	return r;
}

/* --- undo of recorded steps --- */

/* Undoes the operation of a record. Returns 1 if it was undone; 0 if it is not in effect, so that
 * nothing was changed and the record is marked as failed. */
static int undo_one(struct host *h, struct host_journal *j, size_t i, struct err *e)
{
	const struct host_record *rec = &j->v[i];
	int r;

	if (!rec->undo.verb)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP, "%s %s: '%s' cannot be undone",
				rec->kind, rec->subject, rec->desired);
	if (!h->kernel && !is_file_op(&rec->undo))
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"%s %s: the root directory is not that of the running host: only "
				"files can be restored",
				rec->kind, rec->subject);
	r = rec->state == HOST_RECORD_INTENT ? in_effect(h, rec->kind, &rec->action, e) : 1;
	if (r == 0)
		return host_journal_mark(j, i, HOST_RECORD_FAILED, e);
	if (r > 0)
		r = carry_out(h, rec->kind, &rec->undo, e);
	if (r < 0)
		return err_wrap(e, r, "undo %s %s", rec->kind, rec->subject);
	r = host_journal_mark(j, i, HOST_RECORD_UNDONE, e);
	return r < 0 ? r : 1;
}

int host_undo(struct host *h, struct host_journal *j, const struct host_select *s,
	      const struct host_progress *g, struct host_outcome *ret, struct err *e)
{
	int first = 0;

	*ret = (struct host_outcome){0};
	for (size_t i = j->n; i > 0; i--) {
		struct err one = ERR_INIT;
		int r;

		if (!host_record_is_active(&j->v[i - 1]) || !host_selected(s, j->v[i - 1].kind))
			continue;
		if (stopped(g))
			return err_set(e, -EINTR, "interrupted after %zu steps", ret->done);
		report(g, j->n - i, j->n, j->v[i - 1].kind, j->v[i - 1].subject,
		       j->v[i - 1].current);
		r = undo_one(h, j, i - 1, &one);
		if (r >= 0) {
			ret->done += (size_t)r;
			continue;
		}
		ret->left++;
		if (first == 0 && e)
			*e = one;
		first = first ? first : r;
	}
	return first < 0 ? first : host_journal_clean_up(j, e);
}
