/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* In switchdev mode the PF's folder lists its VFs' and SFs' representors, too ("pf0vf3"). */
static bool is_representor(const struct root *r, const char *name)
{
	char path[96], port[32];

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/phys_port_name", name);
	return file_read_line(r, path, port, sizeof(port), NULL) == 0 &&
	       (strstr(port, "vf") || strstr(port, "sf"));
}

/* The original takes the first. A folder that cannot be read does not mean that there is none: a VF's
 * attributes would be left as a pod had them. */
static int find_pf(const struct root *r, struct vf_place *p, struct err *e)
{
	char **names = NULL;
	size_t n = 0, i = 0;
	int code = pci_children(r, p->pci.physfn, PCI_NETDEV, &names, &n, e);

	if (code < 0 || !n)
		return code < 0 ? code : 0;
	while (i + 1 < n && is_representor(r, names[i]))
		i++;
	str_copy(p->pf.name, sizeof(p->pf.name), names[i]);
	str_list_free(names, n);
	return 0;
}

static int find_netdev(const struct root *r, struct vf_place *p, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = pci_children(r, p->pci.bdf, PCI_NETDEV, &names, &n, e);

	if (code < 0)
		return code;
	if (n)
		str_copy(p->netdev, sizeof(p->netdev), names[0]);
	str_list_free(names, n);
	return 0;
}

static int find_function(const struct root *r, const char *bdf, struct vf_place *p, struct err *e)
{
	char pf[PCI_BDF_MAX];
	int code;

	if (!pci_bdf_ok(bdf))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID is '%s', wants a VF's PCI address such as "
				"0000:3b:00.2",
				bdf);
	code = pci_read(r, bdf, &p->pci, e);
	if (code < 0)
		return code;
	if (!*p->pci.physfn)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID '%s' is not a VF: its folder below "
				"/sys/bus/pci/devices has no physfn%s",
				bdf, p->pci.is_pf ? " (it is a PF)" : "");
	code = pci_vf_number(r, bdf, pf, &p->number, e);
	if (code < 0)
		return err_wrap(e, code, "unable to get VF ID with PF: %s and VF pci address %s",
				p->pci.physfn, bdf);
	return 0;
}

bool vf_place_is_gone(int code)
{
	return code == -ENODEV || code == -ENOENT || code == -EINVAL;
}

int vf_place_read(const struct root *r, struct nl_wire *w, const char *bdf, struct vf_place *ret,
		  struct err *e)
{
	struct vf_place p = {0};
	int code = find_function(r, bdf, &p, e);

	if (code >= 0)
		code = find_netdev(r, &p, e);
	if (code >= 0)
		code = find_pf(r, &p, e);
	if (code < 0)
		return code;
	p.dpdk = !*p.netdev && pci_driver_is_dpdk(p.pci.driver);
	/* -ENODEV: /sys is another namespace's than the wire. */
	if (w && *p.pf.name)
		code = link_get(w, p.pf.name, &p.pf, e);
	if (code < 0 && code != -ENODEV)
		return err_wrap(e, code, "PF of VF '%s'", bdf);
	*ret = p;
	return 0;
}

const char *vf_place_pf_name(const struct vf_place *p)
{
	return *p->pf.name ? p->pf.name : p->pci.physfn;
}

int vf_place_no_pf(const struct vf_place *p, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"PF network device not found: PF '%s' of VF '%s' has no netdev (is it "
			"bound to vfio-pci, or in another namespace?)",
			p->pci.physfn, p->pci.bdf);
}
