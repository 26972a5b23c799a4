/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/multus/multus_scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/tls/base64.h"

enum { SCRATCH_MAX = 4 << 20, OWN_VERSION = 1 };

/* What is ours in these files, if it is of a version that is known here; NULL: it is not. */
static const struct json *own(const struct json *v)
{
	int64_t version = 0;

	if (json_kind(v) != JSON_OBJECT || json_int(json_get(v, "version"), &version) < 0)
		return NULL;
	return version == OWN_VERSION ? v : NULL;
}

/* NULL: it is none, or it is empty. */
static char *decode(const char *text, size_t *len)
{
	char *bytes = NULL;

	if (!text || !*text || base64_decode(span_of(text), &bytes) < 0)
		return NULL;
	*len = strlen(bytes);
	return bytes;
}

struct raw_delegate {
	const char *name, *ifname, *device_id, *bytes, *keeper;
	const struct json *state;
};

static const struct json_field delegate_fields[] = {
	{"Name", J_STR, .offset = offsetof(struct raw_delegate, name)},
	{"ifnameRequest", J_STR, .offset = offsetof(struct raw_delegate, ifname)},
	{"deviceID", J_STR, .offset = offsetof(struct raw_delegate, device_id)},
	{"Bytes", J_STR, .offset = offsetof(struct raw_delegate, bytes)},
	{"unirail", J_STR, .offset = offsetof(struct raw_delegate, keeper)},
	{"unirailState", J_VAL, .offset = offsetof(struct raw_delegate, state)},
	{0}};
static const struct json_table delegate_table = {delegate_fields, JSON_GO, 0};

static char *dup_set(const char *s)
{
	return s && *s ? xstrdup(s) : NULL;
}

/* One that cannot be read keeps its place: the others' interfaces are named by theirs. */
static void read_delegate(struct json_doc *d, const struct json *v, struct multus_delegate *ret)
{
	struct raw_delegate raw = {0};
	const char *version;

	if (json_kind(v) == JSON_OBJECT)
		json_read(d, v, &delegate_table, &raw, "delegate", NULL);
	ret->name = xstrdup(raw.name ? raw.name : "");
	ret->ifname = dup_set(raw.ifname);
	ret->device_id = dup_set(raw.device_id);
	ret->keeper = dup_set(raw.keeper);
	ret->args = dup_set(json_string(json_get(own(raw.state), "cniArgs")));
	version = json_string(json_get(own(raw.state), "cniVersion"));
	ret->version = version ? xstrdup(version) : NULL;
	ret->conf = decode(raw.bytes, &ret->conf_len);
}

int multus_scratch_parse(struct span text, struct multus_delegate **ret, size_t *n, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct multus_delegate *list = NULL;
	const struct json *v;
	struct json_walk w;
	size_t count = 0;
	int r = json_parse(&d, text, SCRATCH_MAX, e);

	if (r < 0)
		return r;
	if (json_kind(json_root(d)) != JSON_ARRAY)
		return json_wants(json_root(d), "the file", "an array of delegates", e);
	w = json_walk_start(json_root(d));
	while ((v = json_walk_next(&w, NULL)))
		read_delegate(d, v, &VEC_PUSH(list, count));
	*ret = list;
	*n = count;
	return 0;
}

void multus_delegates_free(struct multus_delegate *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].ifname);
		free(list[i].device_id);
		free(list[i].conf);
		free(list[i].keeper);
		free(list[i].args);
		free(list[i].version);
	}
	free(list);
}

struct raw_cached {
	const char *kind, *container_id, *config, *ifname, *network;
	const struct json *runtime, *result, *own;
};

static const struct json_field cached_fields[] = {
	{"kind", J_STR, .offset = offsetof(struct raw_cached, kind)},
	{"containerId", J_STR, .offset = offsetof(struct raw_cached, container_id)},
	{"config", J_STR, .offset = offsetof(struct raw_cached, config)},
	{"ifName", J_STR, .offset = offsetof(struct raw_cached, ifname)},
	{"networkName", J_STR, .offset = offsetof(struct raw_cached, network)},
	{"capabilityArgs", J_VAL, .offset = offsetof(struct raw_cached, runtime)},
	{"result", J_VAL, .offset = offsetof(struct raw_cached, result)},
	{"unirailResult", J_VAL, .offset = offsetof(struct raw_cached, own)},
	{0}};
static const struct json_table cached_table = {cached_fields, JSON_GO, 0};

static int read_cached(struct libcni_cached *c, struct err *e)
{
	struct raw_cached raw = {0};
	const struct json *root = json_root(c->doc);
	int r;

	if (json_kind(root) != JSON_OBJECT)
		return json_wants(root, "the file", "an object", e);
	r = json_read(c->doc, root, &cached_table, &raw, "cache", e);
	if (r < 0)
		return r;
	if (!raw.kind) {
		c->result = root;
		return 0;
	}
	if (strcmp(raw.kind, "cniCacheV1") != 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "cache.kind is '%s', wants 'cniCacheV1'",
				raw.kind);
	c->container_id = raw.container_id;
	c->network = raw.network;
	c->ifname = raw.ifname;
	c->runtime = raw.runtime;
	c->result = raw.result;
	c->full = json_get(own(raw.own), "result");
	c->conf = decode(raw.config, &c->conf_len);
	return 0;
}

int libcni_cached_parse(struct span text, struct libcni_cached *ret, struct err *e)
{
	struct libcni_cached c = {0};
	int r = json_parse(&c.doc, text, SCRATCH_MAX, e);

	if (r >= 0)
		r = read_cached(&c, e);
	if (r < 0) {
		libcni_cached_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void libcni_cached_done(struct libcni_cached *c)
{
	json_free(c->doc);
	free(c->conf);
	*c = (struct libcni_cached){0};
}
