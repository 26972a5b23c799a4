/* SPDX-License-Identifier: Apache-2.0 */
/* From an object to the line that is kept of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "spec/auto_pool.h"
#include "ipam/pool/pool_kube.h"
#include "ipam/pool/pool_spec.h"

static const struct json *meta(const struct json *object, const char *key)
{
	return json_get(json_get(object, "metadata"), key);
}

static void put_if_text(struct json_out *o, const char *key, const struct json *v)
{
	if (json_string(v))
		jo_kstr(o, key, json_string(v));
}

/* --- records that count --- */

struct strays {
	struct json_out o;
	const struct ip_set *own;
};

static void put_record(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct strays *s = arg;
	char text[IP_TEXT_MAX];

	if (s->own && ip_set_has(s->own, ip))
		return;
	jo_key(&s->o, ip_str(ip, text));
	jo_obj(&s->o);
	jo_kstr(&s->o, "pod", pod);
	jo_kstr(&s->o, "podUid", uid);
	jo_end_obj(&s->o);
}

/* The pool's own addresses; a spec that is not valid has none. */
static void own_ips(const struct json *object, struct pool_set *ret)
{
	struct pool_spec o = {.where = "", .spec = json_get(object, "spec"), .agent_ns = "-"};
	struct pool_draft d = {.name = xstrdup("x"), .where = xstrdup("")};

	if (pool_spec_read(&o, &d, NULL) == 0)
		pool_set_add(ret, &d, NULL);
	pool_draft_done(&d);
}

/*
 * Without the annotation all of status. With it that, and of status (ours) only what the pool does
 * not have any more. A text that cannot be read is kept as it is, for the set to complain of.
 */
static char *records_text(const struct json *object)
{
	const char *noted = json_string(json_get(meta(object, "annotations"), POOL_ADOPTED_NOTE));
	const char *status = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	struct pool_set own = {0};
	struct strays s = {0};
	struct buf b;

	if (!noted || !status || !*status)
		return xstrdup(noted ? noted : status ? status : "");
	own_ips(object, &own);
	buf_init(&b, POOL_KUBE_TEXT_MAX);
	jo_init(&s.o, &b, 0);
	jo_obj(&s.o);
	if (pool_records_read(noted, put_record, &s, NULL) < 0) {
		buf_done(&b);
		pool_set_done(&own);
		return xstrdup(noted);
	}
	s.own = own.n ? &own.v[0].ips : NULL;
	if (pool_records_read(status, put_record, &s, NULL) < 0) {
		buf_done(&b);
		pool_set_done(&own);
		return xstrdup(status);
	}
	jo_end_obj(&s.o);
	pool_set_done(&own);
	return buf_take(&b);
}

static char *made_for(const struct json *object)
{
	struct labels l = {0};
	char *key;

	if (labels_read(meta(object, "labels"), "metadata.labels", NULL, &l, NULL) < 0)
		return NULL;
	key = auto_pool_key(&l);
	labels_done(&l);
	return key;
}

static void put_metadata(struct json_out *o, const struct json *object)
{
	auto_free char *key = made_for(object);
	const struct json *prefix = json_get(meta(object, "annotations"), POOL_BLOCK_PREFIX_NOTE);
	const struct json *count = json_get(meta(object, "annotations"), AUTO_POOL_NUMBER);
	int64_t generation;
	uint64_t n;

	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", json_string(meta(object, "name")));
	put_if_text(o, "uid", meta(object, "uid"));
	put_if_text(o, "creationTimestamp", meta(object, "creationTimestamp"));
	put_if_text(o, "deletionTimestamp", meta(object, "deletionTimestamp"));
	if (json_int(meta(object, "generation"), &generation) == 0)
		jo_kint(o, "generation", generation);
	put_if_text(o, POOL_BLOCK_PREFIX_NOTE, prefix);
	if (key)
		jo_kstr(o, "madeFor", key);
	if (key && json_string(count) &&
	    num_u64(span_of(json_string(count)), 0, UINT32_MAX, &n) == 0)
		jo_kint(o, "madeCount", (int64_t)n);
	jo_end_obj(o);
}

int pool_kube_text(const struct json *object, const char *kind, char **ret, struct err *e)
{
	const char *name = json_string(meta(object, "name"));
	auto_free char *records = NULL;
	struct json_out o;
	struct buf b;

	if (!name || !*name)
		return err_kind(e, ERR_DECODE, -EINVAL, "a %s without metadata.name", kind);
	records = records_text(object);
	buf_init(&b, POOL_KUBE_TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "kind", kind);
	put_metadata(&o, object);
	jo_key(&o, "spec");
	jo_val(&o, json_get(object, "spec"), false);
	if (*records && strcmp(records, "{}") != 0)
		jo_kstr(&o, "records", records);
	jo_end_obj(&o);
	if (b.over) {
		buf_done(&b);
		return err_kind(e, ERR_DECODE, -EFBIG, "%s '%.100s' is longer than %d bytes", kind,
				name, POOL_KUBE_TEXT_MAX);
	}
	*ret = buf_take(&b);
	return 0;
}
