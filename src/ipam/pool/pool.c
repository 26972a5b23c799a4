/* SPDX-License-Identifier: Apache-2.0 */
/* The set of pools: its folder, and what must hold between its pools. */
#include "ipam/pool/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "ipam/pool/pool_draft.h"

enum { POOL_FILE_MAX = 4 << 20, PATH_BYTES = 4096 };

void pool_done(struct pool *p)
{
	free(p->name);
	free(p->where);
	free(p->made_for);
	free(p->routes);
	ip_set_done(&p->ips);
	ip_set_done(&p->usable);
	ip_set_done(&p->open);
	ip_set_done(&p->adopted);
	ip_set_done(&p->adopted_here);
	free(p->records);
	str_list_free(p->nodes, p->n_nodes);
	str_list_free(p->namespaces, p->n_namespaces);
	str_list_free(p->networks, p->n_networks);
	selector_done(&p->node_affinity);
	selector_done(&p->namespace_affinity);
	selector_done(&p->pod_affinity);
	*p = (struct pool){0};
}

void pool_set_done(struct pool_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		pool_done(&s->v[i]);
	free(s->v);
	for (size_t i = 0; i < s->n_out; i++) {
		free(s->out[i].name);
		free(s->out[i].why);
	}
	free(s->out);
	ip_set_done(&s->reserved4);
	ip_set_done(&s->reserved6);
	*s = (struct pool_set){0};
}

const struct pool *pool_find(const struct pool_set *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].name, name) == 0)
			return &s->v[i];
	return NULL;
}

const char *pool_why_out(const struct pool_set *s, const char *name)
{
	for (size_t i = 0; i < s->n_out; i++)
		if (strcmp(s->out[i].name, name) == 0)
			return s->out[i].why;
	return NULL;
}

const struct pool *pool_of(const struct pool_set *s, const struct ipaddr *a)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].family == a->family && ip_set_has(&s->v[i].ips, a))
			return &s->v[i];
	return NULL;
}

const char *pool_nearest(const struct pool_set *s, const char *name)
{
	auto_free const char **names = xcalloc(s->n + 1, sizeof(*names));

	for (size_t i = 0; i < s->n; i++)
		names[i] = s->v[i].name;
	return opt_nearest(name, names, s->n);
}

int64_t pool_rest_ms(const struct pool_set *s, const struct pool *p)
{
	return p->rest_ms >= 0 ? p->rest_ms : s->rest_ms;
}

static int check_pair(const struct pool *a, const struct pool *b, struct err *e)
{
	char x[IP_TEXT_MAX], y[IP_TEXT_MAX];
	struct ipaddr both;

	if (strcmp(a->name, b->name) == 0)
		return err_kind(e, ERR_CONF, -EEXIST, "%s: pool '%s' is there already, in %s",
				b->where, b->name, a->where);
	if (a->family != b->family || !ipnet_overlaps(&a->subnet, &b->subnet))
		return 0;
	if (!ipnet_eq(&a->subnet, &b->subnet))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': subnet %s overlaps subnet %s of pool '%s' in %s: make "
			"them equal or disjoint",
			b->where, b->name, ipnet_str(&b->subnet, x), ipnet_str(&a->subnet, y),
			a->name, a->where);
	if (ip_set_meets(&a->ips, &b->ips, &both))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: pool '%s': address %s is also in pool '%s' in %s: exclude it in "
			"one of them",
			b->where, b->name, ip_str(&both, x), a->name, a->where);
	return 0;
}

int pool_set_fits(const struct pool_set *s, size_t n, const struct pool *p, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int r = check_pair(&s->v[i], p, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_pairs(const struct pool_set *s, struct err *e)
{
	int r = 0;

	for (size_t i = 1; i < s->n && r == 0; i++)
		r = pool_set_fits(s, i, &s->v[i], e);
	return r;
}

void pool_set_take_out_reserved(struct pool_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct pool *p = &s->v[i];
		const struct ip_set *out = p->family == 4 ? &s->reserved4 : &s->reserved6;

		p->usable.family = p->family;
		for (size_t j = 0; j < p->ips.n; j++)
			VEC_PUSH(p->usable.v, p->usable.n) = p->ips.v[j];
		ip_set_minus(&p->usable, out);
	}
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && strcmp(name + n - m, end) == 0;
}

static int read_file(struct pool_set *s, const struct root *r, const char *dir, const char *name,
		     struct err *e)
{
	bool ini = ends_with(name, ".conf"), json = ends_with(name, ".json");
	char path[PATH_BYTES];
	auto_buf struct buf text;
	int n;

	buf_init(&text, POOL_FILE_MAX);
	if (name[0] == '.')
		return 0;
	if (ends_with(name, ".yaml") || ends_with(name, ".yml"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s: YAML is not read here: convert it with 'kubectl create "
				"--dry-run=client -o json -f %s'",
				name, name);
	if (!ini && !json)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	n = file_read(r, path, POOL_FILE_MAX, &text, e);
	if (n < 0)
		return n;
	return ini ? pool_read_ini(s, name, buf_span(&text), e)
		   : pool_read_json(s, name, buf_span(&text), e);
}

static int load(struct pool_set *s, const struct root *r, const char *dir, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int n = dir_list(r, dir, &names, &count, e);

	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	for (size_t i = 0; i < count && n == 0; i++)
		n = read_file(s, r, dir, names[i], e);
	str_list_free(names, count);
	return n < 0 ? n : check_pairs(s, e);
}

int pool_set_load(const struct root *r, const char *dir, struct pool_set *ret, struct err *e)
{
	struct pool_set s = {.rest_ms = 60 * 1000, .quarantine_ms = 600 * 1000};
	int n = load(&s, r, dir, e);

	if (n < 0) {
		pool_set_done(&s);
		err_default_kind(e, ERR_IO);
		return err_wrap(e, n, "pool folder '%s'", dir);
	}
	pool_set_take_out_reserved(&s);
	*ret = s;
	return 0;
}
