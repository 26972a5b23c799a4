/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/pci_regs.h>

#include "base/alloc.h"
#include "kern/pci/internal.h"

enum {
	CONFIG_USER = 64,   /* number of bytes that users other than root can read */
	CONFIG_EXT = 0x100, /* offset of the first extended capability */
	CONFIG_END = 4096,
	/* maximum number of capabilities, (256 - 64) / 4: a longer list is circular */
	CAPS_MAX = 48,
	EXT_CAPS_MAX = (CONFIG_END - CONFIG_EXT) / 8,
};

struct config {
	const char *bdf;
	int fd;
	size_t n;
	unsigned char p[CONFIG_END];
};

static int config_open(struct config *c, const struct root *r, const char *bdf, int flags,
		       struct err *e)
{
	char path[PCI_PATH_MAX];
	ssize_t n;
	int code = pci_attr_path(bdf, "config", path, e);

	c->bdf = bdf;
	c->fd = code < 0 ? code : file_open(r, path, flags | O_CLOEXEC, 0, e);
	if (c->fd < 0)
		return err_wrap(e, c->fd, "open configuration space of '%s'", bdf);
	c->n = 0;
	while (c->n < sizeof(c->p)) {
		n = pread(c->fd, c->p + c->n, sizeof(c->p) - c->n, (off_t)c->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "read configuration space of '%s'", bdf);
		if (n == 0)
			break;
		c->n += (size_t)n;
	}
	if (c->n < CONFIG_USER)
		return err_set(e, -EBADMSG,
			       "read configuration space of '%s': %zu bytes, expected at least "
			       "%d",
			       bdf, c->n, CONFIG_USER);
	if (c->n == CONFIG_USER)
		return err_kind(e, ERR_UNAVAILABLE, -EACCES,
				"read configuration space of '%s': Permission denied (EACCES): the "
				"kernel shows the capabilities only to root",
				bdf);
	return 0;
}

static void config_close(struct config *c)
{
	cleanup_fd(&c->fd);
}
#define auto_config __attribute__((cleanup(config_close)))

static uint16_t word(const struct config *c, size_t at)
{
	return (uint16_t)(c->p[at] | c->p[at + 1] << 8);
}

static uint32_t dword(const struct config *c, size_t at)
{
	return word(c, at) | (uint32_t)word(c, at + 2) << 16;
}

static int circle(const struct config *c, struct err *e)
{
	return err_set(e, -EBADMSG, "the list of capabilities of '%s' is circular", c->bdf);
}

/* Returns the offset of a capability; 0: the device does not have it; -EBADMSG: the list is
 * circular. */
static int find_cap(const struct config *c, uint8_t id, size_t size, struct err *e)
{
	size_t at;

	if (!(word(c, PCI_STATUS) & PCI_STATUS_CAP_LIST))
		return 0;
	at = c->p[PCI_CAPABILITY_LIST] & ~3u;
	for (int i = 0; at; i++) {
		if (i == CAPS_MAX)
			return circle(c, e);
		if (at < PCI_STD_HEADER_SIZEOF || at + size > c->n)
			return 0;
		if (c->p[at] == id)
			return (int)at;
		at = c->p[at + 1] & ~3u;
	}
	return 0;
}

/* Returns the offset of an extended capability; 0: the device does not have it; -EBADMSG: the
 * list is circular. The header reads as 0xffffffff if the device was removed, or has no extended
 * configuration space. */
static int find_ext_cap(const struct config *c, uint16_t id, size_t size, struct err *e)
{
	size_t at = CONFIG_EXT;

	for (int i = 0; at; i++) {
		uint32_t head;

		if (i == EXT_CAPS_MAX)
			return circle(c, e);
		if (at < CONFIG_EXT || at + size > c->n)
			return 0;
		head = dword(c, at);
		if (head == 0 || head == UINT32_MAX)
			return 0;
		if (PCI_EXT_CAP_ID(head) == id)
			return (int)at;
		at = PCI_EXT_CAP_NEXT(head);
	}
	return 0;
}

static int find_acs(const struct config *c, struct err *e)
{
	return find_ext_cap(c, PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL + 2, e);
}

static int find_express(const struct config *c, struct err *e)
{
	return find_cap(c, PCI_CAP_ID_EXP, PCI_EXP_DEVCTL + 2, e);
}

int pci_acs_read(const struct root *r, const char *bdf, struct pci_acs *ret, struct err *e)
{
	auto_config struct config c;
	int at = config_open(&c, r, bdf, O_RDONLY, e);

	if (at == 0)
		at = find_acs(&c, e);
	if (at <= 0)
		return at;
	ret->capable = word(&c, (size_t)at + PCI_ACS_CAP) & 0x7f;
	ret->control = word(&c, (size_t)at + PCI_ACS_CTRL) & 0x7f;
	return 1;
}

int pci_devctl_read(const struct root *r, const char *bdf, struct pci_devctl *ret, struct err *e)
{
	auto_config struct config c;
	int at = config_open(&c, r, bdf, O_RDONLY, e);
	uint16_t v;

	if (at == 0)
		at = find_express(&c, e);
	if (at <= 0)
		return at;
	v = word(&c, (size_t)at + PCI_EXP_DEVCTL);
	ret->max_read = (uint16_t)(128 << ((v & PCI_EXP_DEVCTL_READRQ) >> 12));
	ret->max_payload = (uint16_t)(128 << ((v & PCI_EXP_DEVCTL_PAYLOAD) >> 5));
	ret->relaxed = v & PCI_EXP_DEVCTL_RELAX_EN;
	return 1;
}

/* Sets the bits of `mask` in the word at offset `at` to those of `value` and reads them back;
 * does nothing if they are equal already. */
static int set_word(struct config *c, size_t at, uint16_t mask, uint16_t value, const char *what,
		    struct err *e)
{
	uint16_t v = (uint16_t)((word(c, at) & ~mask) | (value & mask));
	unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)}, back[2];

	if (v == word(c, at))
		return 0;
	if (pwrite(c->fd, b, sizeof(b), (off_t)at) != (ssize_t)sizeof(b))
		return err_sys(e, -errno, "set %s of '%s'", what, c->bdf);
	if (pread(c->fd, back, sizeof(back), (off_t)at) != (ssize_t)sizeof(back))
		return err_sys(e, -EIO, "read %s of '%s' back", what, c->bdf);
	v = (uint16_t)(back[0] | back[1] << 8);
	if ((v & mask) != (value & mask))
		return err_set(e, -EIO, "set %s of '%s' to 0x%04x: it is 0x%04x afterwards", what,
			       c->bdf, value & mask, v & mask);
	return 0;
}

static int no_cap(const char *bdf, const char *what, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"set %s of '%s': Operation not supported (EOPNOTSUPP): the device has no "
			"PCI capability with this register",
			what, bdf);
}

int pci_acs_set(const struct root *r, const char *bdf, uint16_t control, struct err *e)
{
	auto_config struct config c;
	int at = config_open(&c, r, bdf, O_RDWR, e);

	if (at == 0)
		at = find_acs(&c, e);
	if (at < 0)
		return at;
	return at ? set_word(&c, (size_t)at + PCI_ACS_CTRL, 0x7f, control, "ACS", e)
		  : no_cap(bdf, "ACS", e);
}

static int set_devctl(const struct root *r, const char *bdf, uint16_t mask, uint16_t value,
		      const char *what, struct err *e)
{
	auto_config struct config c;
	int at = config_open(&c, r, bdf, O_RDWR, e);

	if (at == 0)
		at = find_express(&c, e);
	if (at < 0)
		return at;
	return at ? set_word(&c, (size_t)at + PCI_EXP_DEVCTL, mask, value, what, e)
		  : no_cap(bdf, what, e);
}

int pci_max_read_set(const struct root *r, const char *bdf, uint16_t bytes, struct err *e)
{
	for (unsigned int code = 0; code <= 5; code++)
		if (bytes == 128 << code)
			return set_devctl(r, bdf, PCI_EXP_DEVCTL_READRQ, (uint16_t)(code << 12),
					  "MaxReadReq", e);
	return err_kind(e, ERR_CONF, -EINVAL,
			"set MaxReadReq of '%s' to %u: expected 128, 256, 512, 1024, 2048 or 4096",
			bdf, bytes);
}

int pci_relaxed_set(const struct root *r, const char *bdf, bool on, struct err *e)
{
	return set_devctl(r, bdf, PCI_EXP_DEVCTL_RELAX_EN, on ? PCI_EXP_DEVCTL_RELAX_EN : 0,
			  "relaxed ordering", e);
}
