/* SPDX-License-Identifier: Apache-2.0 */
#include "host/model/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum { JOURNAL_MAX = 64 << 20, LINE_BYTES = 8 << 20, LOCK_MS = 0, MODE = 0600 };

static const char *const marks[] = {
	[HOST_RECORD_DONE] = "done",
	[HOST_RECORD_FAILED] = "failed",
	[HOST_RECORD_UNDONE] = "undone",
};

static void record_done(struct host_record *r)
{
	free(r->kind);
	free(r->subject);
	free(r->current);
	free(r->desired);
	host_op_done(&r->action);
	host_op_done(&r->undo);
}

static void forget(struct host_journal *j)
{
	for (size_t i = 0; i < j->n; i++)
		record_done(&j->v[i]);
	free(j->v);
	j->v = NULL;
	j->n = 0;
}

void host_journal_close(struct host_journal *j)
{
	forget(j);
	free(j->path);
	cleanup_fd(&j->fd);
	cleanup_fd(&j->lock);
	*j = (struct host_journal)HOST_JOURNAL_INIT;
}

bool host_record_is_active(const struct host_record *r)
{
	return r->state == HOST_RECORD_INTENT || r->state == HOST_RECORD_DONE;
}

/* --- reading --- */

static char *text_of(const struct json *v, const char *key)
{
	const char *s = json_string(json_get(v, key));

	return xstrdup(s ? s : "");
}

static int read_record(struct host_journal *j, const struct json *v, int64_t seq, struct err *e)
{
	struct host_record *r = &VEC_PUSH(j->v, j->n);
	int code;

	r->seq = (uint64_t)seq;
	r->kind = text_of(v, "kind");
	r->subject = text_of(v, "subject");
	r->current = text_of(v, "current");
	r->desired = text_of(v, "desired");
	code = host_op_read(json_get(v, "action"), &r->action, e);
	return code < 0 ? code : host_op_read(json_get(v, "undo"), &r->undo, e);
}

static int read_mark(struct host_journal *j, const struct json *v, struct err *e)
{
	int64_t seq;

	for (size_t m = 0; m < ARRAY_LEN(marks); m++) {
		if (!marks[m] || json_int(json_get(v, marks[m]), &seq) < 0)
			continue;
		for (size_t i = j->n; i > 0; i--) {
			if (j->v[i - 1].seq != (uint64_t)seq)
				continue;
			j->v[i - 1].state = (enum host_record_state)m;
			return 0;
		}
	}
	return err_kind(e, ERR_DECODE, -EBADMSG,
			"expected a record ('seq') or the mark of an earlier record");
}

static int read_line(struct host_journal *j, struct span line, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *v;
	int64_t seq;
	int r = json_parse(&doc, line, LINE_BYTES, e);

	if (r < 0)
		return r;
	v = json_root(doc);
	return json_int(json_get(v, "seq"), &seq) >= 0 ? read_record(j, v, seq, e)
						       : read_mark(j, v, e);
}

/* Sets *good to the length of the complete lines. A last line without a newline was being written
 * when the process was killed. */
static int read_all(struct host_journal *j, struct span text, size_t *good, struct err *e)
{
	struct span rest = text, line;
	size_t number = 0;

	*good = 0;
	while (rest.n && memchr(rest.p, '\n', rest.n) && span_cut(&rest, '\n', &line)) {
		int r = read_line(j, line, e);

		number++;
		if (r < 0)
			return err_wrap(
				e, -EBADMSG,
				"journal '%s', line %zu is damaged: repair the line, or move the file away "
				"(the recorded changes then cannot be undone)",
				j->path, number);
		*good = (size_t)(line.p + line.n + 1 - text.p);
	}
	return 0;
}

static int load(struct host_journal *j, bool write, struct err *e)
{
	auto_buf struct buf b;
	size_t good;
	int r;

	buf_init(&b, JOURNAL_MAX);
	r = fd_read_all(j->fd, JOURNAL_MAX, &b, e);
	if (r < 0)
		return err_wrap(e, r, "read journal '%s'", j->path);
	r = read_all(j, buf_span(&b), &good, e);
	if (r < 0 || !write || good == b.len)
		return r;
	if (ftruncate(j->fd, (off_t)good) < 0 || fsync(j->fd) < 0)
		return err_sys(e, -errno, "truncate journal '%s'", j->path);
	return 0;
}

int host_journal_open(struct host_journal *j, const struct root *root, const char *dir, bool write,
		      struct err *e)
{
	auto_free char *lock = xasprintf("%s/lock", dir);
	int r;

	j->path = xasprintf("%s/journal", dir);
	if (!write) {
		if (!file_exists(root, j->path))
			return 0;
		r = file_open(root, j->path, O_RDONLY | O_CLOEXEC, 0, e);
		if (r < 0)
			return r;
		j->fd = r;
		return load(j, false, e);
	}
	r = dir_make(root, dir, 0700, e);
	if (r < 0)
		return r;
	r = lock_take(root, lock, LOCK_MS, &j->lock, e);
	if (r == -EWOULDBLOCK)
		return err_wrap(e, r,
				"another 'unirail host' is changing this host, or a "
				"program that it started still runs");
	if (r < 0)
		return r;
	/*
	 * A program that a step runs (modprobe, mlxconfig) inherits the lock. After a kill of this
	 * process the program may still change the host, so an undo is refused (ERR_AGAIN) until
	 * the program ends.
	 */
	if (fcntl(j->lock, F_SETFD, 0) < 0)
		return err_sys(e, -errno, "pass the lock '%s' to child processes", lock);
	r = file_open(root, j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, MODE, e);
	if (r < 0)
		return r;
	j->fd = r;
	return load(j, true, e);
}

/* --- writing --- */

static int append(struct host_journal *j, struct buf *b, struct err *e)
{
	int r;

	buf_char(b, '\n');
	if (b->over)
		return err_set(e, -EFBIG, "a journal record is larger than %d bytes", LINE_BYTES);
	r = fd_write_all(j->fd, b->p, b->len, e);
	if (r >= 0 && fsync(j->fd) < 0)
		r = err_sys(e, -errno, "fsync");
	return r < 0 ? err_wrap(e, r, "write journal '%s'", j->path) : 0;
}

static bool op_eq(const struct host_op *a, const struct host_op *b)
{
	if (a->n != b->n || strcmp(a->verb ? a->verb : "", b->verb ? b->verb : "") != 0)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->args[i].key, b->args[i].key) != 0 ||
		    strcmp(a->args[i].value, b->args[i].value) != 0)
			return false;
	return true;
}

static void copy_op(struct host_op *to, const struct host_op *from)
{
	if (!from->verb)
		return;
	host_op_begin(to, from->verb);
	for (size_t i = 0; i < from->n; i++)
		host_op_add(to, from->args[i].key, "%s", from->args[i].value);
}

static void write_record(struct buf *b, const struct host_step *s, uint64_t seq)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kint(&o, "seq", (int64_t)seq);
	jo_kint(&o, "time", (int64_t)time(NULL));
	jo_kstr(&o, "kind", s->kind);
	jo_kstr(&o, "subject", s->subject);
	jo_kstr(&o, "current", s->current);
	jo_kstr(&o, "desired", s->desired);
	jo_kstr(&o, "command", s->command);
	jo_key(&o, "action");
	host_op_write(&s->action, &o);
	jo_key(&o, "undo");
	if (s->undo.verb) {
		host_op_write(&s->undo, &o);
	} else {
		jo_obj(&o);
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
}

int host_journal_intent(struct host_journal *j, const struct host_step *s, size_t *index,
			struct err *e)
{
	uint64_t seq = j->n ? j->v[j->n - 1].seq + 1 : 1;
	struct host_record *rec;
	auto_buf struct buf b;
	int r;

	buf_init(&b, LINE_BYTES);
	for (size_t i = 0; i < j->n; i++) {
		if (!host_record_is_active(&j->v[i]) || strcmp(j->v[i].kind, s->kind) != 0 ||
		    !op_eq(&j->v[i].action, &s->action))
			continue;
		*index = i;
		return 0;
	}
	write_record(&b, s, seq);
	r = append(j, &b, e);
	if (r < 0)
		return r;
	*index = j->n;
	rec = &VEC_PUSH(j->v, j->n);
	rec->seq = seq;
	rec->kind = xstrdup(s->kind);
	rec->subject = xstrdup(s->subject);
	rec->current = xstrdup(s->current ? s->current : "");
	rec->desired = xstrdup(s->desired ? s->desired : "");
	copy_op(&rec->action, &s->action);
	copy_op(&rec->undo, &s->undo);
	return 0;
}

int host_journal_mark(struct host_journal *j, size_t index, enum host_record_state state,
		      struct err *e)
{
	struct host_record *rec = &j->v[index];
	auto_buf struct buf b;
	int r;

	buf_init(&b, LINE_BYTES);
	if (rec->state == state)
		return 0;
	/* A repetition of the operation failed: its first execution still has to be undone. */
	if (state == HOST_RECORD_FAILED && rec->state == HOST_RECORD_DONE)
		return 0;
	buf_printf(&b, "{\"%s\":%llu}", marks[state], (unsigned long long)rec->seq);
	r = append(j, &b, e);
	if (r >= 0)
		rec->state = state;
	return r;
}

int host_journal_clean_up(struct host_journal *j, struct err *e)
{
	for (size_t i = 0; i < j->n; i++)
		if (host_record_is_active(&j->v[i]))
			return 0;
	if (j->n == 0)
		return 0;
	if (ftruncate(j->fd, 0) < 0 || fsync(j->fd) < 0)
		return err_sys(e, -errno, "empty journal '%s'", j->path);
	forget(j);
	return 0;
}
