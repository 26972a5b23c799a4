/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing CNI_ARGS, selecting the pairs for the networks after the first, and quoting values. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/multi/multi.h"
#include "cni/protocol/quote.h"
#include "fuzz.h"

enum { KEEP_MAX = 1 << 20 };

static bool inside(const char *s, const struct buf *keep)
{
	return !s || (s >= keep->p && s + strlen(s) <= keep->p + keep->len);
}

static void check_written(const struct cni_args *a, const struct buf *keep)
{
	must(inside(a->ip, keep) && inside(a->mac, keep) && inside(a->gateway, keep));
	must(inside(a->pod_namespace, keep) && inside(a->pod_name, keep));
	must(inside(a->pod_uid, keep) && inside(a->infra_container_id, keep));
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The networks after the first get the arguments that name the pod, but not IP, MAC and GATEWAY. */
static void check_later(const char *text, const struct cni_args *all)
{
	auto_free char *later = multi_later_args(text);
	auto_buf struct buf keep;
	struct cni_args a;

	must(strlen(later) <= strlen(text));
	buf_init(&keep, KEEP_MAX);
	must(cni_args_parse(later, &a, &keep, NULL) == 0);
	must(!a.ip && !a.mac && !a.gateway);
	must(a.ignore_unknown == all->ignore_unknown && same(a.pod_name, all->pod_name));
	must(same(a.pod_namespace, all->pod_namespace) && same(a.pod_uid, all->pod_uid));
	must(same(a.infra_container_id, all->infra_container_id));
}

static void check_quote(const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, KEEP_MAX);
	cni_quote(&b, text);
	must(!b.over && b.len >= strlen(text) + 2);
	must(b.p[0] == '"' && b.p[b.len - 1] == '"');
	for (size_t i = 0; i < b.len; i++)
		must((unsigned char)b.p[i] >= ' ' && b.p[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	auto_free char *text = feed_text(&f);
	auto_buf struct buf keep;
	struct err e = ERR_INIT;
	struct cni_args a = {0};
	int r;

	buf_init(&keep, KEEP_MAX);
	buf_str(&keep, "somebody else's");
	r = cni_args_parse(text, &a, &keep, &e);
	check_quote(text);
	if (fuzz_refused(r, &e)) {
		must(e.kind == ERR_ENV);
		return 0;
	}
	check_written(&a, &keep);
	check_later(text, &a);
	return 0;
}
