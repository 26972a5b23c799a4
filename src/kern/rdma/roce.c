/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/roce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"

#define CM_DIR	 "/sys/kernel/config/rdma_cm"
#define MLX5_DIR "/sys/kernel/debug/mlx5"

static const struct {
	/* ofed: path below /sys/class/net/IF/ecn; inbox: path below cc_params, NULL: the kernel's
	 * driver does not have the parameter */
	const char *name, *ofed, *inbox;
} params[ROCE_PARAMS] = {
	[ROCE_ECN_NP] = {"roce_np", "roce_np/enable", NULL},
	[ROCE_ECN_RP] = {"roce_rp", "roce_rp/enable", NULL},
	[ROCE_CNP_DSCP] = {"cnp_dscp", "roce_np/cnp_dscp", "np_cnp_dscp"},
	[ROCE_CNP_PRIO] = {"cnp_802p_prio", "roce_np/cnp_802p_prio", "np_cnp_prio"},
	[ROCE_TRAFFIC_CLASS] = {"traffic_class", NULL, NULL},
};

static bool is_name(const char *s)
{
	return s && s[0] && s[0] != '.' && !strchr(s, '/') && strlen(s) < 64;
}

static bool by_priority(enum roce_param p)
{
	return p == ROCE_ECN_NP || p == ROCE_ECN_RP;
}

bool roce_param_path(const struct root *r, const struct roce_port *port, enum roce_param p,
		     unsigned int prio, char ret[static ROCE_PATH_MAX])
{
	if (p == ROCE_TRAFFIC_CLASS) {
		if (!is_name(port->device))
			return false;
		snprintf(ret, ROCE_PATH_MAX, "/sys/class/infiniband/%s/tc/1/traffic_class",
			 port->device);
		return file_exists(r, ret);
	}
	if (is_name(port->netdev)) {
		int n = snprintf(ret, ROCE_PATH_MAX, "/sys/class/net/%s/ecn/%s", port->netdev,
				 params[p].ofed);

		if (by_priority(p))
			snprintf(ret + n, (size_t)(ROCE_PATH_MAX - n), "/%u", prio);
		if (file_exists(r, ret))
			return true;
	}
	if (!params[p].inbox || !is_name(port->bdf))
		return false;
	snprintf(ret, ROCE_PATH_MAX, MLX5_DIR "/%s/cc_params/%s", port->bdf, params[p].inbox);
	return file_exists(r, ret);
}

int roce_param_read(const struct root *r, const char *path, int *ret, struct err *e)
{
	char line[64], *text = line;
	int64_t v;
	int code = file_read_line(r, path, line, sizeof(line), e);

	if (code < 0)
		return code;
	if (!line[0]) {
		*ret = -1;
		return 0;
	}
	/* the file traffic_class begins with this text */
	if (!strncmp(text, "Global tclass=", strlen("Global tclass=")))
		text += strlen("Global tclass=");
	if (num_i64(span_trim(span_of(text)), -1, INT32_MAX, &v) < 0)
		return err_set(e, -EBADMSG, "'%s' is '%s', expected a number", path, line);
	*ret = (int)v;
	return 0;
}

/* --- defaults of RDMA-CM --- */

struct cm {
	const struct root *r;
	char device[ROCE_PATH_MAX], port[ROCE_PATH_MAX];
	bool made;
};

static int cm_unavailable(const char *device, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"RDMA-CM defaults of '%s': " CM_DIR
			" is missing: 'modprobe rdma_cm', and mount "
			"configfs at /sys/kernel/config",
			device);
}

static int cm_open(struct cm *c, const struct root *r, const char *device, unsigned int port,
		   bool make, struct err *e)
{
	int code;

	*c = (struct cm){.r = r};
	if (!is_name(device))
		return err_kind(e, ERR_CONF, -EINVAL, "invalid RDMA device name '%.40s'", device);
	if (!file_exists(r, CM_DIR))
		return cm_unavailable(device, e);
	snprintf(c->device, sizeof(c->device), CM_DIR "/%s", device);
	snprintf(c->port, sizeof(c->port), CM_DIR "/%s/ports/%u", device, port);
	if (file_exists(r, c->device))
		return 0;
	if (!make)
		return err_set(e, -ENOENT,
			       "RDMA-CM defaults of '%s': the device has no directory in configfs",
			       device);
	code = dir_make(r, c->device, 0755, e);
	if (code < 0)
		return err_wrap(e, code, "RDMA-CM defaults of '%s'", device);
	c->made = true;
	return 0;
}

/* Removes the device's directory if cm_open() created it; configfs removes the directories
 * below. */
static void cm_close(struct cm *c)
{
	auto_fd int fd = -1;

	if (!c->made)
		return;
	fd = file_open(c->r, CM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, NULL);
	if (fd >= 0)
		unlinkat(fd, c->device + strlen(CM_DIR "/"), AT_REMOVEDIR);
}
#define auto_cm __attribute__((cleanup(cm_close)))

int roce_cm_read(const struct root *r, const char *device, unsigned int port, bool make,
		 struct roce_cm *ret, struct err *e)
{
	auto_cm struct cm c;
	struct roce_cm v = {.tos = -1};
	char path[ROCE_PATH_MAX + 24], line[16];
	int64_t tos;
	int code = cm_open(&c, r, device, port, make, e);

	if (code < 0)
		return code;
	snprintf(path, sizeof(path), "%s/default_roce_mode", c.port);
	code = file_read_line(r, path, v.mode, sizeof(v.mode), e);
	if (code < 0)
		return err_wrap(e, code, "RDMA-CM defaults of '%s'", device);
	snprintf(path, sizeof(path), "%s/default_roce_tos", c.port);
	if (file_read_line(r, path, line, sizeof(line), NULL) == 0 &&
	    num_i64(span_of(line), 0, 255, &tos) == 0)
		v.tos = (int)tos;
	*ret = v;
	return 0;
}

int roce_cm_set(const struct root *r, const char *device, unsigned int port,
		const struct roce_cm *v, struct err *e)
{
	auto_cm struct cm c;
	char path[ROCE_PATH_MAX + 24], line[16];
	int code = cm_open(&c, r, device, port, true, e);

	if (code == 0 && v->mode[0]) {
		snprintf(path, sizeof(path), "%s/default_roce_mode", c.port);
		code = file_write_attr(r, path, v->mode, e);
	}
	if (code == 0 && v->tos >= 0) {
		snprintf(path, sizeof(path), "%s/default_roce_tos", c.port);
		snprintf(line, sizeof(line), "%d", v->tos);
		code = file_write_attr(r, path, line, e);
	}
	return code < 0 ? err_wrap(e, code, "set RDMA-CM defaults of '%s'", device) : 0;
}
