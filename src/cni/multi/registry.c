/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/multi/registry.h"

#include <string.h>

#include "base/alloc.h"

static const struct link_driver *const kinds[] = {&macvlan_kind,     &ipvlan_kind, &vlan_kind,
						  &host_device_kind, &sriov_kind,  &ipoib_kind,
						  &ib_sriov_kind};

const struct link_driver *link_driver_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i]->type, type) == 0)
			return kinds[i];
	return NULL;
}

static const struct cni_meta *const plugins[] = {&chained_tuning, &chained_sbr, &chained_loopback,
						 &chained_ifacer, &chained_rdma};

const struct cni_meta *chained_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (strcmp(plugins[i]->type, type) == 0)
			return plugins[i];
	return NULL;
}
