/* SPDX-License-Identifier: Apache-2.0 */
/* What of a SpiderMultusConfig only an administrator's may have: CNI plugins run as root on the nodes. */
#include <string.h>

#include "spec/definition.h"
#include "controller/admission/admit_priv.h"

static bool is_trusted(const struct admit *a)
{
	return a->world->trusts && a->world->trusts(a->world->arg, a->ask->ns);
}

int admit_check_definition(struct admit *a, const struct json *config, const char *place)
{
	const struct definition_rules rules = {0};
	struct err e = ERR_INIT;

	if (is_trusted(a) || definition_check(config, &rules, &e) == 0 || admit_spec_stays(a))
		return 0;
	return admit_refuse(a, ADMIT_FORBIDDEN, "%s: namespace '%s' is not trusted: %s", place,
			    a->ask->ns, e.text);
}

int admit_check_ifacer(struct admit *a, const char *block, const struct json *spec)
{
	const struct json *b = json_get(spec, block);
	bool tags = strcmp(block, "macvlan") == 0 || strcmp(block, "ipvlan") == 0;
	bool masters = tags || strcmp(block, "vlan") == 0;
	int64_t vlan = 0;

	if (tags)
		(void)json_int(json_get(b, "vlanID"), &vlan);
	if (!masters || (!vlan && json_len(json_get(b, "master")) < 2))
		return 0;
	if (is_trusted(a) || admit_spec_stays(a))
		return 0;
	return admit_refuse(
		a, ADMIT_FORBIDDEN,
		"spec.%s.%s: makes an interface on each node, which only a definition of a trusted "
		"namespace may: set the annotation " DEFINITION_TRUST
		"=true on Namespace '%s', or %s",
		block, vlan ? "vlanID" : "master", a->ask->ns,
		vlan ? "use cniType vlan" : "name one master");
}
