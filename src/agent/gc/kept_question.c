/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a name is still somebody's: what the API server is asked, and what its answers say. */
#include "agent/gc/kept_question.h"

static const struct kube_kind sets = {"apps", "v1", "statefulsets", "statefulset", true};
static const struct kube_kind vmis = {"kubevirt.io", "v1", "virtualmachineinstances",
				      "virtualmachineinstance", true};
static const struct kube_kind vms = {"kubevirt.io", "v1", "virtualmachines", "virtualmachine",
				     true};
static const struct kube_kind endpoints = {"spiderpool.spidernet.io", "v2beta1", "spiderendpoints",
					   "spiderendpoint", true};

static int64_t number(const struct json *v, int64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : otherwise;
}

static struct identity_set read_set(const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	return (struct identity_set){
		.known = true,
		.exists = object != NULL,
		.start = number(json_get(json_get(spec, "ordinals"), "start"), 0),
		.replicas = number(json_get(spec, "replicas"), 1),
	};
}

static bool is_deleting(const struct json *object)
{
	return json_string(json_get(json_get(object, "metadata"), "deletionTimestamp")) != NULL;
}

void kept_question_learn(struct kept_question *q, const struct json *object)
{
	switch (q->step) {
	case KEPT_SET: q->set = read_set(object); break;
	case KEPT_VMI:
		q->machine.vmi_exists = object != NULL;
		q->machine.vmi_deleting = is_deleting(object);
		break;
	case KEPT_VM:
		q->machine.known = true;
		q->machine.vm_exists = object != NULL;
		q->machine.vm_deleting = is_deleting(object);
		break;
	case KEPT_ENDPOINT:
		if (object)
			handover_place_read(object, &q->place, NULL);
		break;
	case KEPT_END: break;
	}
}

bool kept_question_subject(const struct kept_question *q, const struct identity_conf *c,
			   const char *ns, const char *name, struct kube_ref *ret,
			   char set[static 254])
{
	uint64_t ordinal;

	*ret = (struct kube_ref){.ns = ns, .name = name};
	switch (q->step) {
	case KEPT_SET:
		ret->kind = &sets;
		ret->name = set;
		return c->statefulset && identity_ordinal(name, set, &ordinal);
	case KEPT_VMI: ret->kind = &vmis; return c->kubevirt;
	case KEPT_VM: ret->kind = &vms; return c->kubevirt;
	case KEPT_ENDPOINT: ret->kind = &endpoints; return true;
	case KEPT_END: break;
	}
	return false;
}
