/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"

static void test_new_namespaces_are_distinct(void **state)
{
	auto_fd int initial = -1, one = -1, two = -1, again = -1;
	struct nl_wire *w;
	struct link l;

	(void)state;
	OK(netns_current(&initial, &e));
	OK(netns_new(true, &one, &e));
	OK(netns_new(false, &two, &e));
	OK(netns_current(&again, &e));
	ASSERT_EQ(netns_same(initial, again, &e), 1);
	ASSERT_EQ(netns_same(initial, one, &e), 0);
	ASSERT_EQ(netns_same(one, two, &e), 0);
	ASSERT_EQ(netns_same(one, one, &e), 1);
	for (int i = 0; i < 2; i++) {
		OK(nl_open(&w, NL_ROUTE, i ? two : one, &e));
		OK(link_get(w, "lo", &l, &e));
		ASSERT_EQ(link_is_up(&l), !i);
		nl_wire_close(w);
	}
	ASSERT_EQ(fcntl(one, F_GETFD), FD_CLOEXEC);
	ASSERT_EQ(netns_same(one, 4711, &e), -EBADF);
	ASSERT_EQ(e.kind, ERR_NETNS);
}

static void test_netns_leave_returns_to_the_previous_namespace(void **state)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	auto_fd int initial = -1, ns = -1, now = -1, back = -1, none = -1;

	(void)state;
	OK(netns_current(&initial, &e));
	OK(netns_new(false, &ns, &e));
	OK(netns_enter(ns, &v, &e));
	OK(netns_current(&now, &e));
	ASSERT_EQ(netns_same(now, ns, &e), 1);
	errno = ELOOP;
	netns_leave(&v);
	ASSERT_EQ(errno, ELOOP);
	ASSERT_EQ(v.origin, -1);
	netns_leave(&v); /* v is not inside a namespace: no effect */
	OK(netns_current(&back, &e));
	ASSERT_EQ(netns_same(back, initial, &e), 1);
	/* netns_enter() fails because the file is not a namespace: the process stays in its own
	 * namespace. */
	none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	FAILS(netns_enter(none, &v, &e), -EINVAL,
	      "enter network namespace: Invalid argument (EINVAL)");
	ASSERT_EQ(e.kind, ERR_NETNS);
	ASSERT_EQ(v.origin, -1);
}

/* The texts "failed to Statfs" and "unknown FS magic" are those of the CNI plugins, because
 * users search for them. */
static void test_invalid_namespace_paths_are_refused(void **state)
{
	char dir[T_DIR_MAX], path[64], expected[256];
	struct root root;
	int fd = -1;

	(void)state;
	OK(netns_open("/proc/self/ns/net", &fd, &e));
	close(fd);
	fd = -1;
	FAILS(netns_open("/run/netns/no-such-netns", &fd, &e), -ENOENT,
	      "failed to Statfs \"/run/netns/no-such-netns\": no such file or directory");
	ASSERT_EQ(e.kind, ERR_NETNS);
	FAILS(netns_open("/dev/null/x", &fd, &e), -ENOTDIR,
	      "failed to Statfs \"/dev/null/x\": Not a directory (ENOTDIR)");
	t_dir_make(dir, &root);
	snprintf(path, sizeof(path), "%s/file", dir);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ASSERT_EQ(netns_open(path, &fd, &e), -EINVAL);
	ASSERT_EQ(e.kind, ERR_NETNS);
	snprintf(expected, sizeof(expected), "unknown FS magic on \"%s\": ", path);
	assert_memory_equal(e.text, expected, strlen(expected));
	ASSERT_EQ(strspn(e.text + strlen(expected), "0123456789abcdef"),
		  strlen(e.text + strlen(expected)));
	/* The right filesystem magic alone does not prove a network namespace. */
	FAILS(netns_open("/proc/self/ns/uts", &fd, &e), -EINVAL,
	      "open '/proc/self/ns/uts': not a network namespace");
	FAILS(netns_open("/proc/self/status", &fd, &e), -EINVAL,
	      "open '/proc/self/status': not a network namespace");
	FAILS(netns_open("/proc", &fd, &e), -EINVAL, "open '/proc': not a network namespace");
	ASSERT_EQ(fd, -1);
	t_dir_remove(dir, &root);
}

static void test_namespace_is_mounted_on_a_new_file(void **state)
{
	char dir[T_DIR_MAX], path[64], expected[128];
	auto_fd int ns = -1, found = -1;
	struct root root;
	struct stat st;

	(void)state;
	t_dir_make(dir, &root);
	snprintf(path, sizeof(path), "%s/pod", dir);
	OK(netns_new(false, &ns, &e));
	OK(netns_pin(ns, path, &e));
	OK(netns_open(path, &found, &e));
	ASSERT_EQ(netns_same(ns, found, &e), 1);
	/* An existing file stays unchanged. */
	snprintf(expected, sizeof(expected),
		 "create network namespace file '%s': File exists (EEXIST)", path);
	FAILS(netns_pin(ns, path, &e), -EEXIST, expected);
	OK(netns_unpin(path, &e));
	ASSERT_EQ(stat(path, &st), -1);
	OK(netns_unpin(path, &e));
	/* A failed mount leaves no file. */
	ASSERT_EQ(netns_pin(4711, path, &e), -ENOENT);
	ASSERT_EQ(stat(path, &st), -1);
	t_dir_remove(dir, &root);
}

/*
 * Only the descriptor keeps the namespace alive. After close() the kernel deletes the namespace
 * with its end of the veth pair, and so also the end in the host's namespace.
 */
static void test_namespace_ends_when_its_descriptor_is_closed(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct kern_lab host;
	struct link l;
	int ns, tries = 0;

	(void)state;
	kern_open(&host);
	OK(netns_new(false, &ns, &e));
	s.name = "here";
	s.kind = "veth";
	s.peer_name = "there";
	s.peer_netns_fd = ns;
	link_add(b, &s);
	kern_commit(&host, b);
	close(ns);
	while (link_get(host.w, "here", &l, NULL) == 0 && tries++ < 500)
		usleep(10000);
	ASSERT_EQ(link_get(host.w, "here", &l, NULL), -ENODEV);
	kern_close(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_namespaces_are_distinct),
		cmocka_unit_test(test_netns_leave_returns_to_the_previous_namespace),
		cmocka_unit_test(test_invalid_namespace_paths_are_refused),
		cmocka_unit_test(test_namespace_is_mounted_on_a_new_file),
		cmocka_unit_test(test_namespace_ends_when_its_descriptor_is_closed),
	};

	return T_RUN(tests, NULL, NULL);
}
