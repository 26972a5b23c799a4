/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the store's disk. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define JOURNAL MODEL_DISK "/state/journal"
#define LITTER	MODEL_DISK "/state/.journal.0123abcd.tmp"
#define BALLAST MODEL_DISK "/ballast"

enum { BLOCK = 4096 };

static void append(const char *path, const void *p, size_t n)
{
	auto_fd int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd >= 0)
		fd_write_all(fd, p, n, NULL);
}

/* Appends what a power failure may leave: the beginning of a line, or zeros in place of a line. */
void store_tear(uint32_t how)
{
	static const char line[] =
		"allocate t=1700000000000 id=torn if=net0 net=net pool=r0 ip=10.0.0.10/24 #00";
	static const char zeros[64];

	if (how % 3 == 0)
		append(JOURNAL, zeros, 1 + how % sizeof(zeros));
	else
		append(JOURNAL, line, 1 + how % (sizeof(line) - 1));
}

void store_litter(void)
{
	auto_fd int fd = open(LITTER, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0)
		fd_write_all(fd, "unirail-journal 1 base=0", 24, NULL);
}

static void write_all(const char *p, size_t n)
{
	auto_fd int fd = open(JOURNAL, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd >= 0)
		fd_write_all(fd, p, n, NULL);
}

bool store_spoil(uint32_t how, char **was, size_t *n)
{
	static const char bytes[] = {'\0', '\n', ' ', '0', '=', '#'};
	auto_fd int fd = open(JOURNAL, O_RDONLY | O_CLOEXEC);
	auto_buf struct buf b;
	auto_free char *bad = NULL;
	size_t at;

	buf_init(&b, 1 << 20);
	if (fd < 0 || fd_read_all(fd, 1 << 20, &b, NULL) < 0 || !b.len)
		return false;
	at = (size_t)how * 2654435761U % b.len;
	bad = span_dup(buf_span(&b));
	bad[at] = bytes[how % sizeof(bytes)];
	write_all(bad, how % 4 ? at : b.len);
	*n = b.len;
	*was = buf_take(&b);
	return true;
}

void store_mend(const char *was, size_t n)
{
	write_all(was, n);
}

void store_fill(bool full)
{
	static const char block[BLOCK];
	auto_fd int fd = -1;

	unlink(BALLAST);
	if (!full)
		return;
	fd = open(BALLAST, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (fd >= 0 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		;
}
