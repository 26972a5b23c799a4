/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static void parent_of(struct host_lab *h, const char *path)
{
	auto_free char *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	assert_int_equal(dir_make(&h->root, dir, 0700, NULL), 0);
}

static void put_link(struct host_lab *h, const char *path, const char *target)
{
	char full[1024];

	parent_of(h, path);
	snprintf(full, sizeof(full), "%s%s", h->dir, path);
	if (symlink(target, full) < 0)
		fail_msg("cannot make the link %s", full);
}

void host_write(struct host_lab *h, const char *path, const char *text)
{
	char full[1024];
	auto_fd int fd = -1;

	parent_of(h, path);
	snprintf(full, sizeof(full), "%s%s", h->dir, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(dprintf(fd, "%s\n", text), (int)strlen(text) + 1);
}

static void put_line(struct host_lab *h, char *line)
{
	char *link = strstr(line, " -> "), *file = strstr(line, " =");

	if (!line[0] || line[0] == '#')
		return;
	if (link) {
		*link = '\0';
		put_link(h, line, link + strlen(" -> "));
	} else if (file) {
		*file = '\0';
		file += strlen(" =");
		host_write(h, line, file + (*file == ' '));
	} else {
		fail_msg("'%s': wants PATH = CONTENT or PATH -> TARGET", line);
	}
}

void host_unpack(struct host_lab *h, const char *tree)
{
	char path[256], line[512];
	FILE *f;

	strcpy(h->dir, "/tmp/test_host.XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	assert_int_equal(root_open(&h->root, h->dir, NULL), 0);
	snprintf(path, sizeof(path), TEST_DATA "hosts/%s", tree);
	f = fopen(path, "re");
	if (!f)
		fail_msg("%s is missing", path);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		put_line(h, line);
	}
	fclose(f);
}

void host_remove(struct host_lab *h)
{
	char cmd[64];

	root_close(&h->root);
	snprintf(cmd, sizeof(cmd), "rm -r %s", h->dir);
	assert_int_equal(system(cmd), 0);
}

void host_read(struct host_lab *h, const char *path, char *ret, size_t size)
{
	assert_int_equal(file_read_line(&h->root, path, ret, size, NULL), 0);
}
