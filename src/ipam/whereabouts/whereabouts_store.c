/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of whereabouts' pools: an engine's store each, all under one lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ipam/whereabouts/whereabouts_priv.h"

enum { LOCK_MS = 30 * 1000, NAME_BYTES = 512 };

/* "10.0.0.0-24", "10.0.0.0-24@blue" */
char *whereabouts_pool_name(const struct ipnet *net, const char *network_name)
{
	char text[IP_TEXT_MAX];

	ipnet_str(net, text);
	*strchr(text, '/') = '-';
	return *network_name ? xasprintf("%s@%s", text, network_name) : xstrdup(text);
}

/* Whether a folder's name is that of a pool; *network_name points into it. */
static bool is_pool(const char *name, const char **network_name)
{
	const char *at = strchrnul(name, '@');
	struct span s = {name, (size_t)(at - name)};
	const char *dash = s.n ? memrchr(s.p, '-', s.n) : NULL;
	char text[NAME_BYTES];
	struct ipnet net;

	if (!dash || s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[dash - s.p] = '/';
	*network_name = *at ? at + 1 : at;
	return ipnet_parse((struct span){text, s.n}, &net) == 0;
}

bool whereabouts_pool_is_of(const struct whereabouts_pool *p, const char *network_name)
{
	const char *own;

	return is_pool(p->name, &own) && strcmp(own, network_name) == 0;
}

/* What the tool must be told to work on this pool's journal goes with the error that names it. */
static int fail_pool(const char *dir, int code, struct err *e)
{
	if (code == -EBADMSG)
		return err_wrap(e, code, "address store of whereabouts (--state-dir %s)", dir);
	return err_wrap(e, code, "address store of whereabouts");
}

/* The engine's other folders are in the same place, where neither pools nor host-local's are. */
static int open_pool(struct whereabouts *w, const char *name, struct err *e)
{
	auto_free char *dir = xasprintf("%s/%s", w->dir, name);
	auto_free char *none = xasprintf("%s/none", dir);
	const struct ipam_paths paths = {
		.pool_dir = none, .state_dir = dir, .hostlocal_dir = none, .node = "none"};
	struct ipam *store;
	int r = ipam_open(&store, w->root, &paths, e);

	if (r < 0)
		return fail_pool(dir, r, e);
	VEC_PUSH(w->v, w->n) = (struct whereabouts_pool){xstrdup(name), store};
	return 0;
}

size_t whereabouts_find(const struct whereabouts *w, const struct ipnet *net,
			const char *network_name)
{
	auto_free char *name = whereabouts_pool_name(net, network_name);
	size_t i = 0;

	while (i < w->n && strcmp(w->v[i].name, name) != 0)
		i++;
	return i;
}

static int open_lock(struct whereabouts *w, const struct root *r, const char *state_dir,
		     bool create, struct err *e)
{
	auto_free char *lock = NULL;
	struct stat st;
	int n;

	if (!state_dir || !*state_dir)
		state_dir = IPAM_STATE_DIR;
	*w = (struct whereabouts){.root = r, .lock = -1};
	w->dir = xasprintf("%s/whereabouts", state_dir);
	lock = xasprintf("%s/lock", w->dir);
	n = create ? dir_make(r, w->dir, 0700, e) : file_lstat(r, w->dir, &st, e);
	if (n == -ENOENT && !create) {
		err_clear(e);
		return n;
	}
	if (n == 0)
		n = lock_take(r, lock, LOCK_MS, &w->lock, e);
	if (n < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, n, "address store of whereabouts");
	}
	return 0;
}

/* The folders of one network name, or (NULL) all. */
static int open_there(struct whereabouts *w, const char *network_name, const char *must_name,
		      struct err *e)
{
	char **names = NULL;
	const char *own;
	size_t n = 0;
	int r = dir_list(w->root, w->dir, &names, &n, e);

	for (size_t i = 0; i < n && r == 0; i++) {
		struct err why = ERR_INIT;

		if (!is_pool(names[i], &own) || (network_name && strcmp(own, network_name) != 0))
			continue;
		r = open_pool(w, names[i], &why);
		if (r < 0 && strcmp(own, must_name) != 0) {
			log_warn("addresses of another network are left alone",
				 LOG_S("error", why.text));
			r = 0;
		} else if (r < 0 && e) {
			*e = why;
		}
	}
	str_list_free(names, n);
	return r;
}

static int open_ranges(struct whereabouts *w, const struct whereabouts_ask *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_ranges && r == 0; i++) {
		auto_free char *name = whereabouts_pool_name(&a->ranges[i].net, a->network_name);

		if (whereabouts_find(w, &a->ranges[i].net, a->network_name) == w->n)
			r = open_pool(w, name, e);
	}
	return r;
}

int whereabouts_open(struct whereabouts *w, const struct root *r, const char *state_dir,
		     const struct whereabouts_ask *a, struct err *e)
{
	struct whereabouts n = WHEREABOUTS_INIT;
	int ret = open_lock(&n, r, state_dir, true, e);

	if (ret == 0 && a->overlapping)
		ret = open_there(&n, a->network_name, a->network_name, e);
	if (ret == 0)
		ret = open_ranges(&n, a, e);
	if (ret < 0) {
		whereabouts_close(&n);
		return ret;
	}
	*w = n;
	return 0;
}

int whereabouts_open_all(struct whereabouts *w, const struct root *r, const char *state_dir,
			 const char *network_name, struct err *e)
{
	struct whereabouts n = WHEREABOUTS_INIT;
	int ret = open_lock(&n, r, state_dir, false, e);

	if (ret == 0)
		ret = open_there(&n, NULL, network_name, e);
	if (ret < 0) {
		whereabouts_close(&n);
		if (ret != -ENOENT)
			return ret;
		err_clear(e);
	}
	*w = n;
	return 0;
}

void whereabouts_close(struct whereabouts *w)
{
	int saved = errno;

	for (size_t i = 0; i < w->n; i++) {
		ipam_close(w->v[i].store);
		free(w->v[i].name);
	}
	free(w->v);
	free(w->dir);
	cleanup_fd(&w->lock);
	*w = (struct whereabouts)WHEREABOUTS_INIT;
	errno = saved;
}
