/* SPDX-License-Identifier: Apache-2.0 */
/* A SpiderCoordinator object: each value as the file would have it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "spec/coordinator_settings.h"
#include "base/cleanup.h"
#include "base/log.h"

static int wrong(const struct json *v, const char *place, struct err *e)
{
	return json_wants(v, place, "a string, a number or true or false", e);
}

/* One value, as text into `ret`. */
static int value_text(const struct json *v, const char *place, struct buf *ret, struct err *e)
{
	int64_t n;

	switch (json_kind(v)) {
	case JSON_STRING: buf_str(ret, json_string(v)); return 0;
	case JSON_BOOL: buf_str(ret, json_bool(v) ? "yes" : "no"); return 0;
	case JSON_NUMBER:
		if (json_int(v, &n) < 0)
			return wrong(v, place, e);
		buf_printf(ret, "%lld", (long long)n);
		return 0;
	case JSON_OBJECT: break;
	default: return wrong(v, place, e);
	}
	if (!json_string(json_get(v, "dst")) || !json_string(json_get(v, "gw")))
		return json_wants(v, place, "the strings 'dst' and 'gw'", e);
	buf_printf(ret, "%s via %s", json_string(json_get(v, "dst")),
		   json_string(json_get(v, "gw")));
	return 0;
}

static int put(struct coordinator_settings *s, const char *key, const struct json *v,
	       const char *place, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, 4096);
	r = value_text(v, place, &text, e);
	if (r < 0)
		return r;
	/* Any number below 0 means the same. */
	if (strcmp(key, "podRPFilter") == 0 && text.len && *text.p == '-')
		r = coordinator_settings_put(s, key, "-1", e);
	else
		r = coordinator_settings_put(s, key, text.len ? text.p : "", e);
	/* What the definition has for others: podCIDRType, phase, reason. */
	return r == -ENOENT ? 0 : r;
}

static int put_all(struct coordinator_settings *s, const struct json *object, const char *part,
		   struct err *e)
{
	struct json_walk w = json_walk_start(json_get(object, part)), list;
	const struct json *v, *item;
	const char *key;
	int r = 0;

	while (r == 0 && (v = json_walk_next(&w, &key))) {
		auto_free char *place = xasprintf("%s.%s", part, key);

		if (json_kind(v) == JSON_NULL)
			continue;
		if (json_kind(v) != JSON_ARRAY) {
			r = put(s, key, v, place, e);
			continue;
		}
		list = json_walk_start(v);
		while (r == 0 && (item = json_walk_next(&list, NULL)))
			r = put(s, key, item, place, e);
	}
	return r < 0 ? err_wrap(e, r, "%s", part) : 0;
}

static void say_phase(const struct json *object)
{
	const struct json *status = json_get(object, "status");
	const char *phase = json_string(json_get(status, "phase"));
	const char *reason = json_string(json_get(status, "reason"));

	if (phase && strcmp(phase, "Synced") != 0)
		log_warn(
			"the SpiderCoordinator's networks are not known to its controller: taken as "
			"they are",
			LOG_S("phase", phase), LOG_S("reason", reason ? reason : ""));
}

int coordinator_settings_object(const struct json *object, struct coordinator_settings *ret,
				struct err *e)
{
	struct coordinator_settings s;
	int r;

	coordinator_settings_init(&s);
	r = put_all(&s, object, "spec", e);
	if (r == 0)
		r = put_all(&s, object, "status", e);
	if (r < 0) {
		coordinator_settings_done(&s);
		return r;
	}
	say_phase(object);
	*ret = s;
	return 0;
}
