/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test program installs itself: run under the name "alpha" or "beta" it exits with status 42.
 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/install/install.h"
#include "cli/cli.h"
#include "wire/tls/digest.h"

static const struct applet table[] = {
	{"alpha", "a plugin", NULL, APPLET_CNI | APPLET_LINK, NULL, NULL},
	{"beta", "a plugin", NULL, APPLET_CNI | APPLET_LINK, NULL, NULL},
	{"tool", "no link", NULL, 0, NULL, NULL},
	{0},
};

enum { OWN_STATUS = 42, OTHER_STATUS = 41 };
#define THEIR_TEXT "#!/bin/sh\nexit 41\n"

static char dir[T_DIR_MAX];
static struct root root;

static int setup(void **state)
{
	(void)state;
	t_dir_make_in_tmp(dir, &root);
	return dir_make(&root, "/opt/cni/bin", 0755, NULL);
}

static int teardown(void **state)
{
	(void)state;
	t_dir_remove(dir, &root);
	return 0;
}

#define INSTALL(...)                                                                               \
	t_main(install_main, (const char *const[]){"install", "--root", dir, ##__VA_ARGS__, NULL})

static const char *in_bin(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "/opt/cni/bin/%s", name);
	return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
	ASSERT_EQ(file_replace(&root, in_bin(name), span_of(text), mode, NULL), 0);
}

static bool there(const char *name)
{
	struct stat st;

	return file_lstat(&root, in_bin(name), &st, NULL) == 0;
}

static void expect(const char *name, const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, 1 << 20);
	ASSERT_EQ(file_read(&root, in_bin(name), 1 << 20, &b, NULL), 0);
	ASSERT_STR_EQ(b.p, text);
}

static size_t count(void)
{
	char **names = NULL;
	size_t n = 0;

	ASSERT_EQ(dir_list(&root, "/opt/cni/bin", &names, &n, NULL), 0);
	str_list_free(names, n);
	return n;
}

/* Runs an installed plugin. Returns its exit status; 127 if it could not be executed. */
static int call(const char *name)
{
	char path[256];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/opt/cni/bin/%s", dir, name);
	pid = fork();
	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static void test_first_installation_copies_and_links(void **state)
{
	char target[32];
	struct stat st;

	(void)state;
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_STR_EQ(t_out, "copy     unirail\nlink     alpha -> unirail\n"
			     "link     beta -> unirail\n");
	ASSERT_STR_EQ(t_err, "");
	ASSERT_EQ(call("alpha"), OWN_STATUS);
	ASSERT_EQ(call("beta"), OWN_STATUS);
	ASSERT_EQ(link_read(&root, in_bin("alpha"), target, sizeof(target), NULL), 0);
	ASSERT_STR_EQ(target, "unirail");
	ASSERT_EQ(file_lstat(&root, in_bin("unirail"), &st, NULL), 0);
	ASSERT_EQ(st.st_mode & 07777, 0755);
	ASSERT_EQ(count(), 4);
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	ASSERT_STR_EQ(t_out, "remove   beta\nremove   alpha\nremove   unirail\n");
	ASSERT_EQ(count(), 0);
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	ASSERT_STR_EQ(t_out, "nothing to do in /opt/cni/bin\n");
}

static void write_file(const char *path, const char *text)
{
	ASSERT_EQ(file_replace(&root, path, span_of(text), 0644, NULL), 0);
}

/* Writes or removes the CNI configuration; with `cdi` also removes the CDI specifications. t_out
 * gets the messages; t_err gets the reason if the container runtime does not use the
 * configuration. */
static int change(const char *name, bool remove, bool cdi, bool dry_run)
{
	struct install_node n = {.root = &root,
				 .conf_dir = "/etc/cni/net.d",
				 .conf_name = name,
				 .socket = "/var/run/spidernet/spiderpool.sock",
				 .dry_run = dry_run};
	int r;

	buf_init(&n.messages, sizeof(t_out));
	buf_init(&n.reason, sizeof(t_err));
	r = install_node_config(&n, remove, NULL);
	if (r == 0 && cdi)
		r = install_node_remove_cdi(&n, NULL);
	snprintf(t_out, sizeof(t_out), "%s", n.messages.len ? n.messages.p : "");
	snprintf(t_err, sizeof(t_err), "%s", n.reason.len ? n.reason.p : "");
	buf_done(&n.messages);
	buf_done(&n.reason);
	return r;
}

static int node(const char *name, bool uninstall, bool dry_run)
{
	return change(name, uninstall, uninstall, dry_run);
}

static void test_install_writes_and_uninstall_removes_the_cni_configuration(void **state)
{
	(void)state;
	/* While no CNI configuration of a network exists, install succeeds without writing a
	 * file. */
	ASSERT_EQ(node("0-a.conflist", false, false), 0);
	assert_non_null(strstr(t_err, "written as soon as there is one"));
	assert_false(file_exists(&root, "/etc/cni/net.d/0-a.conflist"));
	write_file("/etc/cni/net.d/10-net.conf", "{\"type\":\"bridge\"}");
	ASSERT_EQ(node("0-a.conflist", false, true), 0);
	ASSERT_STR_EQ(t_out, "would write    /etc/cni/net.d/0-a.conflist\n");
	assert_false(file_exists(&root, "/etc/cni/net.d/0-a.conflist"));
	ASSERT_EQ(node("0-a.conflist", false, false), 0);
	ASSERT_STR_EQ(t_out, "write    /etc/cni/net.d/0-a.conflist\n");
	ASSERT_EQ(node("0-a.conflist", false, false), 0);
	ASSERT_STR_EQ(t_out, "");
	/* Another name: the file with the previous name is removed. */
	ASSERT_EQ(node("00-a.conflist", false, false), 0);
	assert_false(file_exists(&root, "/etc/cni/net.d/0-a.conflist"));
	assert_true(file_exists(&root, "/etc/cni/net.d/00-a.conflist"));
	ASSERT_EQ(node("00-a.conflist", true, false), 0);
	ASSERT_STR_EQ(t_out, "remove   /etc/cni/net.d/00-a.conflist\n");
	assert_false(file_exists(&root, "/etc/cni/net.d/00-a.conflist"));
	assert_true(file_exists(&root, "/etc/cni/net.d/10-net.conf"));
}

/* Uninstall removes only the CDI specifications that unirail's device plugin wrote. The original
 * device plugins write files with the same names and kinds into the same directory; those files
 * are retained. */
static void test_uninstall_removes_only_cdi_specifications_of_unirail(void **state)
{
	static const struct {
		const char *path, *text;
		bool is_own;
	} v[] = {
		{"/var/run/cdi/nvidia.com_hca.yaml",
		 "{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/net-rdma\"}", true},
		{"/var/run/cdi/sriov-dp-intel.com-net-pci-vf.yaml",
		 "{\"cdiVersion\": \"0.5.0\", \"kind\": \"intel.com/net-pci\"}", true},
		{"/var/run/cdi/nvidia.com_all.yaml",
		 "cdiVersion: 0.5.0\nkind: nvidia.com/net-rdma\n", false},
		{"/var/run/cdi/gpu.json",
		 "{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/gpu\"}", false},
	};

	(void)state;
	ASSERT_EQ(dir_make(&root, "/var/run/cdi", 0755, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		write_file(v[i].path, v[i].text);
	ASSERT_EQ(change("", true, false, false), 0); /* an installation without a configuration */
	ASSERT_EQ(node("", true, true), 0);
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		assert_true(file_exists(&root, v[i].path));
	ASSERT_EQ(node("", true, false), 0);
	ASSERT_STR_EQ(t_out, "remove   /var/run/cdi/nvidia.com_hca.yaml\n"
			     "remove   /var/run/cdi/sriov-dp-intel.com-net-pci-vf.yaml\n");
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		ASSERT_EQ_MSG(file_exists(&root, v[i].path), !v[i].is_own, "v[%zu]", i);
}

/* Files of other programs stay, and no symbolic link is followed. */
static void test_purge_removes_the_state_of_a_node(void **state)
{
	struct install_node n = {.root = &root, .socket = "/var/run/spidernet/spiderpool.sock"};

	(void)state;
	ASSERT_EQ(dir_make(&root, "/etc/cni/net.d", 0755, NULL), 0);
	ASSERT_EQ(dir_make(&root, "/var/lib/unirail/ipam/status", 0755, NULL), 0);
	ASSERT_EQ(dir_make(&root, "/var/run/spidernet", 0755, NULL), 0);
	write_file("/etc/cni/net.d/10-net.conf", "{\"type\":\"bridge\"}");
	write_file("/var/lib/unirail/ipam/journal", "x");
	write_file("/var/lib/unirail/ipam/status/y", "x");
	write_file("/var/run/spidernet/spiderpool.sock", "");
	ASSERT_EQ(symlinkat("../../../etc/cni", root.fd, "var/lib/unirail/link"), 0);
	buf_init(&n.messages, sizeof(t_out));
	ASSERT_EQ(install_node_is_free(&n, NULL), 0);
	ASSERT_EQ(install_node_purge(&n, NULL), 0);
	ASSERT_EQ(install_node_purge(&n, NULL), 0);
	buf_done(&n.messages);
	assert_false(file_exists(&root, "/var/lib/unirail/ipam"));
	assert_true(file_exists(&root, "/var/lib/unirail"));
	assert_false(file_exists(&root, "/var/run/spidernet/spiderpool.sock"));
	assert_true(file_exists(&root, "/etc/cni/net.d/10-net.conf"));
	/* Invalid options are refused. */
	ASSERT_EQ(INSTALL("--purge"), 2);
	assert_non_null(strstr(t_err, "--uninstall"));
	ASSERT_EQ(INSTALL("--cni-conf-dir", "etc"), 2);
	ASSERT_EQ(INSTALL("--cni-conf-name", "x.conflist"), 2);
	ASSERT_EQ(INSTALL("--cni-conf-dir", "/x", "--cni-conf-name", "x.conf"), 2);
	assert_non_null(strstr(t_err, "NAME.conflist"));
	ASSERT_EQ(INSTALL("--socket", "x"), 2);
}

static void test_invalid_option_creates_no_directory(void **state)
{
	(void)state;
	ASSERT_EQ(unlinkat(root.fd, "opt/cni/bin", AT_REMOVEDIR), 0);
	ASSERT_EQ(INSTALL("--links", "alhpa"), 1);
	assert_false(file_exists(&root, "/opt/cni/bin"));
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_EQ(count(), 4);
}

static void test_second_installation_changes_nothing(void **state)
{
	struct stat before, after, record_before, record_after;

	(void)state;
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_EQ(file_lstat(&root, in_bin("alpha"), &before, NULL), 0);
	ASSERT_EQ(file_lstat(&root, in_bin(INSTALL_RECORD), &record_before, NULL), 0);
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_STR_EQ(t_out, "nothing to do in /opt/cni/bin\n");
	ASSERT_EQ(file_lstat(&root, in_bin("alpha"), &after, NULL), 0);
	ASSERT_EQ(file_lstat(&root, in_bin(INSTALL_RECORD), &record_after, NULL), 0);
	ASSERT_EQ(before.st_ino, after.st_ino);
	ASSERT_EQ(record_before.st_ino, record_after.st_ino);
	ASSERT_EQ(INSTALL("-o", "json"), 0);
	assert_non_null(strstr(t_out, "\"changed\": false"));
}

static void test_files_of_other_programs_are_a_conflict(void **state)
{
	(void)state;
	put("alpha", THEIR_TEXT, 0755);
	put("beta", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL(), 1);
	ASSERT_STR_EQ(
		t_err,
		"unirail install: directory '/opt/cni/bin': not installed by unirail: 'alpha', 'beta'; "
		"--replace renames each to NAME.before-unirail, --skip-existing leaves them in place, but fails if 'unirail' is one of them, --links "
		"selects the links to install\n");
	ASSERT_STR_EQ(t_out, "");
	ASSERT_EQ(count(), 2);
	/* A file whose name is not in --links causes no conflict. */
	ASSERT_EQ(file_remove(&root, in_bin("beta"), NULL), 0);
	ASSERT_EQ(INSTALL("--links", "beta"), 0);
	ASSERT_EQ(call("alpha"), OTHER_STATUS);
	ASSERT_EQ(call("beta"), OWN_STATUS);
}

/* Plugins of other programs stay on the node, and the rest is installed. */
static void test_skip_existing_leaves_files_of_other_programs(void **state)
{
	(void)state;
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--skip-existing"), 0);
	ASSERT_STR_EQ(t_out, "copy     unirail\nlink     beta -> unirail\n");
	ASSERT_STR_EQ(t_err,
		      "unirail install: skipped '/opt/cni/bin/alpha': not installed by unirail\n");
	ASSERT_EQ(call("alpha"), OTHER_STATUS);
	ASSERT_EQ(call("beta"), OWN_STATUS);
	ASSERT_EQ(INSTALL("--skip-existing"), 0);
	ASSERT_STR_EQ(t_out, "nothing to do in /opt/cni/bin\n");
	/* The file was not installed by unirail, so uninstall does not remove it. */
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	ASSERT_STR_EQ(t_err, "");
	expect("alpha", THEIR_TEXT);
	ASSERT_EQ(count(), 1);
	/* But a file under the binary's own name is a conflict. */
	put("unirail", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--skip-existing"), 1);
	assert_non_null(strstr(t_err, "not installed by unirail: 'unirail'; --replace"));
	ASSERT_EQ(INSTALL("--skip-existing", "--replace"), 2);
	ASSERT_EQ(INSTALL("--skip-existing", "--uninstall"), 2);
}

static void test_replaced_files_are_restored_by_uninstall(void **state)
{
	struct stat before, after;
	char target[32];

	(void)state;
	put("alpha", THEIR_TEXT, 0751);
	put("other", THEIR_TEXT, 0755);
	ASSERT_EQ(link_replace(&root, in_bin("beta"), "other", NULL), 0);
	ASSERT_EQ(file_lstat(&root, in_bin("alpha"), &before, NULL), 0);
	ASSERT_EQ(INSTALL("--replace"), 0);
	ASSERT_STR_EQ(t_out, "copy     unirail\n"
			     "keep     alpha as alpha.before-unirail\nlink     alpha -> unirail\n"
			     "keep     beta as beta.before-unirail\nlink     beta -> unirail\n");
	ASSERT_EQ(call("alpha"), OWN_STATUS);
	ASSERT_EQ(call("beta"), OWN_STATUS);
	ASSERT_EQ(call("alpha.before-unirail"), OTHER_STATUS);
	ASSERT_EQ(INSTALL("--replace"), 0);
	ASSERT_STR_EQ(t_out, "nothing to do in /opt/cni/bin\n");
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	ASSERT_STR_EQ(t_out, "restore  beta from beta.before-unirail\n"
			     "restore  alpha from alpha.before-unirail\nremove   unirail\n");
	ASSERT_EQ(file_lstat(&root, in_bin("alpha"), &after, NULL), 0);
	ASSERT_EQ(after.st_ino, before.st_ino);
	ASSERT_EQ(after.st_mode, before.st_mode);
	ASSERT_EQ(link_read(&root, in_bin("beta"), target, sizeof(target), NULL), 0);
	ASSERT_STR_EQ(target, "other");
	ASSERT_EQ(count(), 3);
}

static void test_existing_backup_is_not_overwritten(void **state)
{
	(void)state;
	put("alpha", THEIR_TEXT, 0755);
	put("alpha.before-unirail", "something else", 0644);
	ASSERT_EQ(INSTALL("--replace"), 1);
	ASSERT_STR_EQ(t_err,
		      "unirail install: directory '/opt/cni/bin': another NAME.before-unirail "
		      "already exists for 'alpha'; move it to another directory\n");
	ASSERT_EQ(count(), 2);
	/* A backup with the same content does not conflict. */
	put("alpha.before-unirail", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--replace", "--links", "alpha"), 0);
	ASSERT_STR_EQ(t_out, "copy     unirail\nlink     alpha -> unirail\n");
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	expect("alpha", THEIR_TEXT);
	ASSERT_EQ(count(), 1);
}

static void test_uninstall_leaves_and_names_changed_files(void **state)
{
	(void)state;
	put("beta", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--replace"), 0);
	put("alpha", "theirs now", 0755);
	put("beta.before-unirail", "changed", 0644);
	put("unirail", "another binary", 0755);
	ASSERT_EQ(INSTALL("--uninstall"), 1);
	ASSERT_STR_EQ(t_out, "remove   beta\n");
	ASSERT_STR_EQ(
		t_err,
		"unirail install: skipped '/opt/cni/bin/beta.before-unirail': backup was changed, not "
		"restored\nunirail install: skipped '/opt/cni/bin/alpha': changed since it was "
		"installed, not removed\nunirail install: skipped '/opt/cni/bin/unirail': changed "
		"since it was installed, not removed\n");
	expect("alpha", "theirs now");
	expect("beta.before-unirail", "changed");
	expect("unirail", "another binary");
	ASSERT_EQ(count(), 3);
}

static void test_dry_run_changes_nothing(void **state)
{
	(void)state;
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--dry-run", "--replace", "-o", "json"), 0);
	assert_non_null(strstr(t_out, "\"dryRun\": true"));
	assert_non_null(strstr(t_out, "\"action\": \"keep\""));
	ASSERT_EQ(count(), 1);
	ASSERT_EQ(INSTALL("--dry-run", "--cni-bin-dir", "/none/yet"), 0);
	ASSERT_STR_EQ(t_out, "would copy     unirail\nwould link     alpha -> unirail\n"
			     "would link     beta -> unirail\n");
	assert_false(file_exists(&root, "/none"));
	ASSERT_EQ(INSTALL("/none/yet"), 0);
	assert_true(file_exists(&root, "/none/yet/beta"));
	ASSERT_EQ(INSTALL("--uninstall", "--dry-run", "--cni-bin-dir", "/none/yet"), 0);
	assert_true(file_exists(&root, "/none/yet/beta"));
	ASSERT_EQ(INSTALL("--uninstall", "--cni-bin-dir", "/none/at/all"), 0);
	assert_false(file_exists(&root, "/none/at"));
}

static void test_invalid_options_are_refused(void **state)
{
	(void)state;
	ASSERT_EQ(INSTALL("--links", "alhpa"), 1);
	assert_non_null(strstr(t_err, "no link 'alhpa'; did you mean 'alpha'?"));
	ASSERT_EQ(INSTALL("--links", "tool"), 1);
	ASSERT_EQ(INSTALL("--cni-bin-dir", "here"), 2);
	ASSERT_EQ(INSTALL("--uninstall", "--replace"), 2);
	ASSERT_EQ(INSTALL("--uninstall", "--links=all"), 2);
	ASSERT_EQ(INSTALL("now"), 2);
	ASSERT_STR_EQ(t_err, "unirail install: directory 'now' is not an absolute path\n");
	ASSERT_EQ(INSTALL("--cni-bin-dir", "/a", "/b"), 2);
	ASSERT_EQ(INSTALL("/a", "/b"), 2);
	ASSERT_EQ(dir_make(&root, in_bin("alpha"), 0755, NULL), 0);
	ASSERT_EQ(INSTALL("--replace"), 1);
	assert_non_null(strstr(t_err, "'alpha': neither a file nor a link; move it"));
	ASSERT_EQ(count(), 1);
	ASSERT_EQ(INSTALL("--list"), 0);
	ASSERT_STR_EQ(t_out, "alpha\nbeta\n");
	ASSERT_EQ(INSTALL("--list", "-o", "json"), 0);
	ASSERT_STR_EQ(t_out, "[\n    \"alpha\",\n    \"beta\"\n]\n");
}

/* An invalid installation record is refused as a whole, for example one that names a path
 * outside of the directory or that a later version wrote. */
static void test_invalid_installation_records_are_refused(void **state)
{
	static const char *const bad[] = {
		"{\"version\": 2, \"sha256\": \"\"}",
		"{\"version\": 1}",
		"{\"version\": 1, \"sha256\": \"12\"}",
		"{\"version\": 1, \"sha256\": \"" /* ends before the digest */,
		"not json",
		"",
	};
	static const char *const tails[] = {
		"\", \"links\": [\"../../etc/passwd\"]}",
		"\", \"links\": [\"\"]}",
		"\", \"links\": [\".x\"]}",
		"\", \"backups\": [{\"name\": \"a/b\", \"link\": \"x\"}]}",
		"\", \"backups\": [{\"name\": \"a\"}]}",
		"\", \"backups\": [{\"name\": \"a\", \"link\": \"x\", \"sha256\": \"y\"}]}",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put(INSTALL_RECORD, bad[i], 0644);
		ASSERT_EQ_MSG(INSTALL("--uninstall"), 1, "bad[%zu]", i);
		assert_non_null(strstr(t_err, "record of the installation "
					      "'/opt/cni/bin/.unirail-install.json'"));
	}
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		snprintf(text, sizeof(text), "{\"version\": 1, \"sha256\": \"%064d%s", 0, tails[i]);
		put(INSTALL_RECORD, text, 0644);
		ASSERT_EQ_MSG(INSTALL(), 1, "tails[%zu]", i);
		ASSERT_EQ_MSG(count(), 1, "tails[%zu]", i);
	}
}

/* The states after kill -9: an installation that wrote the record and the backup but no link, an
 * installation that created only some of the links, and an interrupted uninstall. */
static void test_killed_installation_is_completed_or_undone(void **state)
{
	(void)state;
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--replace"), 0);
	/* The installation was killed when only the record and the backup existed. */
	ASSERT_EQ(file_remove(&root, in_bin("unirail"), NULL), 0);
	ASSERT_EQ(file_remove(&root, in_bin("beta"), NULL), 0);
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	expect("alpha", THEIR_TEXT);
	ASSERT_EQ(count(), 1);

	ASSERT_EQ(INSTALL("--replace"), 0);
	ASSERT_EQ(file_remove(&root, in_bin("beta"), NULL), 0);
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_STR_EQ(t_out, "link     beta -> unirail\n");
	/* An uninstall that was killed after it had restored alpha. */
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--uninstall"), 0);
	ASSERT_EQ(count(), 1);
}

/* A completed upgrade, then an upgrade that was killed after it had written the record and
 * before it replaced the binary. */
static void test_upgrade_replaces_the_binary(void **state)
{
	char sha_old[DIGEST_HEX], sha_new[DIGEST_HEX], text[512];
	struct root host;

	(void)state;
	ASSERT_EQ(root_open(&host, NULL, NULL), 0);
	ASSERT_EQ(digest_sha256_file(&host, "/proc/self/exe", sha_new, NULL), 0);
	root_close(&host);
	digest_sha256(span_of(THEIR_TEXT), sha_old);

	snprintf(text, sizeof(text), "{\"version\": 1, \"sha256\": \"%s\", \"links\": []}",
		 sha_old);
	put(INSTALL_RECORD, text, 0644);
	put("unirail", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_EQ(call("alpha"), OWN_STATUS);
	assert_false(there("unirail.before-unirail"));

	snprintf(text, sizeof(text),
		 "{\"version\": 1, \"sha256\": \"%s\", \"previousSha256\": \"%s\", \"links\": []}",
		 sha_new, sha_old);
	put(INSTALL_RECORD, text, 0644);
	put("unirail", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_STR_EQ(t_out, "copy     unirail\n");
	ASSERT_EQ(INSTALL(), 0);
	ASSERT_STR_EQ(t_out, "nothing to do in /opt/cni/bin\n");
	ASSERT_EQ(call("alpha"), OWN_STATUS);

	/* With --replace, a file `unirail` that unirail did not install becomes a backup, like
	 * any other file. */
	put("unirail", "somebody's", 0755);
	ASSERT_EQ(INSTALL(), 1);
	ASSERT_EQ(INSTALL("--replace"), 0);
	expect("unirail.before-unirail", "somebody's");
}

/* On a full disk the old state stays complete. */
static void test_failed_installation_retains_the_old_state(void **state)
{
	char bin[128], command[256];

	(void)state;
	snprintf(bin, sizeof(bin), "%s/opt/cni/bin", dir);
	if (mount("tmpfs", bin, "tmpfs", 0, "size=64k") < 0) {
		assert_int_not_equal(geteuid(), 0);
		return;
	}
	put("alpha", THEIR_TEXT, 0755);
	ASSERT_EQ(INSTALL("--replace"), 1);
	assert_non_null(
		strstr(t_err, "copy to 'unirail': write: No space left on device (ENOSPC)"));
	ASSERT_EQ(call("alpha"), OTHER_STATUS);
	ASSERT_EQ(count(), 1);
	/* On a read-only file system the old state stays as well. */
	ASSERT_EQ(mount(NULL, bin, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ASSERT_EQ(INSTALL("--replace"), 1);
	assert_non_null(strstr(t_err, "Read-only file system (EROFS)"));
	snprintf(command, sizeof(command), "umount '%s'", bin);
	ASSERT_EQ(system(command), 0);
}

/* Installs a copy of /bin/false as alpha. A script is unsuitable for this test: its interpreter
 * opens the path a second time, and by then the installation may have replaced the file. */
static void put_false(void)
{
	auto_buf struct buf b;
	struct root host;

	buf_init(&b, 1 << 22);
	ASSERT_EQ(root_open(&host, NULL, NULL), 0);
	ASSERT_EQ(file_read(&host, "/bin/false", 1 << 22, &b, NULL), 0);
	ASSERT_EQ(file_replace(&root, in_bin("alpha"), buf_span(&b), 0755, NULL), 0);
	root_close(&host);
}

static void test_calls_during_installation_run_the_old_or_the_new_program(void **state)
{
	int seen[2] = {0, 0}, pipes[2], status;
	pid_t pid;

	(void)state;
	ASSERT_EQ(pipe(pipes), 0);
	put_false();
	pid = fork();
	if (pid == 0) {
		fcntl(pipes[0], F_SETFL, O_NONBLOCK);
		close(pipes[1]);
		for (char c; read(pipes[0], &c, 1) != 0;) {
			int exit_status = call("alpha");

			if (exit_status != OWN_STATUS && exit_status != 1)
				_exit(exit_status);
			seen[exit_status == OWN_STATUS]++;
		}
		_exit(seen[0] && seen[1] ? 0 : 1);
	}
	close(pipes[0]);
	for (int i = 0; i < 25; i++) {
		ASSERT_EQ(INSTALL("--replace"), 0);
		ASSERT_EQ(INSTALL("--uninstall"), 0);
	}
	close(pipes[1]);
	waitpid(pid, &status, 0);
	ASSERT_EQ(WEXITSTATUS(status), 0);
}

/* --- the plan, on plain structs --- */

static struct install_thing thing(enum install_have have, const char *id)
{
	return (struct install_thing){have, (char *)(uintptr_t)id};
}

static void test_plan_names_all_conflicting_files(void **state)
{
	struct install_name names[] = {
		{.name = (char[]){"unirail"}, .wanted = true, .desired = thing(HAVE_FILE, "1")},
		{.name = (char[]){"a"},
		 .wanted = true,
		 .desired = thing(HAVE_LINK, "unirail"),
		 .now = thing(HAVE_FILE, "7")},
		{.name = (char[]){"b"},
		 .wanted = true,
		 .desired = thing(HAVE_LINK, "unirail"),
		 .now = thing(HAVE_LINK, "/usr/bin/b")},
		{.name = (char[]){"c"},
		 .wanted = false,
		 .desired = thing(HAVE_LINK, "unirail"),
		 .now = thing(HAVE_FILE, "9")},
	};
	struct install_facts f = {.names = names, .n = ARRAY_LEN(names)};
	struct install_plan p;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(install_plan(&f, OTHERS_REFUSE, &p, &e), -EEXIST);
	ASSERT_EQ(e.kind, ERR_CONF);
	assert_non_null(strstr(e.text, "'a', 'b';"));
	ASSERT_EQ(p.n, 0);
	ASSERT_EQ(install_plan(&f, OTHERS_REPLACE, &p, &e), 0);
	ASSERT_EQ(p.n, 5);
	ASSERT_EQ(p.steps[0].what, DO_COPY);
	ASSERT_EQ(p.steps[1].what, DO_KEEP);
	ASSERT_EQ(p.steps[2].what, DO_LINK);
	assert_ptr_equal(p.steps[2].name, &names[1]);
	install_plan_done(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_installation_copies_and_links, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_install_writes_and_uninstall_removes_the_cni_configuration, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_uninstall_removes_only_cdi_specifications_of_unirail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_removes_the_state_of_a_node, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_invalid_option_creates_no_directory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_second_installation_changes_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_files_of_other_programs_are_a_conflict, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_skip_existing_leaves_files_of_other_programs,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaced_files_are_restored_by_uninstall,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_existing_backup_is_not_overwritten, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_uninstall_leaves_and_names_changed_files,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_dry_run_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_options_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_installation_records_are_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_installation_is_completed_or_undone,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_upgrade_replaces_the_binary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_installation_retains_the_old_state,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_calls_during_installation_run_the_old_or_the_new_program, setup,
			teardown),
		cmocka_unit_test(test_plan_names_all_conflicting_files),
	};

	applets = table;
	const char *slash = strrchr(argc ? argv[0] : "", '/');

	if (slash && (!strcmp(slash, "/alpha") || !strcmp(slash, "/beta")))
		_exit(OWN_STATUS);
	return T_RUN(tests, NULL, NULL);
}
