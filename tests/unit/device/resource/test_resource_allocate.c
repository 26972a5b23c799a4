/* SPDX-License-Identifier: Apache-2.0 */
/* Responses to Allocate, and device-info files. */
#include "host_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/allocate.h"
#include "resource_lab.h"

static struct err e;

static void test_allocate_of_a_removed_device_fails(void **state)
{
	struct prefer_lab l;
	struct answer a = {0};
	const char *ids[] = {"0000:99:00.1"};

	(void)state;
	prefer_init(&l);
	str_copy(l.conf.full, sizeof(l.conf.full), "intel.com/a");
	ASSERT_EQ(resource_allocate(&l.s, &l.r, ids, 1, false, &a, &e), -ENOENT);
	ASSERT_STR_EQ(e.text, "resource intel.com/a has no device '0000:99:00.1' any more");
	ASSERT_EQ(resource_allocate(&l.s, &l.r, ids, 0, false, &a, &e), -EINVAL);
	assert_null(a.envs);
}

static void test_device_info_file_is_written_and_replaced(void **state)
{
	const struct resource_conf c = {.full = "a/b"};
	auto_free char *path = resource_devinfo_path(&c, "x/../y");
	char text[32];
	struct answer_file f = {path, "{}\n"};
	struct answer a = {.files = &f, .n_files = 1};
	struct host_lab h;
	struct stat st;
	ino_t inode;

	(void)state;
	ASSERT_STR_EQ(path, "/var/run/k8s.cni.cncf.io/devinfo/dp/a-b-x-..-y-device.json");
	host_empty(&h);
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0444);
	/* A read-only file of an earlier pod is replaced. */
	f.text = "{\"type\": 1}\n";
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	host_read(&h, path, text, sizeof(text));
	ASSERT_STR_EQ(text, "{\"type\": 1}");
	/* A file that already has the text is written again only if its mode differs. */
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	inode = st.st_ino;
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_ino, inode);
	ASSERT_EQ(fchmodat(h.root.fd, path + 1, 0644, 0), 0);
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	ASSERT_EQ(file_lstat(&h.root, path, &st, &e), 0);
	ASSERT_EQ(st.st_mode & 07777, 0444);
	f.text = NULL;
	ASSERT_EQ(answer_files_write(&h.root, &a, &e), 0);
	assert_false(file_exists(&h.root, path));
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocate_of_a_removed_device_fails),
		cmocka_unit_test(test_device_info_file_is_written_and_replaced),
	};

	return T_RUN(tests, NULL, NULL);
}
