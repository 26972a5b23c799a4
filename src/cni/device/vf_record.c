/* SPDX-License-Identifier: Apache-2.0 */
/* The unirail member of a record, and the record's file. */
#include "cni/device/vf_record.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"

enum { FILE_MODE = 0600, DIR_MODE = 0700, LOCK_MS = 30000 };

void vf_record_done(struct vf_record *r)
{
	free(r->file);
	free(r->network);
	free(r->container);
	free(r->ifname);
	free(r->netns);
	free(r->pod);
	free(r->boot);
	free(r->instance);
	str_list_free(r->altnames, r->n_altnames);
	*r = (struct vf_record){0};
}

struct raw {
	const char *alias, *boot, *container, *ifname, *instance, *netns, *node_guid, *pod,
		*port_guid, *rdma;
	struct json_strs altnames;
	bool dpdk, up, has_spoofchk, has_trust;
	int64_t mtu, spoofchk, trust;
};

#define STR(key, member)  JSON_FIELD(key, J_STR, struct raw, member)
#define BOOL(key, member) JSON_FIELD(key, J_BOOL, struct raw, member)
#define SWITCH(key, member)                                                                        \
	JSON_FIELD(key, J_INT, struct raw, member, .has = offsetof(struct raw, has_##member),      \
		   .min = -1, .max = 1)

static const struct json_field fields[] = {
	STR("alias", alias),
	JSON_FIELD("altnames", J_STRS, struct raw, altnames),
	STR("boot", boot),
	STR("container", container),
	BOOL("dpdk", dpdk),
	STR("ifname", ifname),
	STR("instance", instance),
	JSON_FIELD("mtu", J_INT, struct raw, mtu, .max = INT32_MAX),
	STR("netns", netns),
	STR("nodeGUID", node_guid),
	STR("pod", pod),
	STR("portGUID", port_guid),
	STR("rdma", rdma),
	SWITCH("spoofchk", spoofchk),
	SWITCH("trust", trust),
	BOOL("up", up),
	{0},
};
static const struct json_table table = {fields, 0, sizeof(struct raw)};

static void put_guids(struct json_out *o, const struct vf_info *was)
{
	char text[VF_GUID_TEXT_MAX];

	if (!was->has_guid)
		return;
	jo_kstr(o, "nodeGUID", vf_guid_str(was->node_guid, text));
	jo_kstr(o, "portGUID", vf_guid_str(was->port_guid, text));
}

void vf_record_put(struct json_out *o, const struct vf_record *r)
{
	jo_obj(o);
	jo_kstr_if_set(o, "alias", r->alias);
	jo_kstrs(o, "altnames", r->altnames, r->n_altnames);
	jo_kstr_if_set(o, "boot", r->boot);
	jo_kstr_if_set(o, "container", r->container);
	jo_kbool(o, "dpdk", r->dpdk);
	jo_kstr_if_set(o, "ifname", r->ifname);
	jo_kstr_if_set(o, "instance", r->instance);
	if (r->link_mtu)
		jo_kint(o, "mtu", r->link_mtu);
	jo_kstr_if_set(o, "netns", r->netns);
	put_guids(o, &r->was);
	jo_kstr_if_set(o, "pod", r->pod);
	jo_kstr_if_set(o, "rdma", r->rdma);
	/* Written although a record of sriov has SpoofChk and Trust, because these Go booleans
	 * cannot express that the driver does not report the attribute. */
	jo_kint(o, "spoofchk", r->was.spoofchk);
	jo_kint(o, "trust", r->was.trust);
	jo_kbool(o, "up", r->up);
	jo_end_obj(o);
}

static int take_guid(const char *text, const char *key, uint64_t *ret, struct err *e)
{
	/* A GUID of all zeros means that no GUID was set. */
	if (strcmp(text, "00:00:00:00:00:00:00:00") == 0)
		*ret = 0;
	else if (vf_guid_parse(span_of(text), ret) < 0)
		return err_set(e, -EINVAL, "unirail.%s is '%s', expected a GUID", key, text);
	return 0;
}

static int take_guids(const struct raw *raw, struct vf_info *was, struct err *e)
{
	int r;

	if (!raw->node_guid || !raw->port_guid)
		return 0;
	r = take_guid(raw->node_guid, "nodeGUID", &was->node_guid, e);
	if (r >= 0)
		r = take_guid(raw->port_guid, "portGUID", &was->port_guid, e);
	was->has_guid = r >= 0;
	return r;
}

static void take_switches(const struct raw *raw, struct vf_info *was)
{
	if (raw->has_spoofchk)
		was->spoofchk = (int)raw->spoofchk;
	if (raw->has_trust)
		was->trust = (int)raw->trust;
}

int vf_record_take(struct json_doc *d, const struct json *v, struct vf_record *r, struct err *e)
{
	struct raw raw = {0};
	int code;

	if (json_kind(v) == JSON_NULL)
		return 0;
	code = json_read(d, v, &table, &raw, "unirail", e);
	if (code >= 0)
		code = take_guids(&raw, &r->was, e);
	if (code < 0)
		return code;
	r->by_unirail = true;
	r->container = str_dup(str_if_set(raw.container));
	r->ifname = str_dup(str_if_set(raw.ifname));
	r->netns = str_dup(str_if_set(raw.netns));
	r->pod = str_dup(str_if_set(raw.pod));
	r->boot = str_dup(str_if_set(raw.boot));
	r->instance = str_dup(str_if_set(raw.instance));
	str_copy(r->alias, sizeof(r->alias), raw.alias ? raw.alias : "");
	str_copy(r->rdma, sizeof(r->rdma), raw.rdma ? raw.rdma : "");
	for (size_t i = 0; i < raw.altnames.n; i++)
		VEC_PUSH(r->altnames, r->n_altnames) = xstrdup(raw.altnames.v[i]);
	if (raw.mtu)
		r->link_mtu = (uint32_t)raw.mtu;
	r->up = raw.up;
	r->dpdk = raw.dpdk;
	take_switches(&raw, &r->was);
	return 0;
}

/* --- files of the records --- */

char *vf_record_file(const char *container, const char *ifname)
{
	return xasprintf("%s-%s", container, ifname);
}

static char *path_of(const struct vf_store *s, const char *file)
{
	return xasprintf("%s/%s", s->dir, file);
}

static int load(const struct root *root, const struct vf_store *s, const char *file,
		struct vf_record *ret, struct err *e)
{
	auto_free char *path = path_of(s, file);
	auto_buf struct buf text;
	struct vf_record r = {0};
	int code;

	buf_init(&text, VF_RECORD_MAX);
	code = file_read(root, path, VF_RECORD_MAX, &text, e);
	if (code < 0)
		return code;
	code = s->parse(buf_span(&text), &r, e);
	if (code < 0) {
		vf_record_done(&r);
		err_default_kind(e, ERR_DECODE);
		/* Returns -ENOENT only if the file is missing. */
		return err_wrap(e, code == -ENOENT ? -EINVAL : code, "read '%s'", path);
	}
	free(r.file);
	r.file = xstrdup(file);
	*ret = r;
	return 0;
}

int vf_record_load(const struct root *root, const struct vf_store *s, const char *container,
		   const char *ifname, struct vf_record *ret, struct err *e)
{
	auto_free char *file = vf_record_file(container, ifname);
	int code = load(root, s, file, ret, e);

	if (code < 0)
		return code;
	/* From a record of the original plugin, parse() reads no container, and ifname only if
	 * the plugin is ib-sriov. */
	if (!ret->container)
		ret->container = xstrdup(container);
	if (!ret->ifname)
		ret->ifname = xstrdup(ifname);
	return 0;
}

static int lock_dir(const struct root *root, const struct vf_store *s, int limit_ms, int *fd,
		    struct err *e)
{
	auto_free char *path = path_of(s, ".lock");

	return lock_take(root, path, limit_ms, fd, e);
}

void vf_record_sweep(const struct root *root, const struct vf_store *s)
{
	auto_fd int lock = -1;

	if (file_exists(root, s->dir) && lock_dir(root, s, 0, &lock, NULL) >= 0)
		file_sweep_dir(root, s->dir);
}

int vf_record_save(const struct root *root, const struct vf_store *s, struct vf_record *r,
		   struct span text, struct err *e)
{
	auto_free char *file = vf_record_file(r->container, r->ifname);
	auto_free char *path = path_of(s, file);
	auto_fd int lock = -1;
	int code = dir_make(root, s->dir, DIR_MODE, e);

	if (code >= 0)
		code = lock_dir(root, s, LOCK_MS, &lock, e);
	if (code >= 0)
		code = file_replace(root, path, text, FILE_MODE, e);
	if (code < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, code, "save the state of VF '%s'", r->device);
	}
	free(r->file);
	r->file = take(file);
	return 0;
}

int vf_record_remove(const struct root *root, const struct vf_store *s, const char *file,
		     struct err *e)
{
	auto_free char *path = path_of(s, file);

	file_sweep(root, path);
	return file_remove(root, path, e);
}

int vf_record_each(const struct root *root, const struct vf_store *s, vf_record_fn fn, void *arg,
		   struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = dir_list(root, s->dir, &names, &n, e);

	if (code == -ENOENT) {
		err_clear(e);
		return 0;
	}
	for (size_t i = 0; code >= 0 && i < n; i++) {
		auto_vf_record struct vf_record r = {0};
		struct err reason = ERR_INIT;

		/* skips the directory pci/, the file .lock, and temporary files of killed
		 * processes */
		if (names[i][0] == '.' || strcmp(names[i], "pci") == 0)
			continue;
		if (load(root, s, names[i], &r, &reason) >= 0)
			code = fn(arg, &r, e);
		else
			log_debug("ignoring a record of a VF that is invalid or cannot be read",
				  LOG_S("error", reason.text));
	}
	str_list_free(names, n);
	return code < 0 ? code : 0;
}

void vf_record_boot(const struct root *root, char ret[static 40])
{
	if (file_read_line(root, "/proc/sys/kernel/random/boot_id", ret, 40, NULL) < 0)
		*ret = '\0';
}

void vf_record_instance(const struct root *root, const char *bdf, char ret[static 24])
{
	auto_free char *path = xasprintf("/sys/bus/pci/devices/%s", bdf);
	struct stat st;

	*ret = '\0';
	if (file_lstat(root, path, &st, NULL) == 0)
		snprintf(ret, 24, "%llu", (unsigned long long)st.st_ino);
}

bool vf_record_is_past(const struct root *root, const struct vf_record *r)
{
	char boot[40], instance[24];

	vf_record_boot(root, boot);
	vf_record_instance(root, r->device, instance);
	return (r->boot && *boot && strcmp(r->boot, boot) != 0) ||
	       (r->instance && *instance && strcmp(r->instance, instance) != 0);
}
