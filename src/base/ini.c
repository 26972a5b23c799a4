/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ini.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"

struct reading {
	const struct ini_ops *ops;
	void *arg;
	struct span rest; /* part of the text that is not read yet */
	struct ini_at at;
	char *section; /* at.section */
	int r;
	struct err *e;
};

static int wrap(struct reading *p)
{
	if (p->r < 0) {
		err_default_kind(p->e, ERR_CONF);
		err_wrap(p->e, p->r, "%s:%d", p->at.file, p->at.line);
	}
	return p->r;
}

static int begin_section(struct reading *p, struct span line)
{
	struct span name = {line.p + 1, line.n - 1}, rest = name;

	if (!memchr(rest.p, ']', rest.n))
		return err_kind(p->e, ERR_CONF, -EINVAL, "the section header must end in ']'");
	span_cut(&rest, ']', &name);
	free(p->section);
	p->at.section = p->section = span_dup(span_trim(name));
	return p->ops->section ? p->ops->section(p->arg, &p->at, p->e) : 0;
}

static int take_line(struct reading *p, struct span line, char *into, size_t size)
{
	struct span trimmed = span_trim(line);

	if (line.n > INI_LINE_MAX || line.n + 2 > size)
		return err_kind(p->e, ERR_CONF, -EINVAL, "line is longer than %d bytes",
				INI_LINE_MAX);
	if (memchr(line.p, '\0', line.n))
		return err_kind(p->e, ERR_CONF, -EINVAL,
				"the line has a NUL byte, expected a text file");
	memcpy(into, line.p, line.n);
	memcpy(into + line.n, "\n", 2);
	if (!trimmed.n || trimmed.p[0] != '[')
		return 0;
	/* hides the section header from inih, because begin_section() parses it */
	strcpy(into, "\n");
	return begin_section(p, trimmed);
}

/* inih calls this instead of fgets(). Returns NULL at the end of the text, and after an error or a
 * callback that did not return 0. */
static char *next_line(char *into, int size, void *arg)
{
	struct reading *p = arg;
	struct span line;

	if (p->r != 0 || p->rest.n == 0 || !span_cut(&p->rest, '\n', &line))
		return NULL;
	p->at.line++;
	p->r = take_line(p, line, into, (size_t)size);
	return wrap(p) == 0 ? into : NULL;
}

/* Callback of inih: 0 stops. */
static int on_pair(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *p = arg;

	(void)section;
	p->r = p->ops->pair(p->arg, &p->at, name, value, p->e);
	return wrap(p) == 0;
}

int ini_read(struct span text, const char *file, const struct ini_ops *ops, void *arg,
	     struct err *e)
{
	struct err none = ERR_INIT;
	struct reading p = {ops, arg, text, {file, 0, ""}, NULL, 0, e ? e : &none};

	if (span_has_prefix(p.rest, "\xef\xbb\xbf"))
		p.rest = (struct span){text.p + 3, text.n - 3};
	if (ini_parse_stream(next_line, &p, on_pair, &p) > 0 && p.r == 0) {
		p.r = err_kind(p.e, ERR_CONF, -EINVAL,
			       "expected 'key = value', '[section]' or a comment");
		wrap(&p);
	}
	free(p.section);
	return p.r;
}

int ini_unknown_key(const char *key, const char *const *names, size_t n, struct err *e)
{
	const char *near = opt_suggest(key, names, n);

	return err_kind(e, ERR_CONF, -EINVAL, "key '%.100s' is not known in this section%s%s%s",
			key, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
