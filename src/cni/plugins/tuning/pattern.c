/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates Go's regular expressions to POSIX. A line of the allowlist only has to match somewhere
 * in a sysctl's name, so a lazy quantifier may become a greedy one and a non-capturing group a
 * capturing one. A construct without a POSIX equivalent is rejected: a pattern with another
 * meaning than its author intended would allow too much.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "cni/plugins/tuning/tuning.h"

enum { ASCII = 128 };

struct pattern {
	const char *p;
	struct buf *out;
	struct err *e;
	bool atom; /* the preceding element can be repeated */
	int depth;
};

static int refuse(struct pattern *t, const char *reason)
{
	return err_kind(t->e, ERR_CONF, -EINVAL, "%s at '%s'", reason, t->p);
}

static void literal(struct pattern *t, char c)
{
	if (strchr("^.[$()|*+?{\\", c))
		buf_char(t->out, '\\');
	buf_char(t->out, c);
	t->atom = true;
}

static int is_word(int c)
{
	return isalnum(c) || c == '_';
}

static int is_blank(int c)
{
	return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' ';
}

static const struct {
	const char *name;
	int (*has)(int c);
} classes[] = {
	{"alnum", isalnum},   {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
	{"digit", isdigit},   {"graph", isgraph}, {"lower", islower}, {"print", isprint},
	{"punct", ispunct},   {"space", isspace}, {"upper", isupper}, {"word", is_word},
	{"xdigit", isxdigit},
};

static void add_class(bool set[static ASCII], int (*has)(int c), bool negated)
{
	for (int c = 1; c < ASCII; c++)
		if (!has(c) == negated)
			set[c] = true;
}

/* Translates \d, \w, \s and their negations. */
static bool perl_class(char c, bool set[static ASCII])
{
	switch (c) {
	case 'd':
	case 'D': add_class(set, isdigit, c == 'D'); return true;
	case 'w':
	case 'W': add_class(set, is_word, c == 'W'); return true;
	case 's':
	case 'S': add_class(set, is_blank, c == 'S'); return true;
	default: return false;
	}
}

/* Writes the characters in an order in which none is special: ] first, - last, and ^ after the
 * other characters, before -. A set of only ^ and - is written as [-^], a set of only ^ as \^. */
static void put_set(struct pattern *t, const bool set[static ASCII], bool negated)
{
	bool others = negated || set[']'];

	for (int c = 1; c < ASCII; c++)
		others |= set[c] && !strchr("^-", c);
	t->atom = true;
	if (!others && set['^']) {
		buf_str(t->out, set['-'] ? "[-^]" : "\\^");
		return;
	}
	buf_str(t->out, negated ? "[^" : "[");
	if (set[']'])
		buf_char(t->out, ']');
	for (int c = 1; c < ASCII; c++)
		if (set[c] && !strchr("]^-", c))
			buf_char(t->out, (char)c);
	if (set['^'])
		buf_char(t->out, '^');
	if (set['-'])
		buf_char(t->out, '-');
	buf_char(t->out, ']');
}

/* Reads one character of a bracket expression and removes its escape. */
static int bracket_char(struct pattern *t, char *ret)
{
	char c = *t->p;

	if (c == '\\') {
		c = *++t->p;
		if (!ispunct((unsigned char)c))
			return refuse(t, "this escape is not supported");
	}
	if (!c)
		return refuse(t, "missing closing ]");
	if ((unsigned char)c >= ASCII)
		return refuse(t, "brackets support only ASCII");
	t->p++;
	*ret = c;
	return 0;
}

/* Adds the character class at t->p, such as [:alpha:], to the set and moves t->p behind it. Returns
 * 1, 0 if there is no class at t->p, or -EINVAL if its name is unknown. */
static int named_class(struct pattern *t, bool set[static ASCII])
{
	const char *name, *end;
	bool negated;

	if (strncmp(t->p, "[:", 2) != 0)
		return 0;
	negated = t->p[2] == '^';
	name = t->p + 2 + negated;
	end = strstr(name, ":]");
	if (!end)
		return 0;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strlen(classes[i].name) != (size_t)(end - name) ||
		    strncmp(classes[i].name, name, (size_t)(end - name)) != 0)
			continue;
		add_class(set, classes[i].has, negated);
		t->p = end + 2;
		return 1;
	}
	return refuse(t, "invalid character class");
}

static int range(struct pattern *t, bool set[static ASCII])
{
	char lo = 0, hi;
	int r = bracket_char(t, &lo);

	hi = lo;
	if (r == 0 && t->p[0] == '-' && t->p[1] && t->p[1] != ']') {
		t->p++;
		r = bracket_char(t, &hi);
	}
	if (r < 0)
		return r;
	if (hi < lo)
		return refuse(t, "invalid character class range");
	for (int c = lo; c <= hi; c++)
		set[c] = true;
	return 0;
}

static int bracket(struct pattern *t)
{
	bool set[ASCII] = {false}, negated = t->p[1] == '^', first = true;
	int r = 0;

	t->p += 1 + negated;
	for (; *t->p != ']' || first; first = false) {
		if (t->p[0] == '\\' && perl_class(t->p[1], set)) {
			t->p += 2;
			continue;
		}
		r = named_class(t, set);
		if (r == 0)
			r = range(t, set);
		if (r < 0)
			return r;
	}
	t->p++;
	put_set(t, set, negated);
	return 0;
}

/* Writes an anchor or |. POSIX does not define the repetition of either, so a following
 * quantifier is refused. */
static void anchor(struct pattern *t, char c)
{
	buf_char(t->out, c);
	t->atom = false;
}

static int escape(struct pattern *t)
{
	bool set[ASCII] = {false};
	char c = t->p[1];

	if (perl_class(c, set))
		put_set(t, set, false);
	else if (c == 'A' || c == 'z')
		anchor(t, c == 'A' ? '^' : '$');
	else if (ispunct((unsigned char)c))
		literal(t, c);
	else
		return refuse(t, c ? "this escape is not supported" : "trailing backslash");
	t->p += 2;
	return 0;
}

static int open_group(struct pattern *t)
{
	const char *name = NULL;

	t->depth++;
	t->atom = false;
	buf_char(t->out, '(');
	if (t->p[1] != '?') {
		t->p++;
		return 0;
	}
	if (t->p[2] == ':') {
		t->p += 3;
		return 0;
	}
	if (t->p[2] == 'P' && t->p[3] == '<')
		name = t->p + 4;
	else if (t->p[2] == '<' && isalpha((unsigned char)t->p[3]))
		name = t->p + 3;
	if (!name || !strchr(name, '>'))
		return refuse(t, "flags, look-around and unterminated group names are not "
				 "supported");
	t->p = strchr(name, '>') + 1;
	return 0;
}

/* Returns the length of a repetition such as "{2}", "{2,}" or "{2,5}"; 0: p is a literal brace. */
static size_t braces(const char *p)
{
	size_t n = 1 + strspn(p + 1, "0123456789");

	if (n == 1)
		return 0;
	if (p[n] == ',')
		n += 1 + strspn(p + n + 1, "0123456789");
	return p[n] == '}' ? n + 1 : 0;
}

static int repetition(struct pattern *t, size_t n)
{
	if (!t->atom)
		return refuse(t, "missing argument to repetition operator");
	buf_add(t->out, t->p, n);
	t->p += n;
	if (*t->p == '?') /* lazy */
		t->p++;
	if (strchr("*+?", *t->p) && *t->p)
		return refuse(t, "invalid nested repetition operator");
	t->atom = false;
	return 0;
}

static void plain(struct pattern *t)
{
	char c = *t->p++;

	if (c == '^' || c == '$' || c == '|') {
		anchor(t, c);
	} else if (c == '.') {
		buf_char(t->out, c);
		t->atom = true;
	} else {
		literal(t, c);
	}
}

static int close_group(struct pattern *t)
{
	if (t->depth-- == 0)
		return refuse(t, "unexpected )");
	buf_char(t->out, ')');
	t->atom = true;
	t->p++;
	return 0;
}

static int next(struct pattern *t)
{
	size_t n;

	switch (*t->p) {
	case '\\': return escape(t);
	case '[': return bracket(t);
	case '(': return open_group(t);
	case ')': return close_group(t);
	case '*':
	case '+':
	case '?': return repetition(t, 1);
	case '{':
		n = braces(t->p);
		if (n)
			return repetition(t, n);
		break;
	default: break;
	}
	plain(t);
	return 0;
}

int tuning_pattern(const char *go, struct buf *posix, struct err *e)
{
	struct pattern t = {.p = go, .out = posix, .e = e};
	int r = 0;

	while (r == 0 && *t.p)
		r = next(&t);
	if (r == 0 && t.depth)
		r = refuse(&t, "missing closing )");
	return r;
}
