/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/missing_resource.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"

enum { TEXT_MAX = 1024 };

static bool is_name(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return n > 0 && n <= MISSING_RESOURCE_NAME_MAX &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == n;
}

char *missing_resource_text(const char *resource, const char *suggestion)
{
	struct json_out o;
	struct buf b;

	if (!is_name(resource))
		return NULL;
	buf_init(&b, TEXT_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "resource", resource);
	if (suggestion)
		jo_kstr(&o, "suggestion", suggestion);
	jo_end_obj(&o);
	return buf_take(&b);
}

bool missing_resource_read(const char *text, struct missing_resource *ret)
{
	auto_json struct json_doc *doc = NULL;
	const char *resource, *suggestion;

	*ret = (struct missing_resource){0};
	if (!text || json_parse(&doc, span_of(text), TEXT_MAX, NULL) < 0)
		return false;
	resource = json_string(json_get(json_root(doc), "resource"));
	suggestion = json_string(json_get(json_root(doc), "suggestion"));
	if (!is_name(resource) || (suggestion && !is_name(suggestion)))
		return false;
	ret->resource = xstrdup(resource);
	ret->suggestion = suggestion ? xstrdup(suggestion) : NULL;
	return true;
}

void missing_resource_done(struct missing_resource *m)
{
	free(m->resource);
	free(m->suggestion);
	*m = (struct missing_resource){0};
}

const char *missing_resource_suggest(const char *name, const char *const *list, size_t n)
{
	const char *own = strchr(name, '/');

	for (size_t i = 0; own && i < n; i++) {
		const char *other = strchr(list[i], '/');

		if (other && strcmp(own, other) == 0)
			return list[i];
	}
	return opt_suggest(name, list, n);
}
