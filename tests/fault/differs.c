/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two states line by line. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **lines_of(const struct buf *b, size_t *n)
{
	struct span rest = buf_span(b), line;
	char **v = NULL;

	*n = 0;
	while (span_cut(&rest, '\n', &line))
		if (line.n)
			VEC_PUSH(v, *n) = span_dup(line);
	if (*n)
		qsort(v, *n, sizeof(*v), by_text);
	return v;
}

/* Of a line longer than LINE_START + LINE_PART bytes, the first LINE_START bytes are shown, and
 * LINE_PART bytes around the first difference from the next line of the other state. */
enum { LINE_START = 60, LINE_PART = 120 };

static void put_line(struct buf *b, char sign, const char *line, const char *other)
{
	size_t same = 0;

	while (other && line[same] && line[same] == other[same])
		same++;
	if (strlen(line) <= LINE_START + LINE_PART) {
		buf_printf(b, "\t%c %s\n", sign, line);
		return;
	}
	same = same < LINE_START + 20 ? LINE_START : same - 20;
	buf_printf(b, "\t%c %.*s...%.*s%s\n", sign, LINE_START, line, LINE_PART, line + same,
		   strlen(line + same) > LINE_PART ? "..." : "");
}

bool text_differs(const struct buf *was, const struct buf *is, struct buf *text)
{
	size_t n = 0, m = 0, i = 0, j = 0;
	char **a, **b;
	bool found = false;

	if (was->len == is->len && memcmp(was->p, is->p, is->len) == 0)
		return false;
	a = lines_of(was, &n);
	b = lines_of(is, &m);
	while (i < n || j < m) {
		int c = i == n ? 1 : j == m ? -1 : strcmp(a[i], b[j]);

		if (c && text)
			put_line(text, c < 0 ? '-' : '+', c < 0 ? a[i] : b[j],
				 c < 0 ? (j < m ? b[j] : NULL) : (i < n ? a[i] : NULL));
		found |= c != 0;
		i += c <= 0;
		j += c >= 0;
	}
	for (i = 0; i < n; i++)
		free(a[i]);
	for (j = 0; j < m; j++)
		free(b[j]);
	free(a);
	free(b);
	return found;
}
