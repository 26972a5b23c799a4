/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_IDENTITY_H
#define UNIRAIL_SPEC_IDENTITY_H

/*
 * The owner of an address across pod restarts. Usually the owner is the pod, and the address is
 * released with it. A StatefulSet's pod is replaced by one of the same name, and a KubeVirt
 * machine's pod by one of another name. Addresses of such a pod are retained for the next one,
 * under the name of the identity and the name of the interface.
 *
 * The journal and a pool's records (namespace/name) have the identity's name as name of the pod; it
 * is also the name of the SpiderEndpoint.
 */

#include <stdint.h>

#include "kube/path.h"
#include "spec/pod.h"

struct identity_conf {
	bool statefulset; /* enableStatefulSet */
	bool kubevirt;	  /* enableKubevirtStaticIP */
};

enum identity_kind { IDENTITY_POD, IDENTITY_STATEFULSET, IDENTITY_MACHINE };

/* Strings are borrowed from the pod's facts. */
struct identity {
	enum identity_kind kind; /* IDENTITY_POD: addresses are not retained */
	const char *ns, *name;	 /* namespace and name of the pod, or of the KubeVirt machine */
	const char *pod;	 /* name of the pod */
	/* The machine migrates between two pods that exist at the same time: this pod does not wait
	 * for the retained addresses; it gets other addresses if the retained ones are in use. */
	bool migrating;
};

void identity_of(const struct pod_facts *p, const struct identity_conf *c, struct identity *ret);
bool identity_is_sticky(const struct identity *i);

/* --- release of retained addresses --- */

/* Splits "web-0" into StatefulSet "web" and ordinal; returns false if the name has not this
 * form. */
bool identity_ordinal(const char *pod, char set[static 254], uint64_t *ordinal);

/* State of possible owners at the API server; known false: not requested. */
struct identity_set { /* state of the StatefulSet whose name identity_ordinal() returns */
	bool known, exists;
	/* spec.ordinals.start (default 0), spec.replicas (default 1) */
	int64_t start, replicas;
};
/* state of the VirtualMachineInstance and the VirtualMachine whose name is passed to
 * identity_is_over() */
struct identity_machine {
	bool known, vmi_exists, vmi_deleting, vm_exists, vm_deleting;
};

/*
 * Returns whether the addresses retained under a name may be released: no StatefulSet will create a
 * pod of that name again (it does not exist, or its replicas do not include the ordinal), and no
 * machine has the name, except one that is being deleted. If the state is unknown, the addresses
 * stay retained. A kind of owner that `c` disables retains none.
 */
bool identity_is_over(const char *name, const struct identity_conf *c,
		      const struct identity_set *set, const struct identity_machine *machine);

/*
 * The requests that fill these states, one after the other:
 *
 *	struct identity_lookup q = {0};
 *
 *	while (identity_lookup_next(&q, c, ns, name, &ref))
 *		GET ref, then identity_lookup_learn(&q, object);
 *	if (identity_is_over(name, c, &q.set, &q.machine))
 *
 * identity_lookup_next() returns false after the last object; *ret borrows ns, name and q. object
 * NULL: it does not exist (404, which is also the answer if its kind is not installed).
 */
struct identity_lookup {
	enum { IDENTITY_READ_SET, IDENTITY_READ_VMI, IDENTITY_READ_VM, IDENTITY_READ_END } step;
	char set_name[254];
	struct identity_set set;
	struct identity_machine machine;
};
bool identity_lookup_next(struct identity_lookup *q, const struct identity_conf *c, const char *ns,
			  const char *name, struct kube_ref *ret);
void identity_lookup_learn(struct identity_lookup *q, const struct json *object);

#endif
