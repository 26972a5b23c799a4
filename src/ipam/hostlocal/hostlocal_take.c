/* SPDX-License-Identifier: Apache-2.0 */
/* Which address is next: host-local's round robin. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/hostlocal/hostlocal_dir.h"

static char *last_path(const struct hostlocal *h, size_t set_index)
{
	char name[48];

	snprintf(name, sizeof(name), "last_reserved_ip.%zu", set_index);
	return hostlocal_path(h, name);
}

/* Where the last ADD stood; an odd or missing file only loses the place. */
static bool last_read(const struct hostlocal *h, size_t set_index, struct ipaddr *ret)
{
	auto_free char *path = last_path(h, set_index);
	char text[IP_TEXT_MAX];

	return file_read_line(h->root, path, text, sizeof(text), NULL) == 0 &&
	       ip_parse(span_of(text), ret) == 0;
}

/* Not synced: losing it costs nothing. */
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

/* The one after the last that was handed out, or the first of all. */
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

/* Once around, so the last one handed out is tried last. */
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
			   const struct hostlocal_owner *who, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < h->n; i++) {
		const struct hostlocal_record *rec = &h->v[i];

		if (strcmp(rec->container_id, who->container_id) != 0 ||
		    (rec->ifname && strcmp(rec->ifname, who->ifname) != 0))
			continue;
		if (hostlocal_set_find(s, &rec->ip))
			return err_set(e, -EEXIST,
				       "%s has been allocated to %s, duplicate allocation is not "
				       "allowed",
				       ip_str(&rec->ip, text), who->container_id);
	}
	return 0;
}

/* "words: 10.0.0.1-10.0.0.9" */
static int fail_set(struct err *e, enum err_kind kind, int code, const char *words,
		    const struct hostlocal_set *s)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	hostlocal_set_str(s, &b);
	return err_kind(e, kind, code, "%s %s", words, b.p);
}

static int check_wanted(const struct hostlocal *h, const struct hostlocal_set *s,
			const struct ipaddr *want, struct err *e)
{
	const struct hostlocal_range *r = hostlocal_set_find(s, want);
	char ip[IP_TEXT_MAX], words[128];

	ip_str(want, ip);
	if (!r) {
		snprintf(words, sizeof(words), "%s not in range set", ip);
		return fail_set(e, ERR_CONF, -EINVAL, words, s);
	}
	if (ip_eq(want, &r->gateway))
		return err_kind(e, ERR_CONF, -EINVAL, "requested ip %s is subnet's gateway", ip);
	if (hostlocal_find(h, want)) {
		snprintf(words, sizeof(words),
			 "requested IP address %s is not available in range set", ip);
		return fail_set(e, ERR_AGAIN, -EADDRINUSE, words, s);
	}
	return 0;
}

int hostlocal_take(struct hostlocal *h, const struct hostlocal_set *s, size_t set_index,
		   const struct hostlocal_owner *who, const struct ipaddr *want,
		   struct ipnet *address, struct ipaddr *gateway, struct err *e)
{
	struct cursor c = {.set = s};
	int r = hostlocal_records(h, e);

	if (r == 0)
		r = want ? check_wanted(h, s, want, e) : check_duplicate(h, s, who, e);
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
	r = hostlocal_write(h, &c.at, who, e);
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
