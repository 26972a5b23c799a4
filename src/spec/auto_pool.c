/* SPDX-License-Identifier: Apache-2.0 */
/* Names and labels of pools that are made for applications. */
#include "spec/auto_pool.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "block/block_wire.h"

/* NAME_MOST: a block's name is the pool's, a dash and up to 32 digits. */
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

	labels_put(l, AUTO_POOL_GROUP "app-api-group", group);
	labels_put(l, AUTO_POOL_GROUP "app-api-version", slash ? slash + 1 : a->api);
	labels_put(l, AUTO_POOL_GROUP "app-kind", a->kind);
	labels_put(l, AUTO_POOL_GROUP "app-namespace", a->ns);
	labels_put(l, AUTO_POOL_GROUP "app-name", block_label(a->name, text));
}

void auto_pool_labels(const struct app_id *a, const char *subnet, const char *cidr,
		      const char *ifname, bool reclaim, struct labels *l)
{
	auto_free char *cidr_label = auto_pool_cidr_label(cidr), *api = swapped(a->api, '/', '_');
	char text[BLOCK_LABEL_MAX];

	labels_put(l, AUTO_POOL_OWNER, block_label(subnet, text));
	labels_put(l, AUTO_POOL_API, api);
	labels_put(l, AUTO_POOL_KIND, a->kind);
	labels_put(l, AUTO_POOL_NAMESPACE, a->ns);
	labels_put(l, AUTO_POOL_NAME, block_label(a->name, text));
	labels_put(l, AUTO_POOL_UID, a->uid);
	labels_put(l, AUTO_POOL_IFNAME, ifname);
	labels_put(l, AUTO_POOL_VERSION, strchr(cidr, ':') ? "IPv6" : "IPv4");
	labels_put(l, AUTO_POOL_RECLAIM, reclaim ? "true" : "false");
	labels_put(l, AUTO_POOL_CIDR, cidr_label);
}

void auto_pool_put_notes(const struct app_id *a, const char *number, struct json_out *o)
{
	jo_key(o, "annotations");
	jo_obj(o);
	jo_kstr(o, AUTO_POOL_NUMBER, number);
	if (strlen(a->name) >= BLOCK_LABEL_MAX)
		jo_kstr(o, AUTO_POOL_NAME, a->name);
	jo_end_obj(o);
}

bool auto_pool_label_is(const char *label, const char *name)
{
	char text[BLOCK_LABEL_MAX];

	return label && strcmp(label, block_label(name, text)) == 0;
}

/* Of an object: an interface may have other characters than a name. */
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
	const char *subnet = labels_get(l, AUTO_POOL_OWNER), *uid = labels_get(l, AUTO_POOL_UID);
	const char *ifname = labels_get(l, AUTO_POOL_IFNAME);

	return subnet && uid && ifname ? auto_pool_key_of(subnet, uid, ifname) : NULL;
}
