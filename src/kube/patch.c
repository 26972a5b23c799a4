/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/patch.h"

#include <stdarg.h>
#include <string.h>

#include "kube/client.h"

enum { POINTER_MAX = 4096 };

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

struct json_out *kube_patch_add(struct kube_patch *p, const char *op, ...)
{
	struct buf path;
	const char *part;
	va_list ap;

	close_value(p);
	buf_init(&path, POINTER_MAX);
	va_start(ap, op);
	while ((part = va_arg(ap, const char *)))
		add_part(&path, part);
	va_end(ap);
	jo_obj(&p->o);
	jo_kstr(&p->o, "op", op);
	jo_kstr(&p->o, "path", path.p ? path.p : "");
	if (strcmp(op, "remove"))
		jo_key(&p->o, "value");
	p->open = true;
	buf_done(&path);
	return &p->o;
}

struct span kube_patch_end(struct kube_patch *p)
{
	close_value(p);
	jo_end_arr(&p->o);
	return buf_span(&p->b);
}
