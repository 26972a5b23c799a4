/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "settings_lab.h"

struct ipam_lab settings_lab;

int settings_lab_make(void **state)
{
	(void)state;
	log_threshold = LOG_NONE;
	il_make(&settings_lab);
	return 0;
}

int settings_lab_drop(void **state)
{
	(void)state;
	il_drop(&settings_lab);
	return 0;
}

const char *settings_lab_env(void *arg, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *v = arg; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

static char *text_of(const char *path)
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
	char *sample = text_of(path);
	struct settings_key k;

	for (size_t i = 0; settings_key(s, i, &k); i++) {
		auto_free char *line =
			xasprintf("\n; %-20s =%s%s\n", k.name, *k.fallback ? " " : "", k.fallback);

		if (strcmp(k.name, "config") != 0 && !strstr(sample, line))
			fail_msg("%s has no line '%s'", path, line + 1);
	}
	return sample;
}

void settings_lab_readme(const struct settings *s, const char *path)
{
	auto_free char *readme = text_of(path);
	struct settings_key k;

	for (size_t i = 0; settings_key(s, i, &k); i++) {
		auto_free char *cell = xasprintf("| `%s` | ", k.name);
		struct span rest = span_of(k.env), one;
		const char *row = strstr(readme, cell), *end = row ? strchr(row, '\n') : NULL;

		if (!row)
			fail_msg("%s has no row of '%s'", path, k.name);
		while (span_cut(&rest, ' ', &one)) {
			auto_free char *name = span_dup(one);
			const char *at = strstr(row, name);

			if (!at || at > end)
				fail_msg("%s: '%s' without %s", path, k.name, name);
		}
	}
}
