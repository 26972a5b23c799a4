/* SPDX-License-Identifier: Apache-2.0 */
/* What `unirail device list` shows. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/device/vf_claim.h"
#include "cli/device_show.h"
#include "cli/tools.h"

enum { OUT_MAX = 64 << 20 };

static void find_holder(const struct root *root, struct device_row *row)
{
	auto_vf_record struct vf_record r = {0};
	const char *bdf = row->f->pci.bdf;

	if (row->f->vf < 0)
		return;
	row->netns = vf_holder(root, bdf);
	if (row->netns && vf_record_of(root, NULL, bdf, row->netns, &r) && r.pod)
		row->pod = xstrdup(r.pod);
}

static int show(const struct root *root, const struct inventory *inv, bool json)
{
	auto_free struct device_row *rows = xcalloc(inv->n, sizeof(*rows));
	auto_buf struct buf b;

	for (size_t i = 0; i < inv->n; i++) {
		rows[i].f = &inv->v[i];
		find_holder(root, &rows[i]);
	}
	buf_init(&b, OUT_MAX);
	if (json)
		device_show_json(rows, inv->n, &b);
	else
		device_show_text(rows, inv->n, stdout);
	for (size_t i = 0; i < inv->n; i++) {
		free(rows[i].pod);
		free(rows[i].netns);
	}
	return json ? help_put(&b) : 0;
}

int device_list(const char *dir, bool json, struct err *e)
{
	auto_nl struct nl_wire *route = NULL, *generic = NULL;
	auto_inventory struct inventory inv = {0};
	struct root root;
	int r = root_open(&root, dir, e);

	if (r < 0)
		return r;
	if (!dir) {
		r = nl_open(&route, NL_ROUTE, -1, e);
		/* A kernel without it has no devlink either. */
		if (r >= 0)
			(void)nl_open(&generic, NL_GENERIC, -1, NULL);
	}
	if (r >= 0)
		r = inventory_read(&root, route, generic, &inv, e);
	if (r >= 0)
		r = show(&root, &inv, json);
	root_close(&root);
	return r;
}
