/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

void kern_open(struct kern_lab *l)
{
	OK(netns_new(true, &l->ns, &e));
	OK(nl_open(&l->w, NL_ROUTE, l->ns, &e));
}

void kern_close(struct kern_lab *l)
{
	nl_wire_close(l->w);
	close(l->ns);
}

void kern_commit(struct kern_lab *l, struct nl_batch *b)
{
	OK(nl_batch_commit(l->w, b, &e));
	nl_batch_reset(b);
}

struct link kern_link(struct kern_lab *l, const char *name)
{
	struct link link;

	OK(link_get(l->w, name, &link, &e));
	return link;
}

int kern_veth(struct kern_lab *l, const char *name, const char *peer)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;

	s.name = name;
	s.kind = "veth";
	s.peer_name = peer;
	s.up = s.peer_up = true;
	link_add(b, &s);
	kern_commit(l, b);
	return kern_link(l, name).index;
}

static void path_of(const char *name, char path[static 256])
{
	snprintf(path, 256, TEST_DATA "replay/%s", name);
}

struct nl_wire *kern_replay(const char *name)
{
	struct nl_wire *w = NULL;
	char path[256];

	path_of(name, path);
	OK(nl_open_replay(&w, path, &e));
	return w;
}

static char *read_text(const char *name)
{
	struct buf text;
	char path[256];
	int fd;

	path_of(name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s is missing", path);
	buf_init(&text, 16 << 20);
	OK(fd_read_all(fd, 16 << 20, &text, &e));
	close(fd);
	return buf_take(&text);
}

static unsigned int next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(*seed >> 33);
}

/*
 * Changes up to eight hex digits of an answer, about half of them where a 16-bit length may be. In
 * one of four calls also puts a blank where copy_line() truncates the answer.
 */
static void mutate_line(char *hex, size_t n, uint64_t *seed)
{
	static const char values[] = "0123456789abcdef0000ffff";

	for (unsigned int i = next(seed) % 8 + 1; i > 0 && n > 8; i--) {
		size_t at = next(seed) % n;

		if (next(seed) % 2)
			at = at / 8 * 8 + next(seed) % 4; /* probably a 16 bit length */
		if (at < n)
			hex[at] = values[next(seed) % (sizeof(values) - 1)];
	}
	if (next(seed) % 4 == 0)
		memset(hex + 2 + next(seed) % (n / 2 - 1) * 2, ' ', 2);
}

/* Appends the line; cuts an answer off at its first blank, which mutate_line() may have put
 * there. */
static void copy_line(struct buf *b, const char *line, size_t n)
{
	const char *cut = line[0] == '<' ? memchr(line + 2, ' ', n - 2) : NULL;

	buf_add(b, line, cut ? (size_t)(cut - line) : n);
	buf_char(b, '\n');
}

static char *mutated(const char *text, uint64_t *seed)
{
	struct buf b;

	buf_init(&b, 16 << 20);
	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		auto_free char *copy = strndup(line, n);

		if (copy[0] == '<' && n > 4 && next(seed) % 3)
			mutate_line(copy + 2, n - 2, seed);
		copy_line(&b, copy, n);
		line += n + (line[n] == '\n');
	}
	return buf_take(&b);
}

void kern_mutate(const char *name, int rounds, void (*use)(struct nl_wire *w))
{
	auto_free char *text = read_text(name);
	uint64_t seed = 1;

	for (int i = 0; i < rounds; i++) {
		auto_fd int fd = memfd_create("replay", MFD_CLOEXEC);
		auto_free char *changed = mutated(text, &seed);
		auto_nl struct nl_wire *w = NULL;
		char path[64];

		OK(fd_write_all(fd, changed, strlen(changed), &e));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		OK(nl_open_replay(&w, path, &e));
		use(w);
	}
}
