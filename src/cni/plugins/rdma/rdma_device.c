/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a configuration of the rdma plugin means. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/rdma/rdma_plugin.h"
#include "kern/net/vf.h"

int rdma_conf_device(const struct meta_call *m, char ret[static PCI_NAME_MAX], struct err *e)
{
	static const struct json_field field = {.name = "deviceID", .type = J_STR};
	const struct json *v = json_get_go(m->conf, "deviceID");
	const char *text = NULL;
	int r;

	*ret = '\0';
	if (json_kind(v) == JSON_NULL)
		v = meta_runtime(m, "deviceID");
	r = v ? json_read_value(m->doc, v, &field, &text, "conf.deviceID", e) : 0;
	if (r < 0 || !text || !*text)
		return r;
	return rdma_move_device(text, ret, e);
}

const struct cni_iface *rdma_device_iface(const struct cni_result *prev, const char *ifname)
{
	int i = attach_prev_iface(prev, ifname);

	if (i >= 0)
		return &prev->ifaces[i];
	return prev->n_ifaces == 1 ? &prev->ifaces[0] : NULL;
}

/* VFs of one PF with this MAC, "pf vf N" each, into words. */
static size_t match_vfs(struct nl_wire *host, const char *pf, const struct mac *mac,
			struct vf_info *ret, struct buf *words)
{
	auto_free struct vf_info *list = NULL;
	struct link l;
	size_t n = 0, found = 0;

	/* A PF whose driver tells nothing about its VFs is none of those that are looked for. */
	if (link_get(host, pf, &l, NULL) < 0 || vf_list(host, l.index, pf, &list, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!mac_eq(&list[i].mac, mac))
			continue;
		buf_printf(words, "%s%s vf %u", words->len ? ", " : "", pf, list[i].vf);
		*ret = list[i];
		found++;
	}
	return found;
}

static bool has_vfs(const struct root *r, const char *nic)
{
	char path[128], line[16];

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/device/sriov_numvfs", nic);
	return file_read_line(r, path, line, sizeof(line), NULL) >= 0 && strcmp(line, "0") != 0;
}

static int vf_device(const struct root *r, const char *pf, uint32_t vf,
		     char ret[static PCI_NAME_MAX], struct err *e)
{
	auto_free struct pci_vf *list = NULL;
	char bdf[PCI_NAME_MAX];
	size_t n = 0;
	int code = pci_of(r, PCI_NETDEV, pf, bdf, e);

	if (code >= 0)
		code = pci_vf_list(r, bdf, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n; i++)
		if (list[i].vf == vf)
			return str_copy(ret, PCI_NAME_MAX, list[i].bdf) ? 0 : -ENAMETOOLONG;
	return err_set(e, -ENODEV, "VF %u of '%s' is gone", vf, pf);
}

static int told_wrong(const char *mac, const struct buf *words, size_t found, struct err *e)
{
	if (!found)
		return err_kind(e, ERR_CONF, -ENODEV,
				"failed to derive PCI device ID from mac \"%s\". could not find VF "
				"PCI device according to administrative mac address set on PF "
				"(conf.deviceID says which device is meant)",
				mac);
	return err_kind(
		e, ERR_CONF, -EEXIST,
		"failed to derive PCI device ID from mac \"%s\". found more than one VF PCI "
		"device according to administrative mac address set on PF: %s "
		"(conf.deviceID says which device is meant)",
		mac, buf_span(words).p);
}

int rdma_device_by_mac(struct nl_wire *host, const struct root *r, const char *mac,
		       char ret[static PCI_NAME_MAX], struct err *e)
{
	static const struct mac none = {.len = 6};
	auto_buf struct buf words;
	char **nics = NULL, pf[LINK_NAME_MAX] = "";
	struct vf_info vf = {.vf = 0};
	struct mac want;
	size_t n = 0, found = 0;
	bool known;
	int code = dir_list(r, "/sys/class/net", &nics, &n, e);

	buf_init(&words, 512);
	if (code < 0)
		return code;
	/* All zero: every VF that nobody gave a MAC. */
	known = mac_parse(span_of(mac), &want) >= 0 && !mac_eq(&want, &none);
	for (size_t i = 0; known && i < n; i++) {
		size_t here = has_vfs(r, nics[i]) ? match_vfs(host, nics[i], &want, &vf, &words)
						  : 0;

		if (here)
			str_copy(pf, sizeof(pf), nics[i]);
		found += here;
	}
	str_list_free(nics, n);
	if (found != 1)
		return told_wrong(mac, &words, found, e);
	return vf_device(r, pf, vf.vf, ret, e);
}

int rdma_device(const struct meta_call *m, const struct cni_result *prev,
		char ret[static PCI_NAME_MAX], struct err *e)
{
	const struct cni_iface *f = rdma_device_iface(prev, m->ifname);
	int r = rdma_conf_device(m, ret, e);

	if (r < 0 || *ret)
		return r;
	if (f && f->pci_id && *f->pci_id)
		return rdma_move_device(f->pci_id, ret, e);
	if (f && f->mac && *f->mac)
		return rdma_device_by_mac(m->host, &m->call->root, f->mac, ret, e);
	return err_kind(e, ERR_CONF, -EINVAL,
			"\"DeviceID\" network configuration attribute is required for rdma CNI "
			"(conf.deviceID; prevResult has no interface that leads to a device)");
}
