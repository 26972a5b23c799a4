/* SPDX-License-Identifier: Apache-2.0 */
/* Records of addresses, as Spiderpool keeps them in a pool's status: JSON in a text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipam/journal/journal_line.h"
#include "ipam/pool/pool_kube.h"
#include "wire/json/json.h"

uint64_t pool_record_key(const char *text)
{
	return xxh64(text, strlen(text));
}

static const char *text_of(const struct json *v, const char *key)
{
	const char *s = json_string(json_get(v, key));

	return s ? s : "";
}

int pool_records_read(const char *text, pool_record_fn fn, void *arg, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *v;
	struct json_walk w;
	const char *key;
	int r;

	if (!text || !*text)
		return 0;
	r = json_parse(&doc, span_of(text), POOL_KUBE_TEXT_MAX, e);
	if (r < 0)
		return r;
	if (json_kind(json_root(doc)) == JSON_NULL)
		return 0;
	if (json_kind(json_root(doc)) != JSON_OBJECT)
		return json_wants(json_root(doc), "the text", "an object", e);
	w = json_walk_start(json_root(doc));
	while ((v = json_walk_next(&w, &key))) {
		struct ipaddr ip;

		if (ip_parse(span_of(key), &ip) < 0)
			return err_kind(e, ERR_CONF, -EINVAL, "'%.60s' is not an address", key);
		fn(arg, &ip, text_of(v, "pod"), text_of(v, "podUid"));
	}
	return 0;
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct pool_record *)a)->ip, &((const struct pool_record *)b)->ip);
}

const struct pool_record *pool_record_find(const struct pool *p, const struct ipaddr *a)
{
	struct pool_record want = {.ip = *a};

	if (p->n_records == 0)
		return NULL;
	return bsearch(&want, p->records, p->n_records, sizeof(want), by_ip);
}
