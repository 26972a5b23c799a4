/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/kubelet.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"

enum { CHECKPOINT_MAX = 4 << 20 };

void kubelet_devices_done(struct kubelet_devices *l)
{
	json_free(l->doc);
	free(l->v);
	*l = (struct kubelet_devices){0};
}

static int by_id(const void *a, const void *b)
{
	const struct kubelet_device *x = a, *y = b;

	return strcmp(x->id, y->id);
}

bool kubelet_devices_read(const struct root *r, struct kubelet_devices *l)
{
	auto_buf struct buf b;
	const struct json *ids, *id;
	struct json_walk w, k;
	const char *resource;

	*l = (struct kubelet_devices){0};
	buf_init(&b, CHECKPOINT_MAX);
	if (file_read(r, PATH_KUBELET_CHECKPOINT, b.max, &b, NULL) < 0 ||
	    json_parse(&l->doc, buf_span(&b), b.max, NULL) < 0)
		return false;
	l->registered = json_get(json_get(json_root(l->doc), "Data"), "RegisteredDevices");
	for (w = json_walk_start(l->registered); (ids = json_walk_next(&w, &resource));)
		for (k = json_walk_start(ids); (id = json_walk_next(&k, NULL));)
			if (json_string(id))
				VEC_PUSH(l->v, l->n) =
					(struct kubelet_device){json_string(id), resource};
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_id);
	return true;
}

const struct kubelet_device *kubelet_find(const struct kubelet_devices *l, const char *id)
{
	const struct kubelet_device key = {id, NULL};

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_id) : NULL;
}

int64_t kubelet_total(const struct kubelet_devices *l, const char *resource)
{
	const struct json *ids = json_get(l->registered, resource);

	return ids ? (int64_t)json_len(ids) : -1;
}

/* DeviceIDs is one list, or one list for each NUMA node. */
int64_t kubelet_used(const struct kubelet_devices *l, const char *resource)
{
	const struct json *data = json_get(json_root(l->doc), "Data"), *entry, *part;
	struct json_walk w = json_walk_start(json_get(data, "PodDeviceEntries"));
	int64_t n = 0;

	while ((entry = json_walk_next(&w, NULL))) {
		const char *name = json_string(json_get(entry, "ResourceName"));
		const struct json *ids = json_get(entry, "DeviceIDs");
		struct json_walk k = json_walk_start(ids);

		if (!name || strcmp(name, resource) != 0)
			continue;
		while ((part = json_walk_next(&k, NULL)))
			n += json_kind(part) == JSON_ARRAY ? (int64_t)json_len(part) : 1;
	}
	return n;
}
