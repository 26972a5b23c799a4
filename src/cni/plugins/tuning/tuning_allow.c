/* SPDX-License-Identifier: Apache-2.0 */
/* The host's allowlist of sysctls. */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/plugins/tuning/tuning.h"

enum { ALLOWLIST_MAX = 1 << 20, PATTERN_MAX = 64 << 10 };

static int compile(const char *line, regex_t *ret, struct err *e)
{
	auto_buf struct buf posix;
	char why[128];
	int r;

	buf_init(&posix, PATTERN_MAX);
	r = tuning_pattern(line, &posix, e);
	if (r < 0)
		return r;
	if (posix.over)
		return err_kind(e, ERR_CONF, -E2BIG, "is too long");
	r = regcomp(ret, posix.p, REG_EXTENDED | REG_NOSUB);
	if (r == 0)
		return 0;
	regerror(r, ret, why, sizeof(why));
	return err_kind(e, ERR_CONF, -EINVAL, "%s", why);
}

static int mark_line(const struct tuning_conf *c, const char *line, bool *allowed, struct err *e)
{
	regex_t re;
	int r = compile(line, &re, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < c->n_sysctls; i++)
		if (regexec(&re, c->sysctls[i].key, 0, NULL, 0) == 0)
			allowed[i] = true;
	regfree(&re);
	return 0;
}

int tuning_allow(const struct tuning_conf *c, const char *name, struct span text, struct err *e)
{
	auto_free bool *allowed = xcalloc(c->n_sysctls, sizeof(*allowed));
	auto_buf struct buf list;
	struct span line;
	int at = 0;

	buf_init(&list, ERR_TEXT_MAX / 2);
	while (span_cut(&text, '\n', &line)) {
		auto_free char *pattern = span_dup(span_trim(line));
		int r;

		at++;
		if (!*pattern)
			continue;
		r = mark_line(c, pattern, allowed, e);
		if (r < 0)
			return err_wrap(e, r, "%s:%d: '%s'", name, at, pattern);
		buf_printf(&list, "%s%s", list.len ? " " : "", pattern);
	}
	for (size_t i = 0; i < c->n_sysctls; i++)
		if (!allowed[i])
			return err_kind(e, ERR_CONF, -EPERM,
					"Sysctl %s is not allowed. Only the following sysctls are "
					"allowed: [%s] (%s)",
					c->sysctls[i].key, list.p, name);
	return 0;
}

int tuning_allowed(const struct root *root, const struct tuning_conf *c, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, ALLOWLIST_MAX);
	r = file_read(root, TUNING_ALLOWLIST, ALLOWLIST_MAX, &text, e);
	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r < 0) {
		err_default_kind(e, ERR_UNAVAILABLE);
		return err_wrap(e, r, "read the allowlist of sysctls");
	}
	return tuning_allow(c, TUNING_ALLOWLIST, buf_span(&text), e);
}
