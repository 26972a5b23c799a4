/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

enum { VALUE_MAX = 256 };

static void test_sysctl_is_set_in_the_entered_namespace(void **state)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	char before[VALUE_MAX], value[VALUE_MAX];
	struct root root;
	struct kern_lab l;
	bool missing;

	(void)state;
	kern_open(&l);
	kern_veth(&l, "net1.100", "far1");
	OK(root_open(&root, NULL, &e));
	OK(sysctl_get(&root, "net/ipv4/ip_forward", before, sizeof(before), &e));
	OK(netns_enter(l.ns, &v, &e));
	OK(sysctl_set(&root, "net/ipv4/ip_forward", strcmp(before, "1") ? "1" : "0", &e));
	OK(sysctl_ensure(&root, "net/ipv4/conf/net1.100/arp_notify", "1", &missing, &e));
	assert_false(missing);
	OK(sysctl_get(&root, "net/ipv4/conf/net1.100/arp_notify", value, sizeof(value), &e));
	ASSERT_STR_EQ(value, "1");
	OK(sysctl_ensure(&root, "net/ipv4/conf/gone/arp_notify", "1", &missing, &e));
	assert_true(missing);
	OK(sysctl_ensure(&root, "net/ipv4/conf/gone/arp_notify", "1", NULL, &e));
	FAILS(sysctl_set(&root, "net/ipv4/conf/gone/arp_notify", "1", &e), -ENOENT,
	      "open '/proc/sys/net/ipv4/conf/gone/arp_notify': No such file or directory (ENOENT)");
	ASSERT_EQ(sysctl_set(&root, "net/ipv4/ip_forward", "many", &e), -EINVAL);
	netns_leave(&v);
	OK(sysctl_get(&root, "net/ipv4/ip_forward", value, sizeof(value), &e));
	ASSERT_STR_EQ(value, before);
	root_close(&root);
	kern_close(&l);
}

static void test_invalid_sysctl_keys_are_refused(void **state)
{
	static const char *const keys[] = {"",
					   "/net/ipv4/ip_forward",
					   "../../etc/passwd",
					   "net/../../x",
					   "net//ipv4",
					   "net/ipv4/",
					   "./net"};
	char value[VALUE_MAX], expected[VALUE_MAX], key[512];
	struct root root;

	(void)state;
	OK(root_open(&root, NULL, &e));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		snprintf(expected, sizeof(expected),
			 "sysctl '%s': not a path below /proc/sys, such as net/ipv4/ip_forward",
			 keys[i]);
		FAILS(sysctl_get(&root, keys[i], value, sizeof(value), &e), -EINVAL, expected);
		FAILS(sysctl_set(&root, keys[i], "1", &e), -EINVAL, expected);
		FAILS(sysctl_ensure(&root, keys[i], "1", NULL, &e), -EINVAL, expected);
	}
	memset(key, 'a', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	ASSERT_EQ(sysctl_get(&root, key, value, sizeof(value), &e), -ENAMETOOLONG);
	root_close(&root);
}

/* A value that differs from the present one only in white space is not written. */
static void test_sysctl_is_written_only_if_different(void **state)
{
	char dir[T_DIR_MAX], path[96], value[VALUE_MAX];
	struct root root;
	struct stat st;

	(void)state;
	t_dir_make(dir, &root);
	OK(dir_make(&root, "/proc/sys/net", 0755, &e));
	OK(file_replace(&root, "/proc/sys/net/tcp_rmem", span_of("4096\t131072\t6291456\n"), 0644,
			&e));
	snprintf(path, sizeof(path), "%s/proc/sys/net/tcp_rmem", dir);
	OK(sysctl_ensure(&root, "net/tcp_rmem", "4096 131072 6291456", NULL, &e));
	ASSERT_EQ(stat(path, &st), 0);
	ASSERT_EQ(st.st_size, strlen("4096\t131072\t6291456\n")); /* unchanged */
	OK(sysctl_ensure(&root, "net/tcp_rmem", "4096 131072 629145", NULL, &e));
	OK(sysctl_get(&root, "net/tcp_rmem", value, sizeof(value), &e));
	assert_memory_equal(value, "4096 131072 629145", strlen("4096 131072 629145"));
	OK(sysctl_ensure(&root, "net/tcp_rmem", "1", NULL, &e));
	OK(sysctl_get(&root, "net/tcp_rmem", value, sizeof(value), &e));
	ASSERT_EQ(value[0], '1');
	t_dir_remove(dir, &root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sysctl_is_set_in_the_entered_namespace),
		cmocka_unit_test(test_invalid_sysctl_keys_are_refused),
		cmocka_unit_test(test_sysctl_is_written_only_if_different),
	};

	return T_RUN(tests, NULL, NULL);
}
