/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "kern/sys/netns.h"
#include "cli/demo/demo.h"

#define KEEP_DIR  "/run/unirail-demo"
#define KEEP_NS	  "/run/netns/unirail-demo-"
#define KEEP_HINT "'unirail demo --clean' removes it"

/* Numbers of include/uapi/linux/capability.h, which only kern/ may include. */
enum { CAP_NET_ADMIN_BIT = 12, CAP_NET_RAW_BIT = 13, CAP_SYS_ADMIN_BIT = 21 };

static const struct {
	unsigned int bit;
	const char *name;
} needed[] = {
	{CAP_NET_ADMIN_BIT, "CAP_NET_ADMIN"},
	{CAP_SYS_ADMIN_BIT, "CAP_SYS_ADMIN"},
	{CAP_NET_RAW_BIT, "CAP_NET_RAW"},
};

const char *demo_ns_name(enum demo_ns ns)
{
	static const char *const names[NS_COUNT] = {"fabric", "node", "pod-1", "pod-2"};

	return names[ns];
}

static int capabilities(const struct root *root, uint64_t *ret, struct err *e)
{
	auto_buf struct buf b;
	struct span rest, line;
	int r;

	buf_init(&b, 1 << 16);
	r = file_read(root, "/proc/self/status", 1 << 16, &b, e);
	if (r < 0)
		return r;
	rest = buf_span(&b);
	while (span_cut(&rest, '\n', &line)) {
		struct span key;

		if (!span_cut(&line, ':', &key) || !span_eq(key, "CapEff"))
			continue;
		r = num_hex(span_trim(line), UINT64_MAX, ret);
		return r < 0 ? err_set(e, r, "parse CapEff in '/proc/self/status'") : 0;
	}
	return err_set(e, -ENOENT, "find CapEff in '/proc/self/status'");
}

static int check_capabilities(const struct root *root, struct err *e)
{
	uint64_t have = 0;
	int r = capabilities(root, &have, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!(have >> needed[i].bit & 1))
			return err_kind(e, ERR_UNAVAILABLE, -EPERM,
					"make network namespaces: no %s: run it as root, or "
					"as yourself: unshare -Urn unirail demo",
					needed[i].name);
	return 0;
}

/* A tmpfs that only this process and its children see, and that dies with them whatever ends
 * them. Not everybody may mount (a container's profile): then *ret stays empty. */
static void private_tmpfs(char *ret, size_t size)
{
	static const char *const over[] = {"/tmp", "/run", "/mnt", "/dev/shm"};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(over); i++) {
		if (mount("tmpfs", over[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=64m") <
		    0)
			continue;
		snprintf(ret, size, "%s", over[i]);
		return;
	}
}

static int open_dir(struct demo *d, struct err *e)
{
	if (d->opt.keep) {
		if (mkdir(KEEP_DIR, 0700) < 0)
			return err_sys(e, -errno, "make '%s' (%s)", KEEP_DIR, KEEP_HINT);
		snprintf(d->dir, sizeof(d->dir), "%s", KEEP_DIR);
		return 0;
	}
	private_tmpfs(d->dir, sizeof(d->dir));
	if (d->dir[0]) {
		d->dir_is_mount = true;
		return 0;
	}
	snprintf(d->dir, sizeof(d->dir), "/tmp/unirail-demo-XXXXXX");
	if (!mkdtemp(d->dir)) {
		int r = -errno;

		d->dir[0] = '\0';
		return err_sys(e, r, "make a folder for pools and state in '/tmp'");
	}
	return 0;
}

static int open_ns(struct demo *d, struct err *e)
{
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		int r = netns_new(true, &d->ns[i], e);

		if (r < 0)
			return err_wrap(e, r, "make the namespace of %s", demo_ns_name(i));
		snprintf(d->ns_path[i], sizeof(d->ns_path[i]), "/proc/%d/fd/%d", (int)getpid(),
			 d->ns[i]);
	}
	return 0;
}

static int pin_ns(struct demo *d, struct err *e)
{
	int r = dir_make(&d->root, "/run/netns", 0755, e);

	if (r < 0)
		return r;
	d->pinned = true;
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		snprintf(d->ns_path[i], sizeof(d->ns_path[i]), KEEP_NS "%s", demo_ns_name(i));
		r = netns_pin(d->ns[i], d->ns_path[i], e);
		if (r < 0)
			return err_wrap(e, r, "keep the namespace of %s", demo_ns_name(i));
	}
	return 0;
}

static void name_container(char *ret, size_t size)
{
	unsigned char raw[32];

	/* At most 256 bytes never come short (getrandom(2)). */
	if (getrandom(raw, sizeof(raw), 0) < 0)
		abort();
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, size - 2 * i, "%02x", raw[i]);
}

int demo_place_open(struct demo *d, struct err *e)
{
	int r;

	for (size_t i = 0; i < NS_COUNT; i++)
		d->ns[i] = -1;
	r = check_capabilities(&d->root, e);
	if (r == 0)
		r = open_dir(d, e);
	if (r < 0)
		return r;
	/* Paths are to be resolved in the mount namespace we are in now. */
	root_close(&d->root);
	r = root_open(&d->root, NULL, e);
	if (r == 0)
		r = open_ns(d, e);
	if (r == 0 && d->opt.keep)
		r = pin_ns(d, e);
	for (size_t i = 0; i < DEMO_PODS; i++) {
		struct demo_pod *p = &d->pods[i];

		snprintf(p->name, sizeof(p->name), "%s", demo_ns_name(NS_POD + i));
		name_container(p->container_id, sizeof(p->container_id));
	}
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	remove(path);
	return 0;
}

static void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int unpin(const char *path, struct err *e)
{
	return access(path, F_OK) < 0 ? 0 : netns_unpin(path, e) < 0 ? -EIO : 1;
}

int demo_place_clean(struct demo *d, struct err *e)
{
	int removed = 0;

	(void)d;
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		char path[64];
		int r;

		snprintf(path, sizeof(path), KEEP_NS "%s", demo_ns_name(i));
		r = unpin(path, e);
		if (r < 0)
			return r;
		removed += r;
	}
	if (access(KEEP_DIR, F_OK) == 0) {
		remove_tree(KEEP_DIR);
		removed++;
	}
	return removed;
}

void demo_place_close(struct demo *d)
{
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		if (d->pinned)
			unpin(d->ns_path[i], NULL);
		if (d->ns[i] >= 0)
			close(d->ns[i]);
		d->ns[i] = -1;
	}
	if (d->dir[0] && !d->dir_is_mount)
		remove_tree(d->dir);
	d->dir[0] = '\0';
}
