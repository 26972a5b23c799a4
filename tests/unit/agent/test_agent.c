/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's listening socket, coordinator settings, pools and capabilities. */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spec/coordinator_settings.h"
#include "server/listener.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ipam/pools.h"
#include "ipam_lab.h"
#include "kern/sys/caps.h"

/* --- listener --- */

static int bind_at(const char *path, bool listens)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	str_copy(a.sun_path, sizeof(a.sun_path), path);
	ASSERT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	if (listens)
		ASSERT_EQ(listen(fd, 1), 0);
	return fd;
}

static bool answers(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	str_copy(a.sun_path, sizeof(a.sun_path), path);
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void fails(const char *path, int code, const char *expected)
{
	struct listener l = LISTENER_INIT;
	struct err e = ERR_INIT;

	ASSERT_EQ(listener_open(&l, path, &e), code);
	ASSERT_HAS(e.text, expected);
	ASSERT_EQ(l.fd, -1);
	ASSERT_EQ(l.lock, -1);
}

static void test_listener_creates_and_removes_its_socket(void **state)
{
	auto_free char *path = il_path(&il_lab, "/new/folder/sock");
	struct listener l;
	struct stat st;

	(void)state;
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	ASSERT_EQ(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	ASSERT_EQ(st.st_mode & 07777, 0600);
	assert_true(answers(path));
	listener_close(&l);
	assert_false(is_there(path));
	listener_close(&l);
}

static void test_second_server_is_refused_until_the_first_hides(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");
	struct listener l;

	(void)state;
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	fails(path, -EWOULDBLOCK, "another server has '");
	assert_true(answers(path));
	/* A server that shuts down lets the next server bind before it has exited. */
	listener_hide(&l);
	fails(path, -EWOULDBLOCK, "another server has '");
	listener_close(&l);
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	listener_close(&l);
}

static void test_other_files_at_the_socket_path(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");
	struct listener l;
	int fd = bind_at(path, true);

	(void)state;
	/* A server that is not unirail does not take the lock file. */
	fails(path, -EADDRINUSE, "another program listens on '");
	assert_true(answers(path));
	close(fd);
	/* It died. */
	ASSERT_EQ(listener_open(&l, path, NULL), 0);
	assert_true(answers(path));
	/* Another process replaced the socket: the server must not remove the new one. */
	unlink(path);
	fd = bind_at(path, true);
	listener_close(&l);
	assert_true(answers(path));
	close(fd);
	unlink(path);
	il_write(&il_lab, "/x/file", "");
	free(take(path));
	path = il_path(&il_lab, "/x/file");
	fails(path, -EEXIST, "is not a socket");
	assert_true(is_there(path));
}

static void test_invalid_socket_paths_are_refused(void **state)
{
	char path[200] = "/tmp/";

	(void)state;
	memset(path + 5, 'x', 150);
	fails(path, -ENAMETOOLONG, "at most 107 bytes");
	fails("relative", -EINVAL, "absolute path");
	fails("/proc/none/sock", -ENOENT, "/proc/none");
}

/* systemd passes the socket as descriptor 3, with two variables. */
static int inherit(const char *pid, const char *fds, int fd, struct err *e)
{
	struct listener l;
	int r;

	if (fd >= 0)
		dup2(fd, 3);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", fds, 1);
	r = listener_inherit(&l, e);
	if (r == 1 &&
	    (l.fd != 3 || !(fcntl(3, F_GETFD) & FD_CLOEXEC) || !(fcntl(3, F_GETFL) & O_NONBLOCK)))
		r = -1000;
	if (getenv("LISTEN_FDS") || getenv("LISTEN_PID"))
		r = -1001;
	return r;
}

static int in_child(int (*fn)(const char *path), const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(path));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

#define NEED(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			return __LINE__ % 255 + 1;                                                 \
	} while (0)

static int inherits(const char *path)
{
	struct err e = ERR_INIT;
	char me[20];
	int fd = bind_at(path, true);

	snprintf(me, sizeof(me), "%d", getpid());
	NEED(inherit(me, "1", fd, &e) == 1);
	NEED(inherit("1", "1", fd, &e) == 0);
	NEED(inherit(me, "0", fd, &e) == 0);
	NEED(inherit(me, "x", fd, &e) == 0);
	NEED(inherit(me, "2", fd, &e) == -EINVAL && strstr(e.text, "passed 2 sockets"));
	NEED(inherit(me, "1", open("/dev/null", O_RDONLY | O_CLOEXEC), &e) == -EINVAL);
	NEED(strstr(e.text, "no listening UNIX stream socket"));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(inherit(me, "1", fd, &e) == -EINVAL);
	return 0;
}

static void test_socket_inherited_from_systemd_is_used_and_stays(void **state)
{
	auto_free char *path = il_path(&il_lab, "/sock");

	(void)state;
	ASSERT_EQ(in_child(inherits, path), 0);
	assert_true(is_there(path));
}

/* --- settings --- */

static void settings(const char *text, const char *json)
{
	struct coordinator_settings s;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;

	il_write(&il_lab, "/etc/agent.conf", text);
	buf_init(&b, 10000);
	ASSERT_OK(coordinator_settings_read(&il_lab.root, "/etc/agent.conf", &s, &e), &e);
	jo_init(&o, &b, 0);
	coordinator_settings_json(&s, &o);
	ASSERT_STR_EQ(b.p, json);
	coordinator_settings_done(&s);
}

static void test_coordinator_settings_are_read_from_the_agent_file(void **state)
{
	struct coordinator_settings s;

	(void)state;
	ASSERT_EQ(coordinator_settings_read(&il_lab.root, "/none", &s, NULL), 0);
	ASSERT_STR_EQ(s.mode, "auto");
	coordinator_settings_done(&s);
	settings("[coordinator]\nmode = overlay\noverlayPodCIDR = 10.244.0.0/16, fd00::/48\n"
		 "SERVICECIDR = 10.96.0.0/12\nhijackCIDR = 169.254.0.1\nhijackCIDR = 1.2.3.0/24\n"
		 "policyRoutes = 10.1.0.0/16 via 10.0.0.1\npolicyRoutes = 1.1.1.1 via 10.0.0.2\n"
		 "podMACPrefix = 0a:1b\ntunePodRoutes = no\npodDefaultRouteNIC = net1\n"
		 "hostRuleTable = 600\npodRPFilter = -1\ntxQueueLen = 100\n"
		 "vethLinkAddress = 169.254.100.1\nvethMTU = 9000\n",
		 "{\"hijackCIDR\":[\"169.254.0.1/32\",\"1.2.3.0/24\"],\"hostRuleTable\":600,"
		 "\"mode\":\"overlay\",\"overlayPodCIDR\":[\"10.244.0.0/16\",\"fd00::/48\"],"
		 "\"podDefaultRouteNIC\":\"net1\",\"podMACPrefix\":\"0a:1b\",\"podRPFilter\":-1,"
		 "\"policyRoutes\":[{\"dst\":\"10.1.0.0/16\",\"gw\":\"10.0.0.1\"},"
		 "{\"dst\":\"1.1.1.1/32\",\"gw\":\"10.0.0.2\"}],\"serviceCIDR\":[\"10.96.0.0/12\"],"
		 "\"tunePodRoutes\":false,\"txQueueLen\":100,\"vethLinkAddress\":\"169.254.100.1\","
		 "\"vethMTU\":9000}");
}

static void test_invalid_coordinator_settings_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} bad[] = {
		{"mode = auto\n", "agent.conf:1: section '' is not known"},
		{"[other]\nx = y\n", "agent.conf:2: section 'other' is not known"},
		{"[coordinator]\n\nmode = on\n",
		 "agent.conf:3: mode is 'on', expected auto, underlay"},
		{"[coordinator]\nmod = auto\n",
		 "key 'mod' is not known here; did you mean 'mode'?"},
		{"[coordinator]\nhijackCIDR = 1.2.3.4/33\n",
		 "hijackCIDR is '1.2.3.4/33', expected CIDRs"},
		{"[coordinator]\npolicyRoutes = 1.2.3.4\n", "expected 'DST via GATEWAY'"},
		{"[coordinator]\npolicyRoutes = 1.2.3.4 via x\n", "expected 'DST via GATEWAY'"},
		{"[coordinator]\npodMACPrefix = 0b:1b\n", "podMACPrefix is '0b:1b'"},
		{"[coordinator]\npodMACPrefix = 0a1b\n", "podMACPrefix is '0a1b'"},
		{"[coordinator]\nvethMTU = 67\n", "vethMTU is '67', expected 68 to 65535"},
		{"[coordinator]\npodRPFilter = 3\n", "expected -1 to 2"},
		{"[coordinator]\ntunePodRoutes = maybe\n", "expected yes or no"},
		{"[coordinator]\nvethLinkAddress = x\n", "expected an IP address"},
		{"[coordinator]\npodDefaultRouteNIC = a/b\n", "expected the name of an interface"},
		{"[coordinator]\nrubbish\n", "agent.conf:2: is not 'key"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct coordinator_settings s;
		struct err e = ERR_INIT;

		il_write(&il_lab, "/etc/agent.conf", bad[i].text);
		assert_true(coordinator_settings_read(&il_lab.root, "/etc/agent.conf", &s, &e) < 0);
		ASSERT_HAS(e.text, bad[i].expected);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
	}
}

/* --- pools attached to the store --- */

#define POOL(ips) "[pool a]\nsubnet=10.0.0.0/24\nips=" ips "\ndefault=yes\n"

static int take_one(struct ipam_pools *p, const char *id, struct err *e)
{
	struct ip_request wanted = {.owner = {.container_id = id, .ifname = "eth0", .pod_name = id},
				    .sticky = *id == 's'};
	struct ipam *i = il_open(&il_lab);
	struct ip_allocation *g = NULL;
	size_t n = 0;
	int r, last = 0;

	ipam_attach_pools(i, p);
	r = ipam_allocate(i, &wanted, 1, &g, &n, e);
	if (r == 0)
		last = (int)ip_num(&g[0].address.ip) & 255;
	ip_allocations_free(g, n);
	ipam_detach_pools(i, p);
	ipam_close(i);
	return r < 0 ? r : last;
}

static void test_pools_stay_in_use_when_their_file_becomes_invalid(void **state)
{
	struct ipam_pools p = {0};
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL("10.0.0.5-10.0.0.7"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "a", &e), 5);
	/*
	 * A pool file is invalid, then the directory is unreadable: the pools that were read before
	 * stay in use.
	 */
	il_pools(&il_lab, POOL("11.0.0.5"));
	assert_true(ipam_pools_read(&p, &il_lab.root, "/pools", &e) < 0);
	ASSERT_HAS(e.text, "rails.conf:3");
	ASSERT_EQ(take_one(&p, "b", &e), 6);
	il_pools(&il_lab, POOL("10.0.0.20"));
	ASSERT_EQ(take_one(&p, "c", &e), 7);
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "d", &e), 20);
	ipam_pools_done(&p);
}

static void test_pool_file_invalid_at_start_fails_requests_until_corrected(void **state)
{
	struct ipam_pools p = {0};
	struct err e = ERR_INIT;

	(void)state;
	il_pools(&il_lab, POOL("11.0.0.5"));
	assert_true(ipam_pools_read(&p, &il_lab.root, "/pools", &e) < 0);
	for (int i = 0; i < 2; i++) {
		err_clear(&e);
		assert_true(take_one(&p, "a", &e) < 0);
		ASSERT_HAS(e.text, "rails.conf:3");
	}
	il_pools(&il_lab, POOL("10.0.0.5"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", &e), 0);
	ASSERT_EQ(take_one(&p, "a", &e), 5);
	ipam_pools_done(&p);
}

static void test_sticky_and_normal_leases_are_distinguished(void **state)
{
	struct ipam_pools p = {0};
	struct ipam *i;

	(void)state;
	il_pools(&il_lab, POOL("10.0.0.5-10.0.0.7"));
	ASSERT_EQ(ipam_pools_read(&p, &il_lab.root, "/pools", NULL), 0);
	assert_true(take_one(&p, "s1", NULL) > 0 && take_one(&p, "x1", NULL) > 0);
	i = il_open(&il_lab);
	assert_true(ipam_holds_sticky(i, "s1"));
	assert_false(ipam_holds_sticky(i, "x1"));
	ASSERT_STR_EQ(ipam_node(i), "node1");
	ipam_close(i);
	ipam_pools_done(&p);
}

/* --- capabilities --- */

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

	NEED(chown(path, 12345, 12345) == 0 && chmod(path, 0600) == 0);
	NEED(caps_files_only(NULL) == 0);
	NEED(status_hex("CapEff") == DAC_OVERRIDE && status_hex("CapPrm") == DAC_OVERRIDE);
	NEED(status_hex("CapBnd") == DAC_OVERRIDE);
	NEED(status_hex("CapInh") == 0 && status_hex("CapAmb") == 0);
	NEED(status_hex("NoNewPrivs") == 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	NEED(fd >= 0);
	NEED(fchown(fd, 0, 0) < 0 && errno == EPERM);
	NEED(sethostname("x", 1) < 0 && errno == EPERM);
	/* A second call changes nothing. */
	NEED(caps_files_only(NULL) == 0 && status_hex("CapEff") == DAC_OVERRIDE);
	return 0;
}

static void test_agent_drops_all_capabilities_but_dac_override(void **state)
{
	auto_free char *path = il_path(&il_lab, "/x/file");

	(void)state;
	il_write(&il_lab, "/x/file", "");
	ASSERT_EQ(in_child(gives_up, path), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, il_setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_listener_creates_and_removes_its_socket),
		TEST(test_second_server_is_refused_until_the_first_hides),
		TEST(test_other_files_at_the_socket_path),
		TEST(test_invalid_socket_paths_are_refused),
		TEST(test_socket_inherited_from_systemd_is_used_and_stays),
		TEST(test_coordinator_settings_are_read_from_the_agent_file),
		TEST(test_invalid_coordinator_settings_are_refused),
		TEST(test_pools_stay_in_use_when_their_file_becomes_invalid),
		TEST(test_pool_file_invalid_at_start_fails_requests_until_corrected),
		TEST(test_sticky_and_normal_leases_are_distinguished),
		TEST(test_agent_drops_all_capabilities_but_dac_override),
	};

	return T_RUN(tests, NULL, NULL);
}
