/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/object.h"

#include <string.h>

static bool is(const struct json *finalizer, const char *name)
{
	return json_string(finalizer) && strcmp(json_string(finalizer), name) == 0;
}

bool kube_has_finalizer(const struct json *object, const char *name)
{
	struct json_walk w = json_walk_start(kube_meta(object, "finalizers"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (is(v, name))
			return true;
	return false;
}

void kube_put_finalizers(struct json_out *o, const struct json *object, const char *name,
			 bool wanted)
{
	struct json_walk w = json_walk_start(kube_meta(object, "finalizers"));
	const struct json *v;

	jo_key(o, "finalizers");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL)))
		if (!is(v, name))
			jo_val(o, v, false);
	if (wanted)
		jo_str(o, name);
	jo_end_arr(o);
}
