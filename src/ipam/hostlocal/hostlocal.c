/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/hostlocal/hostlocal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/sorted.h"

/* The store's directory: lock, address files, and the owners in these files. */

enum { LOCK_MS = 10000, RECORD_MAX = 4096 };

/* Returns a path, which the caller frees. */
static char *hostlocal_path(const struct hostlocal *h, const char *name)
{
	return xasprintf("%s/%s", h->dir, name);
}

static char *ip_path(const struct hostlocal *h, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	return hostlocal_path(h, ip_str(a, text));
}

int hostlocal_open(struct hostlocal *h, const struct root *r, const char *data_dir,
		   const char *network, bool create, struct err *e)
{
	auto_hostlocal struct hostlocal n = {.root = r, .lock = -1};
	auto_free char *lock = NULL;
	struct stat st;
	int err;

	n.dir = xasprintf("%s/%s", data_dir, network);
	if (create)
		err = dir_make(r, n.dir, 0755, e);
	else
		err = file_lstat(r, n.dir, &st, e);
	if (err == -ENOENT)
		return err_kind(e, ERR_IO, -ENOENT, "open '%s': No such file or directory (ENOENT)",
				n.dir);
	lock = hostlocal_path(&n, "lock");
	if (err == 0)
		err = lock_take(r, lock, LOCK_MS, &n.lock, e);
	if (err < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, err, "address store of network '%s'", network);
	}
	*h = n;
	n = (struct hostlocal)HOSTLOCAL_INIT;
	return 0;
}

void hostlocal_record_done(struct hostlocal_record *r)
{
	free(r->container_id);
	free(r->ifname);
	*r = (struct hostlocal_record){0};
}

void hostlocal_close(struct hostlocal *h)
{
	int saved = errno;

	for (size_t i = 0; i < h->n; i++)
		hostlocal_record_done(&h->v[i]);
	free(h->v);
	free(h->dir);
	cleanup_fd(&h->lock);
	*h = (struct hostlocal)HOSTLOCAL_INIT;
	errno = saved;
}

/* Parses "<id>\r\n<ifname>"; surrounding white space is ignored. */
static void record_parse(struct span text, struct hostlocal_record *r)
{
	const char *end;

	text = span_trim(text);
	end = text.n ? memmem(text.p, text.n, "\r\n", 2) : NULL;
	if (!end) {
		r->container_id = span_dup(text);
		return;
	}
	r->container_id = span_dup((struct span){text.p, (size_t)(end - text.p)});
	r->ifname = span_dup((struct span){end + 2, text.n - (size_t)(end - text.p) - 2});
}

int hostlocal_scan(const struct hostlocal *h, const struct ipaddr *a, struct hostlocal_record *ret,
		   struct err *e)
{
	struct hostlocal_record rec = {.ip = *a};
	auto_free char *path = ip_path(h, a);
	auto_buf struct buf text;
	int r;

	buf_init(&text, RECORD_MAX);
	r = file_read(h->root, path, RECORD_MAX, &text, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return r;
	}
	record_parse(buf_span(&text), &rec);
	*ret = rec;
	return 0;
}

static int by_ip(const void *a, const void *b)
{
	const struct hostlocal_record *x = a, *y = b;

	return ip_cmp(&x->ip, &y->ip);
}

/* Removes ".10.0.0.1.0123abcd.tmp", left by a process that was killed in hostlocal_write(). No
 * other process writes the file, because the caller holds the lock. */
static void sweep(const struct hostlocal *h, const char *name)
{
	auto_free char *path = hostlocal_path(h, name);
	size_t n = strlen(name), end = sizeof(".01234567.tmp") - 1;
	struct ipaddr ip;

	if (name[0] == '.' && n > end && strcmp(name + n - 4, ".tmp") == 0 &&
	    ip_parse((struct span){name + 1, n - 1 - end}, &ip) == 0)
		file_remove(h->root, path, NULL);
}

/*
 * Returns whether the error means that the file cannot be a record, rather than that it cannot be
 * read now.
 */
static bool is_no_record(int r)
{
	return r == -EFBIG || r == -EISDIR || r == -ELOOP || r == -ENXIO || r == -ENOENT;
}

int hostlocal_records(struct hostlocal *h, struct err *e)
{
	char **names;
	size_t n;
	int r;

	if (h->loaded)
		return 0;
	r = dir_list(h->root, h->dir, &names, &n, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return r;
	}
	for (size_t i = 0; i < n; i++) {
		struct hostlocal_record rec;
		struct ipaddr ip;

		if (ip_parse(span_of(names[i]), &ip) < 0) {
			sweep(h, names[i]);
			continue;
		}
		r = hostlocal_scan(h, &ip, &rec, e);
		/* A file whose name is an address marks the address as allocated, even if the
		 * file is not a record. */
		if (is_no_record(r))
			rec = (struct hostlocal_record){ip, xstrdup(""), NULL};
		else if (r < 0)
			break;
		VEC_PUSH(h->v, h->n) = rec;
		r = 0;
	}
	str_list_free(names, n);
	if (r < 0)
		return r;
	err_clear(e);
	if (h->n)
		qsort(h->v, h->n, sizeof(*h->v), by_ip);
	h->loaded = true;
	return 0;
}

bool hostlocal_is_of(const struct hostlocal_record *r, const struct hostlocal_owner *owner)
{
	return strcmp(r->container_id, owner->container_id) == 0 && r->ifname &&
	       strcmp(r->ifname, owner->ifname) == 0;
}

struct hostlocal_record *hostlocal_find(const struct hostlocal *h, const struct ipaddr *a)
{
	const struct hostlocal_record key = {.ip = *a};

	return h->n ? bsearch(&key, h->v, h->n, sizeof(*h->v), by_ip) : NULL;
}

/* Writes the record of an address that has none. Requires hostlocal_records(). */
static int hostlocal_write(struct hostlocal *h, const struct ipaddr *a,
			   const struct hostlocal_owner *owner, struct err *e)
{
	auto_free char *path = ip_path(h, a), *text = NULL;
	int r;

	text = xasprintf("%s\r\n%s", owner->container_id, owner->ifname);
	r = file_replace(h->root, path, span_of(text), 0600, e);
	if (r < 0) {
		/* The new file may exist: the failed step may be the last one, the fsync of the
		 * directory. */
		file_remove(h->root, path, NULL);
		err_default_kind(e, ERR_IO);
		return r;
	}
	VEC_PUSH(h->v, h->n) =
		(struct hostlocal_record){*a, xstrdup(owner->container_id), xstrdup(owner->ifname)};
	qsort(h->v, h->n, sizeof(*h->v), by_ip);
	return 0;
}

int hostlocal_free(struct hostlocal *h, const struct ipaddr *a, struct err *e)
{
	struct hostlocal_record *rec = hostlocal_find(h, a);
	auto_free char *path = ip_path(h, a);
	int r = file_remove(h->root, path, e);

	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return r;
	}
	if (rec) {
		hostlocal_record_done(rec);
		memmove(rec, rec + 1, (size_t)(h->v + --h->n - rec) * sizeof(*rec));
	}
	return 0;
}

/* Releases the records of the owner; legacy: records without interface that have the owner's
 * container id. */
static int release(struct hostlocal *h, const struct hostlocal_owner *owner, bool legacy,
		   struct err *e)
{
	int freed = 0;

	for (size_t i = h->n; i-- > 0;) {
		const struct hostlocal_record *rec = &h->v[i];
		struct ipaddr ip = rec->ip;
		bool his = legacy ? !rec->ifname &&
					    strcmp(rec->container_id, owner->container_id) == 0
				  : hostlocal_is_of(rec, owner);
		int r = his ? hostlocal_free(h, &ip, e) : 0;

		if (r < 0)
			return r;
		freed += his;
	}
	return freed;
}

int hostlocal_release(struct hostlocal *h, const struct hostlocal_owner *owner, struct err *e)
{
	int r = hostlocal_records(h, e);

	if (r == 0)
		r = release(h, owner, false, e);
	return r ? r : release(h, owner, true, e);
}

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

static bool contains(const struct hostlocal_range *r, const struct ipaddr *a)
{
	return ipnet_contains(&r->subnet, a) && ip_cmp(a, &r->first) >= 0 &&
	       ip_cmp(a, &r->last) <= 0;
}

static int check_subnet(const struct ipnet *n, struct err *e)
{
	char text[IP_TEXT_MAX];
	struct ipaddr first;

	if (n->ip.family == 0)
		return bad(e, "IP <nil> not v4 nor v6");
	/* The prefix must leave at least two host bits, for a network, a host and a broadcast
	 * address. */
	if (n->len > ip_bits(&n->ip) - 2)
		return bad(e, "Network %s too small to allocate from", ipnet_str(n, text));
	if (!ipnet_has_host_bits(n))
		return 0;
	first = ipnet_first(n);
	return bad(e,
		   "Network has host bits set. For a subnet mask of length %d the network address "
		   "is %s",
		   n->len, ip_str(&first, text));
}

static struct ipaddr offset(struct ipaddr a, int by)
{
	return ip_from_num(a.family, ip_num(&a) + (u128)by);
}

static int outside(const char *what, const struct ipaddr *a, const struct ipnet *n, struct err *e)
{
	char ip[IP_TEXT_MAX], net[IP_TEXT_MAX];

	return bad(e, "%s %s not in network %s", what, ip_str(a, ip), ipnet_str(n, net));
}

static int range_check(struct hostlocal_range *r, struct err *e)
{
	int n = check_subnet(&r->subnet, e);

	if (n < 0)
		return n;
	if (r->gateway.family == 0)
		r->gateway = offset(r->subnet.ip, 1);
	/*
	 * For a range whose end is before its start, the original reports RangeStart if the
	 * configuration has it, otherwise RangeEnd.
	 */
	if (r->first.family && (!ipnet_contains(&r->subnet, &r->first) ||
				(r->last.family && ip_cmp(&r->first, &r->last) > 0)))
		return outside("RangeStart", &r->first, &r->subnet, e);
	if (r->first.family == 0)
		r->first = offset(r->subnet.ip, 1);
	if (r->last.family &&
	    (!ipnet_contains(&r->subnet, &r->last) || ip_cmp(&r->last, &r->first) < 0))
		return outside("RangeEnd", &r->last, &r->subnet, e);
	if (r->last.family == 0)
		r->last = offset(ipnet_last(&r->subnet), r->subnet.ip.family == 4 ? -1 : 0);
	return 0;
}

static void range_str(const struct hostlocal_range *r, struct buf *b)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	buf_printf(b, "%s-%s", ip_str(&r->first, first), ip_str(&r->last, last));
}

void hostlocal_set_str(const struct hostlocal_set *s, struct buf *b)
{
	for (size_t i = 0; i < s->n; i++) {
		if (i)
			buf_char(b, ',');
		range_str(&s->v[i], b);
	}
}

/* --- overlapping sets: the ranges of all sets, sorted by first address --- */

struct piece {
	const struct hostlocal_range *r;
	/* index of the set, or in check_apart() of the range; ranges of one group do not overlap */
	size_t group;
};

static int by_first(const void *a, const void *b)
{
	return ip_cmp(&((const struct piece *)a)->r->first, &((const struct piece *)b)->r->first);
}

/* Returns the lowest group that overlaps another group; SIZE_MAX: none. */
static size_t first_overlapping(const struct piece *v, size_t n)
{
	const struct ipaddr *last = NULL; /* highest last address of the ranges before v[i] */
	size_t group = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		bool before = last && ip_cmp(&v[i].r->first, last) <= 0;
		bool after = i + 1 < n && ip_cmp(&v[i + 1].r->first, &v[i].r->last) <= 0;

		if ((before || after) && v[i].group < group)
			group = v[i].group;
		if (!last || ip_cmp(&v[i].r->last, last) > 0)
			last = &v[i].r->last;
	}
	return group;
}

/* Returns whether one of the ranges, which are sorted and disjoint, overlaps r. */
static bool overlaps_any(const struct piece *v, size_t n, const struct hostlocal_range *r)
{
	size_t low = LOWER_BOUND(i, n, ip_cmp(&v[i].r->last, &r->first) < 0);

	return low < n && ip_cmp(&v[low].r->first, &r->last) <= 0;
}

static bool first_overlap(struct piece *v, size_t n, size_t *i, size_t *j)
{
	struct piece *own;
	size_t n_own = 0;

	if (n > 0)
		qsort(v, n, sizeof(v[0]), by_first);
	*i = first_overlapping(v, n);
	*j = SIZE_MAX;
	if (*i == SIZE_MAX)
		return false;
	own = xcalloc(n, sizeof(*own));
	for (size_t k = 0; k < n; k++)
		if (v[k].group == *i)
			own[n_own++] = v[k];
	for (size_t k = 0; k < n; k++)
		if (v[k].group != *i && v[k].group < *j && overlaps_any(own, n_own, v[k].r))
			*j = v[k].group;
	free(own);
	return true;
}

bool hostlocal_sets_overlap(const struct hostlocal_set *sets, size_t n, size_t *i, size_t *j)
{
	struct piece *v = NULL;
	size_t n_v = 0;
	bool found;

	for (size_t k = 0; k < n; k++)
		for (size_t m = 0; m < sets[k].n; m++)
			VEC_PUSH(v, n_v) = (struct piece){&sets[k].v[m], k};
	found = first_overlap(v, n_v, i, j);
	free(v);
	return found;
}

/* v: sorted by first address. */
static void set_index(struct hostlocal_set *s, const struct piece *v)
{
	free(s->by_first);
	s->by_first = xcalloc(s->n, sizeof(const struct hostlocal_range *));
	for (size_t i = 0; i < s->n; i++)
		s->by_first[i] = v[i].r;
}

void hostlocal_set_done(struct hostlocal_set *s)
{
	free(s->by_first);
	s->by_first = NULL;
}

static int check_apart(struct hostlocal_set *s, struct err *e)
{
	struct piece *v = xcalloc(s->n, sizeof(*v));
	auto_buf struct buf x, y;
	size_t i, j;
	bool found;

	buf_init(&x, ERR_TEXT_MAX);
	buf_init(&y, ERR_TEXT_MAX);
	for (size_t k = 0; k < s->n; k++)
		v[k] = (struct piece){&s->v[k], k};
	found = first_overlap(v, s->n, &i, &j);
	if (!found)
		set_index(s, v);
	free(v);
	if (!found)
		return 0;
	range_str(&s->v[i], &x);
	range_str(&s->v[j], &y);
	return bad(e, "subnets %s and %s overlap", x.p, y.p);
}

int hostlocal_set_check(struct hostlocal_set *s, struct err *e)
{
	int n = 0;

	if (s->n == 0)
		return bad(e, "empty range set");
	for (size_t i = 0; i < s->n && n == 0; i++) {
		n = range_check(&s->v[i], e);
		if (n == 0 && s->v[i].first.family != s->v[0].first.family)
			return bad(e, "mixed address families");
	}
	return n < 0 ? n : check_apart(s, e);
}

const struct hostlocal_range *hostlocal_set_find(const struct hostlocal_set *s,
						 const struct ipaddr *a)
{
	size_t low = 0, high = s->by_first ? s->n : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (contains(s->by_first[mid], a))
			return s->by_first[mid];
		if (ip_cmp(&s->by_first[mid]->first, a) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (s->by_first)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		if (contains(&s->v[i], a))
			return &s->v[i];
	return NULL;
}

/* --- selects the next address by host-local's round robin --- */

static char *last_path(const struct hostlocal *h, size_t set_index)
{
	char name[48];

	snprintf(name, sizeof(name), "last_reserved_ip.%zu", set_index);
	return hostlocal_path(h, name);
}

/* Sets *ret to the address that the last ADD allocated. Returns false if there is no valid file;
 * the round robin then starts from the beginning. */
static bool last_read(const struct hostlocal *h, size_t set_index, struct ipaddr *ret)
{
	auto_free char *path = last_path(h, set_index);
	char text[IP_TEXT_MAX];

	return file_read_line(h->root, path, text, sizeof(text), NULL) == 0 &&
	       ip_parse(span_of(text), ret) == 0;
}

/* Not synced: if the file is lost, the round robin only starts from the beginning. */
static int last_write(const struct hostlocal *h, size_t set_index, const struct ipaddr *a,
		      struct err *e)
{
	auto_free char *path = last_path(h, set_index);
	auto_fd int fd = file_open(h->root, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, e);
	char text[IP_TEXT_MAX];
	int r = fd;

	ip_str(a, text);
	if (fd >= 0)
		r = fd_write_all(fd, text, strlen(text), e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, r, "file '%s'", path);
	}
	return 0;
}

struct cursor {
	const struct hostlocal_set *set;
	size_t range;
	struct ipaddr at;
};

static void step(struct cursor *c)
{
	const struct hostlocal_range *r = &c->set->v[c->range];

	if (ip_eq(&c->at, &r->last) || !ip_add(&c->at, 1, &c->at)) {
		c->range = (c->range + 1) % c->set->n;
		c->at = c->set->v[c->range].first;
	}
}

/* Returns the address after the one allocated last, or the first of the set. */
static struct cursor start(const struct hostlocal *h, const struct hostlocal_set *s, size_t index)
{
	struct cursor c = {s, 0, s->v[0].first};
	const struct hostlocal_range *r;
	struct ipaddr last;

	if (!last_read(h, index, &last))
		return c;
	r = hostlocal_set_find(s, &last);
	if (!r)
		return c;
	c.range = (size_t)(r - s->v);
	c.at = last;
	step(&c);
	return c;
}

/* Searches the whole set once, so that the address allocated last is tried last. */
static bool next_free(const struct hostlocal *h, struct cursor *c)
{
	const struct ipaddr first = c->at;

	do {
		if (!ip_eq(&c->at, &c->set->v[c->range].gateway) && !hostlocal_find(h, &c->at))
			return true;
		step(c);
	} while (!ip_eq(&c->at, &first));
	return false;
}

static int check_duplicate(const struct hostlocal *h, const struct hostlocal_set *s,
			   const struct hostlocal_owner *owner, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < h->n; i++) {
		const struct hostlocal_record *rec = &h->v[i];

		if (strcmp(rec->container_id, owner->container_id) != 0 ||
		    (rec->ifname && strcmp(rec->ifname, owner->ifname) != 0))
			continue;
		if (hostlocal_set_find(s, &rec->ip))
			return err_set(e, -EEXIST,
				       "%s has been allocated to %s, duplicate allocation is not "
				       "allowed",
				       ip_str(&rec->ip, text), owner->container_id);
	}
	return 0;
}

/* "MESSAGE 10.0.0.1-10.0.0.9" */
static int fail_set(struct err *e, enum err_kind kind, int code, const char *message,
		    const struct hostlocal_set *s)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	hostlocal_set_str(s, &b);
	return err_kind(e, kind, code, "%s %s", message, b.p);
}

static int check_wanted(const struct hostlocal *h, const struct hostlocal_set *s,
			const struct ipaddr *want, struct err *e)
{
	const struct hostlocal_range *r = hostlocal_set_find(s, want);
	char ip[IP_TEXT_MAX], message[128];

	ip_str(want, ip);
	if (!r) {
		snprintf(message, sizeof(message), "%s not in range set", ip);
		return fail_set(e, ERR_CONF, -EINVAL, message, s);
	}
	if (ip_eq(want, &r->gateway))
		return err_kind(e, ERR_CONF, -EINVAL, "requested ip %s is subnet's gateway", ip);
	if (hostlocal_find(h, want)) {
		snprintf(message, sizeof(message),
			 "requested IP address %s is not available in range set", ip);
		return fail_set(e, ERR_AGAIN, -EADDRINUSE, message, s);
	}
	return 0;
}

int hostlocal_take(struct hostlocal *h, const struct hostlocal_set *s, size_t set_index,
		   const struct hostlocal_owner *owner, const struct ipaddr *want,
		   struct ipnet *address, struct ipaddr *gateway, struct err *e)
{
	struct cursor c = {.set = s};
	int r = hostlocal_records(h, e);

	if (r == 0)
		r = want ? check_wanted(h, s, want, e) : check_duplicate(h, s, owner, e);
	if (r < 0)
		return r;
	if (want) {
		c.at = *want;
		c.range = (size_t)(hostlocal_set_find(s, want) - s->v);
	} else {
		c = start(h, s, set_index);
		if (!next_free(h, &c))
			return fail_set(e, ERR_AGAIN, -ENOSPC,
					"no IP addresses available in range set:", s);
	}
	r = hostlocal_write(h, &c.at, owner, e);
	if (r < 0)
		return r;
	r = last_write(h, set_index, &c.at, e);
	if (r < 0) {
		hostlocal_free(h, &c.at, NULL);
		return r;
	}
	*address = (struct ipnet){c.at, s->v[c.range].subnet.len};
	*gateway = s->v[c.range].gateway;
	return 0;
}
