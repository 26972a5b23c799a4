/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the node has what a rail stands on. */
#include <errno.h>

#include "cni/attach/gids.h"

int attach_kind_known(struct nl_wire *w, const struct rail_kind *k, struct err *e)
{
	int r = k->module ? link_kind_known(w, k->type, e) : 1;

	if (r > 0)
		return 0;
	if (r < 0)
		return err_wrap(e, r, "create %s", k->type);
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"create %s: Operation not supported (EOPNOTSUPP): the kernel lacks %s: load module %s",
		k->type, k->type, k->module);
}

static int status_made(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e)
{
	int r = attach_kind_known(w, rail->kind, e);

	/* The pod's links are the pod's matter. */
	if (r < 0 || rail->conf.in_container)
		return r;
	r = attach_master(w, &rail->conf, &rail->master, e);
	if (r >= 0 && rail->kind->fits)
		r = rail->kind->fits(&rail->conf, &rail->master, e);
	if (r >= 0)
		attach_gids_status(w, root, rail);
	return r;
}

int attach_status(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e)
{
	int r = rail_kind_moves(rail->kind) ? rail->kind->status(root, rail, e)
					    : status_made(w, root, rail, e);

	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_UNAVAILABLE);
	return rail_err(rail, r, e);
}
