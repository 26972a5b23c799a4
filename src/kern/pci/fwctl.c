/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/fwctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/pci/internal.h"

/* Copied from include/uapi/fwctl/fwctl.h of Linux 6.15, because older headers lack it. */
struct fwctl_rpc_arg {
	uint32_t size, scope, in_len, out_len;
	uint64_t in, out; /* pointers; the kernel aligns both members to 8 bytes */
};
_Static_assert(sizeof(struct fwctl_rpc_arg) == 32, "expected the size of the kernel's struct "
						   "fwctl_rpc");
#define FWCTL_RPC_IOCTL _IO(0x9A, 1)
enum { SCOPE_CONFIGURATION = 0, SCOPE_DEBUG_READ_ONLY = 1 };

enum {
	CMD_ACCESS_REG = 0x805,
	CMD_QUERY_CONG_STATUS = 0x822,
	CMD_MODIFY_CONG_STATUS = 0x823,
	REG_MNVDA = 0x9024,
	OP_WRITE = 0,
	OP_READ = 1,
};

/* Layout of a command: HEAD bytes of header. In ACCESS_REG the register follows: ITEM_HEAD bytes
 * of header, then the data of the setting (for the link type LINK_DATA bytes, at dword
 * LINK_DWORD of the command). */
enum {
	HEAD = 16,
	ITEM_HEAD = 12,
	LINK_DATA = 4,
	LINK_BYTES = HEAD + ITEM_HEAD + LINK_DATA,
	LINK_DWORD = (HEAD + ITEM_HEAD) / 4,
};

/* nv_link_type: class 1 (physical port), index 18; default_link_type in bits 3:2 of its only dword. */
enum { CLASS_PORT = 1, INDEX_LINK_TYPE = 18, LINK_SHIFT = 2, LINK_MASK = 3 << LINK_SHIFT };
enum { ACCESS_MODE_SHIFT = 22 };

static uint32_t get(const unsigned char *p, size_t dword)
{
	p += 4 * dword;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void set(unsigned char *p, size_t dword, uint32_t v)
{
	p += 4 * dword;
	p[0] = (unsigned char)(v >> 24);
	p[1] = (unsigned char)(v >> 16);
	p[2] = (unsigned char)(v >> 8);
	p[3] = (unsigned char)v;
}

static int rpc_ioctl(struct fwctl *f, unsigned int scope, const void *in, size_t n_in, void *out,
		     size_t n_out)
{
	struct fwctl_rpc_arg a = {.size = sizeof(a),
				  .scope = scope,
				  .in_len = (uint32_t)n_in,
				  .out_len = (uint32_t)n_out,
				  .in = (uintptr_t)in,
				  .out = (uintptr_t)out};

	return ioctl(f->fd, FWCTL_RPC_IOCTL, &a) < 0 ? -errno : 0;
}

int fwctl_open(struct fwctl *f, const struct root *r, const char *bdf, struct err *e)
{
	char path[PCI_PATH_MAX], **names = NULL;
	size_t n = 0;
	int code = pci_attr_path(bdf, "fwctl", path, e);

	*f = (struct fwctl){.fd = -1, .rpc = rpc_ioctl};
	if (code < 0)
		return code;
	code = dir_list(r, path, &names, &n, NULL);
	if (code < 0 || !n || strncmp(names[0], "fwctl", strlen("fwctl"))) {
		if (code == 0)
			str_list_free(names, n);
		return err_kind(
			e, ERR_UNAVAILABLE, -ENODEV,
			"'%s' has no fwctl device: it needs Linux 6.15 and 'modprobe mlx5_fwctl'",
			bdf);
	}
	snprintf(path, sizeof(path), "/dev/fwctl/%s", names[0]);
	snprintf(f->name, sizeof(f->name), "%s (%.32s)", bdf, names[0]);
	str_list_free(names, n);
	f->fd = file_open(r, path, O_RDWR | O_CLOEXEC, 0, e);
	return f->fd < 0 ? err_wrap(e, f->fd, "firmware of '%s'", bdf) : 0;
}

void fwctl_close(struct fwctl *f)
{
	cleanup_fd(&f->fd);
}

/* Sends a command. The ioctl succeeds even if the command fails: the first byte of the response is the command's
 * status. */
static int call(struct fwctl *f, unsigned int scope, const unsigned char *in, unsigned char *out,
		size_t n, const char *what, struct err *e)
{
	int code;

	memset(out, 0, n);
	code = f->rpc(f, scope, in, n, out, n);
	if (code == -EBADMSG)
		return err_kind(e, ERR_UNAVAILABLE, code,
				"%s: the driver does not allow this command (EBADMSG)", what);
	if (code < 0)
		return err_sys(e, code, "%s", what);
	if (out[0])
		return err_kind(
			e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"%s: the firmware refuses the command: status 0x%02x, syndrome 0x%08x",
			what, out[0], get(out, 1));
	return 0;
}

/* --- link type of a port --- */

static void item_begin(unsigned char *in, unsigned int port, enum fwctl_value which)
{
	memset(in, 0, LINK_BYTES);
	set(in, 0, (uint32_t)CMD_ACCESS_REG << 16);
	set(in, 1, OP_READ);
	set(in, 2, REG_MNVDA);
	set(in, HEAD / 4, (uint32_t)which << ACCESS_MODE_SHIFT | LINK_DATA);
	set(in, HEAD / 4 + 1, (uint32_t)CLASS_PORT << 24 | (uint32_t)port << 16 | INDEX_LINK_TYPE);
}

static int item_read(struct fwctl *f, unsigned int port, enum fwctl_value which, unsigned char *out,
		     struct err *e)
{
	unsigned char in[LINK_BYTES];
	char what[160];

	if (port < 1 || port > 2)
		return err_kind(e, ERR_CONF, -EINVAL, "link type of port %u: expected port 1 or 2",
				port);
	snprintf(what, sizeof(what), "read LINK_TYPE_P%u of %s", port, f->name);
	item_begin(in, port, which);
	return call(f, SCOPE_DEBUG_READ_ONLY, in, out, LINK_BYTES, what, e);
}

int fwctl_link_type_get(struct fwctl *f, unsigned int port, enum fwctl_value which,
			enum fwctl_link_type *ret, struct err *e)
{
	unsigned char out[LINK_BYTES];
	uint32_t v;
	int code = item_read(f, port, which, out, e);

	if (code < 0)
		return code;
	v = (get(out, LINK_DWORD) & LINK_MASK) >> LINK_SHIFT;
	if (v != FWCTL_LINK_IB && v != FWCTL_LINK_ETH)
		return err_set(e, -EBADMSG,
			       "read LINK_TYPE_P%u of %s: it is %u, expected 1 (InfiniBand) or 2 "
			       "(Ethernet)",
			       port, f->name, v);
	*ret = v == FWCTL_LINK_IB ? FWCTL_LINK_IB : FWCTL_LINK_ETH;
	return 0;
}

/* Writes the item as it was read, with only two bits changed, like nv_param.c of the kernel. */
static int item_write(struct fwctl *f, unsigned int port, const unsigned char *item,
		      enum fwctl_link_type type, struct err *e)
{
	unsigned char in[LINK_BYTES], out[LINK_BYTES];
	uint32_t v = get(item, LINK_DWORD);
	char what[160];

	memcpy(in, item, sizeof(in));
	memset(in, 0, HEAD);
	set(in, 0, (uint32_t)CMD_ACCESS_REG << 16);
	set(in, 1, OP_WRITE);
	set(in, 2, REG_MNVDA);
	set(in, LINK_DWORD, (v & ~(uint32_t)LINK_MASK) | (uint32_t)type << LINK_SHIFT);
	snprintf(what, sizeof(what), "set LINK_TYPE_P%u of %s", port, f->name);
	return call(f, SCOPE_CONFIGURATION, in, out, LINK_BYTES, what, e);
}

int fwctl_link_type_set(struct fwctl *f, unsigned int port, enum fwctl_link_type type,
			struct err *e)
{
	unsigned char item[LINK_BYTES];
	enum fwctl_link_type back;
	int code = item_read(f, port, FWCTL_STORED, item, e);

	if (code < 0)
		return code;
	if ((get(item, LINK_DWORD) & LINK_MASK) >> LINK_SHIFT == (uint32_t)type)
		return 0;
	code = item_write(f, port, item, type, e);
	if (code == 0)
		code = fwctl_link_type_get(f, port, FWCTL_STORED, &back, e);
	if (code == 0 && back != type)
		return err_set(e, -EIO, "set LINK_TYPE_P%u of %s to %d: it is %d afterwards", port,
			       f->name, type, back);
	return code;
}

/* --- ECN of a priority --- */

static int cong(struct fwctl *f, int cmd, enum fwctl_cong which, unsigned int prio, bool on,
		unsigned char *out, struct err *e)
{
	unsigned char in[HEAD] = {0};
	bool query = cmd == CMD_QUERY_CONG_STATUS;
	char what[160];

	if (prio > 7)
		return err_kind(e, ERR_CONF, -EINVAL,
				"ECN of priority %u: expected a priority from 0 to 7", prio);
	set(in, 0, (uint32_t)cmd << 16);
	set(in, 2, (uint32_t)prio << 4 | (uint32_t)which);
	/* sets the bit `enable`; tag_enable stays 0, so the NIC uses the ECN bits of the packets */
	set(in, 3, on ? UINT32_C(1) << 31 : 0);
	snprintf(what, sizeof(what), "%s ECN (%s) of priority %u of %s", query ? "read" : "set",
		 which == FWCTL_CONG_RP ? "roce_rp" : "roce_np", prio, f->name);
	return call(f, query ? SCOPE_DEBUG_READ_ONLY : SCOPE_CONFIGURATION, in, out, HEAD, what, e);
}

int fwctl_cong_get(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool *ret,
		   struct err *e)
{
	unsigned char out[HEAD];
	int code = cong(f, CMD_QUERY_CONG_STATUS, which, prio, false, out, e);

	if (code == 0)
		*ret = get(out, 3) >> 31;
	return code;
}

int fwctl_cong_set(struct fwctl *f, enum fwctl_cong which, unsigned int prio, bool on,
		   struct err *e)
{
	unsigned char out[HEAD];
	bool back = false;
	int code = cong(f, CMD_MODIFY_CONG_STATUS, which, prio, on, out, e);

	if (code == 0)
		code = fwctl_cong_get(f, which, prio, &back, e);
	if (code == 0 && back != on)
		return err_set(e, -EIO, "set ECN of priority %u of %s: it is %s afterwards", prio,
			       f->name, back ? "on" : "off");
	return code;
}
