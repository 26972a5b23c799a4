/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/discover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

struct kube_discover {
	struct kube *k;
	char *word, *group; /* group: the part of the word after the first dot; NULL: any */
	kube_discover_fn fn;
	void *arg;
	struct kube_call *call;
	char **paths; /* discovery documents of the groups */
	size_t n_paths, at;
	struct kube_kind kind;
	char *strings[4];
};

static void next(struct kube_discover *d);

void kube_discover_free(struct kube_discover *d)
{
	if (!d)
		return;
	kube_cancel(d->call);
	for (size_t i = 0; i < d->n_paths; i++)
		free(d->paths[i]);
	for (size_t i = 0; i < ARRAY_LEN(d->strings); i++)
		free(d->strings[i]);
	free(d->paths);
	free(d->word);
	free(d->group);
	free(d);
}

static bool is_word(const struct kube_discover *d, const struct json *v)
{
	const char *s = json_string(v);

	return s && *s && strcasecmp(s, d->word) == 0;
}

static bool matches(const struct kube_discover *d, const struct json *r)
{
	struct json_walk w = json_walk_start(json_get(r, "shortNames"));
	const char *name = json_string(json_get(r, "name"));
	const struct json *v;

	if (!name || strchr(name, '/')) /* a subresource such as "pods/status" */
		return false;
	if (is_word(d, json_get(r, "name")) || is_word(d, json_get(r, "singularName")) ||
	    is_word(d, json_get(r, "kind")))
		return true;
	while ((v = json_walk_next(&w, NULL)))
		if (is_word(d, v))
			return true;
	return false;
}

static char *lower(const char *s)
{
	char *copy = xstrdup(s ? s : "object");

	for (char *p = copy; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	return copy;
}

static void keep(struct kube_discover *d, const struct json *r, const char *group_version)
{
	const char *slash = strchr(group_version, '/');

	d->strings[0] =
		slash ? span_dup((struct span){group_version, (size_t)(slash - group_version)})
		      : xstrdup("");
	d->strings[1] = xstrdup(slash ? slash + 1 : group_version);
	d->strings[2] = xstrdup(json_string(json_get(r, "name")));
	d->strings[3] = lower(json_string(json_get(r, "kind")));
	d->kind = (struct kube_kind){d->strings[0], d->strings[1], d->strings[2], d->strings[3],
				     json_bool(json_get(r, "namespaced"))};
}

static bool find(struct kube_discover *d, const struct json *list)
{
	struct json_walk w = json_walk_start(json_get(list, "resources"));
	const char *version = json_string(json_get(list, "groupVersion"));
	const struct json *r;

	while (version && (r = json_walk_next(&w, NULL)))
		if (matches(d, r)) {
			keep(d, r, version);
			return true;
		}
	return false;
}

/* Without an answer, or with 401 or 403, discovery fails. Another error, such as 503 of a group
 * whose aggregated API server is unavailable, only skips the group. */
static void on_resources(void *arg, int status, const struct json *list, const struct err *e)
{
	struct kube_discover *d = arg;

	d->call = NULL;
	if (status == 0 || status == 401 || status == 403)
		d->fn(d->arg, NULL, e);
	else if (find(d, list))
		d->fn(d->arg, &d->kind, NULL);
	else
		next(d);
}

static void take_groups(struct kube_discover *d, const struct json *root)
{
	struct json_walk w = json_walk_start(json_get(root, "groups"));
	const struct json *g;

	while ((g = json_walk_next(&w, NULL))) {
		const char *name = json_string(json_get(g, "name"));
		const char *version =
			json_string(json_get(json_get(g, "preferredVersion"), "groupVersion"));

		if (!name || !version || (d->group && strcasecmp(d->group, name)))
			continue;
		VEC_PUSH(d->paths, d->n_paths) = xasprintf("/apis/%s", version);
	}
}

static void on_groups(void *arg, int status, const struct json *root, const struct err *e)
{
	struct kube_discover *d = arg;

	(void)status;
	d->call = NULL;
	if (e) {
		d->fn(d->arg, NULL, e);
		return;
	}
	take_groups(d, root);
	next(d);
}

static void get(struct kube_discover *d, const char *path, kube_done_fn fn)
{
	d->call = kube_send(d->k, &(struct kube_request){.verb = KUBE_GET, .path = path}, fn, d);
}

static void next(struct kube_discover *d)
{
	struct err e = ERR_INIT;

	if (d->n_paths == 0 && d->at++ == 0) {
		get(d, "/apis", on_groups);
	} else if (d->at <= d->n_paths) {
		get(d, d->paths[d->at++ - 1], on_resources);
	} else {
		err_set(&e, -ENOENT, "the server has no kind '%s%s%s'", d->word,
			d->group ? "." : "", d->group ? d->group : "");
		d->fn(d->arg, NULL, &e);
	}
}

struct kube_discover *kube_discover(struct kube *k, const char *word, kube_discover_fn fn,
				    void *arg)
{
	struct kube_discover *d = xcalloc(1, sizeof(*d));
	struct span rest = span_of(word), first;

	*d = (struct kube_discover){.k = k, .fn = fn, .arg = arg};
	span_cut(&rest, '.', &first);
	d->word = span_dup(first);
	d->group = rest.p ? span_dup(rest) : NULL;
	if (d->group)
		next(d);
	else
		get(d, "/api/v1", on_resources);
	return d;
}
