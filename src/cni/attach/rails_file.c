/* SPDX-License-Identifier: Apache-2.0 */
/* A pod's rails in files that it can mount. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach/gids.h"

enum { FILE_MODE = 0644, DIR_MODE = 0755, LOCK_MS = 2000, NAME_MAX_BYTES = 255 };

static bool name_ok(const char *s)
{
	size_t n = strlen(s);

	return n && n <= NAME_MAX_BYTES && s[0] != '.' && !strchr(s, '/');
}

/* The pod's folder; free() it. */
static char *folder_of(const struct cni_call *c)
{
	auto_buf struct buf keep;
	struct cni_args args = {0};
	const char *name = c->container_id;

	buf_init(&keep, 1 << 16);
	if (cni_args_parse(c->args_text, &args, &keep, NULL) >= 0 && args.pod_uid &&
	    name_ok(args.pod_uid))
		name = args.pod_uid;
	return xasprintf(RAILS_DIR "/%s", name);
}

static int load(const struct root *r, const char *folder, struct rails_list *ret, struct err *e)
{
	auto_free char *path = xasprintf("%s/rails.json", folder);
	auto_buf struct buf text;
	int code;

	buf_init(&text, RAILS_TEXT_MAX + 1);
	code = file_read(r, path, RAILS_TEXT_MAX, &text, e);
	if (code >= 0)
		code = rails_parse(buf_span(&text), ret, e);
	return code < 0 ? err_wrap(e, code, "read '%s'", path) : 0;
}

static int replace(const struct root *r, const char *folder, const char *name, const struct buf *b,
		   struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", folder, name);

	return file_replace(r, path, buf_span(b), FILE_MODE, e);
}

static int save(const struct root *r, const char *folder, const struct rails_list *l, struct err *e)
{
	auto_buf struct buf json, env;
	int code = dir_make(r, folder, DIR_MODE, e);

	buf_init(&json, RAILS_TEXT_MAX);
	buf_init(&env, RAILS_TEXT_MAX);
	rails_print_json(l, &json);
	rails_print_env(l, &env);
	if (code >= 0)
		code = replace(r, folder, "rails.env", &env, e);
	return code < 0 ? code : replace(r, folder, "rails.json", &json, e);
}

/* A pod may have mounted the folder: it stays while it cannot go. */
static void remove_all(const struct root *r, const char *folder)
{
	/* The one that is read last: a GC that was killed comes again by it. */
	static const char *const names[] = {"rails.env", "rails.json"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = xasprintf("%s/%s", folder, names[i]);

		file_sweep(r, path);
		(void)file_remove(r, path, NULL);
	}
	(void)unlinkat(r->fd, folder + 1, AT_REMOVEDIR);
}

static int lock(const struct root *r, int *fd, struct err *e)
{
	int code = dir_make(r, RAILS_DIR, DIR_MODE, e);

	return code < 0 ? code : lock_take(r, RAILS_DIR "/.lock", LOCK_MS, fd, e);
}

static void complain(const char *folder, const struct err *why)
{
	log_warn("the pod's file of rails is not right", LOG_S("folder", folder),
		 LOG_S("error", why->text));
}

static bool entry_of(const struct attach *a, const struct rail *rail, struct rails_entry *ret)
{
	const char *network = rail->ipam.name ? rail->ipam.name : "";

	*ret = (struct rails_entry){.rdma = rail->rdma};
	return *rail->rdma.device && str_copy(ret->ifname, sizeof(ret->ifname), rail->ifname) &&
	       str_copy(ret->network, sizeof(ret->network), network) &&
	       str_copy(ret->container, sizeof(ret->container), a->call->container_id);
}

void rails_write(const struct attach *a)
{
	const struct root *r = &a->call->root;
	auto_free char *folder = folder_of(a->call);
	auto_rails struct rails_list l = {0}, mine = {0};
	struct err why = ERR_INIT;
	struct rails_entry one;
	auto_fd int fd = -1;

	for (size_t i = 0; i < a->n_rails; i++)
		if (entry_of(a, &a->rails[i], &one))
			rails_put(&mine, &one);
	if (!mine.n)
		return;
	if (lock(r, &fd, &why) < 0) {
		complain(folder, &why);
		return;
	}
	/* One that cannot be read is written anew. */
	(void)load(r, folder, &l, NULL);
	for (size_t i = 0; i < mine.n; i++)
		rails_put(&l, &mine.v[i]);
	if (save(r, folder, &l, &why) < 0)
		complain(folder, &why);
}

static void update(const struct root *r, const char *folder, const struct rails_list *l)
{
	struct err why = ERR_INIT;

	if (!l->n)
		remove_all(r, folder);
	else if (save(r, folder, l, &why) < 0)
		complain(folder, &why);
}

void rails_forget(const struct cni_call *c, const char *const *ifnames, size_t n)
{
	auto_rails struct rails_list l = {0};
	auto_free char *folder = NULL;
	auto_fd int fd = -1;
	size_t before;

	if (!file_exists(&c->root, RAILS_DIR))
		return;
	folder = folder_of(c);
	if (!file_exists(&c->root, folder) || lock(&c->root, &fd, NULL) < 0)
		return;
	if (load(&c->root, folder, &l, NULL) < 0) {
		remove_all(&c->root, folder);
		return;
	}
	before = l.n;
	for (size_t i = 0; i < n; i++)
		rails_drop(&l, c->container_id, ifnames[i]);
	if (l.n != before)
		update(&c->root, folder, &l);
}

static void gc_folder(const struct cni_call *c, const char *folder)
{
	auto_rails struct rails_list l = {0};
	size_t before;

	int code;

	/* The lock is held: nobody is writing them. */
	file_sweep_folder(&c->root, folder);
	code = load(&c->root, folder, &l, NULL);
	if (code == -ENOENT)
		remove_all(&c->root, folder);
	if (code < 0)
		return;
	before = l.n;
	for (size_t i = l.n; i-- > 0;)
		if (strcmp(l.v[i].network, c->name) == 0 &&
		    !cni_is_valid(c, l.v[i].container, l.v[i].ifname))
			rails_drop_at(&l, i);
	if (l.n != before)
		update(&c->root, folder, &l);
}

void rails_gc(const struct cni_call *c)
{
	auto_fd int fd = -1;
	char **names = NULL;
	size_t n = 0;

	if (!c->has_valid || !file_exists(&c->root, RAILS_DIR) || lock(&c->root, &fd, NULL) < 0 ||
	    dir_list(&c->root, RAILS_DIR, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *folder = xasprintf(RAILS_DIR "/%s", names[i]);

		if (names[i][0] != '.')
			gc_folder(c, folder);
	}
	str_list_free(names, n);
}
