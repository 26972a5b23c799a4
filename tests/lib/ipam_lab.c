/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ipam_lab.h"

int64_t il_clock_ms = 1700000000000;

int64_t il_now(void)
{
	return il_clock_ms;
}

void il_make(struct ipam_lab *l)
{
	struct err e = ERR_INIT;

	/* Thousands of fsyncs would each wait for a disk that other processes use. */
	strcpy(l->dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/unirail-ipam.XXXXXX"
						     : "/tmp/unirail-ipam.XXXXXX");
	assert_non_null(mkdtemp(l->dir));
	ASSERT_EQ(root_open(&l->root, l->dir, &e), 0);
	ASSERT_EQ(dir_make(&l->root, "/pools", 0755, &e), 0);
	l->paths = (struct ipam_paths){.pool_dir = "/pools",
				       .state_dir = "/state",
				       .hostlocal_dir = "/hostlocal",
				       .node = "node1",
				       .now_ms = il_now};
	il_clock_ms = 1700000000000;
}

static int drop_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void il_drop(struct ipam_lab *l)
{
	root_close(&l->root);
	nftw(l->dir, drop_one, 16, FTW_DEPTH | FTW_PHYS);
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

	if (ipam_open(&i, &l->root, &l->paths, &e) < 0)
		fail_msg("%s", e.text);
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
	if (ipam_allocate(i, &request, 1, &g, &n, &e) < 0)
		fail_msg("%s", e.text);
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

	if (n < 0)
		fail_msg("%s", e.text);
	return n;
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
	if (file_read(&l->root, path, 64 << 20, &b, &e) < 0)
		fail_msg("%s", e.text);
	*n = b.len;
	return buf_take(&b);
}
