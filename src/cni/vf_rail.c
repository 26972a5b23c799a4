/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/vf_rail.h"

#include <stdlib.h>

#include "base/cleanup.h"

struct vf_rail *vf_rail_new(void)
{
	struct vf_rail *v = xcalloc(1, sizeof(*v));

	v->lock = -1;
	return v;
}

void vf_rail_free(struct vf_rail *v)
{
	if (!v)
		return;
	cleanup_fd(&v->lock);
	vf_record_done(&v->record);
	free(v);
}
