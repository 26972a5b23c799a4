/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_IDENTITY_H
#define UNIRAIL_SPEC_IDENTITY_H

/*
 * Whose an address is when pods come and go: mostly the pod's, and then it ends with it. A pod of a
 * StatefulSet is followed by one of the same name, and a KubeVirt machine's pod by one of another
 * name for the same machine; these keep their addresses, under that name and the interface's.
 *
 * The name is what the journal has as the pod's, what a pool's records have (namespace/name), and
 * what the SpiderEndpoint is called.
 */

#include <stdint.h>

#include "spec/pod.h"

struct identity_conf {
	bool statefulset; /* enableStatefulSet */
	bool kubevirt;	  /* enableKubevirtStaticIP */
};

enum identity_kind { IDENTITY_POD, IDENTITY_STATEFULSET, IDENTITY_MACHINE };

/* Strings are borrowed from the pod's facts. */
struct identity {
	enum identity_kind kind; /* IDENTITY_POD: addresses are not kept */
	const char *ns, *name;	 /* the pod's, or the machine's */
	const char *pod;	 /* the pod's own name */
	/* A machine on its way from one pod to another: for a while both live, so this one does not
	 * wait for the other's addresses; it gets others where it cannot have them. */
	bool migrating;
};

void identity_of(const struct pod_facts *p, const struct identity_conf *c, struct identity *ret);
bool identity_is_sticky(const struct identity *i);

/* --- giving up --- */

/* "web-0" is of the StatefulSet "web"; false: a pod of that name is of none. */
bool identity_ordinal(const char *pod, char set[static 254], uint64_t *ordinal);

/* What the API server says of those who could have a name; what was not asked is not `known`. */
struct identity_set { /* the StatefulSet of identity_ordinal() */
	bool known, exists;
	int64_t start, replicas; /* spec.ordinals.start (0), spec.replicas (1) */
};
struct identity_machine { /* VirtualMachineInstance, VirtualMachine of the name */
	bool known, vmi_exists, vmi_deleting, vm_exists, vm_deleting;
};

/*
 * Whether what is kept under a name may go back into the pool: no StatefulSet will make a pod of that
 * name again (it is gone, or its replicas do not reach the ordinal), and no machine has it. With what
 * is not known it stays. A setting that is off keeps nothing.
 */
bool identity_is_over(const char *name, const struct identity_conf *c,
		      const struct identity_set *set, const struct identity_machine *machine);

#endif
