/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that is refused goes aside, and what it said is asked of the cluster (agent/blocks/foreign.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_log.h"
#include "ipam/store.h"

static const char aside_name[] = "journal.damaged-";

/* Whether it is one that went aside, with its anchor or without. */
static bool is_aside(const char *name, bool anchor)
{
	size_t n = strlen(name), end = sizeof(".anchor") - 1;
	bool is_anchor = n > end && strcmp(name + n - end, ".anchor") == 0;

	return strncmp(name, aside_name, sizeof(aside_name) - 1) == 0 && is_anchor == anchor;
}

/* A disk that fails again and again must not fill itself. The names are in the order of their times. */
static void drop_oldest(const struct ipam *i, bool anchor)
{
	char **names = NULL;
	size_t n = 0, count = 0;

	if (dir_list(i->root, i->state_dir, &names, &n, NULL) < 0)
		return;
	for (size_t k = n; k-- > 0;) {
		auto_free char *path = xasprintf("%s/%s", i->state_dir, names[k]);

		if (is_aside(names[k], anchor) && ++count > ANEW_KEPT)
			(void)file_remove(i->root, path, NULL);
	}
	str_list_free(names, n);
}

static int move(const struct root *r, const char *from, const char *to, struct err *e)
{
	int n = file_rename(r, from, to, false, e);

	if (n != -ENOENT)
		return n;
	err_clear(e);
	return 0;
}

/* The journal goes first: without its anchor one of an earlier release reads as if it were whole. */
static int move_aside(const struct ipam *i, const char *journal, char **aside, struct err *e)
{
	auto_free char *to = xasprintf("%s/%s%" PRId64, i->state_dir, aside_name, i->now_ms());
	auto_free char *anchor = xasprintf("%s.anchor", journal),
		       *to_anchor = xasprintf("%s.anchor", to);
	int n = move(i->root, journal, to, e);

	if (n >= 0)
		n = move(i->root, anchor, to_anchor, e);
	if (n < 0)
		return n;
	drop_oldest(i, false);
	drop_oldest(i, true);
	*aside = take(to);
	return 0;
}

int ipam_begin_anew(const struct root *r, const struct ipam_paths *p, const char *blocks,
		    char **aside, struct err *e)
{
	auto_ipam struct ipam *i = xcalloc(1, sizeof(*i));
	auto_free char *path = NULL;
	int n = store_lock(i, r, p, e);

	*aside = NULL;
	if (n < 0)
		return err_wrap(e, n, "open address store");
	path = store_journal_path(i);
	n = journal_open(&i->j, r, path, true, e);
	if (n >= 0)
		return 0;
	i->j = (struct journal)JOURNAL_INIT;
	if (n != -EBADMSG)
		return n;
	err_clear(e);
	n = block_log_begin_anew(r, blocks, i->node, e);
	if (n >= 0)
		n = move_aside(i, path, aside, e);
	return n < 0 ? err_wrap(e, n, "begin anew without the damaged journal '%s'", path) : 0;
}
