/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock. */
#include "kern/sys/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "base/cleanup.h"

/* Newer than the headers that we build with. */
enum { FS_TRUNCATE = 1 << 14, FS_IOCTL_DEV = 1 << 15, NET_BIND_TCP = 1, SCOPE_ALL = 3 };

/* struct landlock_ruleset_attr of ABI 6. */
struct ruleset {
	uint64_t fs, net, scoped;
};

enum {
	READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
	WRITE = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
		LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REFER | FS_TRUNCATE,
	/* The only ones that the kernel takes for what is no folder. */
	OF_FILES = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE,
};

static const uint64_t rights[] = {
	[SANDBOX_READ] = READ,
	[SANDBOX_WRITE] = WRITE,
	[SANDBOX_REMOVE] = LANDLOCK_ACCESS_FS_REMOVE_FILE,
};

static struct ruleset handled(int abi)
{
	struct ruleset s = {.fs = LANDLOCK_ACCESS_FS_REFER - 1};

	if (abi >= 2)
		s.fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		s.fs |= FS_TRUNCATE;
	if (abi >= 4)
		s.net = NET_BIND_TCP;
	if (abi >= 5)
		s.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		s.scoped = SCOPE_ALL;
	return s;
}

static int new_set(const struct ruleset *s, int abi)
{
	size_t size = abi >= 6	 ? sizeof(*s)
		      : abi >= 4 ? offsetof(struct ruleset, scoped)
				 : offsetof(struct ruleset, net);

	return (int)syscall(SYS_landlock_create_ruleset, s, size, 0);
}

static int add_path(int set, const struct ruleset *s, const struct sandbox_path *p, struct err *e)
{
	auto_fd int fd = open(p->path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {.allowed_access = rights[p->right] & s->fs,
						  .parent_fd = fd};
	struct stat st;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES
			       ? 0
			       : err_sys(e, -errno, "open '%s'", p->path);
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	if (rule.allowed_access == 0)
		return 0;
	if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, -errno, "Landlock: allow '%s'", p->path);
	return 0;
}

int sandbox_paths(const struct sandbox_path *v, size_t n, int *abi, struct err *e)
{
	auto_fd int set = -1;
	struct ruleset s;
	int version, r = 0;

#ifdef __SANITIZE_ADDRESS__
	return err_set(e, -EOPNOTSUPP, "Landlock: not in a build with AddressSanitizer");
#endif
	version =
		(int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 1)
		return err_set(e, -EOPNOTSUPP,
			       "the kernel has no Landlock, or the container "
			       "runtime's seccomp profile refuses it");
	s = handled(version);
	set = new_set(&s, version);
	if (set < 0)
		return err_sys(e, -errno, "Landlock: make a ruleset");
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_path(set, &s, &v[i], e);
	if (r == 0 && syscall(SYS_landlock_restrict_self, set, 0) < 0)
		r = err_sys(e, -errno, "Landlock: restrict this process");
	if (r == 0)
		*abi = version;
	return r;
}
