/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kern/pci/internal.h"

static int write_attr(const struct root *r, const char *bdf, const char *attr, const char *value,
		      struct err *e)
{
	char path[PCI_PATH_MAX];
	int code = pci_attr_path(bdf, attr, path, e);

	return code < 0 ? code : file_write_attr(r, path, value, e);
}

static int write_numvfs(const struct root *r, const char *pf, uint32_t n, struct err *e)
{
	char value[16];
	int code;

	snprintf(value, sizeof(value), "%u", n);
	code = write_attr(r, pf, "sriov_numvfs", value, e);
	if (code == -ENOMEM)
		return err_kind(
			e, ERR_UNAVAILABLE, code,
			"create %u VFs of '%s': Cannot allocate memory (ENOMEM): the host's "
			"firmware (BIOS) reserved too little address space or too few bus "
			"numbers for them: boot with pci=realloc or pci=assign-busses",
			n, pf);
	if (code == -EBUSY)
		return err_kind(
			e, ERR_AGAIN, code,
			"create %u VFs of '%s': Device or resource busy (EBUSY): its VFs are in "
			"use (vfio, a guest) or another process changes their number",
			n, pf);
	return code < 0 ? err_wrap(e, code, "create %u VFs of '%s'", n, pf) : 0;
}

int pci_set_vfs(const struct root *r, const char *pf, uint32_t n, struct err *e)
{
	struct pci_dev d;
	int code = pci_read(r, pf, &d, e);

	if (code < 0)
		return code;
	if (d.is_pf ? d.num_vfs == n : n == 0)
		return 0;
	if (!d.is_pf)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"create VFs of '%s': it has no SR-IOV: enable SR-IOV in the BIOS "
				"and in the card's firmware",
				pf);
	if (n > d.total_vfs)
		return err_kind(e, ERR_CONF, -ERANGE,
				"create %u VFs of '%s': its maximum is %u (sriov_totalvfs)", n, pf,
				d.total_vfs);
	if (d.num_vfs && n)
		code = write_numvfs(r, pf, 0, e);
	if (code == 0)
		code = write_numvfs(r, pf, n, e);
	if (code == 0)
		code = pci_read(r, pf, &d, e);
	if (code == 0 && d.num_vfs != n)
		return err_set(e, -EIO, "create %u VFs of '%s': it has %u afterwards", n, pf,
			       d.num_vfs);
	return code;
}

int pci_unbind(const struct root *r, const char *bdf, struct err *e)
{
	struct pci_dev d;
	int code = pci_read(r, bdf, &d, e);

	if (code < 0 || !d.driver[0])
		return code;
	code = write_attr(r, bdf, "driver/unbind", bdf, e);
	return code < 0 ? err_wrap(e, code, "unbind '%s' from driver '%s'", bdf, d.driver) : 0;
}

static int cannot_bind(const struct pci_dev *d, const char *driver, int code, struct err *e)
{
	if (!strcmp(driver, "vfio-pci") && d->iommu_group < 0)
		return err_kind(
			e, ERR_UNAVAILABLE, code,
			"bind '%s' to driver 'vfio-pci': %s: it is in no IOMMU group: enable "
			"the IOMMU in the BIOS and boot with intel_iommu=on",
			d->bdf, errno_text(code));
	return err_wrap(e, code, "bind '%s' to driver '%s'", d->bdf, driver);
}

static bool driver_name_ok(const char *driver)
{
	return driver[0] && driver[0] != '.' && !strchr(driver, '/') && !strchr(driver, '\n') &&
	       strlen(driver) < PCI_DRIVER_MAX;
}

static int check_driver(const struct root *r, const char *bdf, const char *driver, struct err *e)
{
	char path[PCI_PATH_MAX];

	if (!driver_name_ok(driver))
		return err_kind(e, ERR_CONF, -EINVAL, "bind '%s': '%s' is not a driver's name", bdf,
				driver);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	if (!file_exists(r, path))
		return err_kind(e, ERR_UNAVAILABLE, -ENOENT,
				"bind '%s': the kernel has no PCI driver '%s': load its module",
				bdf, driver);
	return 0;
}

int pci_bind(const struct root *r, const char *bdf, const char *driver, struct err *e)
{
	char path[PCI_PATH_MAX];
	struct pci_dev d;
	int code = pci_read(r, bdf, &d, e);

	if (code == 0)
		code = check_driver(r, bdf, driver, e);
	if (code < 0 || !strcmp(d.driver, driver))
		return code;
	if (d.driver[0])
		return err_set(e, -EBUSY,
			       "bind '%s' to driver '%s': it is bound to '%s': unbind "
			       "it first",
			       bdf, driver, d.driver);
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s/bind", driver);
	code = file_write_attr(r, path, bdf, e);
	return code < 0 ? cannot_bind(&d, driver, code, e) : 0;
}

/* Sets the driver override: from then on only `driver` may bind to the PCI function. driver
 * NULL: clears the override, so that any driver that matches may bind. */
static int pci_override(const struct root *r, const char *bdf, const char *driver, struct err *e)
{
	/* an empty line clears the override: driver_set_override() of the kernel */
	int code = write_attr(r, bdf, "driver_override", driver ? driver : "\n", e);

	return code < 0 ? err_wrap(e, code, "set the driver override of '%s'", bdf) : 0;
}

int pci_probe(const struct root *r, const char *bdf, struct err *e)
{
	char path[PCI_PATH_MAX];
	int code = pci_attr_path(bdf, "", path, e);

	if (code == 0)
		code = file_write_attr(r, "/sys/bus/pci/drivers_probe", bdf, e);
	return code < 0 ? err_wrap(e, code, "find a driver for '%s'", bdf) : 0;
}

static int rebind(const struct root *r, struct pci_dev *d, const char *driver, struct err *e)
{
	int code = pci_unbind(r, d->bdf, e);

	if (code == 0)
		code = pci_probe(r, d->bdf, e);
	if (code == 0)
		code = pci_read(r, d->bdf, d, e);
	if (code < 0)
		return code;
	if (driver && strcmp(d->driver, driver) != 0) {
		err_clear(e);
		return cannot_bind(d, driver, -ENODEV, e);
	}
	if (!d->driver[0])
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"find a driver for '%s': no loaded driver matches it, or the "
				"driver failed to probe it",
				d->bdf);
	return 0;
}

int pci_rebind(const struct root *r, const char *bdf, const char *driver, struct err *e)
{
	struct pci_dev d;
	int code = pci_read(r, bdf, &d, e);

	if (code == 0 && driver)
		code = check_driver(r, bdf, driver, e);
	if (code < 0 || (driver && !strcmp(d.driver, driver)))
		return code;
	code = pci_override(r, bdf, driver, e);
	if (code < 0)
		return code;
	code = rebind(r, &d, driver, e);
	if (code < 0 && driver)
		pci_override(r, bdf, NULL, NULL);
	return code;
}
