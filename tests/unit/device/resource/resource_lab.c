/* SPDX-License-Identifier: Apache-2.0 */
#include "resource_lab.h"

#include <stdio.h>
#include <string.h>

void prefer_init(struct prefer_lab *l)
{
	memset(l, 0, sizeof(*l));
	for (int i = 0; i < RAILS; i++) {
		for (int k = 0; k < 2; k++)
			snprintf(l->paths[i][k], sizeof(l->paths[i][k]),
				 "pci0000:%d0/0000:%d0:01.0/0000:%d1:00.0/0000:%d2:0%d.0", i, i, i,
				 i, k);
		snprintf(l->gpus[i].bdf, sizeof(l->gpus[i].bdf), "0000:%d9:00.0", i);
		l->gpus[i].path = l->paths[i][1];
		l->gpus[i].numa = i / 2;
		for (int k = 0; k < VFS; k++) {
			struct node_device *d = &l->v[i * VFS + k];

			snprintf(d->id, sizeof(d->id), "0000:%d3:00.%d", i, k + 1);
			str_copy(d->bdf, sizeof(d->bdf), d->id);
			snprintf(d->pf, sizeof(d->pf), "0000:%d3:00.0", i);
			d->path = l->paths[i][0];
			d->numa = i / 2;
			l->members[i * VFS + k].device = d;
		}
	}
	l->node = (struct node_devices){
		.v = l->v, .n = RAILS * VFS, .gpus = l->gpus, .n_gpus = RAILS};
	l->conf.form = RESOURCE_SRIOV;
	l->r = (struct resource){&l->conf, l->members, RAILS * VFS};
	l->s = (struct resources){&l->r, 1, &l->node};
}
