/* SPDX-License-Identifier: Apache-2.0 */
/* The store under test, on a separate small disk. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "trace.h"

#define STATE MODEL_DISK "/state"
#define POOLS MODEL_DISK "/pools"

enum { LOCK_MS = 60000 };

int64_t store_clock;
static struct root root;

static int64_t now_ms(void)
{
	return store_clock;
}

static const struct ipam_paths paths = {.pool_dir = POOLS,
					.state_dir = STATE,
					.hostlocal_dir = MODEL_DISK "/networks",
					.node = "node",
					.lock_ms = LOCK_MS,
					.now_ms = now_ms};

void store_mount(void)
{
	struct err e = ERR_INIT;

	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("model", MODEL_DISK, "tmpfs", 0, "size=384k,mode=755") < 0)
		die("mount a private tmpfs: %s: run as root", errno_text(errno));
	if (root_open(&root, NULL, &e) < 0 || dir_make(&root, POOLS, 0755, &e) < 0)
		die("%s", e.text);
}

static void empty_folder(const char *path)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(&root, path, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *at = xasprintf("%s/%s", path, names[i]);

		file_remove(&root, at, NULL);
	}
	str_list_free(names, n);
}

void store_create(const struct model *m)
{
	auto_buf struct buf b;
	struct err e = ERR_INIT;

	buf_init(&b, 1 << 16);
	store_fill(false);
	empty_folder(STATE);
	model_pools(m, &b);
	if (file_replace(&root, POOLS "/p.conf", buf_span(&b), 0644, &e) < 0)
		die("%s", e.text);
	store_clock = m->now;
}

/* --- calls --- */

struct texts {
	char ifname[RAILS_MAX][8], own[RAILS_MAX][8], backup[RAILS_MAX][8], v6[RAILS_MAX][8];
	char pod[8];
	const char *pools4[RAILS_MAX][2], *pools6[RAILS_MAX][1];
};

static bool has_pool(const struct model *m, const char *name)
{
	for (size_t i = 0; i < m->n_pools; i++)
		if (strcmp(m->pools[i].name, name) == 0)
			return true;
	return false;
}

static void name_pools(const struct model *m, int rail, struct texts *w, struct ip_request *a)
{
	snprintf(w->own[rail], sizeof(w->own[rail]), m->wildcard ? "r%d*" : "r%d", rail);
	snprintf(w->backup[rail], sizeof(w->backup[rail]), "r%db", rail);
	snprintf(w->v6[rail], sizeof(w->v6[rail]), "v%d", rail);
	w->pools4[rail][0] = w->own[rail];
	w->pools4[rail][1] = w->backup[rail];
	w->pools6[rail][0] = w->v6[rail];
	a->pools4 = w->pools4[rail];
	a->n_pools4 = !m->wildcard && has_pool(m, w->backup[rail]) ? 2 : 1;
	a->pools6 = w->pools6[rail];
	a->n_pools6 = has_pool(m, w->v6[rail]);
}

static size_t make_requests(const struct model *m, const struct request *r, struct texts *w,
			    struct ip_request *requests, size_t *rails)
{
	const struct container *c = &m->c[r->container];
	size_t n = 0;

	snprintf(w->pod, sizeof(w->pod), "pod%d", c->name % NAMES);
	for (int rail = 0; rail < RAILS_MAX; rail++) {
		struct ip_request *a = &requests[n];

		if (!(r->rails & 1U << rail))
			continue;
		*a = (struct ip_request){.sticky = c->name < STICKY};
		snprintf(w->ifname[rail], sizeof(w->ifname[rail]), "net%d", rail);
		a->owner = (struct ipam_owner){.container_id = c->id,
					       .ifname = w->ifname[rail],
					       .pod_namespace = "ns",
					       .pod_name = w->pod,
					       .network = "net"};
		name_pools(m, rail, w, a);
		rails[n++] = (size_t)rail;
	}
	return n;
}

static int do_add(struct ipam *i, const struct model *m, const struct request *r,
		  struct answer *ret, struct err *e)
{
	struct ip_request requests[RAILS_MAX];
	struct ip_allocation *g = NULL;
	size_t rails[RAILS_MAX], n_requests, n = 0;
	struct texts w;
	int code;

	n_requests = make_requests(m, r, &w, requests, rails);
	code = ipam_allocate(i, requests, n_requests, &g, &n, e);
	if (code < 0)
		return code;
	for (size_t k = 0; k < n && k < ARRAY_LEN(ret->v); k++) {
		ret->v[k].rail = rails[g[k].request];
		ret->v[k].ip = g[k].address.ip;
	}
	ret->n = n;
	ip_allocations_free(g, n);
	return 0;
}

static int do_del(struct ipam *i, const struct model *m, const struct request *r, struct err *e)
{
	struct ipam_valid v[RAILS_MAX];
	char names[RAILS_MAX][8];
	size_t n = 0;

	if (!r->rails)
		return ipam_release(i, m->c[r->container].id, NULL, e);
	for (int rail = 0; rail < RAILS_MAX; rail++) {
		if (!(r->rails & 1U << rail))
			continue;
		snprintf(names[rail], sizeof(names[rail]), "net%d", rail);
		v[n++] = (struct ipam_valid){m->c[r->container].id, names[rail]};
	}
	return ipam_release_many(i, v, n, e);
}

static int do_gc(struct ipam *i, const struct model *m, const struct request *r, struct err *e)
{
	struct ipam_valid v[CONTAINERS_MAX];
	size_t n = 0;

	for (size_t k = 0; k < m->n_c; k++)
		if (r->valid[k])
			v[n++] = (struct ipam_valid){m->c[k].id, NULL};
	return ipam_gc(i, "net", v, n, e);
}

/* Each round allocates an address and releases it; each change is durable before the next. */
static int do_churn(struct ipam *i, const struct request *r, struct err *e)
{
	static const char *const pools[] = {"r0*"};
	int code = 0;

	for (int64_t k = 0; k < r->rounds && code >= 0; k++) {
		struct ip_request a = {
			.owner = {.container_id = CHURN_ID, .ifname = "net0", .network = "net"},
			.pools4 = pools,
			.n_pools4 = 1};
		struct ip_allocation *g = NULL;
		size_t n = 0;

		code = ipam_allocate(i, &a, 1, &g, &n, e);
		if (code < 0)
			return e->kind == ERR_AGAIN && e->code == -ENOSPC
				       ? 0
				       /* 0: no address is left, which ends the rounds and is not
				        * an error */
				       : code;
		code = ipam_release_ip(i, &g[0].address.ip, e);
		ip_allocations_free(g, n);
	}
	return code;
}

static int do_call(struct ipam *i, const struct model *m, const struct request *r,
		   struct answer *ret, struct err *e)
{
	static const struct mac other = {6, {2, 0, 0, 0, 0, 9}};

	switch (r->op) {
	case OP_ADD:
	case OP_ADD_AGAIN: return do_add(i, m, r, ret, e);
	case OP_DEL: return do_del(i, m, r, e);
	case OP_GC: return do_gc(i, m, r, e);
	case OP_QUARANTINE: return ipam_quarantine(i, &m->a[r->addr].ip, &other, e);
	case OP_RELEASE_IP: return ipam_release_ip(i, &m->a[r->addr].ip, e);
	case OP_CHURN: return do_churn(i, r, e);
	default: return 0;
	}
}

void store_do(const struct model *m, const struct request *r, struct answer *ret)
{
	auto_ipam struct ipam *i = NULL;
	struct err e = ERR_INIT;

	ret->code = ipam_open(&i, &root, &paths, &e);
	if (ret->code >= 0)
		ret->code = do_call(i, m, r, ret, &e);
	str_copy(ret->text, sizeof(ret->text), ret->code < 0 ? e.text : "");
	ret->done = true;
}

int store_opens(struct buf *reason)
{
	auto_ipam struct ipam *i = NULL;
	struct err e = ERR_INIT;
	int r = ipam_open(&i, &root, &paths, &e);

	if (r < 0)
		buf_str(reason, e.text);
	return r;
}

/* --- inspection --- */

static int owner_of(const struct model *m, const struct ipam_record *r)
{
	if (strcmp(r->state, "sticky") == 0)
		return atoi(r->pod_name + 3);
	for (size_t k = 0; k < m->n_c; k++)
		if (strcmp(m->c[k].id, r->container_id) == 0)
			return (int)k;
	return -2;
}

static void see(const struct model *m, const struct ipam_record *r, struct seen *ret,
		struct buf *wrong)
{
	static const char *const texts[] = {"cooldown", "used", "sticky", "quarantined"};
	char text[IP_TEXT_MAX];
	size_t i = 0, k = 0;

	while (i < m->n && !ip_eq(&m->a[i].ip, &r->ip))
		i++;
	while (k < ARRAY_LEN(texts) && strcmp(texts[k], r->state) != 0)
		k++;
	if (i == m->n || k == ARRAY_LEN(texts)) {
		buf_printf(wrong, "unexpected record: address %s, state %s", ip_str(&r->ip, text),
			   r->state);
		return;
	}
	ret->state[i] = (enum state)k;
	ret->is_in_cooldown[i] = k == M_FREE;
	ret->owner[i] = k == M_USED || k == M_RETAINED ? owner_of(m, r) : -1;
}

/* Each pool must have as many free addresses as it has addresses without a record. */
static void check_counts(struct ipam *i, const struct model *m, const struct seen *s,
			 struct buf *wrong)
{
	for (size_t k = 0; k < m->n_pools; k++) {
		const struct pool_model *p = &m->pools[k];
		const struct pool *pool = pool_find(ipam_pools(i), p->name);
		auto_free struct ipaddr *list = NULL;
		size_t n = 0, wanted = 0;

		for (size_t j = p->first; j < p->first + p->n; j++)
			wanted += s->state[j] == M_FREE && !s->is_in_cooldown[j];
		if (!pool || ipam_free_list(i, pool, POOL_SIZE, &list, &n, NULL) < 0 || n != wanted)
			buf_printf(wrong, "pool %s has %zu free addresses, should have %zu",
				   p->name, n, wanted);
	}
}

void store_read(const struct model *m, struct seen *ret, struct buf *wrong)
{
	auto_free struct ipam_record *v = NULL;
	auto_ipam struct ipam *i = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf said;
	size_t n = 0;

	*ret = (struct seen){0};
	buf_init(&said, 1 << 16);
	if (ipam_open(&i, &root, &paths, &e) < 0 || ipam_records(i, &v, &n, &e) < 0) {
		buf_printf(wrong, "the store cannot be read: %s", e.text);
		return;
	}
	for (size_t k = 0; k < n && !wrong->len; k++)
		see(m, &v[k], ret, wrong);
	check_counts(i, m, ret, wrong);
	/* ipam_check() also reports an incomplete last line, which is not damage. */
	if (ipam_check(i, &said, &e) != 0 && !strstr(said.p, "incomplete bytes after a crash"))
		buf_printf(wrong, "pool check: %s", said.p);
}
