/* SPDX-License-Identifier: Apache-2.0 */
/* What pods have that this journal never gave them. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "ipam/store.h"

static const char *text(const char *s)
{
	return s ? s : "";
}

struct lease store_lease_of(const struct ipam *i, const struct ipam_known *k)
{
	struct lease l = LEASE_INIT;

	l.address = k->address;
	l.state = LEASE_USED;
	l.at_ms = i->now_ms();
	l.container_id = k->who.container_id;
	l.ifname = k->who.ifname;
	l.pod_namespace = text(k->who.pod_namespace);
	l.pod_name = text(k->who.pod_name);
	l.pod_uid = text(k->who.pod_uid);
	l.netns = text(k->who.netns);
	l.network = text(k->who.network);
	l.pool = text(k->pool);
	return l;
}

int ipam_know(struct ipam *i, const struct ipam_known *v, size_t n, struct err *e)
{
	auto_free struct lease *new = xcalloc(n + 1, sizeof(*new));
	size_t count = 0;
	int r;

	for (size_t k = 0; k < n; k++) {
		const struct lease *l = lease_find(&i->j.leases, &v[k].address.ip);

		if (l && l->state != LEASE_FREE)
			continue;
		if (count && ip_eq(&new[count - 1].address.ip, &v[k].address.ip))
			continue;
		new[count++] = store_lease_of(i, &v[k]);
	}
	r = store_commit(i, new, count, e);
	return r < 0 ? r : (int)count;
}
