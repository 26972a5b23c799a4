/* SPDX-License-Identifier: Apache-2.0 */
/* What every plugin reads of its configuration: name, version, prevResult, GC's list. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "cni/protocol/cni_call.h"
#include "cni/protocol/quote.h"

struct common {
	const char *name, *type, *version;
	const struct json *prev, *valid, *attachments;
};

#define FIELD(key, kind, member)                                                                   \
	{                                                                                          \
		key, kind, .offset = offsetof(struct common, member)                               \
	}

static const struct json_field name_fields[] = {FIELD("name", J_STR, name), {0}};
static const struct json_field version_fields[] = {FIELD("cniVersion", J_STR, version), {0}};
static const struct json_field type_fields[] = {FIELD("type", J_STR, type), {0}};
static const struct json_field more_fields[] = {FIELD("prevResult", J_VAL, prev),
						FIELD("cni.dev/valid-attachments", J_VAL, valid),
						FIELD("cni.dev/attachments", J_VAL, attachments),
						{0}};

static int read_common(struct cni_call *c, const struct json_field *fields, struct common *into,
		       struct err *e)
{
	const struct json_table t = {fields, JSON_GO, 0};

	return json_read(c->doc, c->conf, &t, into, "conf", e);
}

int cni_conf_read(struct cni_call *c, struct err *e)
{
	static const char prefix[] = "error unmarshall network config";
	struct common in = {0};
	int r = json_parse(&c->doc, c->stdin_text, CNI_INPUT_MAX, e);

	if (r < 0)
		return err_wrap(e, r, prefix);
	c->conf = json_root(c->doc);
	r = read_common(c, name_fields, &in, e);
	if (r < 0) {
		if (e)
			e->kind = ERR_DECODE;
		return err_wrap(e, r, prefix);
	}
	if (!in.name || !*in.name)
		return err_kind(e, ERR_CONF, -EINVAL, "missing network name");
	c->name = in.name;
	if (cni_name_ok(in.name))
		return 0;
	err_kind(e, ERR_CONF, -EINVAL, "invalid characters found in network name");
	err_details(e, "%s", in.name);
	return -EINVAL;
}

static int too_many_parts(const char *version, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX / 2);
	cni_quote(&b, version);
	return err_kind(e, ERR_DECODE, -EINVAL, "invalid version %s: too many parts", b.p);
}

static int no_number(const char *name, struct span part, struct err *e)
{
	auto_free char *text = span_dup(part);
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX / 4);
	cni_quote(&b, text);
	return err_kind(e, ERR_DECODE, -EINVAL,
			"failed to convert %s version part %s: strconv.Atoi: parsing %s: "
			"invalid syntax",
			name, b.p, b.p);
}

/* libcni's ParseVersion: one to three numbers. */
static int parse_numbers(const char *text, int64_t ret[static 3], struct err *e)
{
	static const char names[][8] = {"major", "minor", "micro"};
	struct span rest = span_of(text), part;
	int n = 0;

	ret[0] = ret[1] = ret[2] = 0;
	for (size_t i = 0, dots = 0; text[i]; i++)
		if (text[i] == '.' && ++dots == 3)
			return too_many_parts(text, e);
	while (span_cut(&rest, '.', &part)) {
		if (num_i64(part, INT32_MIN, INT32_MAX, &ret[n]) < 0)
			return no_number(names[n], part, e);
		n++;
	}
	return 0;
}

/* The first version of the protocol that has the verb. */
static enum cni_version since(const char *command)
{
	if (strcmp(command, "CHECK") == 0)
		return CNI_0_4_0;
	if (strcmp(command, "GC") == 0 || strcmp(command, "STATUS") == 0)
		return CNI_1_1_0;
	return CNI_0_1_0;
}

static bool at_least(const int64_t have[static 3], const int64_t want[static 3])
{
	for (int i = 0; i < 3; i++)
		if (have[i] != want[i])
			return have[i] > want[i];
	return true;
}

static int check_verb(const struct cni_call *c, const char *version, unsigned int supported,
		      struct err *e)
{
	int64_t conf[3], first[3], plugin[3];
	int r;

	if (since(c->command) == CNI_0_1_0)
		return 0;
	r = parse_numbers(version, conf, e);
	if (r < 0)
		return r;
	parse_numbers(cni_version_str(since(c->command)), first, NULL);
	if (!at_least(conf, first))
		return err_kind(e, ERR_VERSION, -EINVAL, "config version does not allow %s",
				c->command);
	for (unsigned int v = 0; v < CNI_VERSIONS; v++) {
		parse_numbers(cni_version_str((enum cni_version)v), plugin, NULL);
		if ((supported & 1U << v) && at_least(plugin, conf))
			return 0;
	}
	return err_kind(e, ERR_VERSION, -EINVAL, "plugin version does not allow %s", c->command);
}

static int incompatible(const char *version, unsigned int supported, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_DETAILS_MAX);
	buf_str(&b, "config is ");
	cni_quote(&b, version);
	buf_str(&b, ", plugin supports [");
	for (unsigned int v = 0, n = 0; v < CNI_VERSIONS; v++)
		if (supported & 1U << v)
			buf_printf(&b, "%s\"%s\"", n++ ? " " : "",
				   cni_version_str((enum cni_version)v));
	buf_char(&b, ']');
	err_kind(e, ERR_VERSION, -EINVAL, "incompatible CNI versions");
	err_details(e, "%s", b.p);
	return -EINVAL;
}

int cni_conf_version(struct cni_call *c, unsigned int supported, struct err *e)
{
	struct common in = {0};
	int r = read_common(c, version_fields, &in, e);

	if (r < 0) {
		if (e)
			e->kind = ERR_DECODE;
		return err_wrap(e, r, "decoding version from network config");
	}
	if (!in.version || !*in.version)
		in.version = "0.1.0";
	r = check_verb(c, in.version, supported, e);
	if (r < 0)
		return r;
	if (cni_version_parse(in.version, &c->version) < 0 || !(supported & 1U << c->version))
		return incompatible(in.version, supported, e);
	r = read_common(c, type_fields, &in, e);
	c->type = in.type ? in.type : "";
	return r;
}

/*
 * A prevResult that cannot be read stops what builds on it. It must never stop a DEL: nobody
 * would come back with a better one.
 */
int cni_conf_prev(struct cni_call *c, struct err *e)
{
	bool strict = strcmp(c->command, "ADD") == 0 || strcmp(c->command, "CHECK") == 0;
	struct common in = {0};
	struct err why = ERR_INIT;
	int r = read_common(c, more_fields, &in, &why);

	if (r < 0 || !in.prev)
		return r;
	r = cni_result_parse(c->doc, in.prev, c->version, &c->prev, &why);
	c->has_prev = r == 0;
	if (r == 0)
		return 0;
	err_wrap(&why, r, "could not parse prevResult");
	if (strict) {
		if (e)
			*e = why;
		return r;
	}
	log_warn("prevResult is left out of account", LOG_S("why", why.text));
	return 0;
}

struct attachment {
	const char *container_id, *ifname;
};

int cni_conf_valid(struct cni_call *c, struct err *e)
{
	static const struct json_field fields[] = {
		{"containerID", J_STR, .offset = offsetof(struct attachment, container_id)},
		{"ifname", J_STR, .offset = offsetof(struct attachment, ifname)},
		{0}};
	static const struct json_table table = {fields, JSON_GO, sizeof(struct attachment)};
	static const struct json_field list = {"", J_OBJS, .sub = &table};
	const struct json *v = json_get(c->conf, "cni.dev/valid-attachments");
	const char *place = "conf.cni.dev/valid-attachments";
	struct json_list found = {0};
	const struct attachment *a;
	int r;

	/* libcni before 1.1 sent the list under the name that a draft had. */
	if (!v) {
		v = json_get(c->conf, "cni.dev/attachments");
		place = "conf.cni.dev/attachments";
	}
	if (!v)
		return 0;
	c->has_valid = true;
	if (json_kind(v) == JSON_NULL) /* Go's empty list */
		return 0;
	if (json_kind(v) == JSON_ARRAY && json_len(v) > CNI_VALID_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"%s has %zu attachments, the limit is %d: nothing is collected",
				place, json_len(v), CNI_VALID_MAX);
	r = json_read_value(c->doc, v, &list, &found, place, e);
	if (r < 0)
		return r;
	a = found.v;
	for (size_t i = 0; i < found.n; i++)
		VEC_PUSH(c->valid, c->n_valid) = (struct cni_attachment){
			a[i].container_id ? a[i].container_id : "", a[i].ifname ? a[i].ifname : ""};
	return 0;
}

void cni_put_valid(struct json_out *o, const struct cni_attachment *v, size_t n)
{
	static const char *const keys[] = {"cni.dev/valid-attachments", "cni.dev/attachments"};

	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		jo_key(o, keys[k]);
		jo_arr(o);
		for (size_t i = 0; i < n; i++) {
			jo_obj(o);
			jo_kstr(o, "containerID", v[i].container_id);
			jo_kstr(o, "ifname", v[i].ifname);
			jo_end_obj(o);
		}
		jo_end_arr(o);
	}
}

bool cni_file_is_stale(const struct cni_call *c, const char *name)
{
	enum { ID_HEX = 64 };
	char id[ID_HEX + 1];

	if (strspn(name, "0123456789abcdef") != ID_HEX || name[ID_HEX] != '-' || !name[ID_HEX + 1])
		return false;
	memcpy(id, name, ID_HEX);
	id[ID_HEX] = '\0';
	return !cni_is_valid(c, id, name + ID_HEX + 1);
}

bool cni_is_valid(const struct cni_call *c, const char *container_id, const char *ifname)
{
	for (size_t i = 0; i < c->n_valid; i++)
		if (strcmp(c->valid[i].container_id, container_id) == 0 &&
		    (!ifname || strcmp(c->valid[i].ifname, ifname) == 0))
			return true;
	return false;
}
