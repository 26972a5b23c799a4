/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/registration/hooks_bare.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/registration/hooks_priv.h"

static const struct kube_kind kinds[2] = {{HOOKS_GROUP, "v1", "mutatingwebhookconfigurations",
					   "mutatingwebhookconfiguration", false},
					  {HOOKS_GROUP, "v1", "validatingwebhookconfigurations",
					   "validatingwebhookconfiguration", false}};

struct hooks_bare {
	struct loop *loop;
	struct kube_informer *informers[ARRAY_LEN(kinds)];
	int64_t settle;
	int64_t until; /* they are accepted still; the loop's time */
};

/* --- as registered --- */

static bool is_ours(struct span path)
{
	for (size_t i = 0; i < hooks_count; i++)
		if (span_eq(path, hooks_table[i].path))
			return true;
	return false;
}

/* "https://host:port/path?query" */
static struct span path_of(const char *url)
{
	const char *at = strstr(url, "://");

	at = at ? strchr(at + 3, '/') : NULL;
	return at ? (struct span){at, strcspn(at, "?#")} : (struct span){0};
}

bool hooks_have_bare(const struct json *webhooks)
{
	struct json_walk w = json_walk_start(webhooks);
	const struct json *h;

	while ((h = json_walk_next(&w, NULL))) {
		const struct json *client = json_get(h, "clientConfig");
		const char *url = json_string(json_get(client, "url"));
		const char *path = json_string(json_get(json_get(client, "service"), "path"));

		if ((url && is_ours(path_of(url))) || (path && is_ours(span_of(path))))
			return true;
	}
	return false;
}

static int decode(void *value, const struct json *object, struct err *e)
{
	(void)e;
	*(bool *)value = hooks_have_bare(json_get(object, "webhooks"));
	return 0;
}

static bool is_bare(const struct hooks_bare *b)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct kube_object *o = kube_informer_get(b->informers[i], "", HOOKS_NAME);

		if (o && *(const bool *)o->value)
			return true;
	}
	return false;
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct hooks_bare *b = arg;
	bool before = was && *(const bool *)was->value, now = is && *(const bool *)is->value;

	if (before && !now)
		b->until = loop_now_ms(b->loop) + b->settle * 1000;
	if (now && !before)
		log_warn("webhooks are registered without a token, by a controller from before: "
			 "requests without one are accepted until this changes");
}

bool hooks_bare_accept(const struct hooks_bare *b, struct span path)
{
	return is_ours(path) && (is_bare(b) || loop_now_ms(b->loop) < b->until);
}

/* --- life --- */

struct hooks_bare *hooks_bare_new(struct kube *k, int64_t settle)
{
	struct hooks_bare *b = xcalloc(1, sizeof(*b));

	b->loop = kube_loop(k);
	b->settle = settle;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		b->informers[i] = kube_informer_new(
			k, &(struct kube_informer_conf){
				   .kind = &kinds[i],
				   .select = {.fields = "metadata.name=" HOOKS_NAME},
				   .size = sizeof(bool),
				   .decode = decode,
				   .changed = on_changed,
				   .arg = b});
	return b;
}

void hooks_bare_free(struct hooks_bare *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		kube_informer_free(b->informers[i]);
	free(b);
}
