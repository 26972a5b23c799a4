/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/redact.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/json/json.h"

enum { JSON_TEXT_MAX = 1 << 20 };

static bool contains(struct span s, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= s.n; i++)
		if (!strncasecmp(s.p + i, word, n))
			return true;
	return false;
}

bool redact_is_secret_key(struct span key)
{
	static const char *const words[] = {"token",	  "passw",	"passphrase", "secret",
					    "credential", "private",	"auth",	      "certificate",
					    "client-key", "client_key", "clientkey",  "apikey",
					    "api-key",	  "api_key",	"bearer",     "cookie"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (contains(key, words[i]))
			return true;
	return false;
}

bool redact_is_secret_value(struct span v)
{
	return contains(v, "-----BEGIN ") || contains(v, "Bearer ") || span_has_prefix(v, "eyJ") ||
	       /* the same, in base64 */
	       span_has_prefix(v, "LS0tLS1CRUdJTi");
}

/* --- JSON --- */

static void put(struct json_out *o, const struct json *v)
{
	struct json_walk w = json_walk_start(v);
	const struct json *one;
	const char *key;

	if (json_kind(v) == JSON_STRING && redact_is_secret_value(span_of(json_string(v)))) {
		jo_str(o, REDACTED);
	} else if (json_kind(v) == JSON_OBJECT) {
		jo_obj(o);
		while ((one = json_walk_next(&w, &key))) {
			jo_key(o, key);
			if (redact_is_secret_key(span_of(key)) && json_kind(one) != JSON_BOOL)
				jo_str(o, REDACTED);
			else
				put(o, one);
		}
		jo_end_obj(o);
	} else if (json_kind(v) == JSON_ARRAY) {
		jo_arr(o);
		while ((one = json_walk_next(&w, NULL)))
			put(o, one);
		jo_end_arr(o);
	} else {
		jo_val(o, v, false);
	}
}

int redact_json(struct span text, struct buf *b)
{
	auto_json struct json_doc *d = NULL;
	struct json_out o;

	if (json_parse(&d, text, JSON_TEXT_MAX, NULL) < 0)
		return -EINVAL;
	jo_init(&o, b, 2);
	put(&o, json_root(d));
	buf_char(b, '\n');
	return 0;
}

/* --- text --- */

/* Where the value begins: behind the first of `signs`; NULL: there is none. */
static const char *value_of(struct span s, const char *signs)
{
	for (size_t i = 0; i < s.n; i++)
		if (strchr(signs, s.p[i]))
			return s.p + i + 1;
	return NULL;
}

static void put_pair(struct span s, const char *signs, const char *blank, struct buf *b)
{
	const char *at = value_of(s, signs);
	struct span key = {s.p, at ? (size_t)(at - s.p) - 1 : s.n};
	struct span value = {at, at ? (size_t)(s.p + s.n - at) : 0};

	if (!redact_is_secret_value(s) &&
	    (!at || (!redact_is_secret_key(key) && !redact_is_secret_value(span_trim(value))))) {
		buf_add(b, s.p, s.n);
		return;
	}
	if (at)
		buf_add(b, s.p, (size_t)(at - s.p));
	buf_str(b, at ? blank : "");
	buf_str(b, REDACTED);
}

void redact_lines(struct span text, struct buf *b)
{
	struct span line;
	bool pem = false;

	while (span_cut(&text, '\n', &line)) {
		pem = pem || contains(line, "-----BEGIN ");
		if (pem)
			buf_str(b, REDACTED);
		else
			put_pair(line, "=:", " ", b);
		pem = pem && !contains(line, "-----END ");
		if (text.p)
			buf_char(b, '\n');
	}
}

void redact_words(struct span text, struct buf *b)
{
	struct span word;

	while (span_cut(&text, ' ', &word)) {
		put_pair(word, "=", "", b);
		if (text.p)
			buf_char(b, ' ');
	}
}
