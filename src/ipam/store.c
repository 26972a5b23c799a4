/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/store.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "block/log.h"

/* Sufficient for two hundred pods that start at once and wait for one another's fsync. */
enum { LOCK_MS = 30 * 1000 };

static char *path_or(const char *given, const char *otherwise)
{
	size_t n;

	if (!given || !*given)
		given = otherwise;
	for (n = strlen(given); n > 1 && given[n - 1] == '/'; n--)
		;
	return span_dup((struct span){given, n});
}

static char *node_name(const char *given)
{
	char host[HOST_NAME_MAX + 1] = "";

	if (given && *given)
		return xstrdup(given);
	gethostname(host, sizeof(host) - 1);
	return xstrdup(host);
}

/* Sets the paths and takes the lock; a read-only store without a lock file needs no lock. */
static int store_lock(struct ipam *i, const struct root *r, const struct ipam_paths *p,
		      struct err *e)
{
	static const struct ipam_paths defaults;
	auto_free char *lock = NULL;
	int n;

	p = p ? p : &defaults;
	i->root = r;
	i->lock = -1;
	i->j = (struct journal)JOURNAL_INIT;
	i->pool_dir = path_or(p->pool_dir, PATH_POOLS);
	i->state_dir = path_or(p->state_dir, PATH_IPAM_STATE);
	i->hostlocal_dir = path_or(p->hostlocal_dir, PATH_HOST_LOCAL);
	i->node = node_name(p->node);
	i->now_ms = p->now_ms ? p->now_ms : now_real_ms;
	lock = xasprintf("%s/lock", i->state_dir);
	n = p->read_only ? 0 : dir_make(r, i->state_dir, 0700, e);
	if (n == 0 && (!p->read_only || file_exists(r, lock)))
		n = lock_take(r, lock, p->lock_ms ? p->lock_ms : LOCK_MS, &i->lock, e);
	if (n < 0)
		err_default_kind(e, ERR_IO);
	return n;
}

static char *store_journal_path(const struct ipam *i)
{
	return xasprintf("%s/journal", i->state_dir);
}

int ipam_open(struct ipam **ret, const struct root *r, const struct ipam_paths *p, struct err *e)
{
	auto_ipam struct ipam *i = xcalloc(1, sizeof(*i));
	auto_free char *path = NULL;
	int n = store_lock(i, r, p, e);

	if (n < 0)
		return err_wrap(e, n, "open address store");
	path = store_journal_path(i);
	n = journal_open(&i->j, r, path, p && p->read_only, e);
	if (n < 0) {
		i->j = (struct journal)JOURNAL_INIT;
		return n;
	}
	*ret = take(i);
	return 0;
}

void ipam_close(struct ipam *i)
{
	if (!i)
		return;
	journal_close(&i->j);
	pool_set_done(&i->pools);
	cleanup_fd(&i->lock);
	free(i->pool_dir);
	free(i->state_dir);
	free(i->hostlocal_dir);
	free(i->node);
	free(i);
}

void ipam_cleanup(struct ipam **i)
{
	int saved = errno;

	ipam_close(*i);
	*i = NULL;
	errno = saved;
}

int ipam_load_pools(struct ipam *i, struct err *e)
{
	if (!i->pools_tried)
		i->pools_r = pool_set_load(i->root, i->pool_dir, &i->pools, &i->pools_err);
	i->pools_tried = true;
	if (i->pools_r < 0 && e)
		*e = i->pools_err;
	return i->pools_r;
}

const struct pool_set *ipam_pools(const struct ipam *i)
{
	return &i->pools;
}

struct select_facts store_facts(const struct ipam *i)
{
	return (struct select_facts){
		.pools = &i->pools, .leases = &i->j.leases, .node = i->node, .now_ms = i->now_ms()};
}

/* Compacts the journal. If the pools are not read, it uses the longest reuse delay and
 * quarantine that can be set. */
static void compact(struct ipam *i)
{
	bool known = i->pools_tried && i->pools_r == 0;
	int64_t delay = known ? i->pools.reuse_delay_ms : POOL_REUSE_DELAY_MAX_MS;
	struct err e = ERR_INIT;

	for (size_t k = 0; known && k < i->pools.n; k++)
		if (i->pools.v[k].reuse_delay_ms > delay)
			delay = i->pools.v[k].reuse_delay_ms;
	if (journal_compact(&i->j, i->now_ms(), delay,
			    known ? i->pools.quarantine_ms : POOL_QUARANTINE_MAX_MS, &e) < 0)
		log_warn("failed to compact the journal", LOG_S("error", e.text));
}

int store_commit(struct ipam *i, const struct lease *v, size_t n, struct err *e)
{
	int r;

	if (n == 0)
		return 0;
	r = journal_commit(&i->j, v, n, e);
	/*
	 * The change is durable, so a failed compaction is logged and not reported to the caller.
	 */
	if (r == 0 && journal_is_long(&i->j))
		compact(i);
	return r;
}

int ipam_repair(const struct root *r, const struct ipam_paths *p, const struct ipam_known *found,
		size_t n_found, struct buf *message, struct err *e)
{
	auto_ipam struct ipam *i = xcalloc(1, sizeof(*i));
	auto_free struct lease *v = xcalloc(n_found + 1, sizeof(*v));
	auto_free char *path = NULL;
	size_t count = 0;
	int n = store_lock(i, r, p, e);

	if (n < 0)
		return err_wrap(e, n, "open address store");
	ipam_load_pools(i, NULL);
	for (size_t k = 0; k < n_found; k++) {
		const struct pool *pool = pool_of(&i->pools, &found[k].address.ip);
		struct lease l = store_lease_of(i, &found[k]);

		if (i->pools.n > 0 && !pool)
			continue;
		if (pool) {
			l.pool = pool->name;
			l.address.len = pool->subnet.len;
		}
		v[count++] = l;
	}
	path = store_journal_path(i);
	return journal_repair(r, path, i->now_ms(), v, count, message, e);
}

/* --- addresses that host-local allocated before its network was moved to unirail --- */

enum { PATH_BYTES = 4096, OWNER_MAX = 4096, ADOPT_LOCK_MS = 10 * 1000 };

/* A file of host-local. */
struct found {
	const char *network;
	char path[PATH_BYTES];
	struct ipaddr ip;
	char *id, *ifname; /* owned */
};

typedef int (*found_fn)(void *arg, struct found *f, struct err *e);

static void found_done(struct found *f)
{
	free(f->id);
	free(f->ifname);
	f->id = f->ifname = NULL;
}

/* Reads the owner "<id>\r\n<ifname>", or only the id (host-local before 0.8). */
static int read_owner(const struct root *r, struct found *f, struct err *e)
{
	auto_buf struct buf b;
	struct span rest, id;
	int code;

	buf_init(&b, OWNER_MAX);
	code = file_read(r, f->path, OWNER_MAX, &b, e);
	if (code < 0)
		return code;
	rest = span_trim(buf_span(&b));
	if (!span_cut(&rest, '\n', &id))
		id = (struct span){"", 0};
	f->id = span_dup(span_trim(id));
	f->ifname = span_dup(span_trim(rest));
	return 0;
}

static int each_in(const struct ipam *i, const char *network, found_fn fn, void *arg, struct err *e)
{
	char **names = NULL, dir[PATH_BYTES / 2];
	size_t n = 0;
	int r = 0;

	snprintf(dir, sizeof(dir), "%s/%s", i->hostlocal_dir, network);
	r = dir_list(i->root, dir, &names, &n, e);
	if (r == -ENOENT || r == -ENOTDIR) { /* removed in the meantime, or a file */
		err_clear(e);
		return 0;
	}
	for (size_t k = 0; k < n && r >= 0; k++) {
		struct found f = {.network = network};

		if (ip_parse(span_of(names[k]), &f.ip) < 0)
			continue;
		snprintf(f.path, sizeof(f.path), "%s/%s", dir, names[k]);
		r = fn(arg, &f, e);
		found_done(&f);
	}
	str_list_free(names, n);
	return r;
}

static int each(const struct ipam *i, found_fn fn, void *arg, struct err *e)
{
	char **networks = NULL;
	size_t n = 0;
	int r = dir_list(i->root, i->hostlocal_dir, &networks, &n, e);

	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	for (size_t k = 0; k < n && r >= 0; k++)
		r = each_in(i, networks[k], fn, arg, e);
	str_list_free(networks, n);
	return r;
}

static const char *keep_text(struct ipam *i, char *s)
{
	VEC_PUSH(i->j.texts, i->j.n_texts) = s;
	return s;
}

static int adopt_one(void *arg, struct found *f, struct err *e)
{
	struct ipam *i = arg;
	const struct pool *p = pool_of(&i->pools, &f->ip);
	const struct lease *there = p ? lease_find(&i->j.leases, &f->ip) : NULL;
	struct lease l = LEASE_INIT;
	int r;

	(void)e;
	if (!p || (there && (there->state == LEASE_USED || there->state == LEASE_RETAINED)))
		return 0;
	/* An address whose file cannot be read may be in use, so store_adopt() fails and nothing
	 * is allocated. */
	r = read_owner(i->root, f, e);
	if (r == -ENOENT)
		err_clear(e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	l.address = (struct ipnet){f->ip, p->subnet.len};
	l.state = LEASE_ADOPTED;
	l.container_id = keep_text(i, take(f->id));
	l.ifname = keep_text(i, take(f->ifname));
	l.network = keep_text(i, xstrdup(f->network));
	l.pool = p->name;
	lease_put(&i->j.leases, &l);
	return 0;
}

int store_adopt(struct ipam *i, struct err *e)
{
	int r;

	if (i->adopted || i->pools.n == 0)
		return 0;
	r = each(i, adopt_one, i, e);
	if (r < 0)
		return err_wrap(e, r, "read host-local's addresses");
	i->adopted = true;
	return 0;
}

struct removal {
	const struct ipam *i;
	adopt_match match;
	const void *arg;
	int n;
};

static bool matches(const struct removal *m, const struct found *f)
{
	return m->match(m->arg, f->network, &f->ip, f->id, f->ifname);
}

/* Reads the file again under host-local's lock, because host-local may have assigned the address to
 * another container. */
static int remove_one(void *arg, struct found *f, struct err *e)
{
	struct removal *m = arg;
	const struct root *root = m->i->root;
	char lock[PATH_BYTES];
	auto_fd int fd = -1;
	int r;

	if (read_owner(root, f, NULL) < 0 || !matches(m, f))
		return 0;
	found_done(f);
	snprintf(lock, sizeof(lock), "%s/%s/lock", m->i->hostlocal_dir, f->network);
	r = lock_take(root, lock, ADOPT_LOCK_MS, &fd, e);
	if (r < 0)
		return r;
	if (read_owner(root, f, NULL) < 0 || !matches(m, f))
		return 0;
	r = file_remove(root, f->path, e);
	if (r < 0)
		return r;
	m->n++;
	return 0;
}

int adopt_remove(const struct ipam *i, adopt_match match, const void *arg, struct err *e)
{
	struct removal m = {i, match, arg, 0};
	int r = each(i, remove_one, &m, e);

	return r < 0 ? err_wrap(e, r, "release host-local's address") : m.n;
}

struct conflicts {
	const struct ipam *i;
	struct buf *b;
	int n;
};

static int conflict_one(void *arg, struct found *f, struct err *e)
{
	struct conflicts *c = arg;
	const struct lease *l = lease_find(&c->i->j.leases, &f->ip);
	char text[IP_TEXT_MAX];

	(void)e;
	if (!l || l->state != LEASE_USED || read_owner(c->i->root, f, NULL) < 0 ||
	    lease_is(l, f->id, *f->ifname ? f->ifname : NULL))
		return 0;
	buf_printf(c->b, "%s is allocated to ", ip_str(&f->ip, text));
	lease_owner_str(l, c->b);
	buf_printf(c->b,
		   " and, according to '%s', to container %.12s %s: remove that file if its pod "
		   "was deleted, else delete one of the two pods\n",
		   f->path, f->id, f->ifname);
	c->n++;
	return 0;
}

int adopt_conflicts(const struct ipam *i, struct buf *b, struct err *e)
{
	struct conflicts c = {i, b, 0};
	int r = each(i, conflict_one, &c, e);

	return r < 0 ? r : c.n;
}

/* A damaged journal is moved aside, and its content is recovered from the cluster
 * (agent/blocks/adopt.h). */

static const char aside_name[] = "journal.damaged-";

/* Returns whether a file of this name is a journal that was moved aside; anchor: the anchor of such
 * a journal. */
static bool is_aside(const char *name, bool anchor)
{
	size_t n = strlen(name), end = sizeof(".anchor") - 1;
	bool is_anchor = n > end && strcmp(name + n - end, ".anchor") == 0;

	return strncmp(name, aside_name, sizeof(aside_name) - 1) == 0 && is_anchor == anchor;
}

/* Limits the number of journals moved aside by removing the oldest, so that a disk that fails
 * repeatedly does not fill up. The names sort by time. */
static void drop_oldest(const struct ipam *i, bool anchor)
{
	char **names = NULL;
	size_t n = 0, count = 0;

	if (dir_list(i->root, i->state_dir, &names, &n, NULL) < 0)
		return;
	for (size_t k = n; k-- > 0;) {
		auto_free char *path = xasprintf("%s/%s", i->state_dir, names[k]);

		if (is_aside(names[k], anchor) && ++count > RECREATED_RETAINED)
			(void)file_remove(i->root, path, NULL);
	}
	str_list_free(names, n);
}

static int move(const struct root *r, const char *from, const char *to, struct err *e)
{
	int n = file_rename(r, from, to, false, e);

	if (n != -ENOENT)
		return n;
	err_clear(e);
	return 0;
}

/* Moves the journal before its anchor: in the reverse order a crash could leave the damaged
 * journal without its anchor, and if an earlier release wrote it (a first line without id), it
 * would be accepted as complete. */
static int move_aside(const struct ipam *i, const char *journal, char **aside, struct err *e)
{
	auto_free char *to = xasprintf("%s/%s%" PRId64, i->state_dir, aside_name, i->now_ms());
	auto_free char *anchor = xasprintf("%s.anchor", journal),
		       *to_anchor = xasprintf("%s.anchor", to);
	int n = move(i->root, journal, to, e);

	if (n >= 0)
		n = move(i->root, anchor, to_anchor, e);
	if (n < 0)
		return n;
	drop_oldest(i, false);
	drop_oldest(i, true);
	*aside = take(to);
	return 0;
}

int ipam_recreate(const struct root *r, const struct ipam_paths *p, const char *blocks,
		  char **aside, struct err *e)
{
	auto_ipam struct ipam *i = xcalloc(1, sizeof(*i));
	auto_free char *path = NULL;
	int n = store_lock(i, r, p, e);

	*aside = NULL;
	if (n < 0)
		return err_wrap(e, n, "open address store");
	path = store_journal_path(i);
	n = journal_open(&i->j, r, path, true, e);
	if (n >= 0)
		return 0;
	i->j = (struct journal)JOURNAL_INIT;
	if (n != -EBADMSG)
		return n;
	err_clear(e);
	n = block_log_recreate(r, blocks, i->node, e);
	if (n >= 0)
		n = move_aside(i, path, aside, e);
	return n < 0 ? err_wrap(e, n, "start without the damaged journal '%s'", path) : 0;
}
