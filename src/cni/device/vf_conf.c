/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_conf.h"

#include <errno.h>
#include <string.h>

const char *vf_conf_given(const char *s)
{
	return s && *s ? s : NULL;
}

int vf_conf_link_state(const char *text, uint32_t *ret, struct err *e)
{
	static const char *const names[] = {"auto", "enable", "disable"};

	for (uint32_t i = 0; i < 3; i++)
		if (strcmp(names[i], text) == 0) {
			*ret = i;
			return 0;
		}
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"invalid link_state value: %s (conf.link_state wants auto, enable or disable)",
		text);
}

void vf_record_put_text(struct json_out *o, const char *key, const char *s)
{
	if (s && *s)
		jo_kstr(o, key, s);
}

void vf_record_put_inner(struct json_out *o, const char *key, const char *inner, const char *s)
{
	jo_key(o, key);
	jo_obj(o);
	vf_record_put_text(o, inner, s);
	jo_end_obj(o);
}

int vf_record_take_names(struct vf_record *r, const char *device, const char *key, const char *name,
			 const char *pf, struct err *e)
{
	if (!device || !pci_bdf_ok(device))
		return err_set(e, -EINVAL, "deviceID is '%s', wants a PCI address",
			       device ? device : "");
	if (name && *name && !link_name_ok(name))
		return err_set(e, -EINVAL, "%s is '%s', which is no link's name", key, name);
	if (pf && *pf && !link_name_ok(pf))
		return err_set(e, -EINVAL, "Master is '%s', which is no link's name", pf);
	str_copy(r->device, sizeof(r->device), device);
	str_copy(r->name, sizeof(r->name), name ? name : "");
	str_copy(r->pf, sizeof(r->pf), pf ? pf : "");
	return 0;
}
