/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/views.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "cli/cli.h"

#define CLASS "/sys/class/infiniband"

enum { OUT_MAX = 4 << 20, LINE_BYTES = 256 };

/* Reads the first line of a file of sysfs; "": the file cannot be read. */
static void attribute(const struct root *r, char ret[static LINE_BYTES], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void attribute(const struct root *r, char ret[static LINE_BYTES], const char *fmt, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (file_read_line(r, path, ret, LINE_BYTES, NULL) < 0)
		ret[0] = '\0';
}

struct names {
	char **v;
	size_t n;
};

static void names_done(struct names *l)
{
	str_list_free(l->v, l->n);
}
#define auto_names __attribute__((cleanup(names_done)))

static int by_number(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t nx = strlen(x), ny = strlen(y);

	return nx != ny ? (nx > ny) - (nx < ny) : strcmp(x, y);
}

/*
 * Lists a directory; a missing one gives an empty list. `numbers`: sorts shorter names first, "9"
 * before "10".
 */
static struct names list(const struct root *r, const char *dir, bool numbers)
{
	struct names l = {NULL, 0};

	if (dir_list(r, dir, &l.v, &l.n, NULL) < 0)
		return (struct names){NULL, 0};
	if (numbers && l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_number);
	return l;
}

static struct names ports(const struct root *r, const char *device)
{
	auto_free char *dir = xasprintf(CLASS "/%s/ports", device);

	return list(r, dir, true);
}

/* --- ibdev2netdev --- */

/*
 * Finds the port's netdev: that of its first GID, otherwise the device's netdev whose dev_port is
 * the number of the port minus 1, or the device's only netdev.
 */
static bool find_netdev(const struct root *r, const char *device, const char *port,
			char ret[static LINE_BYTES])
{
	auto_free char *dir = xasprintf(CLASS "/%s/device/net", device);
	auto_names struct names all = list(r, dir, false);
	char dev_port[LINE_BYTES];

	attribute(r, ret, CLASS "/%s/ports/%s/gid_attrs/ndevs/0", device, port);
	if (ret[0])
		return true;
	for (size_t i = 0; i < all.n; i++) {
		uint64_t v = 0;

		attribute(r, dev_port, "%s/%s/dev_port", dir, all.v[i]);
		num_u64(span_of(dev_port), 0, 255, &v);
		if (v + 1 == strtoull(port, NULL, 10) || all.n == 1)
			return str_copy(ret, LINE_BYTES, all.v[i]);
	}
	return false;
}

void views_ibdev2netdev(const struct root *r, struct buf *b)
{
	auto_names struct names devices = list(r, CLASS, true);

	for (size_t i = 0; i < devices.n; i++) {
		auto_names struct names p = ports(r, devices.v[i]);

		for (size_t k = 0; k < p.n; k++) {
			char netdev[LINE_BYTES], state[LINE_BYTES];

			if (!find_netdev(r, devices.v[i], p.v[k], netdev))
				continue;
			attribute(r, state, "/sys/class/net/%s/operstate", netdev);
			buf_printf(b, "%s port %s ==> %s (%s)\n", devices.v[i], p.v[k], netdev,
				   !strcmp(state, "up") ? "Up" : "Down");
		}
	}
}

/* --- show_gids --- */

static bool is_empty(const char *gid)
{
	if (!strncmp(gid, "fe80:", 5))
		gid += 5;
	return strspn(gid, "0:") == strlen(gid);
}

/* "RoCE v2" -> "v2"; "": the type has no version */
static const char *version(const char *type)
{
	const char *v = strpbrk(type, "vV");

	return v ? v : "";
}

static void put_gid(const char *device, const char *port, const char *index, const char *gid,
		    const char *type, const char *netdev, struct buf *b)
{
	unsigned int high, low;

	buf_printf(b, "%s\t%s\t%s\t%s\t", device, port, index, gid);
	if (!strncmp(gid, "0000:", 5) && strlen(gid) == 39 &&
	    sscanf(gid + 30, "%4x:%4x", &high, &low) == 2)
		buf_printf(b, "%u.%u.%u.%u  \t", high >> 8, high & 0xff, low >> 8, low & 0xff);
	else
		buf_str(b, "\t\t");
	buf_printf(b, "%s\t%s\n", version(type), netdev);
}

static size_t gids_of(const struct root *r, const char *device, const char *port, struct buf *b)
{
	auto_free char *dir = xasprintf(CLASS "/%s/ports/%s/gids", device, port);
	auto_names struct names all = list(r, dir, true);
	size_t n = 0;

	for (size_t i = 0; i < all.n; i++) {
		char gid[LINE_BYTES], type[LINE_BYTES], netdev[LINE_BYTES];

		attribute(r, gid, "%s/%s", dir, all.v[i]);
		if (is_empty(gid))
			continue;
		attribute(r, type, CLASS "/%s/ports/%s/gid_attrs/types/%s", device, port, all.v[i]);
		attribute(r, netdev, CLASS "/%s/ports/%s/gid_attrs/ndevs/%s", device, port,
			  all.v[i]);
		put_gid(device, port, all.v[i], gid, type, netdev, b);
		n++;
	}
	return n;
}

static int check_device(const struct names *devices, const char *device, struct err *e)
{
	if (!device)
		return 0;
	for (size_t i = 0; i < devices->n; i++)
		if (!strcmp(devices->v[i], device))
			return 0;
	return err_set(e, -ENODEV,
		       "RDMA device '%s' does not exist: 'unirail ibstat -l' lists the devices",
		       device);
}

int views_show_gids(const struct root *r, const char *device, struct buf *b, struct err *e)
{
	auto_names struct names devices = list(r, CLASS, true);
	size_t n = 0;
	int code = check_device(&devices, device, e);

	if (code < 0)
		return code;
	buf_str(b, "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
		   "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n");
	for (size_t i = 0; i < devices.n; i++) {
		auto_names struct names p = {NULL, 0};

		if (device && strcmp(devices.v[i], device) != 0)
			continue;
		p = ports(r, devices.v[i]);
		for (size_t k = 0; k < p.n; k++)
			n += gids_of(r, devices.v[i], p.v[k], b);
	}
	buf_printf(b, "n_gids_found=%zu\n", n);
	return 0;
}

/* --- ibstat --- */

/* "0c42:a103:0016:051c" -> "0c42a1030016051c" */
static void without_colons(const char *s, char ret[static LINE_BYTES])
{
	size_t n = 0;

	for (; *s && n + 1 < LINE_BYTES; s++)
		if (*s != ':')
			ret[n++] = *s;
	ret[n] = '\0';
}

static void put_guid(const char *indent, const char *name, const char *guid, struct buf *b)
{
	char text[LINE_BYTES];

	without_colons(guid, text);
	buf_printf(b, "%s%s: 0x%s\n", indent, name, text[0] ? text : "0000000000000000");
}

/* "4: ACTIVE" -> "Active"; "5: LinkUp" -> "LinkUp" */
static const char *state_name(const char *line)
{
	static const struct {
		const char *sysfs, *ibstat;
	} names[] = {{"DOWN", "Down"},
		     {"INIT", "Initializing"},
		     {"ARMED", "Armed"},
		     {"ACTIVE", "Active"}};
	const char *word = strchr(line, ' ');

	word = word ? word + 1 : line;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(word, names[i].sysfs))
			return names[i].ibstat;
	return word;
}

/* Parses a number of sysfs: hexadecimal after "0x" (lid, sm_lid), otherwise decimal. */
static unsigned int number(const char *text)
{
	uint64_t v = 0;

	if (!strncmp(text, "0x", 2))
		num_hex(span_of(text), UINT32_MAX, &v);
	else
		num_u64(span_of(text), 0, UINT32_MAX, &v);
	return (unsigned int)v;
}

static void put_port(const struct root *r, const char *device, const char *port, struct buf *b)
{
	char line[LINE_BYTES];
	uint64_t mask = 0;

	buf_printf(b, "\tPort %s:\n", port);
	attribute(r, line, CLASS "/%s/ports/%s/state", device, port);
	buf_printf(b, "\t\tState: %s\n", state_name(line));
	attribute(r, line, CLASS "/%s/ports/%s/phys_state", device, port);
	buf_printf(b, "\t\tPhysical state: %s\n", state_name(line));
	attribute(r, line, CLASS "/%s/ports/%s/rate", device, port);
	buf_printf(b, "\t\tRate: %.*s\n", (int)strcspn(line, " "), line);
	attribute(r, line, CLASS "/%s/ports/%s/lid", device, port);
	buf_printf(b, "\t\tBase lid: %u\n", number(line));
	attribute(r, line, CLASS "/%s/ports/%s/lid_mask_count", device, port);
	buf_printf(b, "\t\tLMC: %u\n", number(line));
	attribute(r, line, CLASS "/%s/ports/%s/sm_lid", device, port);
	buf_printf(b, "\t\tSM lid: %u\n", number(line));
	attribute(r, line, CLASS "/%s/ports/%s/cap_mask", device, port);
	num_hex(span_of(line), UINT32_MAX, &mask);
	buf_printf(b, "\t\tCapability mask: 0x%08x\n", (unsigned int)mask);
	attribute(r, line, CLASS "/%s/ports/%s/gids/0", device, port);
	put_guid("\t\t", "Port GUID", strlen(line) == 39 ? line + 20 : "", b);
	attribute(r, line, CLASS "/%s/ports/%s/link_layer", device, port);
	buf_printf(b, "\t\tLink layer: %s\n", line);
}

static void put_device(const struct root *r, const char *device, unsigned int port, struct buf *b)
{
	auto_names struct names p = ports(r, device);
	char line[LINE_BYTES];

	buf_printf(b, "CA '%s'\n", device);
	attribute(r, line, CLASS "/%s/hca_type", device);
	buf_printf(b, "\tCA type: %s\n\tNumber of ports: %zu\n", line, p.n);
	attribute(r, line, CLASS "/%s/fw_ver", device);
	buf_printf(b, "\tFirmware version: %s\n", line);
	attribute(r, line, CLASS "/%s/hw_rev", device);
	buf_printf(b, "\tHardware version: %s\n", line);
	attribute(r, line, CLASS "/%s/node_guid", device);
	put_guid("\t", "Node GUID", line, b);
	attribute(r, line, CLASS "/%s/sys_image_guid", device);
	put_guid("\t", "System image GUID", line, b);
	for (size_t k = 0; k < p.n; k++)
		if (!port || strtoul(p.v[k], NULL, 10) == port)
			put_port(r, device, p.v[k], b);
}

int views_ibstat(const struct root *r, const char *device, unsigned int port, struct buf *b,
		 struct err *e)
{
	auto_names struct names devices = list(r, CLASS, true);
	int code = check_device(&devices, device, e);

	if (code < 0)
		return code;
	for (size_t i = 0; i < devices.n; i++)
		if (!device || !strcmp(devices.v[i], device))
			put_device(r, devices.v[i], port, b);
	return 0;
}

void views_list(const struct root *r, struct buf *b)
{
	auto_names struct names devices = list(r, CLASS, true);

	for (size_t i = 0; i < devices.n; i++)
		buf_printf(b, "%s\n", devices.v[i]);
}

/* --- the applets --- */

struct views_opts {
	const char *root;
	bool list;
};

static const struct opt opts[] = {
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct views_opts, root), 0, 0},
	{0},
};
static const struct opt ibstat_opts[] = {
	{"list_of_cas", 'l', OPT_FLAG, NULL, "only the names of the devices",
	 offsetof(struct views_opts, list), 0, 0},
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct views_opts, root), 0, 0},
	{0},
};
const struct cmd ibdev2netdev_cmds[] = {{NULL, NULL, "RDMA devices, their ports and interfaces",
					 opts, 0, 0},
					{0}};
const struct cmd show_gids_cmds[] = {{NULL, "[DEVICE]", "GID tables of RDMA devices", opts, 0, 1},
				     {0}};
const struct cmd ibstat_cmds[] = {{NULL, "[DEVICE [PORT]]", "state of RDMA devices and their ports",
				   ibstat_opts, 0, 2},
				  {0}};

static int print(const struct cmd *c, struct views_opts *o, int argc, char **argv, struct buf *b,
		 struct err *e)
{
	const char *device = argc > 0 ? argv[0] : NULL;
	struct root root = {.fd = -1};
	uint64_t port = 0;
	int r = root_open(&root, o->root, e);

	if (r == 0 && argc > 1 && num_u64(span_of(argv[1]), 1, 255, &port) < 0)
		r = err_set(e, -EINVAL, "port '%s': expected 1 to 255", argv[1]);
	if (r == 0 && c == ibdev2netdev_cmds)
		views_ibdev2netdev(&root, b);
	else if (r == 0 && c == show_gids_cmds)
		r = views_show_gids(&root, device, b, e);
	else if (r == 0 && o->list)
		views_list(&root, b);
	else if (r == 0)
		r = views_ibstat(&root, device, (unsigned int)port, b, e);
	root_close(&root);
	return r;
}

static int run(const char *name, const struct cmd *c, int argc, char **argv)
{
	struct views_opts o = {.root = NULL};
	auto_free char *prog = xasprintf("unirail %s", name);
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	int at = opt_parse(c, prog, argc - 1, argv + 1, &o, &e), r;

	buf_init(&b, OUT_MAX);
	if (at < 0)
		return opt_exit(prog, at, &e);
	r = print(c, &o, argc - 1 - at, argv + 1 + at, &b, &e);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", prog, e.text);
		return 1;
	}
	return opt_print(&b);
}

int ibdev2netdev_main(int argc, char **argv)
{
	return run("ibdev2netdev", ibdev2netdev_cmds, argc, argv);
}

int show_gids_main(int argc, char **argv)
{
	return run("show_gids", show_gids_cmds, argc, argv);
}

int ibstat_main(int argc, char **argv)
{
	return run("ibstat", ibstat_cmds, argc, argv);
}
