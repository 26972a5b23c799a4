/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

static struct __user_cap_header_struct header(void)
{
	return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

static int get(struct __user_cap_data_struct v[static 2], struct err *e)
{
	struct __user_cap_header_struct h = header();

	if (syscall(SYS_capget, &h, v) < 0)
		return err_sys(e, -errno, "read this process's capabilities");
	return 0;
}

static int set(const struct __user_cap_data_struct v[static 2], struct err *e)
{
	struct __user_cap_header_struct h = header();

	if (syscall(SYS_capset, &h, v) < 0)
		return err_sys(e, -errno, "drop capabilities");
	return 0;
}

/* Drops every capability except CAP_DAC_OVERRIDE from the bounding set. The kernel returns
 * EINVAL for the first number above its last capability; the loop ends there. */
static int drop_bounding(struct err *e)
{
	for (int cap = 0; cap < 64; cap++) {
		if (cap == CAP_DAC_OVERRIDE)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			break;
		return err_sys(e, -errno, "drop capability %d permanently", cap);
	}
	return 0;
}

int caps_files_only(struct err *e)
{
	struct __user_cap_data_struct v[2] = {0};
	int r = get(v, e);

	if (r == 0 && v[0].effective & CAP_TO_MASK(CAP_SETPCAP))
		r = drop_bounding(e);
	if (r < 0)
		return r;
	/* ignores the result: kernels before 4.3 have no ambient set */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "set no_new_privs");
	v[0].effective &= CAP_TO_MASK(CAP_DAC_OVERRIDE);
	v[0].permitted &= CAP_TO_MASK(CAP_DAC_OVERRIDE);
	v[0].inheritable = v[1].effective = v[1].permitted = v[1].inheritable = 0;
	return set(v, e);
}

int caps_net_admin(struct err *e)
{
	struct __user_cap_data_struct v[2] = {0};
	int r = get(v, e);

	if (r < 0 || v[0].effective & CAP_TO_MASK(CAP_NET_ADMIN))
		return r;
	return err_kind(e, ERR_UNAVAILABLE, -EPERM,
			"Operation not permitted (EPERM): needs CAP_NET_ADMIN: run as root");
}
