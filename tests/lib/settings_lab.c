/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cli/reference.h"
#include "settings_lab.h"

const char *settings_lab_env(void *arg, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *v = arg; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

char *settings_lab_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = xcalloc(1, 1 << 16);

	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

char *settings_lab_sample(const struct settings *s, const char *path)
{
	char *sample = settings_lab_text(path);
	struct settings_key k;

	for (size_t i = 0; settings_key(s, i, &k); i++) {
		auto_free char *line =
			xasprintf("\n; %-20s =%s%s\n", k.name, *k.fallback ? " " : "", k.fallback);

		if (strcmp(k.name, "config") != 0 && !strstr(sample, line))
			fail_msg("%s has no line '%s'", path, line + 1);
	}
	return sample;
}

static void ignore(struct buf *b, const char *text)
{
	(void)b, (void)text;
}

/* Appends a row of the table of settings as one line. */
static void row(struct buf *b, const char *name, const char *value, const char *help)
{
	buf_printf(b, "\n| `%s` | %s | %s", name, value, help);
}

void settings_lab_reference(const struct settings *s)
{
	static const struct reference_style style = {ignore, ignore, row};
	auto_buf struct buf page;
	struct settings_key k;

	buf_init(&page, 1 << 16);
	reference_settings(s, &style, &page);
	for (size_t i = 0; settings_key(s, i, &k); i++) {
		auto_free char *cell = xasprintf("\n| `%s` | ", k.name);
		auto_free char *fallback = xasprintf("(%s)", k.fallback);
		struct span rest = span_of(k.env), one;
		const char *at = strstr(buf_span(&page).p, cell);
		auto_free char *line = NULL;

		if (!at)
			fail_msg("%s: the help has no row of '%s'", s->prog, k.name);
		line = xstrdup(at + 1);
		*strchrnul(line, '\n') = '\0';
		if (*k.fallback && !strstr(line, fallback))
			fail_msg("%s: the row of '%s' in the help lacks its default %s", s->prog,
				 k.name, fallback);
		if (!strstr(line, "needs a restart") != k.live)
			fail_msg("%s: the row of '%s' in the help is wrong about 'needs a restart'",
				 s->prog, k.name);
		while (span_cut(&rest, ' ', &one)) {
			auto_free char *name = span_dup(one);

			if (!strstr(line, name))
				fail_msg("%s: the row of '%s' in the help lacks the variable %s",
					 s->prog, k.name, name);
		}
	}
}
