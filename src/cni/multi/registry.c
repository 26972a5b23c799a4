/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/multi/registry.h"

#include <string.h>

#include "base/alloc.h"

static const struct rail_kind *const kinds[] = {&macvlan_kind,	   &ipvlan_kind, &vlan_kind,
						&host_device_kind, &sriov_kind,	 &ipoib_kind,
						&ib_sriov_kind};

const struct rail_kind *rail_kind_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i]->type, type) == 0)
			return kinds[i];
	return NULL;
}

const struct rail_kind *rail_kind_at(size_t i)
{
	return i < ARRAY_LEN(kinds) ? kinds[i] : NULL;
}

static const struct cni_meta *const plugins[] = {&meta_tuning, &meta_sbr, &meta_loopback,
						 &meta_ifacer, &meta_rdma};

const struct cni_meta *meta_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (strcmp(plugins[i]->type, type) == 0)
			return plugins[i];
	return NULL;
}
