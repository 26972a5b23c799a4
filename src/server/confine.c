/* SPDX-License-Identifier: Apache-2.0 */
#include "server/confine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/log.h"

static void add(struct confine *c, const char *path, enum sandbox_right right)
{
	const char *copy = VEC_PUSH(c->own, c->n_own) = xstrdup(path);

	VEC_PUSH(c->v, c->n) = (struct sandbox_path){copy, right};
}

static bool is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/* Replaces path by its parent directory. Returns false, and leaves path unchanged, if the parent
 * is "/" or path has no '/'. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	*slash = '\0';
	return true;
}

void confine_dir(struct confine *c, const char *path, enum sandbox_right right)
{
	auto_free char *at = path ? xstrdup(path) : NULL;

	if (!path || strcmp(path, "/") == 0)
		return;
	if (right == SANDBOX_WRITE)
		dir_make(c->root, path, 0755, NULL);
	else
		while (!is_there(at) && go_up(at))
			;
	if (is_there(at))
		add(c, at, right);
	if (!is_there(path))
		log_info("sandbox: a directory does not exist, access is allowed to the path in "
			 "'parent' instead",
			 LOG_S("directory", path), LOG_S("parent", is_there(at) ? at : "none"));
}

void confine_file(struct confine *c, const char *path, enum sandbox_right right)
{
	auto_free char *dir = path ? xstrdup(path) : NULL;
	char real[PATH_MAX];

	if (path && go_up(dir))
		confine_dir(c, dir, right);
	if (!path || !realpath(path, real) || !go_up(real) || strcmp(real, dir) == 0)
		return;
	add(c, real, right);
}

void confine_server(struct confine *c, const char *host, const char *const *files,
		    const char *program)
{
	struct ipaddr ip;

	for (; *files; files++)
		confine_file(c, *files, SANDBOX_READ);
	/* musl reads hosts and resolv.conf, which programs of the host replace: a rule for the
	 * files themselves would not cover the new ones. */
	if (ip_parse(span_of(host), &ip) < 0) {
		confine_dir(c, "/etc", SANDBOX_READ);
		confine_file(c, "/etc/resolv.conf", SANDBOX_READ);
	}
	if (program)
		c->not_with =
			"the kubeconfig has an exec credential plugin, to which the sandbox would "
			"apply as well";
}

static void say(char *desc, size_t size, const char *what, const struct err *e)
{
	size_t n = strlen(desc);

	snprintf(desc + n, size - n, "%s%s: %s", n ? "; " : "", what, e->text);
	if (e->code == -EOPNOTSUPP)
		log_info("the sandbox is not complete", LOG_S("missing", what),
			 LOG_S("reason", e->text));
	else
		log_warn("the sandbox is not complete", LOG_S("missing", what),
			 LOG_S("reason", e->text));
}

static void enter(struct confine *c, bool log_only, char *desc, size_t size)
{
	struct err e = ERR_INIT;
	bool calls;
	int abi = 0;

	/* For a child's stdin, the reserved descriptor of an HTTP server, and children that
	 * redirect output. */
	add(c, "/dev/null", SANDBOX_WRITE);
	if (log_only)
		snprintf(desc, size,
			 "sandbox = log: no system call or file is refused; the kernel logs the "
			 "system calls that sandbox = on would refuse");
	else if (sandbox_paths(c->v, c->n, &abi, &e) < 0)
		say(desc, size, "Landlock", &e);
	err_clear(&e);
	calls = sandbox_calls(c->mode, log_only, &e) == 0;
	if (!calls)
		say(desc, size, "seccomp", &e);
	log_info("sandbox",
		 LOG_S("seccomp", !calls     ? "no"
				  : log_only ? "log"
					     : "yes"),
		 LOG_I("landlock", abi));
}

void confine_enter(struct confine *c, const char *setting, char *desc, size_t size)
{
	*desc = '\0';
	if (strcmp(setting, "off") == 0)
		snprintf(desc, size, "sandbox = off");
	else if (c->not_with)
		snprintf(desc, size, "no sandbox: %s", c->not_with);
	if (*desc)
		log_info("no sandbox", LOG_S("reason", desc));
	else
		enter(c, strcmp(setting, "log") == 0, desc, size);
	str_list_free(c->own, c->n_own);
	free(c->v);
	*c = (struct confine){0};
}
