/* SPDX-License-Identifier: Apache-2.0 */
#include "base/undo.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"

struct undo_step {
	undo_fn fn;
	void *arg;
	char *what;
};

void undo_push(struct undo *u, const char *what, undo_fn fn, const void *arg, size_t size)
{
	struct undo_step *s = &VEC_PUSH(u->steps, u->n);

	s->fn = fn;
	s->what = xstrdup(what);
	if (size) {
		s->arg = xmalloc(size);
		memcpy(s->arg, arg, size);
	}
}

static void forget(struct undo_step *s)
{
	free(s->arg);
	free(s->what);
}

int undo_run(struct undo *u)
{
	int failed = 0;

	while (u->n > 0) {
		/* copies the step, because its function may push further steps */
		struct undo_step s = u->steps[--u->n];
		struct err e = ERR_INIT;
		int r = s.fn(s.arg, &e);

		if (r < 0) {
			failed++;
			if (!e.text[0])
				err_sys(&e, r, "no error text");
			log_warn("undo failed", LOG_S("step", s.what), LOG_S("error", e.text));
		}
		forget(&s);
	}
	undo_disarm(u);
	return failed;
}

void undo_disarm(struct undo *u)
{
	while (u->n > 0)
		forget(&u->steps[--u->n]);
	free(u->steps);
	*u = (struct undo)UNDO_INIT;
}
