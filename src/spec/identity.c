/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/identity.h"

#include <string.h>

#include "base/num.h"

static bool is(const char *s, const char *word)
{
	return s && strcmp(s, word) == 0;
}

/* "kubevirt.io/v1": whatever the version. */
static bool in_group(const char *api, const char *group)
{
	size_t n = strlen(group);

	return api && strncmp(api, group, n) == 0 && api[n] == '/';
}

/* The owner tells; where nobody wrote one, what KubeVirt notes on its pods. */
static const char *machine_of(const struct pod_facts *p)
{
	const char *name = NULL;

	if (p->owner_name && is(p->owner_kind, "VirtualMachineInstance") &&
	    in_group(p->owner_api, "kubevirt.io"))
		return p->owner_name;
	if (p->owner_kind || !is(labels_get(&p->labels, "kubevirt.io"), "virt-launcher"))
		return NULL;
	name = labels_get(&p->annotations, "kubevirt.io/domain");
	if (!name)
		name = labels_get(&p->labels, "vm.kubevirt.io/name");
	return name && *name ? name : NULL;
}

static bool is_of_set(const struct pod_facts *p)
{
	char set[254];
	uint64_t ordinal;

	return is(p->owner_kind, "StatefulSet") && in_group(p->owner_api, "apps") &&
	       identity_ordinal(p->name, set, &ordinal);
}

void identity_of(const struct pod_facts *p, const struct identity_conf *c, struct identity *ret)
{
	const char *machine = c->kubevirt ? machine_of(p) : NULL;
	const char *job = labels_get(&p->annotations, "kubevirt.io/migrationJobName");

	*ret = (struct identity){
		.kind = IDENTITY_POD, .ns = p->ns, .name = p->name, .pod = p->name};
	if (machine) {
		ret->kind = IDENTITY_MACHINE;
		ret->name = machine;
		ret->migrating = job && *job;
	} else if (c->statefulset && is_of_set(p)) {
		ret->kind = IDENTITY_STATEFULSET;
	}
}

bool identity_is_sticky(const struct identity *i)
{
	return i->kind != IDENTITY_POD;
}

bool identity_ordinal(const char *pod, char set[static 254], uint64_t *ordinal)
{
	const char *dash = strrchr(pod, '-');
	size_t n = dash ? (size_t)(dash - pod) : 0;

	if (n == 0 || n > 253 || num_u64(span_of(dash + 1), 0, INT32_MAX, ordinal) < 0)
		return false;
	memcpy(set, pod, n);
	set[n] = '\0';
	return true;
}

static bool set_is_over(const char *name, const struct identity_set *s)
{
	char set[254];
	uint64_t ordinal;

	if (!identity_ordinal(name, set, &ordinal))
		return true;
	if (!s->known)
		return false;
	return !s->exists || (int64_t)ordinal < s->start ||
	       (int64_t)ordinal - s->start >= s->replicas;
}

/* A machine that is stopped has no instance, and starts again. */
static bool machine_is_over(const struct identity_machine *m)
{
	if (!m->known)
		return false;
	return !(m->vmi_exists && !m->vmi_deleting) && !(m->vm_exists && !m->vm_deleting);
}

bool identity_is_over(const char *name, const struct identity_conf *c,
		      const struct identity_set *set, const struct identity_machine *machine)
{
	return (!c->statefulset || set_is_over(name, set)) &&
	       (!c->kubevirt || machine_is_over(machine));
}
