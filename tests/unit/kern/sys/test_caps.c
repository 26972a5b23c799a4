/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ipam_lab.h"
#include "kern/sys/caps.h"

static unsigned long long status_hex(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long v = ~0ULL;
	char line[256];
	size_t n = strlen(key);

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			v = strtoull(line + n + 1, NULL, 16);
	if (f)
		fclose(f);
	return v;
}

static int gives_up(const char *path)
{
	enum { DAC_OVERRIDE = 1 << 1 };
	int fd;

	T_NEED(chown(path, 12345, 12345) == 0 && chmod(path, 0600) == 0);
	T_NEED(caps_files_only(NULL) == 0);
	T_NEED(status_hex("CapEff") == DAC_OVERRIDE && status_hex("CapPrm") == DAC_OVERRIDE);
	T_NEED(status_hex("CapBnd") == DAC_OVERRIDE);
	T_NEED(status_hex("CapInh") == 0 && status_hex("CapAmb") == 0);
	T_NEED(status_hex("NoNewPrivs") == 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	T_NEED(fd >= 0);
	T_NEED(fchown(fd, 0, 0) < 0 && errno == EPERM);
	T_NEED(sethostname("x", 1) < 0 && errno == EPERM);
	/* A second call changes nothing. */
	T_NEED(caps_files_only(NULL) == 0 && status_hex("CapEff") == DAC_OVERRIDE);
	return 0;
}

static void test_agent_drops_all_capabilities_but_dac_override(void **state)
{
	auto_free char *path = il_path(&il_lab, "/x/file");

	(void)state;
	il_write(&il_lab, "/x/file", "");
	ASSERT_EQ(t_in_child(gives_up, path), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_agent_drops_all_capabilities_but_dac_override),
	};

	return T_RUN(tests, NULL, NULL);
}
