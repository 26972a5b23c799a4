/* SPDX-License-Identifier: Apache-2.0 */
/* The folder: lock, address files, who has what. */
#include "ipam/hostlocal/hostlocal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "ipam/hostlocal/hostlocal_dir.h"

enum { LOCK_MS = 10000, RECORD_MAX = 4096 };

char *hostlocal_path(const struct hostlocal *h, const char *name)
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

/* "<id>\r\n<ifname>", white space around it aside. */
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

int hostlocal_look(const struct hostlocal *h, const struct ipaddr *a, struct hostlocal_record *ret,
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

/* ".10.0.0.1.0123abcd.tmp": what a kill left of hostlocal_write(). We hold the lock: nobody's. */
static void sweep(const struct hostlocal *h, const char *name)
{
	auto_free char *path = hostlocal_path(h, name);
	size_t n = strlen(name), end = sizeof(".01234567.tmp") - 1;
	struct ipaddr ip;

	if (name[0] == '.' && n > end && strcmp(name + n - 4, ".tmp") == 0 &&
	    ip_parse((struct span){name + 1, n - 1 - end}, &ip) == 0)
		file_remove(h->root, path, NULL);
}

/* And never will be, as against a failure to read it. */
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
		r = hostlocal_look(h, &ip, &rec, e);
		/* What is no record is taken too: its name says so. */
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

bool hostlocal_is_of(const struct hostlocal_record *r, const struct hostlocal_owner *who)
{
	return strcmp(r->container_id, who->container_id) == 0 && r->ifname &&
	       strcmp(r->ifname, who->ifname) == 0;
}

struct hostlocal_record *hostlocal_find(const struct hostlocal *h, const struct ipaddr *a)
{
	const struct hostlocal_record key = {.ip = *a};

	return h->n ? bsearch(&key, h->v, h->n, sizeof(*h->v), by_ip) : NULL;
}

int hostlocal_write(struct hostlocal *h, const struct ipaddr *a, const struct hostlocal_owner *who,
		    struct err *e)
{
	auto_free char *path = ip_path(h, a), *text = NULL;
	int r;

	text = xasprintf("%s\r\n%s", who->container_id, who->ifname);
	r = file_replace(h->root, path, span_of(text), 0600, e);
	if (r < 0) {
		/* It may have its name already: the folder's fsync comes last. */
		file_remove(h->root, path, NULL);
		err_default_kind(e, ERR_IO);
		return r;
	}
	VEC_PUSH(h->v, h->n) =
		(struct hostlocal_record){*a, xstrdup(who->container_id), xstrdup(who->ifname)};
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

/* Records of the owner, or (legacy) those that only have its container id. */
static int release(struct hostlocal *h, const struct hostlocal_owner *who, bool legacy,
		   struct err *e)
{
	int freed = 0;

	for (size_t i = h->n; i-- > 0;) {
		const struct hostlocal_record *rec = &h->v[i];
		struct ipaddr ip = rec->ip;
		bool his = legacy ? !rec->ifname &&
					    strcmp(rec->container_id, who->container_id) == 0
				  : hostlocal_is_of(rec, who);
		int r = his ? hostlocal_free(h, &ip, e) : 0;

		if (r < 0)
			return r;
		freed += his;
	}
	return freed;
}

int hostlocal_release(struct hostlocal *h, const struct hostlocal_owner *who, struct err *e)
{
	int r = hostlocal_records(h, e);

	if (r == 0)
		r = release(h, who, false, e);
	return r ? r : release(h, who, true, e);
}
