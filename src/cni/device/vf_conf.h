/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_CONF_H
#define UNIRAIL_CNI_DEVICE_VF_CONF_H

/* Shared by the netconfs and cache files of sriov and ib-sriov. */

#include "cni/device/vf_record.h"
#include "wire/json/json.h"

/* Parses a link state to the kernel's value: "auto" 0, "enable" 1, "disable" 2; error class
 * ERR_CONF. */
int vf_conf_link_state(const char *text, uint32_t *ret, struct err *e);

/* The hint() of struct link_driver, for a VF whose netdev moves into the pod. */
const char *vf_rail_hint(int code);
/* Writes the member `key` with the object {inner: s}, or {} if s is absent. */
void vf_record_put_inner(struct json_out *o, const char *key, const char *inner, const char *s);
/* Sets the record's device, name and PF. key: JSON key of the name in the file, for errors.
 * -EINVAL: a value is invalid. */
int vf_record_take_names(struct vf_record *r, const char *device, const char *key, const char *name,
			 const char *pf, struct err *e);

#endif
