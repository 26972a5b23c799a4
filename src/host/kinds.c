/* SPDX-License-Identifier: Apache-2.0 */
#include "host/kinds.h"

#include <string.h>

#include "host/steps/steps.h"

/* One row per line, so that additions do not conflict in a merge. */
/* clang-format off */
const struct host_kind *const host_kinds[] = {
	&host_modules,
	&host_link_type,
	&host_vf,
	&host_acs,
	&host_pci_kind,
	&host_rdma_mode,
	&host_names,
	&host_nm_ignore,
	&host_sysctl,
	&host_qos,
	&host_addr,
	&host_rails,
	&host_rule,
	&host_gpudirect,
	&host_memlock,
	&host_persist,
	NULL,
};
/* clang-format on */

const struct host_kind *host_kind_find(const char *name)
{
	for (const struct host_kind *const *k = host_kinds; *k; k++)
		if (strcmp((*k)->name, name) == 0)
			return *k;
	return NULL;
}
