/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that host-local handed out before its network came to us. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ipam/store.h"

enum { PATH_BYTES = 4096, OWNER_MAX = 4096, ADOPT_LOCK_MS = 10 * 1000 };

/* One file of host-local. */
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

/* "<id>\r\n<ifname>", or the id alone from releases before 0.7. */
static int read_owner(const struct root *r, struct found *f)
{
	auto_buf struct buf b;
	struct span rest, id;

	buf_init(&b, OWNER_MAX);
	if (file_read(r, f->path, OWNER_MAX, &b, NULL) < 0)
		return -ENOENT;
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
	if (dir_list(i->root, dir, &names, &n, NULL) < 0)
		return 0; /* a stray file, or gone meanwhile */
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

	(void)e;
	if (!p || (there && (there->state == LEASE_USED || there->state == LEASE_KEPT)))
		return 0;
	if (read_owner(i->root, f) < 0)
		return 0;
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
		return err_wrap(e, r, "look for host-local's addresses");
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

/* Looked at twice: host-local may give the address to somebody else before we have its lock. */
static int remove_one(void *arg, struct found *f, struct err *e)
{
	struct removal *m = arg;
	const struct root *root = m->i->root;
	char lock[PATH_BYTES];
	auto_fd int fd = -1;
	int r;

	if (read_owner(root, f) < 0 || !matches(m, f))
		return 0;
	found_done(f);
	snprintf(lock, sizeof(lock), "%s/%s/lock", m->i->hostlocal_dir, f->network);
	r = lock_take(root, lock, ADOPT_LOCK_MS, &fd, e);
	if (r < 0)
		return r;
	if (read_owner(root, f) < 0 || !matches(m, f))
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

	return r < 0 ? err_wrap(e, r, "give back host-local's address") : m.n;
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
	if (!l || l->state != LEASE_USED || read_owner(c->i->root, f) < 0 ||
	    lease_is(l, f->id, *f->ifname ? f->ifname : NULL))
		return 0;
	buf_printf(c->b, "%s is held by ", ip_str(&f->ip, text));
	lease_owner_str(l, c->b);
	buf_printf(c->b,
		   " and, says '%s', by container %.12s %s: remove that file if its pod is gone, "
		   "else delete one of the two pods\n",
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
