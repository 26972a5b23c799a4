/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/subnet_annotation.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/num.h"
#include "block/codec.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

/* --- reading the annotations of an application's pod template --- */

enum { ANNOTATION_MAX = 64 << 10, NICS_MAX = 64, NUMBER_MAX = 1 << 20 };

struct raw {
	const char *ifname;
	struct json_strs v4, v6;
};

static const struct json_field fields[] = {JSON_FIELD("interface", J_STR, struct raw, ifname),
					   JSON_FIELD("ipv4", J_STRS, struct raw, v4),
					   JSON_FIELD("ipv6", J_STRS, struct raw, v6),
					   {0}};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

void auto_pool_request_done(struct auto_pool_request *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->v[i].ifname);
		free(w->v[i].subnet4);
		free(w->v[i].subnet6);
	}
	free(w->v);
	*w = (struct auto_pool_request){0};
}

static char *first_of(const struct json_strs *l)
{
	return l->n && *l->v[0] ? xstrdup(l->v[0]) : NULL;
}

static int add_nic(struct json_doc *d, const struct json *v, const char *place,
		   struct auto_pool_request *w, struct err *e)
{
	struct raw raw = {0};
	struct auto_nic *nic;
	int r;

	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	r = json_read(d, v, &table, &raw, place, e);
	if (r < 0)
		return r;
	nic = &VEC_PUSH(w->v, w->n);
	nic->subnet4 = first_of(&raw.v4);
	nic->subnet6 = first_of(&raw.v6);
	nic->ifname = xstrdup(raw.ifname && *raw.ifname ? raw.ifname : "eth0");
	if (!nic->subnet4 && !nic->subnet6)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s names no subnet: expected \"ipv4\":[\"NAME\"], or \"ipv6\"",
				place);
	for (size_t i = 0; i + 1 < w->n; i++)
		if (!strcmp(w->v[i].ifname, nic->ifname))
			return err_kind(e, ERR_CONF, -EINVAL,
					"it's invalid to use the same Interface name for multiple "
					"interfaces: %s",
					nic->ifname);
	return 0;
}

/* Accepts an object instead of a list of one object, and vice versa. */
static int read_nics(struct json_doc *d, struct auto_pool_request *w, struct err *e)
{
	const struct json *root = json_root(d), *v;
	struct json_walk walk = json_walk_start(root);
	int r = 0;

	if (json_kind(root) != JSON_ARRAY)
		return add_nic(d, root, "it", w, e);
	while (r == 0 && (v = json_walk_next(&walk, NULL))) {
		auto_free char *place = xasprintf("[%zu]", w->n);

		if (w->n == NICS_MAX)
			return err_kind(e, ERR_CONF, -EINVAL,
					"the list has more than %d interfaces", NICS_MAX);
		r = add_nic(d, v, place, w, e);
	}
	if (r == 0 && w->n == 0)
		r = err_kind(e, ERR_CONF, -EINVAL, "the list is empty");
	return r;
}

static int read_annotation(const char *key, const char *text, struct auto_pool_request *w,
			   struct err *e)
{
	auto_json struct json_doc *d = NULL;
	int r = json_parse(&d, span_of(text), ANNOTATION_MAX, e);

	if (r == 0)
		r = read_nics(d, w, e);
	if (r < 0 && e) {
		e->kind = ERR_CONF;
		err_wrap(e, r, "failed to parse anntation '%s' value '%.200s', error", key, text);
	}
	return r;
}

static int read_number(const struct labels *l, struct auto_pool_request *w, struct err *e)
{
	const char *text = labels_get(l, ANNOTATION_POOL_NUMBER);
	struct span s = span_trim(span_of(text));
	uint64_t n;

	if (!text)
		return 0;
	if (span_has_prefix(s, "-"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation '" ANNOTATION_POOL_NUMBER
				"': subnet '%s' value must equal or greater than 0",
				text);
	w->fixed = !span_has_prefix(s, "+");
	if (!w->fixed)
		s = (struct span){s.p + 1, s.n - 1};
	if (num_u64(s, 0, NUMBER_MAX, &n) < 0)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"annotation '" ANNOTATION_POOL_NUMBER
			"': invalid input '%s', expected a number of addresses such as 5, or +2 "
			"for 2 more than there are pods; at most 1048576",
			text);
	w->number = (uint32_t)n;
	return 0;
}

static bool is_one_of(const char *text, const char *const *describe, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, describe[i]))
			return true;
	return false;
}

/* Accepts the values of Go's strconv.ParseBool. */
static int read_reclaim(const struct labels *l, struct auto_pool_request *w, struct err *e)
{
	static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
	static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
	const char *text = labels_get(l, ANNOTATION_POOL_RECLAIM);

	if (!text || is_one_of(text, yes, ARRAY_LEN(yes)))
		return 0;
	if (!is_one_of(text, no, ARRAY_LEN(no)))
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation '" ANNOTATION_POOL_RECLAIM
				"' is '%s', expected \"true\" or \"false\"",
				text);
	w->reclaim = false;
	return 0;
}

int auto_pool_request_read(const struct labels *l, uint32_t more, struct auto_pool_request *ret,
			   struct err *e)
{
	const char *many = labels_get(l, ANNOTATION_SUBNETS);
	const char *one = labels_get(l, ANNOTATION_SUBNET);
	struct auto_pool_request w = {.single = !many, .number = more, .reclaim = true};
	int r;

	if (!many && !one)
		return 0;
	r = read_annotation(many ? ANNOTATION_SUBNETS : ANNOTATION_SUBNET, many ? many : one, &w,
			    e);
	if (r == 0 && w.single && w.n > 1)
		w.single = false; /* `subnet` has a list of several entries */
	if (r == 0)
		r = read_number(l, &w, e);
	if (r == 0)
		r = read_reclaim(l, &w, e);
	if (r < 0) {
		auto_pool_request_done(&w);
		return r;
	}
	*ret = w;
	return 1;
}

/* --- names and labels of pools that are created for applications --- */

/* NAME_MOST leaves room for the names of the pool's blocks: the pool's name, a dash and up to 32
 * digits. */
enum { UID_CHARS = 5, NAME_MOST = AUTO_POOL_NAME_MAX - 33 };

void app_id_copy(const struct app_id *a, struct app_id *ret)
{
	*ret = (struct app_id){.api = xstrdup(a->api),
			       .kind = xstrdup(a->kind),
			       .ns = xstrdup(a->ns),
			       .name = xstrdup(a->name),
			       .uid = xstrdup(a->uid)};
}

void app_id_done(struct app_id *a)
{
	free(a->api);
	free(a->kind);
	free(a->ns);
	free(a->name);
	free(a->uid);
	*a = (struct app_id){0};
}

bool app_id_same(const struct app_id *a, const struct app_id *b)
{
	return !strcmp(a->api, b->api) && !strcmp(a->kind, b->kind) && !strcmp(a->ns, b->ns) &&
	       !strcmp(a->name, b->name);
}

static char *swapped(const char *text, char from, char to)
{
	char *s = xstrdup(text);

	for (char *p = s; *p; p++)
		*p = *p == from ? to : *p;
	return s;
}

char *app_id_text(const struct app_id *a)
{
	auto_free char *api = swapped(a->api, '/', '_');

	return xasprintf("%s_%s_%s_%s", api, a->kind, a->ns, a->name);
}

char *auto_pool_api(const char *label)
{
	return swapped(label, '_', '/');
}

bool app_id_is_known(const struct app_id *a)
{
	static const char *const known[][2] = {
		{"apps/v1", "Deployment"},   {"apps/v1", "ReplicaSet"}, {"apps/v1", "StatefulSet"},
		{"apps/v1", "DaemonSet"},    {"batch/v1", "Job"},	{"batch/v1", "CronJob"},
		{"batch/v1beta1", "CronJob"}};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (!strcmp(a->api, known[i][0]) && !strcmp(a->kind, known[i][1]))
			return true;
	return false;
}

void app_id_labels(const struct app_id *a, struct labels *l)
{
	const char *slash = strchr(a->api, '/');
	auto_free char *group = slash ? span_dup((struct span){a->api, (size_t)(slash - a->api)})
				      : xstrdup("");
	char text[BLOCK_LABEL_MAX];

	labels_put(l, LABEL_APP_PREFIX "api-group", group);
	labels_put(l, LABEL_APP_PREFIX "api-version", slash ? slash + 1 : a->api);
	labels_put(l, LABEL_APP_PREFIX "kind", a->kind);
	labels_put(l, LABEL_APP_PREFIX "namespace", a->ns);
	labels_put(l, LABEL_APP_PREFIX "name", block_label(a->name, text));
}

void auto_pool_labels(const struct app_id *a, const char *subnet, const char *cidr,
		      const char *ifname, bool reclaim, struct labels *l)
{
	auto_free char *cidr_label = auto_pool_cidr_label(cidr), *api = swapped(a->api, '/', '_');
	char text[BLOCK_LABEL_MAX];

	labels_put(l, LABEL_OWNER_SUBNET, block_label(subnet, text));
	labels_put(l, LABEL_OWNER_API, api);
	labels_put(l, LABEL_OWNER_KIND, a->kind);
	labels_put(l, LABEL_OWNER_NAMESPACE, a->ns);
	labels_put(l, LABEL_OWNER_NAME, block_label(a->name, text));
	labels_put(l, LABEL_OWNER_UID, a->uid);
	labels_put(l, LABEL_INTERFACE, ifname);
	labels_put(l, LABEL_IP_VERSION, strchr(cidr, ':') ? "IPv6" : "IPv4");
	labels_put(l, ANNOTATION_POOL_RECLAIM, reclaim ? "true" : "false");
	labels_put(l, LABEL_POOL_CIDR, cidr_label);
}

void auto_pool_put_annotations(const struct app_id *a, const char *number, struct json_out *o)
{
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, ANNOTATION_POOL_NUMBER, number);
	if (strlen(a->name) >= BLOCK_LABEL_MAX)
		jo_kstr(o, LABEL_OWNER_NAME, a->name);
	jo_end_obj(o);
}

bool auto_pool_label_is(const char *label, const char *name)
{
	char text[BLOCK_LABEL_MAX];

	return label && strcmp(label, block_label(name, text)) == 0;
}

/* Appends up to max characters of s in lower case. Characters that are not allowed in object
 * names, such as those of some interface names, become '-'. */
static void put_lower(struct buf *b, const char *s, size_t max)
{
	for (size_t i = 0; s[i] && i < max; i++) {
		unsigned char c = (unsigned char)s[i];

		buf_char(b, isalnum(c) || c == '.' || c == '-' ? (char)tolower(c) : '-');
	}
}

void auto_pool_name(const struct app_id *a, const char *ifname, uint8_t family,
		    char ret[static AUTO_POOL_NAME_MAX + 1])
{
	const char *dash = strrchr(a->uid, '-'), *tail = dash ? dash + 1 : a->uid;
	auto_buf struct buf end, all;

	buf_init(&end, NAME_MOST);
	buf_init(&all, NAME_MOST);
	buf_char(&end, '-');
	put_lower(&end, ifname, NAME_MOST);
	buf_char(&end, '-');
	put_lower(&end, tail, UID_CHARS);
	buf_printf(&all, "auto%u-", family);
	put_lower(&all, a->name, NAME_MOST - all.len - end.len);
	buf_str(&all, end.p);
	str_copy(ret, AUTO_POOL_NAME_MAX + 1, all.p);
}

char *auto_pool_cidr_label(const char *cidr)
{
	int dots = 3, colons = 7, slashes = 1;
	char *s = xstrdup(cidr);

	for (char *p = s; *p; p++)
		if ((*p == '.' && dots-- > 0) || (*p == ':' && colons-- > 0) ||
		    (*p == '/' && slashes-- > 0))
			*p = '-';
	return s;
}

char *auto_pool_key_of(const char *subnet, const char *uid, const char *ifname)
{
	char text[BLOCK_LABEL_MAX];

	return xasprintf("%s/%s/%s", block_label(subnet, text), uid, ifname);
}

char *auto_pool_key(const struct labels *l)
{
	const char *subnet = labels_get(l, LABEL_OWNER_SUBNET),
		   *uid = labels_get(l, LABEL_OWNER_UID);
	const char *ifname = labels_get(l, LABEL_INTERFACE);

	return subnet && uid && ifname ? auto_pool_key_of(subnet, uid, ifname) : NULL;
}
