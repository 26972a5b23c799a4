/* SPDX-License-Identifier: Apache-2.0 */
/* Which webhooks there are: Spiderpool's, by its names and paths. */
#include "base/cleanup.h"
#include "controller/registration/hooks.h"

#define SPIDER(kind, resource, operations)                                                         \
	{resource ".spiderpool.spidernet.io",                                                      \
	 "/mutate-spiderpool-spidernet-io-v2beta1-" resource,                                      \
	 "spiderpool.spidernet.io",                                                                \
	 "v2beta1",                                                                                \
	 kind,                                                                                     \
	 resource "s",                                                                             \
	 HOOK_CREATE | HOOK_UPDATE,                                                                \
	 HOOK_DEFAULT},                                                                            \
	{                                                                                          \
		resource ".spiderpool.spidernet.io",                                               \
			"/validate-spiderpool-spidernet-io-v2beta1-" resource,                     \
			"spiderpool.spidernet.io", "v2beta1", kind, resource "s", operations,      \
			HOOK_CHECK                                                                 \
	}

const struct hook hooks_table[] = {
	SPIDER("SpiderIPPool", "spiderippool", HOOK_CREATE | HOOK_UPDATE | HOOK_DELETE),
	SPIDER("SpiderSubnet", "spidersubnet", HOOK_CREATE | HOOK_UPDATE | HOOK_DELETE),
	SPIDER("SpiderReservedIP", "spiderreservedip", HOOK_CREATE | HOOK_UPDATE),
	SPIDER("SpiderMultusConfig", "spidermultusconfig", HOOK_CREATE | HOOK_UPDATE),
	SPIDER("SpiderCoordinator", "spidercoordinator", HOOK_CREATE | HOOK_UPDATE),
	{"pods.spiderpool.spidernet.io", "/mutate--v1-pod", "", "v1", "Pod", "pods", HOOK_CREATE,
	 HOOK_INJECT},
};

const size_t hooks_count = ARRAY_LEN(hooks_table);
