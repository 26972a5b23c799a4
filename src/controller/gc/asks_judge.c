/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a pod or node is gone, by its object; what is asked about a name. */
#include <string.h>

#include "controller/gc/asks_priv.h"
#include "controller/gc/census.h"

static const struct kube_kind sets = {"apps", "v1", "statefulsets", "statefulset", true};
static const struct kube_kind vmis = {"kubevirt.io", "v1", "virtualmachineinstances",
				      "virtualmachineinstance", true};
static const struct kube_kind vms = {"kubevirt.io", "v1", "virtualmachines", "virtualmachine",
				     true};

bool asks_subject(const struct asks_question *q, struct kube_ref *ret, char set[static 254])
{
	const struct identity_conf *c = &q->a->conf.identity;
	uint64_t ordinal;

	*ret = (struct kube_ref){.ns = q->ns, .name = q->name};
	switch (q->step) {
	case ASKS_STEP_SET:
		ret->kind = &sets;
		ret->name = set;
		return c->statefulset && identity_ordinal(q->name, set, &ordinal);
	case ASKS_STEP_VMI: ret->kind = &vmis; return c->kubevirt;
	case ASKS_STEP_VM: ret->kind = &vms; return c->kubevirt;
	case ASKS_STEP_END: break;
	}
	return false;
}

static bool is_deleting(const struct json *object)
{
	return json_string(json_get(json_get(object, "metadata"), "deletionTimestamp"));
}

static int64_t number(const struct json *v, int64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : otherwise;
}

enum asks_answer asks_judge_pod(const struct asks_question *q, const struct json *object)
{
	const char *uid = json_string(json_get(json_get(object, "metadata"), "uid"));
	const char *phase = json_string(json_get(json_get(object, "status"), "phase"));

	if (!object || (*q->uid && uid && strcmp(uid, q->uid) != 0))
		return ASKS_GONE;
	return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
		       ? ASKS_GONE
		       : ASKS_THERE;
}

enum asks_answer asks_judge_node(const struct json *object)
{
	struct census_node n = {0};

	if (!object)
		return ASKS_GONE;
	census_read_node(object, &n);
	return n.fenced && !n.ready ? ASKS_GONE : ASKS_THERE;
}

void asks_learn(struct asks_question *q, const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	switch (q->step) {
	case ASKS_STEP_SET:
		q->set.known = true;
		q->set.exists = object;
		q->set.start = number(json_get(json_get(spec, "ordinals"), "start"), 0);
		q->set.replicas = number(json_get(spec, "replicas"), 1);
		break;
	case ASKS_STEP_VMI:
		q->machine.vmi_exists = object;
		q->machine.vmi_deleting = is_deleting(object);
		break;
	case ASKS_STEP_VM:
		q->machine.known = true;
		q->machine.vm_exists = object;
		q->machine.vm_deleting = is_deleting(object);
		break;
	case ASKS_STEP_END: break;
	}
}
