/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an installation outside of the directory of plugins. With --cni-conf-dir: the
 * runtime's CNI configuration. With --cni-conf-dir and --uninstall: also the CDI specifications,
 * which are deleted because they name the binary as a hook. With --purge: the agent's socket and
 * state.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "cli/install/install.h"
#include "device/resource/allocate.h"
#include "host/cni/cni_config.h"

enum { DEPTH_MAX = 16, CDI_TEXT_MAX = 4 << 20 };

/*
 * State directories of the agent and the CNI plugins. Only their content is removed: the
 * directories may be mounts.
 */
static const char *const state[] = {"/var/lib/unirail", "/run/unirail"};

static void say(struct install_node *n, const char *what, const char *path)
{
	buf_printf(&n->messages, "%s%-8s %s\n", n->dry_run ? "would " : "", what, path);
}

/* --- the CNI configuration --- */

static int remove_config(struct install_node *n, const struct cni_config_files *files,
			 struct err *e)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct cni_config_file *f = &files->v[i];
		auto_free char *path = xasprintf("%s/%s", n->conf_dir, f->name);

		if (f->kind == CNI_CONFIG_GENERATED || f->kind == CNI_CONFIG_IGNORED)
			say(n, "remove", path);
	}
	return n->dry_run ? 0 : cni_config_remove(n->root, n->conf_dir, files, NULL, e);
}

static int write_config(struct install_node *n, const struct cni_config_files *files, struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", n->conf_dir, n->conf_name);
	struct cni_config_plan p;
	int r = 0;

	cni_config_plan(files, n->conf_dir, n->conf_name, n->socket, &p);
	if (p.write || p.remove)
		say(n, p.write ? "write" : "remove", path);
	cni_config_describe(&p, n->conf_dir, n->conf_name, &n->reason);
	if (!n->dry_run) {
		r = cni_config_remove(n->root, n->conf_dir, files, n->conf_name, e);
		if (r >= 0)
			r = cni_config_apply(n->root, n->conf_dir, n->conf_name, &p, e);
	}
	cni_config_plan_done(&p);
	return r;
}

/* A missing directory is not an error: there is nothing to remove. */
static int none_if_absent(int r, struct err *e)
{
	if (r != -ENOENT)
		return r;
	err_clear(e);
	return 0;
}

/* --- CDI specifications --- */

static int remove_cdi_file(struct install_node *n, const char *path, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, CDI_TEXT_MAX);
	if (file_read(n->root, path, CDI_TEXT_MAX, &b, NULL) < 0 ||
	    !resource_cdi_is_own(buf_span(&b)))
		return 0;
	say(n, "remove", path);
	return n->dry_run ? 0 : file_remove(n->root, path, e);
}

int install_node_remove_cdi(struct install_node *n, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r;

	r = dir_list(n->root, PATH_CDI, &names, &count, e);
	if (r < 0)
		return none_if_absent(r, e);
	for (size_t i = 0; r == 0 && i < count; i++) {
		auto_free char *path = xasprintf(PATH_CDI "/%s", names[i]);

		r = remove_cdi_file(n, path, e);
	}
	str_list_free(names, count);
	return r;
}

int install_node_config(struct install_node *n, bool remove, struct err *e)
{
	auto_cni_config struct cni_config_files files = {0};
	struct err reason = ERR_INIT;
	int r = cni_config_read(n->root, n->conf_dir, &files, &reason);

	if (r == -ENOENT && !remove && !n->dry_run)
		r = dir_make(n->root, n->conf_dir, 0755, &reason);
	if (r < 0 && r != -ENOENT) {
		*e = reason;
		return r;
	}
	r = remove ? remove_config(n, &files, e) : write_config(n, &files, e);
	return r < 0 ? r : 0;
}

/* --- the agent's socket and state --- */

/* Returns whether an agent accepts connections at the socket. False below another root, whose
 * socket belongs to another host. */
static bool is_answered(const struct install_node *n)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	auto_fd int fd = -1;

	if (!n->root->host || strlen(n->socket) >= sizeof(a.sun_path))
		return false;
	strcpy(a.sun_path, n->socket);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	/* EAGAIN: the agent listens, but its backlog is full. */
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN;
}

int install_node_is_free(const struct install_node *n, struct err *e)
{
	if (!is_answered(n))
		return 0;
	return err_set(e, -EBUSY,
		       "an agent is listening on socket '%s' and would write its files again: "
		       "stop it first (kubectl delete -f deploy/agent.yaml)",
		       n->socket);
}

/* Removes the content of a directory without following links; closes `fd`. */
static int empty(int fd, int depth, struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *x;
	int r = 0;

	if (!d) {
		close(fd);
		return err_sys(e, -errno, "read a directory of the agent's state");
	}
	while (r == 0 && (x = readdir(d))) {
		int sub;

		if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
			continue;
		sub = openat(dirfd(d), x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0 && depth == DEPTH_MAX) {
			close(sub);
			r = err_set(e, -ELOOP, "'%s' is more than %d directories deep", x->d_name,
				    DEPTH_MAX);
		} else if (sub >= 0) {
			r = empty(sub, depth + 1, e);
		}
		if (r == 0 && unlinkat(dirfd(d), x->d_name, sub >= 0 ? AT_REMOVEDIR : 0) < 0 &&
		    errno != ENOENT)
			r = err_sys(e, -errno, "remove '%s'", x->d_name);
	}
	closedir(d);
	return r;
}

static int purge_dir(struct install_node *n, const char *path, struct err *e)
{
	int fd = file_open(n->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e), r;

	if (fd < 0)
		return none_if_absent(fd, e);
	say(n, "empty", path);
	if (n->dry_run) {
		close(fd);
		return 0;
	}
	r = empty(fd, 0, e);
	return r < 0 ? err_wrap(e, r, "directory '%s'", path) : 0;
}

/* Removes the directory that the agent publishes beside its socket (agent/cluster/network.h). */
static int purge_published(struct install_node *n, struct err *e)
{
	const char *slash = strrchr(n->socket, '/');
	auto_free char *parent =
		slash ? span_dup((struct span){n->socket, (size_t)(slash - n->socket)})
		      : xstrdup(".");
	auto_free char *path = xasprintf("%s/public", parent);
	auto_fd int fd = file_open(n->root, parent, O_RDONLY | O_DIRECTORY, 0, NULL);
	int r;

	if (fd < 0 || !file_exists(n->root, path))
		return 0;
	r = purge_dir(n, path, e);
	if (r == 0 && !n->dry_run)
		unlinkat(fd, "public", AT_REMOVEDIR); /* EBUSY: it is a mount, and stays */
	return r;
}

int install_node_purge(struct install_node *n, struct err *e)
{
	auto_free char *lock = xasprintf("%s.lock", n->socket);
	const char *const files[] = {n->socket, lock};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
		if (file_exists(n->root, files[i])) {
			say(n, "remove", files[i]);
			r = n->dry_run ? 0 : file_remove(n->root, files[i], e);
		}
	if (r == 0)
		r = purge_published(n, e);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(state); i++)
		r = purge_dir(n, state[i], e);
	return r;
}
