/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam_lab.h"

int64_t il_clock_ms = 1700000000000;
struct ipam_lab il_lab;

int64_t il_now(void)
{
	return il_clock_ms;
}

void il_make(struct ipam_lab *l)
{
	struct err e = ERR_INIT;

	t_dir_make(l->dir, &l->root);
	ASSERT_EQ(dir_make(&l->root, "/pools", 0755, &e), 0);
	l->paths = (struct ipam_paths){.pool_dir = "/pools",
				       .state_dir = "/state",
				       .hostlocal_dir = "/hostlocal",
				       .node = "node1",
				       .now_ms = il_now};
	il_clock_ms = 1700000000000;
}

void il_drop(struct ipam_lab *l)
{
	t_dir_remove(l->dir, &l->root);
}

int il_setup(void **state)
{
	(void)state;
	log_threshold = LOG_NONE;
	il_make(&il_lab);
	return 0;
}

int il_teardown(void **state)
{
	(void)state;
	il_drop(&il_lab);
	return 0;
}

char *il_path(const struct ipam_lab *l, const char *path)
{
	return xasprintf("%s%s", l->dir, path);
}

void il_write(const struct ipam_lab *l, const char *path, const char *text)
{
	auto_free char *dir = span_dup((struct span){path, (size_t)(strrchr(path, '/') - path)});
	struct err e = ERR_INIT;

	ASSERT_EQ(dir_make(&l->root, dir, 0755, &e), 0);
	ASSERT_EQ(file_replace(&l->root, path, span_of(text), 0644, &e), 0);
}

void il_pools(const struct ipam_lab *l, const char *ini)
{
	il_write(l, "/pools/rails.conf", ini);
}

struct ipam *il_open(const struct ipam_lab *l)
{
	struct ipam *i = NULL;
	struct err e = ERR_INIT;

	ASSERT_OK(ipam_open(&i, &l->root, &l->paths, &e), &e);
	return i;
}

struct ipaddr il_take(const struct ipam_lab *l, const char *id, const char *ifname,
		      const char *pool)
{
	struct ip_request request = {.owner = {.container_id = id, .ifname = ifname}};
	auto_ipam struct ipam *i = il_open(l);
	struct ip_allocation *g = NULL;
	struct err e = ERR_INIT;
	struct ipaddr ip;
	size_t n = 0;

	request.pools4 = &pool;
	request.n_pools4 = pool != NULL;
	ASSERT_OK(ipam_allocate(i, &request, 1, &g, &n, &e), &e);
	ASSERT_EQ(n, 1);
	ip = g[0].address.ip;
	ip_allocations_free(g, n);
	return ip;
}

int il_free(const struct ipam_lab *l, const char *id, const char *ifname)
{
	auto_ipam struct ipam *i = il_open(l);
	struct err e = ERR_INIT;
	int n = ipam_release(i, id, ifname, &e);

	ASSERT_OK(n, &e);
	return n;
}

size_t il_records(const struct ipam_lab *l, const char *state)
{
	auto_ipam struct ipam *i = il_open(l);
	auto_free struct ipam_record *v = NULL;
	struct err e = ERR_INIT;
	size_t n = 0, count = 0;

	ASSERT_OK(ipam_records(i, &v, &n, &e), &e);
	for (size_t k = 0; k < n; k++)
		count += strcmp(v[k].state, state) == 0;
	return count;
}

void il_assert_ip(const struct ipaddr *a, const char *text)
{
	char buf[IP_TEXT_MAX];

	ASSERT_STR_EQ(ip_str(a, buf), text);
}

char *il_read(const struct ipam_lab *l, const char *path, size_t *n)
{
	struct err e = ERR_INIT;
	struct buf b;

	buf_init(&b, 64 << 20);
	ASSERT_OK(file_read(&l->root, path, 64 << 20, &b, &e), &e);
	*n = b.len;
	return buf_take(&b);
}
