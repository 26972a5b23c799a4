/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/plugins/rdma/rdma_plugin.h"
#include "kern/net/vf.h"

/* The rdma plugin: ADD, DEL, CHECK, STATUS, GC, and the selection of the device. */

#define PLUGIN_NAME "the rdma plugin"

/* The keys of the netconf. The plugin does not parse it by these tables: read_debug() and
 * rdma_conf_device() read one key each, because deviceID may also be a key of runtimeConfig. */
static const struct json_field cni_fields[] = {
	{.name = "debug", .type = J_BOOL, JSON_DOC("false", "log at level debug")},
	{0},
};
static const struct json_table cni_table = {cni_fields, JSON_GO, 0};
static const struct json_field args_fields[] = {
	{.name = "cni",
	 .type = J_VAL,
	 .sub = &cni_table,
	 JSON_DOC(NULL, "from cni-args in the pod's network annotation")},
	{0},
};
static const struct json_table args_table = {args_fields, JSON_GO, 0};
static const struct json_field fields[] = {
	{.name = "deviceID",
	 .type = J_STR,
	 JSON_DOC("the device of prevResult's interface",
		  "PCI address or auxiliary device whose RDMA device is moved; "
		  "runtimeConfig.deviceID is used if deviceID is absent")},
	{.name = "args",
	 .type = J_VAL,
	 .sub = &args_table,
	 JSON_DOC(NULL, "from cni-args in the pod's network annotation")},
	{0},
};
static const struct json_table table = {fields, JSON_GO, 0};

static int read_debug(const struct chained_call *m, struct err *e)
{
	const struct json *cni = json_get_go(json_get_go(m->conf, "args"), "cni");
	const struct json *v = json_get_go(cni, "debug");
	bool debug = false;
	int r = json_kind(v) == JSON_NULL ? 0
					  : json_read_value(m->doc, v, &cni_fields[0], &debug,
							    "conf.args.cni.debug", e);

	if (debug)
		log_threshold = LOG_DEBUG;
	return r;
}

static void debug_step(const char *what, const struct rdma_state *s)
{
	log_debug(what, LOG_S("deviceID", s->device), LOG_S("device", s->host_name),
		  LOG_S("name_in_pod", s->in_pod));
}

/* --- ADD --- */

struct undo_state {
	const struct root *root;
	char path[PATH_MAX];
};

static int undo_state(void *arg, struct err *e)
{
	const struct undo_state *u = arg;

	return file_remove(u->root, u->path, e);
}

struct undo_move {
	const struct root *root;
	int netns;
	char name[RDMA_NAME_MAX];
};

/* Moves the device back only if it is in the pod: rdma_move() can fail before the move, or after
 * the move if the kernel's reply is lost. */
static int undo_move(void *arg, struct err *e)
{
	const struct undo_move *u = arg;
	int r = rdma_move_is_in(u->netns, u->name, e);

	return r <= 0 ? r : rdma_move_restore(u->netns, u->root, u->name, u->name, e);
}

/* The state file is written before the move, so that a DEL after a crash finds the device. */
static int save(const struct chained_call *m, const struct rdma_state *s, struct undo *u,
		struct err *e)
{
	auto_free char *path = rdma_state_path(m->network, m->call->container_id, m->ifname);
	struct undo_state old = {.root = &m->call->root};

	if (!str_copy(old.path, sizeof(old.path), path))
		return err_kind(e, ERR_CONF, -ENAMETOOLONG,
				"conf.name or CNI_CONTAINERID is too long");
	undo_push(u, "remove the state of the RDMA device", undo_state, &old, sizeof(old));
	return rdma_state_save(old.root, path, s, e);
}

static int move_in(const struct chained_call *m, const struct rdma_state *s, struct undo *u,
		   struct err *e)
{
	struct undo_move back = {.root = &m->call->root, .netns = m->netns};
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_RDMA, -1, e);

	if (r < 0)
		return r;
	str_copy(back.name, sizeof(back.name), s->host_name);
	undo_push(u, "move the RDMA device back to the node", undo_move, &back, sizeof(back));
	return rdma_move(w, back.root, s->host_name, m->netns, RDMA_MOVE_LIMIT_MS, e);
}

static void whose(const struct chained_call *m, struct rdma_state *s)
{
	/* If a name is too long for its field, s->network becomes "", because GC could not match
	 * a truncated name. GC then identifies the attachment by the name of the state file. */
	if (str_copy(s->network, sizeof(s->network), m->network) &&
	    str_copy(s->container, sizeof(s->container), m->call->container_id) &&
	    str_copy(s->ifname, sizeof(s->ifname), m->ifname) &&
	    str_copy(s->netns, sizeof(s->netns), m->call->netns))
		return;
	s->network[0] = '\0';
}

static int no_prev(struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL,
			"RDMA-CNI is expected to be called as part of a plugin chain (prevResult "
			"is missing)");
}

static int add(const struct chained_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	auto_free char *path = rdma_state_path(m->network, m->call->container_id, m->ifname);
	struct rdma_state s = {.device = ""};
	int r = read_debug(m, e);

	if (r >= 0 && !m->has_prev)
		return no_prev(e);
	if (r >= 0)
		r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, PLUGIN_NAME, e);
	if (r >= 0)
		r = rdma_device(m, prev, s.device, e);
	if (r >= 0)
		r = rdma_move_find(&m->call->root, s.device, s.host_name, e);
	if (r < 0)
		return r == -EBUSY ? rdma_state_held(&m->call->root, s.device, path, e) : r;
	str_copy(s.in_pod, sizeof(s.in_pod), s.host_name);
	whose(m, &s);
	debug_step("move the RDMA device into the pod", &s);
	r = save(m, &s, u, e);
	return r < 0 ? r : move_in(m, &s, u, e);
}

/* --- DEL --- */

/* Sets name to the RDMA device that has the attachment's interface as the netdev of a port;
 * false: none. */
static bool by_netdev(const struct chained_call *m, char name[static RDMA_NAME_MAX])
{
	auto_free struct rdma_dev *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	size_t n = 0;

	if (nl_open(&w, NL_RDMA, m->netns, NULL) < 0 || rdma_nl_list(w, &list, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
			if (*m->ifname && strcmp(list[i].ports[k].netdev, m->ifname) == 0)
				return str_copy(name, RDMA_NAME_MAX, list[i].name);
	return false;
}

/* Fills *s without a state file: from the configuration, prevResult and the pod. Returns false
 * if no device is found, if RDMA's namespace mode is shared or unknown, or if the pod's
 * namespace is not available. */
static bool guess(const struct chained_call *m, const struct cni_result *prev, struct rdma_state *s)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;
	char device[PCI_NAME_MAX];

	/* In shared mode the pod lists all devices, including those of other pods. */
	if (m->netns < 0 || rdma_netns_mode_get(&mode, NULL) < 0 || mode == RDMA_NETNS_SHARED)
		return false;
	*s = (struct rdma_state){.device = ""};
	if (rdma_device(m, prev, device, NULL) >= 0 &&
	    rdma_move_name(&m->call->root, device, s->in_pod))
		str_copy(s->device, sizeof(s->device), device);
	else if (!by_netdev(m, s->in_pod))
		return false;
	str_copy(s->host_name, sizeof(s->host_name), s->in_pod);
	return true;
}

static int load(const struct chained_call *m, const char *path, struct rdma_state *s, struct err *e)
{
	struct err reason = ERR_INIT;
	int r = rdma_state_load(&m->call->root, path, s, &reason);

	if (r == -EINVAL)
		log_warn("the state file of an RDMA device is invalid",
			 LOG_S("error", reason.text));
	if (r >= 0 || r == -ENOENT || r == -EINVAL)
		return r;
	if (e)
		*e = reason;
	return r;
}

static int del(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free char *path = rdma_state_path(m->network, m->call->container_id, m->ifname);
	const struct root *root = &m->call->root;
	struct rdma_state s;
	auto_fd int other = -1;
	int r;

	(void)read_debug(m, NULL);
	file_sweep(root, path);
	r = load(m, path, &s, e);
	if (r < 0 && r != -ENOENT && r != -EINVAL)
		return r;
	if (r >= 0 && m->netns < 0 && !*m->call->netns)
		other = rdma_restore_netns(&s);
	if (r >= 0 || guess(m, prev, &s))
		r = rdma_restore(root, m->netns < 0 ? other : m->netns, &s, e);
	else
		r = 0;
	return r < 0 ? r : file_remove(root, path, e);
}

/* --- CHECK, STATUS, GC --- */

static int check(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free char *path = rdma_state_path(m->network, m->call->container_id, m->ifname);
	struct rdma_state s = {.device = ""};
	int r = read_debug(m, e);

	if (r >= 0 && !m->has_prev)
		return no_prev(e);
	if (r >= 0)
		r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, PLUGIN_NAME, e);
	if (r >= 0)
		r = load(m, path, &s, e);
	if (r == -ENOENT || r == -EINVAL)
		return guess(m, prev, &s) && rdma_move_is_in(m->netns, s.in_pod, NULL) > 0
			       ? 0
			       : err_set(e, -ENODEV,
					 "no RDMA device was moved into the pod for '%s' (%s is "
					 "missing or invalid)",
					 m->ifname, path);
	if (r < 0)
		return r;
	rdma_restore_name(&m->call->root, &s);
	r = rdma_move_is_in(m->netns, s.in_pod, e);
	if (r != 0)
		return r < 0 ? r : 0;
	return err_set(e, -ENODEV, "RDMA device '%s' of '%s' is not in the pod's network namespace",
		       s.in_pod, s.device);
}

static int status(const struct chained_call *m, struct err *e)
{
	char device[PCI_NAME_MAX];
	int r = read_debug(m, e);

	if (r >= 0)
		r = rdma_conf_device(m, device, e);
	return r < 0 ? r : rdma_move_mode(RDMA_NETNS_EXCLUSIVE, PLUGIN_NAME, e);
}

/* Restores the device. Removes the state file only if the device is on the node afterwards,
 * because the namespace path in the file may meanwhile belong to another pod, in whose namespace
 * the device is not found. */
static int collect(const struct chained_call *m, const char *path, struct rdma_state *s,
		   struct err *e)
{
	const struct root *root = &m->call->root;
	auto_fd int netns = rdma_restore_netns(s);
	int r = rdma_restore(root, netns, s, e);

	/* The restore may have renamed the device. */
	rdma_restore_name(root, s);
	if (r >= 0 && !rdma_restore_is(s)) {
		log_warn(
			"an RDMA device of a deleted pod is not back on the node, keeping its state",
			LOG_S("device", s->host_name), LOG_S("state", path));
		return 0;
	}
	return r < 0 ? r : file_remove(root, path, e);
}

/* Returns whether another attachment, of any network, has a state file for the device. */
static bool has_new_owner(const struct root *root, char *const *names, size_t n, const char *self,
			  const struct rdma_state *s)
{
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf(RDMA_STATE_DIR "/%s", names[i]);
		struct rdma_state other;

		if (strcmp(names[i], self) != 0 && rdma_state_load(root, path, &other, NULL) >= 0 &&
		    strcmp(other.device, s->device) == 0)
			return true;
	}
	return false;
}

static int gc(const struct chained_call *m, struct err *e)
{
	const struct root *root = &m->call->root;
	char **names = NULL;
	size_t n = 0;
	int first = 0;

	if (!m->call->has_valid || !file_exists(root, RDMA_STATE_DIR))
		return 0;
	rdma_state_sweep(root);
	if (dir_list(root, RDMA_STATE_DIR, &names, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf(RDMA_STATE_DIR "/%s", names[i]);
		struct rdma_state s;
		int r;

		if (rdma_state_load(root, path, &s, NULL) < 0 ||
		    !rdma_state_is_stale(m->call, names[i], &s))
			continue;
		if (has_new_owner(root, names, n, names[i], &s))
			r = file_remove(root, path, first < 0 ? NULL : e);
		else
			r = collect(m, path, &s, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	str_list_free(names, n);
	return first;
}

const struct cni_meta chained_rdma = {
	.type = "rdma",
	.add = add,
	.del = del,
	.check = check,
	.gc = gc,
	.status = status,
};
const struct cni_plugin cni_rdma = META_PLUGIN(rdma, &table);

/* --- selection of the device --- */

int rdma_conf_device(const struct chained_call *m, char ret[static PCI_NAME_MAX], struct err *e)
{
	const struct json *v = json_get_go(m->conf, "deviceID");
	const char *text = NULL;
	int r;

	*ret = '\0';
	if (json_kind(v) == JSON_NULL)
		v = chained_runtime(m, "deviceID");
	r = v ? json_read_value(m->doc, v, &fields[0], &text, "conf.deviceID", e) : 0;
	if (r < 0 || !text || !*text)
		return r;
	return rdma_move_device(text, ret, e);
}

const struct cni_iface *rdma_device_iface(const struct cni_result *prev, const char *ifname)
{
	int i = cni_result_pod_iface(prev, ifname);

	if (i >= 0)
		return &prev->ifaces[i];
	return prev->n_ifaces == 1 ? &prev->ifaces[0] : NULL;
}

/* Writes "PF vf N" for each VF of one PF that has this MAC, sets *ret to the last of these VFs, and
 * returns their number. */
static size_t match_vfs(struct nl_wire *host, const char *pf, const struct mac *mac,
			struct vf_info *ret, struct buf *matches)
{
	auto_free struct vf_info *list = NULL;
	struct link l;
	size_t n = 0, found = 0;

	/* A PF whose driver reports no attributes of its VFs does not match. */
	if (link_get(host, pf, &l, NULL) < 0 || vf_list(host, l.index, pf, &list, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!mac_eq(&list[i].mac, mac))
			continue;
		buf_printf(matches, "%s%s vf %u", matches->len ? ", " : "", pf, list[i].vf);
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

static int mac_mismatch(const char *mac, const struct buf *matches, size_t found, struct err *e)
{
	if (!found)
		return err_kind(
			e, ERR_CONF, -ENODEV,
			ORIG("failed to derive PCI device ID from mac \"%s\". could not find VF "
			     "PCI device according to administrative mac address set on PF "
			     "(conf.deviceID says which device is meant)"),
			mac);
	return err_kind(
		e, ERR_CONF, -EEXIST,
		ORIG("failed to derive PCI device ID from mac \"%s\". found more than one VF PCI "
		     "device according to administrative mac address set on PF: %s "
		     "(conf.deviceID says which device is meant)"),
		mac, buf_span(matches).p);
}

/* Finds the VF that has this administrative MAC on its PF. */
static int rdma_device_by_mac(struct nl_wire *host, const struct root *r, const char *mac,
			      char ret[static PCI_NAME_MAX], struct err *e)
{
	static const struct mac none = {.len = 6};
	auto_buf struct buf matches;
	char **nics = NULL, pf[LINK_NAME_MAX] = "";
	struct vf_info vf = {.vf = 0};
	struct mac want;
	size_t n = 0, found = 0;
	bool known;
	int code = dir_list(r, "/sys/class/net", &nics, &n, e);

	buf_init(&matches, 512);
	if (code < 0)
		return code;
	/* Refuses a MAC of zeros, which every VF without an assigned MAC has. */
	known = mac_parse(span_of(mac), &want) >= 0 && !mac_eq(&want, &none);
	for (size_t i = 0; known && i < n; i++) {
		size_t here = has_vfs(r, nics[i]) ? match_vfs(host, nics[i], &want, &vf, &matches)
						  : 0;

		if (here)
			str_copy(pf, sizeof(pf), nics[i]);
		found += here;
	}
	str_list_free(nics, n);
	if (found != 1)
		return mac_mismatch(mac, &matches, found, e);
	return vf_device(r, pf, vf.vf, ret, e);
}

int rdma_device(const struct chained_call *m, const struct cni_result *prev,
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
	return err_kind(
		e, ERR_CONF, -EINVAL,
		ORIG("\"DeviceID\" network configuration attribute is required for rdma CNI "
		     "(conf.deviceID; prevResult has no interface that leads to a device)"));
}
