/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `unirail memlock-hook`: a createRuntime hook of the OCI runtime specification. CDI specifications
 * that the device plugins write name this hook. It sets the limit of locked memory of a container
 * that is about to start. The runtime writes the container's state on stdin. containerd clears the
 * limits in a container's configuration, so the OCI runtime does not change the limit afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/nri/adjust.h"
#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "wire/json/json.h"

enum { STATE_MAX = 1 << 20, PID_LAST = 1 << 22 };

const struct cmd memlock_hook_cmds[] = {
	{NULL, "BYTES",
	 "set the limit of locked memory of the container whose state is on stdin; BYTES: "
	 "unlimited, or a number",
	 NULL, 1, 1},
	{0},
};

/* Reads the pid from the state on stdin: {"ociVersion": ..., "id": ..., "pid": 4711, "bundle":
 * ...} */
static int read_pid(int64_t *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf b;
	int r;

	buf_init(&b, STATE_MAX);
	r = fd_read_all(STDIN_FILENO, STATE_MAX, &b, e);
	if (r >= 0)
		r = json_parse(&doc, buf_span(&b), STATE_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "read the container's state from stdin");
	if (json_int(json_get(json_root(doc), "pid"), ret) < 0 || *ret < 2 || *ret > PID_LAST)
		return err_kind(e, ERR_CONF, -EINVAL,
				"the container's state on stdin has no valid pid: let an OCI "
				"runtime call this command as a createRuntime hook");
	return 0;
}

int memlock_hook_main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct rlimit limit;
	uint64_t bytes = 0;
	int64_t pid = 0;
	int n = opt_parse(&memlock_hook_cmds[0], "unirail memlock-hook", argc - 1, argv + 1, NULL,
			  &e);

	if (n < 0)
		return opt_exit("unirail memlock-hook", n, &e);
	if (nri_memlock_parse(argv[1 + n], &bytes, &e) < 0 || !bytes) {
		fprintf(stderr,
			"unirail memlock-hook: '%.32s' is not a limit: expected unlimited or a "
			"number of bytes of at least 65536\n",
			argv[1 + n]);
		return 2;
	}
	if (read_pid(&pid, &e) < 0) {
		fprintf(stderr, "unirail memlock-hook: %s\n", e.text);
		return 1;
	}
	limit.rlim_cur = limit.rlim_max = bytes == NRI_UNLIMITED ? RLIM_INFINITY : bytes;
	/* If prlimit() fails, the hook still exits with 0: if a hook fails, the container does
	 * not start, which is worse than a low limit. `unirail doctor` reports the low limit. */
	if (prlimit((pid_t)pid, RLIMIT_MEMLOCK, &limit, NULL) < 0) {
		err_sys(&e, -errno, "set the limit of locked memory of process %d", (int)pid);
		fprintf(stderr, "unirail memlock-hook: %s\n", e.text);
	}
	return 0;
}
