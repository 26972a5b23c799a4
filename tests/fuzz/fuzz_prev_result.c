/* SPDX-License-Identifier: Apache-2.0 */
/* prevResult of every version: a printed result is parsed again with the same content. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/protocol/result.h"
#include "fuzz.h"

enum { TEXT_MAX = 1 << 20, OUT_MAX = 16 << 20 };

static void read_back(struct span text, enum cni_version v, struct cni_result *ret)
{
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;

	if (json_parse(&d, text, OUT_MAX, &e) < 0 ||
	    cni_result_parse(d, json_root(d), v, ret, &e) < 0)
		fuzz_fail(text.p, v, e.text);
}

/* A result that is printed and parsed in version 1.1.0 has the same addresses, the same routes
 * (dst, gw, table, scope), and as many interfaces and DNS entries. */
static void check_all_written(const struct cni_result *a, const struct cni_result *b)
{
	must(a->n_ifaces == b->n_ifaces && a->n_ips == b->n_ips && a->n_routes == b->n_routes);
	must(a->dns.n_nameservers == b->dns.n_nameservers && a->dns.n_search == b->dns.n_search);
	must(a->dns.n_options == b->dns.n_options);
	for (size_t i = 0; i < a->n_ips; i++) {
		must(ipnet_eq(&a->ips[i].address, &b->ips[i].address));
		must(ip_eq(&a->ips[i].gateway, &b->ips[i].gateway));
		must(a->ips[i].iface == b->ips[i].iface);
	}
	for (size_t i = 0; i < a->n_routes; i++) {
		must(ipnet_eq(&a->routes[i].dst, &b->routes[i].dst));
		must(ip_eq(&a->routes[i].gw, &b->routes[i].gw));
		must(a->routes[i].has_table == b->routes[i].has_table);
		must(a->routes[i].table == b->routes[i].table);
		must(a->routes[i].scope == b->routes[i].scope);
	}
}

static void check_version(const struct cni_result *r, enum cni_version v)
{
	auto_result struct cni_result back = {0};
	auto_buf struct buf once, twice;
	struct err e = ERR_INIT;

	buf_init(&once, OUT_MAX);
	buf_init(&twice, OUT_MAX);
	if (fuzz_refused(cni_result_print(r, v, &once, &e), &e)) {
		must(v <= CNI_0_2_0 && r->n_ips == 0);
		return;
	}
	must(!once.over);
	read_back(buf_span(&once), v, &back);
	must(cni_result_print(&back, v, &twice, &e) == 0);
	must(once.len == twice.len && !memcmp(once.p, twice.p, once.len));
	if (v == CNI_1_1_0)
		check_all_written(r, &back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	auto_result struct cni_result r = {0}, copy = {0};
	auto_json struct json_doc *d = NULL;
	auto_free char *version = text_of(feed_line(&f));
	enum cni_version v = CNI_1_1_0;
	struct err e = ERR_INIT;

	cni_version_parse(version, &v);
	if (fuzz_refused(json_parse(&d, feed_rest(&f), TEXT_MAX, &e), &e))
		return 0;
	if (fuzz_refused(cni_result_parse(d, json_root(d), v, &r, &e), &e))
		return 0;
	cni_result_copy(&copy, &r);
	for (int i = 0; i < CNI_VERSIONS; i++)
		check_version(i % 2 ? &r : &copy, (enum cni_version)i);
	return 0;
}
