/* SPDX-License-Identifier: Apache-2.0 */
/* What is collected; nl_commit.c sends it. */
#include "kern/netlink/nl_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

struct nl_batch *nl_batch_new(void)
{
	return xcalloc(1, sizeof(struct nl_batch));
}

void nl_batch_reset(struct nl_batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		nlmsg_free(b->items[i].m);
		free(b->items[i].what);
	}
	free(b->items);
	b->items = NULL;
	b->n = 0;
}

void nl_batch_free(struct nl_batch *b)
{
	if (!b)
		return;
	nl_batch_reset(b);
	free(b);
}

void nl_batch_cleanup(struct nl_batch **b)
{
	int saved = errno;

	nl_batch_free(*b);
	*b = NULL;
	errno = saved;
}

size_t nl_batch_len(const struct nl_batch *b)
{
	return b->n;
}

int nl_batch_result(const struct nl_batch *b, size_t i)
{
	assert(i < b->n);
	return b->items[i].result.code < 0 ? b->items[i].result.code : 0;
}

static char *format(const char *fmt, va_list ap)
{
	struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	buf_vprintf(&b, fmt, ap);
	return buf_take(&b);
}

size_t nl_batch_add(struct nl_batch *b, struct nl_msg *m, unsigned int flags, const char *fmt, ...)
{
	struct nl_item *it = &VEC_PUSH(b->items, b->n);
	va_list ap;

	it->m = m;
	it->flags = flags;
	it->result.code = NL_UNANSWERED;
	va_start(ap, fmt);
	it->what = format(fmt, ap);
	va_end(ap);
	return b->n - 1;
}

size_t nl_batch_refuse(struct nl_batch *b, int code, const char *why, const char *fmt, ...)
{
	struct nl_item *it = &VEC_PUSH(b->items, b->n);
	va_list ap;

	it->result.code = code;
	snprintf(it->result.text, sizeof(it->result.text), "%s", why);
	va_start(ap, fmt);
	it->what = format(fmt, ap);
	va_end(ap);
	return b->n - 1;
}
