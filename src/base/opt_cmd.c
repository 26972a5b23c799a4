/* SPDX-License-Identifier: Apache-2.0 */
/* Which command of an applet is meant, and which word somebody mistyped. */
#include <errno.h>
#include <string.h>

#include "base/opt.h"

/* How many words of argv the command's name is; 0 when it is another command. */
static int words_of(const struct cmd *c, int argc, char **argv)
{
	struct span rest = span_of(c->name), word;
	int n = 0;

	while (span_cut(&rest, ' ', &word)) {
		if (n >= argc || !span_eq(word, argv[n]))
			return 0;
		n++;
	}
	return n;
}

static int no_command(const char *prog, const struct cmd *cmds, const char *word, struct err *e)
{
	const char *list[64], *near;
	size_t n = 0;

	if (!word)
		return err_set(e, -EINVAL, "no command given; see '%s --help'", prog);
	for (; (cmds->name || cmds->help) && n < 64; cmds++)
		if (cmds->name)
			list[n++] = cmds->name;
	near = opt_nearest(word, list, n);
	if (near)
		return err_set(e, -EINVAL, "unknown command '%s'; did you mean '%s'?", word, near);
	return err_set(e, -EINVAL, "unknown command '%s'; see '%s --help'", word, prog);
}

int cmd_pick(const char *prog, const struct cmd *cmds, int argc, char **argv,
	     const struct cmd **ret, int *words, struct err *e)
{
	const struct cmd *best = NULL, *c;
	int most = 0;

	for (c = cmds; c->name || c->help; c++) {
		int n = c->name ? words_of(c, argc - 1, argv + 1) : 0;

		if (n > most || (!c->name && !best)) {
			best = c;
			most = n;
		}
	}
	if (!best)
		return no_command(prog, cmds, argc > 1 ? argv[1] : NULL, e);
	*ret = best;
	*words = most;
	return 0;
}

/* Edit distance (a swap of neighbours counts one), words of up to 31 bytes. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int d[32][32];
	size_t n = strlen(a), m = strlen(b);

	if (n > 31 || m > 31)
		return 99;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			unsigned int best;

			if (i == 0 || j == 0) {
				d[i][j] = (unsigned int)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[n][m];
}

const char *opt_nearest(const char *word, const char *const *list, size_t n)
{
	size_t len = strlen(word);
	unsigned int best = len < 4 ? 2 : len < 8 ? 3 : 4; /* one more than may differ */
	const char *ret = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned int d = distance(word, list[i]);

		if (d < best) {
			best = d;
			ret = list[i];
		}
	}
	return ret;
}
