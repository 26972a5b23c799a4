/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/patch.h"

#include <stdarg.h>
#include <string.h>

#include "kube/client.h"

enum { POINTER_MAX = 4096, PARTS_MAX = 32 };

void kube_patch_init(struct kube_patch *p)
{
	*p = (struct kube_patch){0};
	buf_init(&p->b, KUBE_BODY_MAX);
	jo_init(&p->o, &p->b, 0);
	jo_arr(&p->o);
}

void kube_patch_done(struct kube_patch *p)
{
	buf_done(&p->b);
}

/* RFC 6901 */
static void add_part(struct buf *b, const char *part)
{
	buf_char(b, '/');
	for (; *part; part++)
		if (*part == '~')
			buf_str(b, "~0");
		else if (*part == '/')
			buf_str(b, "~1");
		else
			buf_char(b, *part);
}

static void close_value(struct kube_patch *p)
{
	if (p->open)
		jo_end_obj(&p->o);
	p->open = false;
}

struct json_out *kube_patch_add_at(struct kube_patch *p, const char *op, const char *const *parts,
				   size_t n)
{
	auto_buf struct buf path;

	close_value(p);
	buf_init(&path, POINTER_MAX);
	for (size_t i = 0; i < n; i++)
		add_part(&path, parts[i]);
	jo_obj(&p->o);
	jo_kstr(&p->o, "op", op);
	jo_kstr(&p->o, "path", path.p ? path.p : "");
	if (strcmp(op, "remove"))
		jo_key(&p->o, "value");
	p->open = true;
	return &p->o;
}

struct json_out *kube_patch_add(struct kube_patch *p, const char *op, ...)
{
	const char *parts[PARTS_MAX], *part;
	size_t n = 0;
	va_list ap;

	va_start(ap, op);
	while ((part = va_arg(ap, const char *)) && n < PARTS_MAX)
		parts[n++] = part;
	va_end(ap);
	return kube_patch_add_at(p, op, parts, n);
}

struct span kube_patch_end(struct kube_patch *p)
{
	close_value(p);
	jo_end_arr(&p->o);
	return buf_span(&p->b);
}
