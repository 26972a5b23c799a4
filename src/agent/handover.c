/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/handover.h"

#include <stdlib.h>

#include "agent/handover_priv.h"
#include "base/cleanup.h"

const struct kube_kind handover_kind = {"spiderpool.spidernet.io", "v2beta1", "spiderendpoints",
					"spiderendpoint", true};

struct handover *handover_new(const struct handover_conf *c)
{
	struct handover *h = xcalloc(1, sizeof(*h));

	h->conf = *c;
	handover_watch(h);
	return h;
}

void handover_free(struct handover *h)
{
	if (!h)
		return;
	while (h->n)
		coming_free(h->v[h->n - 1]);
	if (lender_blocks(h->conf.lender))
		blocks_cancel(lender_blocks(h->conf.lender), h);
	free(h->v);
	kube_informer_free(h->informer);
	kube_cancel(h->refusing);
	loop_del_timer(h->sweep);
	free(h->given);
	free(h);
}
