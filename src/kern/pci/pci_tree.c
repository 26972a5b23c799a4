/* SPDX-License-Identifier: Apache-2.0 */
/* What is above a function and what is below it. */
#include "kern/pci/pci.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/pci/pci_priv.h"

/* The part after the last "/pciDDDD:BB/": with VMD there is a second root below the first. */
static void step(struct pci_path *p, struct span part)
{
	auto_free char *name = span_dup(part);

	if (span_has_prefix(part, "pci") && strchr(name, ':')) {
		str_copy(p->root, sizeof(p->root), name);
		p->n = 0;
	} else if (p->root[0] && pci_bdf_ok(name) && p->n < PCI_DEPTH_MAX) {
		str_copy(p->ports[p->n++], sizeof(p->ports[0]), name);
	}
}

int pci_path_read(const struct root *r, const char *bdf, struct pci_path *ret, struct err *e)
{
	char path[PCI_PATH_MAX], target[PCI_PATH_MAX];
	struct pci_path p = {.n = 0};
	struct span rest, part;
	int code = pci_attr_path(bdf, "", path, e);

	if (code == 0)
		code = link_read(r, path, target, sizeof(target), e);
	if (code < 0)
		return err_wrap(e, code, "find the way to PCI device '%s'", bdf);
	for (rest = span_of(target); span_cut(&rest, '/', &part);)
		step(&p, part);
	if (!p.n || strcmp(p.ports[p.n - 1], bdf) != 0)
		return err_set(e, -EBADMSG,
			       "find the way to PCI device '%s': %s leads to '%s', not to it", bdf,
			       path, target);
	p.n--;
	*ret = p;
	return 0;
}

int pci_path_common(const struct pci_path *a, const struct pci_path *b)
{
	size_t i = 0;

	if (strcmp(a->root, b->root) != 0)
		return -1;
	while (i < a->n && i < b->n && !strcmp(a->ports[i], b->ports[i]))
		i++;
	return (int)i;
}

static const struct {
	const char *dir, *class, *name;
} children[] = {
	[PCI_NETDEV] = {"net", "net", "network device"},
	[PCI_RDMA] = {"infiniband", "infiniband", "RDMA device"},
	[PCI_UVERBS] = {"infiniband_verbs", "infiniband_verbs", "verbs device"},
	[PCI_UMAD] = {"infiniband_mad", "infiniband_mad", "MAD device"},
};

const char *pci_child_name(enum pci_child what)
{
	return children[what].name;
}

int pci_children(const struct root *r, const char *device, enum pci_child what, char ***names,
		 size_t *n, struct err *e)
{
	char path[PCI_PATH_MAX];
	int code = pci_attr_path(device, children[what].dir, path, e);

	if (code < 0)
		return code;
	code = dir_list(r, path, names, n, e);
	if (code != -ENOENT)
		return code < 0 ? err_wrap(e, code, "list %ss of '%s'", children[what].name, device)
				: 0;
	err_clear(e);
	*names = NULL;
	*n = 0;
	return 0;
}

static bool is_auxiliary(const struct root *r, const char *name)
{
	char path[PCI_PATH_MAX];

	return strchr(name, '.') && !pci_bdf_ok(name) && pci_attr_path(name, "", path, NULL) == 0 &&
	       file_exists(r, path);
}

int pci_auxiliary(const struct root *r, const char *bdf, char ***names, size_t *n, struct err *e)
{
	char path[PCI_PATH_MAX], **all = NULL;
	size_t n_all = 0, count = 0;
	int code = pci_attr_path(bdf, "", path, e);

	if (code == 0)
		code = dir_list(r, path, &all, &n_all, e);
	if (code < 0)
		return err_wrap(e, code, "list auxiliary devices of '%s'", bdf);
	for (size_t i = 0; i < n_all; i++) {
		if (is_auxiliary(r, all[i]))
			all[count++] = all[i];
		else
			free(all[i]);
	}
	*names = all;
	*n = count;
	return 0;
}

int pci_of(const struct root *r, enum pci_child what, const char *name,
	   char ret[static PCI_NAME_MAX], struct err *e)
{
	char path[PCI_PATH_MAX], target[PCI_PATH_MAX];
	const char *base;
	int code;

	if (!name[0] || name[0] == '.' || strchr(name, '/') || strlen(name) >= PCI_NAME_MAX)
		return err_kind(e, ERR_CONF, -EINVAL, "'%s' is no name of a %s", name,
				children[what].name);
	snprintf(path, sizeof(path), "/sys/class/%s/%s/device", children[what].class, name);
	code = link_read(r, path, target, sizeof(target), NULL);
	base = code < 0 ? "" : pci_base_name(target);
	/* "virtio0", a USB function: neither address nor auxiliary device */
	if (code < 0 || (!pci_bdf_ok(base) && !is_auxiliary(r, base)) ||
	    !str_copy(ret, PCI_NAME_MAX, base))
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"%s '%s' is on no PCI or auxiliary device", children[what].name,
				name);
	return 0;
}
