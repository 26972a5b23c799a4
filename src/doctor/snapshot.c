/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "doctor/redact.h"
#include "doctor/tree.h"

static bool is_zero_gid(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!strchr("0:\n", s.p[i]))
			return false;
	return true;
}

static void left_out(struct snapshot *s, const char *path, const char *why)
{
	auto_free char *text = xasprintf("%s: left out: %s", path, why);

	tree_put_comment(s->out, text);
	s->n_left++;
}

static void put_content(struct snapshot *s, const char *path, struct span text, enum snap_how how)
{
	auto_buf struct buf b;

	buf_init(&b, 2 * SNAPSHOT_FILE_MAX);
	if (how == SNAP_GID && is_zero_gid(text))
		return;
	if (how == SNAP_JSON && redact_json(text, &b) < 0) {
		left_out(s, path, "no JSON");
		return;
	}
	if (how == SNAP_LINES)
		redact_lines(text, &b);
	else if (how == SNAP_WORDS)
		redact_words(text, &b);
	else if (how != SNAP_JSON)
		buf_add(&b, text.p, text.n);
	tree_put_file(s->out, path, buf_span(&b));
	s->n_files++;
}

/* A sysfs attribute may not be readable, or only to be written: it is left out in silence. */
static void put_file(struct snapshot *s, const char *path, const struct stat *st, enum snap_how how)
{
	auto_buf struct buf b;
	auto_fd int fd = -1;

	buf_init(&b, SNAPSHOT_FILE_MAX);
	if (how == SNAP_NAME || !S_ISREG(st->st_mode)) {
		tree_put_file(s->out, path, span_of(""));
		s->n_files++;
		return;
	}
	if (st->st_size > SNAPSHOT_FILE_MAX) {
		left_out(s, path, "too large");
		return;
	}
	fd = file_open(s->root, path, O_RDONLY | O_NONBLOCK, 0, NULL);
	if (fd < 0)
		return;
	if (fd_read_all(fd, SNAPSHOT_FILE_MAX, &b, NULL) == 0)
		put_content(s, path, buf_span(&b), how);
	else if (b.len)
		left_out(s, path, "too large");
}

static void put_path(struct snapshot *s, const char *path, enum snap_how how)
{
	char target[PATH_MAX];
	struct stat st;

	if (file_lstat(s->root, path, &st, NULL) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		if (link_read(s->root, path, target, sizeof(target), NULL) == 0)
			tree_put_link(s->out, path, target);
	} else if (S_ISDIR(st.st_mode)) {
		tree_put_dir(s->out, path);
	} else {
		put_file(s, path, &st, how);
	}
}

/* --- patterns --- */

/* One '*', which is no leading dot either, as in a shell. */
static bool name_fits(const char *name, struct span pattern)
{
	const char *star = memchr(pattern.p, '*', pattern.n);
	size_t head = (size_t)(star - pattern.p), tail = pattern.n - head - 1, n = strlen(name);

	if (n < head + tail || (head == 0 && name[0] == '.'))
		return false;
	return !memcmp(name, pattern.p, head) && !memcmp(name + n - tail, star + 1, tail);
}

/* `rest` is what follows behind `at`, "" or "/..."; neither '.' nor '..' are names. */
static void walk(struct snapshot *s, const char *at, const char *rest, enum snap_how how)
{
	struct span names = span_of(rest[0] ? rest + 1 : rest), part;
	auto_free char *plain = NULL;
	char **list = NULL;
	size_t n = 0;

	if (!*rest) {
		put_path(s, at, how);
		return;
	}
	span_cut(&names, '/', &part);
	rest += 1 + part.n;
	if (!memchr(part.p, '*', part.n)) {
		plain = xasprintf("%s/%.*s", at, (int)part.n, part.p);
		walk(s, plain, rest, how);
		return;
	}
	if (dir_list(s->root, at, &list, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", at, list[i]);

		if (name_fits(list[i], part))
			walk(s, path, rest, how);
	}
	str_list_free(list, n);
}

/* --- devices behind links --- */

/* "/sys/class/net" and "../../devices/x" -> "/sys/devices/x" */
static char *join(const char *folder, const char *target)
{
	char path[PATH_MAX];
	char *end;

	if (target[0] == '/')
		return xstrdup(target);
	str_copy(path, sizeof(path), folder);
	while (!strncmp(target, "../", 3)) {
		target += 3;
		end = strrchr(path, '/');
		if (end)
			*end = '\0';
	}
	return xasprintf("%s/%s", path, target);
}

static void take_device(struct snapshot *s, const struct snap_devices *d, const char *name)
{
	auto_free char *link = xasprintf("%s/%s", d->folder, name), *device = NULL;
	char target[PATH_MAX];

	if (link_read(s->root, link, target, sizeof(target), NULL) < 0)
		return;
	device = join(d->folder, target);
	if (d->wanted && !d->wanted(s->root, device))
		return;
	tree_put_link(s->out, link, target);
	for (const struct snap_rule *r = d->rules; r->glob; r++) {
		auto_free char *rest = xasprintf("/%s", r->glob);

		walk(s, device, rest, r->how);
	}
}

static void take_devices(struct snapshot *s, const struct snap_devices *d)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(s->root, d->folder, &names, &n, NULL) < 0)
		return;
	if (!n)
		tree_put_dir(s->out, d->folder);
	for (size_t i = 0; i < n; i++)
		take_device(s, d, names[i]);
	str_list_free(names, n);
}

void snapshot_take(struct snapshot *s)
{
	for (const struct snap_devices *d = snap_devices; d->folder; d++)
		take_devices(s, d);
	for (const struct snap_rule *r = snap_rules; r->glob; r++)
		walk(s, "", r->glob, r->how);
}
