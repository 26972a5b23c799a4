/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of mappings, and what cannot begin anything. */
#include <string.h>

#include "wire/yaml/yaml_priv.h"

/* A ':' that ends a key. In flow, after a quoted key, JSON leaves the blank out. */
static bool is_colon(const struct yaml *y, bool quoted)
{
	char next = yaml_peek(y, 1);

	return yaml_peek(y, 0) == ':' &&
	       (yaml_is_break(next) || (y->flow && (quoted || strchr(",[]{}", next))));
}

int yaml_unread(struct yaml *y, char c)
{
	switch (c) {
	case '&': return yaml_fail(y, "anchors ('&') are not read: write the value out");
	case '*': return yaml_fail(y, "aliases ('*') are not read: write the value out");
	case '!': return yaml_fail(y, "tags ('!') are not read");
	case '%': return yaml_fail(y, "directives ('%%') are not read");
	case '@':
	case '`': return yaml_fail(y, "'%c' cannot begin a value: put it into quotes", c);
	case '?':
		if (yaml_is_break(yaml_peek(y, 1)))
			return yaml_fail(y, "complex keys ('? ') are not read");
		break;
	case ',':
	case ']':
	case '}': return yaml_fail(y, "'%c' is not expected here", c);
	default: break;
	}
	return 0;
}

static int compare(const char *a, size_t n, const char *b, size_t m)
{
	int r = memcmp(a, b, n < m ? n : m);

	return r ? r : n < m ? -1 : n > m;
}

/* Puts the key in its place among the others; false: it is there. */
static bool is_new_key(struct yaml_keys *k, const char *out, size_t from, size_t n)
{
	size_t low = 0, high = k->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct yaml_key_at *x = &k->v[mid];
		int r = compare(out + x->from, x->n, out + from, n);

		if (r == 0)
			return false;
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	(void)VEC_PUSH(k->v, k->n);
	memmove(&k->v[low + 1], &k->v[low], (k->n - 1 - low) * sizeof(*k->v));
	k->v[low] = (struct yaml_key_at){from, n};
	return true;
}

static int take_key(struct yaml *y, struct yaml_keys *k)
{
	size_t from = y->out.b->len, n;

	if (strcmp(y->text.p, "<<") == 0)
		return yaml_fail(y, "merge keys are not read: write the keys out");
	jo_key(&y->out, y->text.p);
	n = y->out.b->len - from;
	/* The first key of a mapping has no comma before it. */
	if (y->out.b->p[from] == ',') {
		from++;
		n--;
	}
	if (!is_new_key(k, y->out.b->p, from, n))
		return yaml_fail(y, "key '%.64s' stands here twice", y->text.p);
	if (k->n >= YAML_KEYS_MAX)
		return yaml_fail(y, "more than %d keys in one mapping", YAML_KEYS_MAX);
	return 0;
}

int yaml_key(struct yaml *y, struct yaml_keys *k)
{
	bool quoted = yaml_peek(y, 0) == '"' || yaml_peek(y, 0) == '\'';
	int r = quoted ? 0 : yaml_unread(y, yaml_peek(y, 0));

	if (r == 0 && yaml_peek(y, 0) && strchr("{[|>", yaml_peek(y, 0)))
		r = yaml_fail(y, "a key cannot begin with '%c': put it into quotes", *y->p);
	if (r == 0)
		r = quoted ? yaml_quoted(y, -1, true) : yaml_plain(y, -1, true);
	while (r == 0 && yaml_is_blank(yaml_peek(y, 0)))
		y->p++;
	if (r == 0 && !is_colon(y, quoted))
		r = yaml_fail(y, "a key wants ': ' after it");
	if (r == 0)
		r = take_key(y, k);
	if (r == 0)
		y->p++;
	return r;
}

bool yaml_is_key(const struct yaml *at)
{
	struct yaml y = *at;
	bool quoted = yaml_peek(&y, 0) == '"' || yaml_peek(&y, 0) == '\'', found;
	struct err e = ERR_INIT;

	y.e = &e;
	buf_init(&y.text, YAML_TEXT_MAX);
	found = (quoted ? yaml_quoted(&y, -1, true) : yaml_plain(&y, -1, true)) == 0;
	while (found && yaml_is_blank(yaml_peek(&y, 0)))
		y.p++;
	found = found && is_colon(&y, quoted);
	buf_done(&y.text);
	return found;
}
