/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/redact.h"

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

static bool redact_is_secret_key(struct span key)
{
	static const char *const names[] = {
		"token", "passw", "passphrase", "secret", "credential", "private", "auth",
		"preshared", "psk", "certificate", "client-key", "client_key", "clientkey",
		"apikey", "api-key", "api_key", "bearer", "cookie", "rootpw", "sshpw",
		/* environment variables of containers, in the kubelet's checkpoint */
		"allocresp"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (contains(key, names[i]))
			return true;
	return false;
}

/* "iscsi:user:password@server", of dracut's netroot; "iscsi:@server" has no login. */
static bool has_iscsi_login(struct span v)
{
	static const char scheme[] = "iscsi:";
	const size_t n = strlen(scheme);

	for (size_t i = 0; i + n < v.n; i++) {
		if (strncasecmp(v.p + i, scheme, n) != 0)
			continue;
		for (size_t k = i + n; k < v.n; k++)
			if (v.p[k] == '@')
				return k > i + n;
	}
	return false;
}

/* "https://user:password@host" */
static bool has_login(struct span v)
{
	struct span rest = v;
	const char *at;

	while (rest.n > 3 && (at = memmem(rest.p, rest.n, "://", 3))) {
		bool colon = false;

		at += 3;
		rest = (struct span){at, (size_t)(v.p + v.n - at)};
		for (size_t i = 0; i < rest.n && !strchr("/ \t\"'", rest.p[i]); i++) {
			if (rest.p[i] == '@' && colon)
				return true;
			colon |= rest.p[i] == ':';
		}
	}
	return false;
}

static bool redact_is_secret_value(struct span v)
{
	return contains(v, "-----BEGIN ") || contains(v, "Bearer ") || span_has_prefix(v, "eyJ") ||
	       /* the beginning of a PEM block ("-----BEGIN ") in base64 */
	       span_has_prefix(v, "LS0tLS1CRUdJTi") || has_login(v) || has_iscsi_login(v);
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

/* Returns whether a key of a text file has a secret. Includes "key" and "shared" of netplan and
 * systemd, which redact_is_secret_key() leaves out, since "key" in JSON is the key of a taint. */
static bool is_secret_word(struct span key)
{
	static const char *const names[] = {"key", "shared"};
	struct span word;

	while (key.n && strchr("\"'", key.p[key.n - 1]))
		key.n--;
	word = (struct span){key.p + key.n, 0};
	while (word.p > key.p && !strchr(" \t{,-\"'", word.p[-1])) {
		word.p--;
		word.n++;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (word.n == strlen(names[i]) && contains(word, names[i]))
			return true;
	return redact_is_secret_key(key);
}

/*
 * Returns the secret, which follows the first of `signs` that has a secret key before it, as in
 * "key: value" or in "name: {key: value}"; NULL: none. Sets *all to the text after the first sign.
 */
static const char *secret_of(struct span s, const char *signs, const char **all)
{
	size_t from = 0;

	*all = NULL;
	for (size_t i = 0; i < s.n; i++) {
		if (!strchr(signs, s.p[i]))
			continue;
		*all = *all ? *all : s.p + i + 1;
		if (is_secret_word(span_trim((struct span){s.p + from, i - from})))
			return s.p + i + 1;
		from = i + 1;
	}
	return NULL;
}

/* Writes the pair, with REDACTED in the place of its secret, if it has one. Returns whether the
 * secret follows in the next lines: "password:" and "password: |" of YAML. */
static bool put_pair(struct span s, const char *signs, const char *blank, struct buf *b)
{
	const char *all, *at = secret_of(s, signs, &all);
	struct span value = {all, all ? (size_t)(s.p + s.n - all) : 0};
	struct span secret = {at, at ? (size_t)(s.p + s.n - at) : 0};

	if (!at && !redact_is_secret_value(s) &&
	    (!all || !redact_is_secret_value(span_trim(value)))) {
		buf_add(b, s.p, s.n);
		return false;
	}
	all = at ? at : all;
	if (all)
		buf_add(b, s.p, (size_t)(all - s.p));
	buf_str(b, all ? blank : "");
	buf_str(b, REDACTED);
	secret = span_trim(secret);
	return at && (!secret.n || *secret.p == '|' || *secret.p == '>');
}

static size_t indent_of(struct span line)
{
	size_t n = 0;

	while (n < line.n && line.p[n] == ' ')
		n++;
	return n;
}

void redact_lines(struct span text, struct buf *b)
{
	struct span line;
	bool pem = false, below = false;
	size_t indent = 0;

	while (span_cut(&text, '\n', &line)) {
		pem = pem || contains(line, "-----BEGIN ");
		below = below && (indent_of(line) > indent || !span_trim(line).n);
		if (pem || below) {
			buf_str(b, REDACTED);
		} else if (put_pair(line, "=:", " ", b)) {
			indent = indent_of(line);
			below = true;
		}
		pem = pem && !contains(line, "-----END ");
		if (text.p)
			buf_char(b, '\n');
	}
}

/* A word with quotes may contain blanks, as in the kernel's next_arg(). */
static struct span next_word(struct span *rest)
{
	struct span word = {rest->p, 0};
	bool quoted = false;

	while (word.n < rest->n && (quoted || !strchr(" \t\n", word.p[word.n])))
		quoted ^= word.p[word.n++] == '"';
	rest->p += word.n;
	rest->n -= word.n;
	return word;
}

/* Returns whether the word has a secret. A pair is key=value, or "key=value" with the quotes. */
static bool is_secret_pair(struct span word)
{
	struct span value = word, key;

	span_cut(&value, '=', &key);
	return (value.p && redact_is_secret_key(key)) || redact_is_secret_value(word) ||
	       (value.p && redact_is_secret_value(span_trim(value)));
}

void redact_cmdline(struct span text, struct buf *b)
{
	while (text.n) {
		struct span word = next_word(&text), value = word, key;

		if (!is_secret_pair(word)) {
			buf_add(b, word.p, word.n);
		} else {
			span_cut(&value, '=', &key);
			buf_add(b, key.p, value.p ? key.n : 0);
			buf_str(b, value.p ? "=" REDACTED : REDACTED);
		}
		if (text.n) {
			buf_char(b, *text.p);
			text.p++;
			text.n--;
		}
	}
}
