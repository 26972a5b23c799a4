/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"

/* Two hundred pods that start at once take turns, a disk's fsync each. */
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

int store_lock(struct ipam *i, const struct root *r, const struct ipam_paths *p, struct err *e)
{
	static const struct ipam_paths defaults;
	auto_free char *lock = NULL;
	int n;

	p = p ? p : &defaults;
	i->root = r;
	i->lock = -1;
	i->j = (struct journal)JOURNAL_INIT;
	i->pool_dir = path_or(p->pool_dir, IPAM_POOL_DIR);
	i->state_dir = path_or(p->state_dir, IPAM_STATE_DIR);
	i->hostlocal_dir = path_or(p->hostlocal_dir, IPAM_HOSTLOCAL_DIR);
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

char *store_journal_path(const struct ipam *i)
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

/* Without the pools at hand: the longest that any of them may ask for. */
static void compact(struct ipam *i)
{
	bool known = i->pools_tried && i->pools_r == 0;
	int64_t rest = known ? i->pools.rest_ms : POOL_REST_MAX_MS;
	struct err e = ERR_INIT;

	for (size_t k = 0; known && k < i->pools.n; k++)
		if (i->pools.v[k].rest_ms > rest)
			rest = i->pools.v[k].rest_ms;
	if (journal_compact(&i->j, i->now_ms(), rest,
			    known ? i->pools.quarantine_ms : POOL_QUARANTINE_MAX_MS, &e) < 0)
		log_warn("journal stays long", LOG_S("error", e.text));
}

int store_commit(struct ipam *i, const struct lease *v, size_t n, struct err *e)
{
	int r;

	if (n == 0)
		return 0;
	r = journal_commit(&i->j, v, n, e);
	/* What was said is durable; whether the file is short is nobody's concern but ours. */
	if (r == 0 && journal_is_long(&i->j))
		compact(i);
	return r;
}

int ipam_repair(const struct root *r, const struct ipam_paths *p, const struct ipam_known *found,
		size_t n_found, struct buf *said, struct err *e)
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
	return journal_repair(r, path, i->now_ms(), v, count, said, e);
}
