/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: whose addresses are where, and who asks for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_wire.h"
#include "block/handover.h"
#include "wire/json/json.h"

void handover_place_done(struct handover_place *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].ifname);
		free(p->v[i].pool);
	}
	free(p->v);
	free(p->node);
	free(p->uid);
	free(p->for_node);
	free(p->for_uid);
	free(p->from);
	*p = (struct handover_place){0};
}

static const char *text_of(const struct json *v, const char *key)
{
	const char *s = json_string(json_get(v, key));

	return s ? s : "";
}

static void add_ip(struct handover_place *p, const struct json *v, const char *ip_key,
		   const char *pool_key)
{
	struct ipnet net;

	if (ipnet_parse_loose(span_of(text_of(v, ip_key)), &net) < 0)
		return;
	VEC_PUSH(p->v, p->n) = (struct handover_ip){xstrdup(text_of(v, "interface")),
						    xstrdup(text_of(v, pool_key)), net.ip};
}

static void read_note(struct handover_place *p, const char *text)
{
	struct span rest = span_of(text), node, uid;

	if (!text || !span_cut(&rest, ' ', &node) || !span_cut(&rest, ' ', &uid) || node.n == 0 ||
	    uid.n == 0)
		return;
	p->for_node = span_dup(node);
	p->for_uid = span_dup(uid);
	p->migration = rest.p && span_eq(rest, "migration");
	p->refused = rest.p && span_eq(rest, "refused");
}

int handover_place_read(const struct json *endpoint, struct handover_place *ret, struct err *e)
{
	const struct json *current = json_get(json_get(endpoint, "status"), "current"), *v;
	const struct json *meta = json_get(endpoint, "metadata");
	struct json_walk w = json_walk_start(json_get(current, "ips"));
	struct handover_place p = {0};

	if (json_kind(current) != JSON_OBJECT)
		return err_kind(e, ERR_DECODE, -EINVAL,
				"SpiderEndpoint '%s/%s': status.current is %s, wants an object",
				text_of(meta, "namespace"), text_of(meta, "name"),
				json_kind_name(current));
	p.node = xstrdup(text_of(current, "node"));
	p.uid = xstrdup(text_of(current, "uid"));
	while ((v = json_walk_next(&w, NULL))) {
		add_ip(&p, v, "ipv4", "ipv4Pool");
		add_ip(&p, v, "ipv6", "ipv6Pool");
	}
	read_note(&p, json_string(json_get(json_get(meta, "annotations"), HANDOVER_NOTE)));
	if (json_string(json_get(json_get(meta, "labels"), HANDOVER_LABEL)))
		p.from = xstrdup(json_string(json_get(json_get(meta, "labels"), HANDOVER_LABEL)));
	*ret = p;
	return 0;
}

size_t handover_had(const struct handover_place *p, const char *ifname, struct ipaddr *ret,
		    size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n && n < max; i++)
		if (strcmp(p->v[i].ifname, ifname) == 0)
			ret[n++] = p->v[i].ip;
	return n;
}

static void put_one(struct json_out *o, const char *what, const char *key, const char *value)
{
	jo_key(o, what);
	jo_obj(o);
	jo_kstr(o, key, value);
	jo_end_obj(o);
}

static void put_patch(const char *label, const char *note, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	put_one(&o, "labels", HANDOVER_LABEL, label);
	put_one(&o, "annotations", HANDOVER_NOTE, note);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

void handover_ask_patch(const char *from, const char *node, const char *uid, bool migrating,
			struct buf *b)
{
	auto_free char *note = xasprintf("%s %s%s", node, uid, migrating ? " migration" : "");
	char label[BLOCK_LABEL_MAX];

	put_patch(block_label(from, label), note, b);
}

/* The label goes: it is answered. */
void handover_refuse_patch(const struct handover_place *p, struct buf *b)
{
	auto_free char *note = xasprintf("%s %s refused", p->for_node, p->for_uid);

	put_patch(NULL, note, b);
}

void handover_clear_patch(struct buf *b)
{
	put_patch(NULL, NULL, b);
}
