/* SPDX-License-Identifier: Apache-2.0 */
/* A SpiderIPBlock's fields. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_wire.h"

static int text_of(const struct json *obj, const char *key, const char *place, char **ret,
		   struct err *e)
{
	const struct json *v = json_get(obj, key);
	auto_buf struct buf where;

	buf_init(&where, 200);
	buf_printf(&where, "%s.%s", place, key);
	if (!json_string(v))
		return json_wants(v, where.p, "a string", e);
	*ret = xstrdup(json_string(v));
	return 0;
}

/* "-" is nobody. */
static int owner_of(const struct json *obj, const char *key, char **ret, struct err *e)
{
	int r = text_of(obj, key, "spec", ret, e);

	if (r >= 0 && strcmp(*ret, "-") == 0)
		**ret = '\0';
	return r;
}

static char *uid_of(const struct json *spec)
{
	const char *uid = json_string(json_get(spec, "nodeUID"));

	return xstrdup(uid && strcmp(uid, "-") != 0 ? uid : "");
}

static int read_ceded(const struct json *list, struct block_object *o, struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	const char *key;

	if (json_kind(list) != JSON_OBJECT)
		return json_wants(list, "spec.ceded", "an object", e);
	while ((v = json_walk_next(&w, &key))) {
		struct ipaddr a;

		if (ip_parse(span_of(key), &a) < 0)
			return err_kind(e, ERR_CONF, -EINVAL, "spec.ceded: '%.60s' is no address",
					key);
		if (!json_string(v))
			return json_wants(v, "spec.ceded[...]", "a string", e);
		VEC_PUSH(o->ceded, o->n_ceded) =
			(struct block_entry){.ip = a, .to = xstrdup(json_string(v))};
	}
	return 0;
}

/* A wish that makes no sense is none. */
static void read_wanted(const struct json *list, struct block_object *o)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	const char *key;
	int64_t n;

	while ((v = json_walk_next(&w, &key)))
		if (key && json_int(v, &n) >= 0 && n > 0 && n <= UINT32_MAX)
			VEC_PUSH(o->wanted, o->n_wanted) =
				(struct block_wish){.node = xstrdup(key), .count = (uint32_t)n};
}

/* What makes no sense was not said. */
static void read_busy(const struct json *v, struct block_object *o)
{
	int64_t n;

	if (!v || json_int(v, &n) < 0 || n < 0 || n > UINT32_MAX)
		return;
	o->told = true;
	o->busy = (uint32_t)n;
}

static int read_net(const struct json *spec, struct block_object *o, struct err *e)
{
	const char *cidr = json_string(json_get(spec, "cidr"));

	if (cidr && ipnet_parse(span_of(cidr), &o->net) >= 0 && !ipnet_has_host_bits(&o->net))
		return 0;
	return json_wants(json_get(spec, "cidr"), "spec.cidr", "a CIDR without host bits", e);
}

static int read_all(const struct json *v, struct block_object *o, struct err *e)
{
	const struct json *meta = json_get(v, "metadata"), *spec = json_get(v, "spec");
	int r = text_of(meta, "name", "metadata", &o->name, e);

	if (r >= 0)
		r = text_of(meta, "uid", "metadata", &o->uid, e);
	if (r >= 0)
		r = text_of(meta, "resourceVersion", "metadata", &o->version, e);
	if (r >= 0)
		r = text_of(spec, "pool", "spec", &o->pool, e);
	if (r >= 0)
		r = owner_of(spec, "node", &o->node, e);
	if (r >= 0)
		o->node_uid = uid_of(spec);
	if (r >= 0)
		r = owner_of(spec, "claim", &o->claim, e);
	if (r >= 0)
		r = read_net(spec, o, e);
	if (r >= 0)
		r = read_ceded(json_get(spec, "ceded"), o, e);
	if (r >= 0) {
		read_wanted(json_get(spec, "wanted"), o);
		read_busy(json_get(spec, "busy"), o);
	}
	return r;
}

int block_object_read(const struct json *v, struct block_object *ret, struct err *e)
{
	const char *name = json_string(json_get(json_get(v, "metadata"), "name"));
	struct block_object o = {0};
	int r = read_all(v, &o, e);

	if (r < 0) {
		block_object_done(&o);
		return err_wrap(e, r, "SpiderIPBlock '%s'", name ? name : "");
	}
	*ret = o;
	return 0;
}
