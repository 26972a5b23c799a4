/* SPDX-License-Identifier: Apache-2.0 */
/* From what is in the folder to what has to be done: no file is touched here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/install/install.h"

static bool same(const struct install_thing *a, const struct install_thing *b)
{
	return a->have == b->have && a->id && b->id && strcmp(a->id, b->id) == 0;
}

static bool is_ours(const struct install_name *n)
{
	return n->recorded && (same(&n->now, &n->made) || same(&n->now, &n->was));
}

static void step(struct install_plan *p, enum install_do what, const struct install_name *n)
{
	VEC_PUSH(p->steps, p->n) = (struct install_step){what, n};
}

static void leave(struct install_plan *p, char *name, const char *why)
{
	VEC_PUSH(p->left, p->n_left) = (struct install_left){name, why};
}

void install_plan_done(struct install_plan *p)
{
	for (size_t i = 0; i < p->n_left; i++)
		free(p->left[i].name);
	free(p->left);
	free(p->steps);
	*p = (struct install_plan){0};
}

/* Why a name cannot be ours, in three lists. */
struct refusals {
	struct buf foreign, odd, taken;
};

static void refuse(struct buf *b, const char *name)
{
	buf_printf(b, "%s'%s'", b->len ? ", " : "", name);
}

static void plan_name(struct install_name *n, enum install_others others, struct install_plan *p,
		      struct refusals *no)
{
	if (same(&n->now, &n->ours))
		return;
	/* Not so our binary, which the links lead to. */
	if (others == OTHERS_STAY && n->ours.have == HAVE_LINK && n->now.have != HAVE_NOTHING &&
	    !is_ours(n)) {
		n->wanted = false;
		leave(p, xstrdup(n->name), "not made by unirail");
		return;
	}
	if (n->now.have == HAVE_OTHER) {
		refuse(&no->odd, n->name);
		return;
	}
	if (n->now.have != HAVE_NOTHING && !is_ours(n)) {
		if (others != OTHERS_REPLACE)
			refuse(&no->foreign, n->name);
		else if (n->kept.have == HAVE_NOTHING)
			step(p, DO_KEEP, n);
		else if (!same(&n->kept, &n->now))
			refuse(&no->taken, n->name);
	}
	step(p, n->ours.have == HAVE_FILE ? DO_COPY : DO_LINK, n);
}

static int refused(const struct refusals *no, struct err *e)
{
	if (no->odd.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"%s is neither a file nor a link; move it away",
				buf_span(&no->odd).p);
	if (no->foreign.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"not made by unirail: %s; --replace keeps each as "
				"NAME" INSTALL_KEPT ", --keep leaves them alone, --links chooses "
				"others",
				buf_span(&no->foreign).p);
	if (no->taken.len)
		return err_kind(e, ERR_CONF, -EEXIST,
				"another NAME" INSTALL_KEPT " is there already for %s; "
				"move it away",
				buf_span(&no->taken).p);
	return 0;
}

int install_plan(struct install_facts *f, enum install_others others, struct install_plan *p,
		 struct err *e)
{
	struct refusals no;
	int r;

	*p = (struct install_plan){0};
	buf_init(&no.foreign, ERR_TEXT_MAX / 2);
	buf_init(&no.odd, ERR_TEXT_MAX / 2);
	buf_init(&no.taken, ERR_TEXT_MAX / 2);
	for (size_t i = 0; i < f->n; i++)
		if (f->names[i].wanted)
			plan_name(&f->names[i], others, p, &no);
	r = refused(&no, e);
	buf_done(&no.foreign);
	buf_done(&no.odd);
	buf_done(&no.taken);
	if (r < 0)
		install_plan_done(p);
	return r;
}

/* The name is free, or ours to free: what was kept comes back if it is what we kept. */
static void free_name(const struct install_name *n, struct install_plan *p)
{
	if (n->noted.have != HAVE_NOTHING && same(&n->kept, &n->noted)) {
		step(p, DO_RESTORE, n);
		return;
	}
	if (n->now.have != HAVE_NOTHING)
		step(p, DO_REMOVE, n);
	if (n->noted.have != HAVE_NOTHING)
		leave(p, install_kept_name(n->name),
		      n->kept.have == HAVE_NOTHING ? "was kept, but is gone"
						   : "changed since it was kept, not put back");
}

static void plan_removal(const struct install_name *n, struct install_plan *p)
{
	if (n->now.have == HAVE_NOTHING || is_ours(n)) {
		free_name(n, p);
	} else if (same(&n->now, &n->noted)) {
		/* Put back already, by a removal that was interrupted. */
		if (same(&n->kept, &n->noted))
			step(p, DO_FORGET, n);
	} else {
		leave(p, xstrdup(n->name), "changed since it was installed, not removed");
		if (n->noted.have != HAVE_NOTHING && n->kept.have != HAVE_NOTHING)
			leave(p, install_kept_name(n->name), "kept from before, not put back");
	}
}

void install_plan_removal(const struct install_facts *f, struct install_plan *p)
{
	*p = (struct install_plan){0};
	/* Links first, the binary last: none of them leads nowhere meanwhile. */
	for (size_t i = f->n; i-- > 0;)
		if (f->names[i].recorded)
			plan_removal(&f->names[i], p);
}
