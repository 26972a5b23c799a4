/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of configurations: files, directories, and the flags of the original plugins. */
#include "host_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/resource/source.h"

static struct err e;

#define CONF(name) "{\"resourceList\": [{\"resourceName\": \"" name "\", \"selectors\": {}}]}"

static size_t sources(struct host_lab *h, const char *path, const char *node, bool optional,
		      const char *expected)
{
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages m = {0};
	auto_buf struct buf b;
	size_t n = resource_sources_read(&h->root, &path, 1, node, optional, NULL, &c, &m);

	buf_init(&b, 4096);
	for (size_t i = 0; i < c.n; i++)
		buf_printf(&b, "%s ", c.v[i].name);
	for (size_t i = 0; i < m.n; i++)
		buf_printf(&b, "! %s", m.v[i].text);
	ASSERT_STR_EQ(b.p ? b.p : "", expected);
	return n;
}

static void test_configuration_is_read_from_files_and_directories(void **state)
{
	struct host_lab h;

	(void)state;
	host_empty(&h);
	host_write(&h, "/file/one.json", CONF("one"));
	host_write(&h, "/map/..data/config.json", CONF("hidden"));
	host_write(&h, "/map/b.json", CONF("b"));
	host_write(&h, "/map/a.json", CONF("a"));
	host_write(&h, "/map/README", "no configuration");
	host_write(&h, "/nodes/node1", CONF("node1"));
	host_write(&h, "/nodes/config.json", CONF("all"));
	host_write(&h, "/other/README", "no configuration");
	ASSERT_EQ(sources(&h, "/file/one.json", NULL, false, "one "), 1);
	ASSERT_EQ(sources(&h, "/map", "node1", false, "a b "), 2);
	ASSERT_EQ(sources(&h, "/nodes", "node1", false, "node1 "), 1);
	ASSERT_EQ(sources(&h, "/nodes", "node2", false, "all "), 1);
	ASSERT_EQ(sources(&h, "/nodes", "..data", false, "all "), 1);
	ASSERT_EQ(sources(&h, "/none", NULL, true, ""), 0);
	ASSERT_EQ(sources(&h, "/none", NULL, false,
			  "! open '/none': No such file or directory (ENOENT)"),
		  0);
	ASSERT_EQ(sources(&h, "/other", "node1", false,
			  "! /other: no configuration: expected config.json, *.json or the node's "
			  "name node1"),
		  0);
	host_remove(&h);
}

static int flags(enum resource_form form, const char *line, struct resource_flags *ret)
{
	static char copy[256];
	char *argv[16];
	int argc = 0;

	str_copy(copy, sizeof(copy), line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	err_clear(&e);
	return resource_flags_parse(form, argc, argv, ret, &e);
}

static void test_flags_of_the_originals_are_accepted(void **state)
{
	struct resource_flags f;

	(void)state;
	ASSERT_EQ(flags(RESOURCE_SHARED, "", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/k8s-rdma-shared-dev-plugin/config.json");
	assert_true(!f.use_cdi && !f.version);
	ASSERT_EQ(flags(RESOURCE_SHARED, "-config-file /a --use-cdi=true -v", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/a");
	assert_true(f.use_cdi && f.version);
	ASSERT_EQ(flags(RESOURCE_SRIOV, "", &f), 0);
	ASSERT_STR_EQ(f.config_file, "/etc/pcidp/config.json");
	assert_null(f.prefix);
	/* the SR-IOV operator runs its image with these flags */
	ASSERT_EQ(flags(RESOURCE_SRIOV,
			"--log-level=10 --resource-prefix=openshift.io "
			"--config-file=/etc/pcidp/node1 --use-cdi",
			&f),
		  0);
	ASSERT_STR_EQ(f.prefix, "openshift.io");
	ASSERT_STR_EQ(f.config_file, "/etc/pcidp/node1");
	assert_true(f.use_cdi && f.log_level == 10);
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-logtostderr -v 5 -log_dir /tmp -- -nonsense", &f), 0);
	ASSERT_EQ(f.log_level, 5);
	ASSERT_EQ(flags(RESOURCE_SHARED, "-resource-prefix=x", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "flag provided but not defined: -resource-prefix");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-config-file", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "flag needs an argument: -config-file");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-use-cdi=maybe", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "invalid boolean value \"maybe\" for -use-cdi: parse error");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "---x", &f), -EINVAL);
	ASSERT_STR_EQ(e.text, "bad flag syntax: ---x");
	ASSERT_EQ(flags(RESOURCE_SRIOV, "-v=high", &f), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_configuration_is_read_from_files_and_directories),
		cmocka_unit_test(test_flags_of_the_originals_are_accepted),
	};

	return T_RUN(tests, NULL, NULL);
}
