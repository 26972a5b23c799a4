/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/path.h"

/* --- writing --- */

static void put_path(struct buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c <= ' ' || c == '\\' || c >= 0x7f)
			buf_printf(b, "\\x%02x", c);
		else
			buf_char(b, *s);
	}
}

static void put_text(struct buf *b, struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '\\')
			buf_str(b, "\\\\");
		else if ((c < ' ' && c != '\t') || c >= 0x7f)
			buf_printf(b, "\\x%02x", c);
		else
			buf_char(b, (char)c);
	}
}

void tree_put_comment(struct buf *b, const char *text)
{
	buf_str(b, "# ");
	put_text(b, span_of(text));
	buf_char(b, '\n');
}

void tree_put_link(struct buf *b, const char *path, const char *target)
{
	put_path(b, path);
	buf_str(b, " -> ");
	put_text(b, span_of(target));
	buf_char(b, '\n');
}

void tree_put_dir(struct buf *b, const char *path)
{
	put_path(b, path);
	buf_str(b, "/\n");
}

void tree_put_file(struct buf *b, const char *path, struct span content)
{
	bool ends = content.n && content.p[content.n - 1] == '\n';
	struct span rest = content, line;

	rest.n -= ends;
	put_path(b, path);
	if (!rest.n || !memchr(rest.p, '\n', rest.n)) {
		buf_str(b, " = ");
		put_text(b, rest);
		buf_str(b, ends ? "\n" : "\\c\n");
		return;
	}
	buf_str(b, " :\n");
	while (span_cut(&rest, '\n', &line)) {
		buf_char(b, '\t');
		put_text(b, line);
		buf_str(b, rest.p || ends ? "\n" : "\\c\n");
	}
}

/* --- reading --- */

struct reader {
	const struct root *into;
	const char *name;
	int line;
	char path[PATH_MAX];
	struct buf file; /* content of the current file */
	bool open;	 /* the current file is not written yet */
	bool lines;	 /* "PATH :" was read, lines of the file follow */
	bool first;	 /* "PATH :" was read, but no line of the file yet */
	bool cut;	 /* the mark "\c" was read */
	struct err *e;
};

static int wrong(struct reader *r, const char *what)
{
	return err_set(r->e, -EINVAL, "%s:%d: %s", r->name, r->line, what);
}

static int get_hex(struct span s, char *ret)
{
	uint64_t v;

	/* "\x0x" is invalid: "0x" is a prefix for num_hex(), not two digits */
	if (s.n < 4 || s.p[1] != 'x' || (s.p[3] | 32) == 'x' ||
	    num_hex((struct span){s.p + 2, 2}, 0xff, &v) < 0)
		return -EINVAL;
	*ret = (char)v;
	return 0;
}

/* Sets *cut if the text ends with "\c". */
static int get_text(struct span s, struct buf *b, bool *cut)
{
	for (size_t i = 0; i < s.n; i++) {
		struct span rest = {s.p + i, s.n - i};
		char c = s.p[i];

		if (c != '\\') {
			buf_char(b, c);
		} else if (rest.n == 2 && rest.p[1] == 'c' && cut) {
			*cut = true;
			return 0;
		} else if (rest.n >= 2 && rest.p[1] == '\\') {
			buf_char(b, '\\');
			i++;
		} else if (get_hex(rest, &c) == 0) {
			buf_char(b, c);
			i += 3;
		} else {
			return -EINVAL;
		}
	}
	return 0;
}

static bool leads_up(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/..")); p += 3)
		if (!p[3] || p[3] == '/')
			return true;
	return false;
}

static int get_path(struct reader *r, struct span s)
{
	auto_buf struct buf b;

	buf_init(&b, sizeof(r->path) - 1);
	if (get_text(s, &b, NULL) < 0 || b.over || !b.len || memchr(b.p, '\0', b.len))
		return wrong(r, "invalid path");
	if (b.p[0] != '/' || leads_up(b.p))
		return wrong(r, "expected an absolute path without '..'");
	if (b.p[b.len - 1] == '/')
		return wrong(r, "invalid path: expected a name at its end");
	memcpy(r->path, b.p, b.len + 1);
	return 0;
}

static int make_link(struct reader *r, struct span target)
{
	char base[PATH_NAME_MAX];
	auto_buf struct buf b;
	auto_fd int dir = -1;
	int n;

	buf_init(&b, PATH_MAX - 1);
	if (get_text(target, &b, NULL) < 0 || b.over || !b.len || memchr(b.p, '\0', b.len))
		return wrong(r, "invalid target of a link: empty, too long, with a NUL byte or a "
				"bad '\\'");
	n = dir_make_parent(r->into, r->path, 0755, r->e);
	if (n < 0)
		return n;
	n = path_parent(r->into, r->path, base, &dir);
	if (n == 0 && symlinkat(b.p, dir, base) < 0)
		n = -errno;
	return n < 0 ? err_sys(r->e, n, "%s:%d: create link '%s'", r->name, r->line, r->path) : 0;
}

/* Writes the current file to disk, after the last line of its content has been read. */
static int close_file(struct reader *r)
{
	auto_fd int fd = -1;
	int n;

	if (!r->open)
		return 0;
	r->open = false;
	if (!r->cut)
		buf_char(&r->file, '\n');
	if (r->file.over)
		return wrong(r, "the file before this line is too long");
	n = dir_make_parent(r->into, r->path, 0755, r->e);
	if (n < 0)
		return n;
	fd = file_open(r->into, r->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644, r->e);
	return fd < 0 ? fd : fd_write_all(fd, r->file.p, r->file.len, r->e);
}

static int open_file(struct reader *r, struct span text)
{
	buf_reset(&r->file);
	r->cut = r->lines = false;
	r->open = true;
	return get_text(text, &r->file, &r->cut) < 0
		       ? wrong(r, "bad '\\' in a text: expected \\\\, "
				  "\\xHH, or \\c at the end of the text")
		       : 0;
}

/* Adds a line of the current file. */
static int more(struct reader *r, struct span text)
{
	if (!r->open || !r->lines || r->cut)
		return wrong(r, "a line outside of a file: a line that begins with a tab must "
				"follow 'PATH :' or another line of that file without '\\c'");
	if (!r->first)
		buf_char(&r->file, '\n');
	r->first = false;
	return get_text(text, &r->file, &r->cut) < 0
		       ? wrong(r, "bad '\\' in a text: expected \\\\, "
				  "\\xHH, or \\c at the end of the text")
		       : 0;
}

static struct span after(struct span line, const char *at)
{
	return (struct span){at, (size_t)(line.p + line.n - at)};
}

static int entry(struct reader *r, struct span line)
{
	const char *blank = memchr(line.p, ' ', line.n);
	struct span path = {line.p, blank ? (size_t)(blank - line.p) : line.n}, rest;
	int n;

	if (!blank && line.p[line.n - 1] == '/') {
		path.n--;
		n = get_path(r, path);
		return n < 0 ? n : dir_make(r->into, r->path, 0755, r->e);
	}
	rest = blank ? after(line, blank) : (struct span){NULL, 0};
	n = get_path(r, path);
	if (n < 0)
		return n;
	if (span_has_prefix(rest, " -> "))
		return make_link(r, after(line, rest.p + 4));
	if (span_has_prefix(rest, " = "))
		return open_file(r, after(line, rest.p + 3));
	if (span_eq(rest, " ="))
		return open_file(r, span_of(""));
	if (!span_eq(rest, " :"))
		return wrong(r, "expected PATH = TEXT, PATH :, PATH -> TARGET or PATH/");
	n = open_file(r, span_of(""));
	r->lines = r->first = true;
	return n;
}

int tree_unpack(const struct root *into, struct span text, const char *name, struct err *e)
{
	struct reader r = {.into = into, .name = name, .e = e};
	struct span line;
	int n = 0;

	buf_init(&r.file, TREE_FILE_MAX);
	while (n == 0 && span_cut(&text, '\n', &line)) {
		r.line++;
		if (line.n && line.p[0] == '\t') {
			n = more(&r, after(line, line.p + 1));
			continue;
		}
		n = close_file(&r);
		if (n == 0 && line.n && line.p[0] != '#')
			n = entry(&r, line);
	}
	if (n == 0)
		n = close_file(&r);
	buf_done(&r.file);
	return n;
}
