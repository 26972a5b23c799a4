/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the plugin unirail-cni for a measurement: executes /opt/cni/bin/unirail under that name,
 * and appends one line to /run/cni-times: the CNI command, the user CPU time and the system CPU
 * time, each of that program together with the plugins that it executed, and the wall time; all
 * times in us.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long us_of(const struct timeval *t)
{
	return t->tv_sec * 1000000LL + t->tv_usec;
}

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	const char *command = getenv("CNI_COMMAND");
	long long begin = now_us();
	struct rusage u;
	char line[256];
	int status, fd;
	pid_t pid = fork();

	(void)argc;
	if (pid == 0) {
		execv("/opt/cni/bin/unirail", argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &u) < 0)
		return 1;
	fd = open("/run/cni-times", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	snprintf(line, sizeof(line), "%s %lld %lld %lld\n", command ? command : "-",
		 us_of(&u.ru_utime), us_of(&u.ru_stime), now_us() - begin);
	if (fd >= 0)
		dprintf(fd, "%s", line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
