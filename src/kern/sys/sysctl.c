/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/sys/sysctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SYSCTL_PATH_MAX = 256, SYSCTL_VALUE_MAX = 1024 };

/* Returns the path of a key. Keys come from configurations: a key that leads outside of /proc/sys
 * is refused. */
static int path_of(const char *key, char path[static SYSCTL_PATH_MAX], struct err *e)
{
	struct span rest = span_of(key), part;
	int n = snprintf(path, SYSCTL_PATH_MAX, "/proc/sys/%s", key);

	if (n >= SYSCTL_PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "sysctl '%s': name is too long", key);
	do {
		if (!span_cut(&rest, '/', &part) || part.n == 0 || span_eq(part, ".") ||
		    span_eq(part, ".."))
			return err_set(e, -EINVAL,
				       "sysctl '%s': not a path below /proc/sys, such as "
				       "net/ipv4/ip_forward",
				       key);
	} while (rest.p);
	return 0;
}

int sysctl_get(const struct root *r, const char *key, char *ret, size_t size, struct err *e)
{
	char path[SYSCTL_PATH_MAX];
	int code = path_of(key, path, e);

	return code < 0 ? code : file_read_line(r, path, ret, size, e);
}

int sysctl_set(const struct root *r, const char *key, const char *value, struct err *e)
{
	char path[SYSCTL_PATH_MAX];
	int code = path_of(key, path, e);

	return code < 0 ? code : file_write_attr(r, path, value, e);
}

static struct span next_word(const char **s)
{
	struct span word;

	*s += strspn(*s, " \t\n");
	word = (struct span){*s, strcspn(*s, " \t\n")};
	*s += word.n;
	return word;
}

bool sysctl_same_value(const char *a, const char *b)
{
	for (;;) {
		struct span x = next_word(&a), y = next_word(&b);

		if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
			return false;
		if (x.n == 0)
			return true;
	}
}

int sysctl_ensure(const struct root *r, const char *key, const char *value, bool *missing,
		  struct err *e)
{
	char now[SYSCTL_VALUE_MAX];
	int code = sysctl_get(r, key, now, sizeof(now), e);

	if (missing)
		*missing = code == -ENOENT;
	if (code == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (code < 0)
		return code;
	return sysctl_same_value(now, value) ? 0 : sysctl_set(r, key, value, e);
}
