/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json/json_near.h"

#include <ctype.h>
#include <string.h>

enum { KEY_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Letters to insert, delete or replace to turn a into b, whatever their case (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
	size_t row[KEY_MAX + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			bool same = tolower((unsigned char)a[i - 1]) ==
				    tolower((unsigned char)b[j - 1]);
			size_t up = row[j];

			row[j] = min3(up + 1, row[j - 1] + 1, diagonal + !same);
			diagonal = up;
		}
	}
	return row[n];
}

const char *json_nearest(const struct json_table *t, const char *key)
{
	size_t len = strlen(key), best = len / 3 + 2;
	const char *near = NULL;

	if (len > KEY_MAX)
		return NULL;
	for (const struct json_field *f = t->fields; f->name; f++) {
		size_t d = strlen(f->name) > KEY_MAX ? best : distance(key, f->name);

		if (d < best) {
			best = d;
			near = f->name;
		}
	}
	return near;
}
