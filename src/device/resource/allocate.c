/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "wire/json/tree.h"

#define DEV_INFINIBAND "/dev/infiniband/"
#define VERBS	       DEV_INFINIBAND "uverbs"
#define RDMA_CM	       DEV_INFINIBAND "rdma_cm"
#define VFIO	       "/dev/vfio/vfio"
#define SHARED_KIND    "nvidia.com/net-rdma"

enum {
	INFO_MAX = 4 << 20,
	CDI_MAX = 16 << 20,
	IDS_MAX = 1 << 20,
	PATH_SIZE = 96,
	DEVINFO_MODE = 0444
};

/* --- building a response --- */

static void add_env(struct answer *a, char *key, char *value)
{
	VEC_PUSH(a->envs, a->n_envs) = (struct answer_pair){key, value};
}

/* Adds a device node unless a node with the same path on the host was added before. Of two nodes
 * with the same container path the kubelet retains the first. */
static void add_node(struct answer *a, const char *host, const char *container,
		     const char *permissions)
{
	for (size_t i = 0; i < a->n_nodes; i++)
		if (strcmp(a->nodes[i].host, host) == 0)
			return;
	VEC_PUSH(a->nodes, a->n_nodes) =
		(struct answer_node){xstrdup(host), xstrdup(container), permissions};
}

void answer_done(struct answer *a)
{
	for (size_t i = 0; i < a->n_envs; i++) {
		free(a->envs[i].key);
		free(a->envs[i].value);
	}
	for (size_t i = 0; i < a->n_nodes; i++) {
		free(a->nodes[i].host);
		free(a->nodes[i].container);
	}
	for (size_t i = 0; i < a->n_files; i++) {
		free(a->files[i].path);
		free(a->files[i].text);
	}
	str_list_free(a->cdi, a->n_cdi);
	free(a->envs);
	free(a->nodes);
	free(a->files);
	*a = (struct answer){0};
}

/* --- nodes --- */

static void add_rdma_nodes(const struct resources *s, const struct resource_conf *c,
			   const struct node_device *d, const char *permissions, struct answer *a)
{
	char path[PATH_SIZE];

	for (size_t i = 0; i < d->n_rdma; i++) {
		for (size_t k = 0; k < d->rdma[i].n_chars; k++) {
			const struct node_char *n = &d->rdma[i].chars[k];

			snprintf(path, sizeof(path), DEV_INFINIBAND "%s", n->name);
			if (c->nodes & 1U << n->kind)
				add_node(a, path, path, permissions);
		}
		if (c->nodes & RESOURCE_NODE_RDMA_CM && s->node->has_rdma_cm)
			add_node(a, RDMA_CM, RDMA_CM, permissions);
	}
}

static bool is_uio(const struct node_device *d)
{
	return *d->uio && (strcmp(d->driver, "uio") == 0 || strcmp(d->driver, "igb_uio") == 0);
}

static void vfio_path(const struct node_device *d, bool host, char ret[static PATH_SIZE])
{
	snprintf(ret, PATH_SIZE, "/dev/vfio/%s%d", host && d->noiommu ? "noiommu-" : "",
		 d->iommu_group);
}

static void add_user_driver_nodes(const struct node_device *d, struct answer *a)
{
	char host[PATH_SIZE], container[PATH_SIZE];

	if (strcmp(d->driver, "vfio-pci") == 0) {
		add_node(a, VFIO, VFIO, "rw");
		vfio_path(d, true, host);
		vfio_path(d, false, container);
		if (d->iommu_group >= 0)
			add_node(a, host, container, "rw");
	}
	if (is_uio(d)) {
		snprintf(host, sizeof(host), "/dev/%s", d->uio);
		add_node(a, host, host, "rw");
	}
}

static void add_member_nodes(const struct resources *s, const struct resource *r,
			     const struct resource_member *m, struct answer *a)
{
	const struct node_device *d = m->device;
	const struct selector *sel = &r->conf->selectors[m->selector];
	char path[PATH_SIZE];

	if (r->conf->form == RESOURCE_SHARED) {
		add_rdma_nodes(s, r->conf, d, "rwm", a);
		return;
	}
	add_user_driver_nodes(d, a);
	if (sel->is_rdma)
		add_rdma_nodes(s, r->conf, d, "rw", a);
	if (sel->vdpa_type && *d->vdpa_char) {
		snprintf(path, sizeof(path), "/dev/%s", d->vdpa_char);
		add_node(a, path, path, "mrw");
	}
	if (sel->need_vhost_net && s->node->has_vhost_net) {
		add_node(a, "/dev/vhost-net", "/dev/vhost-net", "rw");
		add_node(a, "/dev/net/tun", "/dev/net/tun", "rw");
	}
}

/* --- PCIDEVICE_..._INFO: the original encodes Go maps, so keys are sorted --- */

static void put_rdma_info(const struct resources *s, const struct node_device *d,
			  struct json_out *o)
{
	/* takes the last node of each kind, as the original's loop does; writes the keys in sorted
	 * order */
	const char *last[NODE_CHAR_KINDS] = {0};
	static const enum node_char_kind before[] = {NODE_ISSM}, after[] = {NODE_UMAD, NODE_UVERBS};
	char path[PATH_SIZE];

	for (size_t i = 0; i < d->n_rdma; i++)
		for (size_t k = 0; k < d->rdma[i].n_chars; k++)
			last[d->rdma[i].chars[k].kind] = d->rdma[i].chars[k].name;
	jo_key(o, "rdma");
	jo_obj(o);
	for (size_t i = 0; i < ARRAY_LEN(before) + ARRAY_LEN(after); i++) {
		enum node_char_kind kind = i < ARRAY_LEN(before) ? before[i]
								 : after[i - ARRAY_LEN(before)];

		if (i == ARRAY_LEN(before) && s->node->has_rdma_cm && d->n_rdma)
			jo_kstr(o, "rdma_cm", RDMA_CM);
		if (i == ARRAY_LEN(before) && d->n_rdma)
			jo_kstr(o, "rdma_dev", d->rdma[0].name);
		if (!last[kind])
			continue;
		snprintf(path, sizeof(path), DEV_INFINIBAND "%s", last[kind]);
		jo_kstr(o, node_char_kind_name(kind), path);
	}
	jo_end_obj(o);
}

/* Writes "extra" from the configured additional info: the keys under "*" apply to all devices;
 * the keys under this device's id override them. */
static void put_extra(const struct resource_conf *c, const char *id, struct json_out *o)
{
	const struct json *const from[] = {json_get(c->additional, "*"),
					   json_get(c->additional, id)};
	auto_tree struct json_tree *t = json_tree_new(JSON_OBJECT);
	auto_buf struct buf b;
	auto_json struct json_doc *doc = NULL;
	struct json_out out;

	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		struct json_walk w = json_walk_start(from[i]);
		const struct json *v;
		const char *key;

		while ((v = json_walk_next(&w, &key)))
			json_tree_put_text(t, key, json_string(v) ? json_string(v) : "");
	}
	/* writes the JSON, parses it and writes it again with sorted keys */
	buf_init(&b, RESOURCE_TEXT_MAX * 2);
	jo_init(&out, &b, 0);
	json_tree_write(t, &out);
	jo_key(o, "extra");
	if (json_parse(&doc, buf_span(&b), b.max, NULL) == 0)
		jo_val(o, json_root(doc), true);
	else
		jo_null(o);
}

static void put_mounts(struct json_out *o, const char *name, const char *const pairs[][2], size_t n)
{
	jo_key(o, name);
	jo_obj(o);
	for (size_t i = 0; i < n; i++)
		if (pairs[i][1])
			jo_kstr(o, pairs[i][0], pairs[i][1]);
	jo_end_obj(o);
}

static void put_info(const struct resources *s, const struct resource *r,
		     const struct resource_member *m, struct json_out *o)
{
	const struct node_device *d = m->device;
	const struct selector *sel = &r->conf->selectors[m->selector];
	char path[PATH_SIZE];

	jo_key(o, d->id);
	jo_obj(o);
	if (r->conf->additional)
		put_extra(r->conf, d->id, o);
	put_mounts(o, "generic", (const char *const[][2]){{"deviceID", d->id}}, 1);
	if (sel->is_rdma)
		put_rdma_info(s, d, o);
	if (is_uio(d)) {
		snprintf(path, sizeof(path), "/dev/%s", d->uio);
		put_mounts(o, "uio", (const char *const[][2]){{"mount", path}}, 1);
	}
	if (sel->vdpa_type) {
		snprintf(path, sizeof(path), "/dev/%s", d->vdpa_char);
		put_mounts(o, "vdpa",
			   (const char *const[][2]){{"mount", *d->vdpa_char ? path : NULL}}, 1);
	}
	if (strcmp(d->driver, "vfio-pci") == 0) {
		vfio_path(d, false, path);
		put_mounts(
			o, "vfio",
			(const char *const[][2]){{"dev-mount", d->iommu_group >= 0 ? path : NULL},
						 {"mount", VFIO}},
			2);
	}
	if (sel->need_vhost_net && s->node->has_vhost_net)
		put_mounts(o, "vhost",
			   (const char *const[][2]){{"net-mount", "/dev/vhost-net"},
						    {"tun-mount", "/dev/net/tun"}},
			   2);
	jo_end_obj(o);
}

/* --- device-info files --- */

static void put_rdma_names(const struct node_device *d, struct json_out *o)
{
	auto_buf struct buf names;

	buf_init(&names, PCI_NAME_MAX * 64);
	for (size_t i = 0; i < d->n_rdma; i++)
		buf_printf(&names, "%s%s", i ? "," : "", d->rdma[i].name);
	if (names.len)
		jo_kstr(o, "rdma-device", names.p);
}

static char *devinfo_text(const struct resource *r, const struct resource_member *m)
{
	const struct node_device *d = m->device;
	const struct selector *sel = &r->conf->selectors[m->selector];
	bool vdpa = sel->vdpa_type && *d->vdpa;
	auto_buf struct buf b;
	struct json_out o;
	char path[PATH_SIZE];

	buf_init(&b, INFO_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "type", vdpa ? "vdpa" : "pci");
	jo_kstr(&o, "version", "1.1.0");
	jo_key(&o, vdpa ? "vdpa" : "pci");
	jo_obj(&o);
	if (vdpa) {
		jo_kstr(&o, "parent-device", d->vdpa);
		jo_kstr(&o, "driver", sel->vdpa_type);
		snprintf(path, sizeof(path), "/dev/%s", d->vdpa_char);
		if (*d->vdpa_char)
			jo_kstr(&o, "path", path);
	}
	jo_kstr(&o, "pci-address", d->bdf);
	if (!vdpa && sel->is_rdma)
		put_rdma_names(d, &o);
	jo_end_obj(&o);
	jo_end_obj(&o);
	return buf_take(&b);
}

/* Replaces each '/', so that a name from the configuration or the kernel is one file name. */
static char *flat(char *name)
{
	for (char *at = name; (at = strchr(at, '/'));)
		*at = '-';
	return name;
}

char *resource_devinfo_path(const struct resource_conf *c, const char *id)
{
	auto_free char *name = flat(xasprintf("%s-%s-device.json", c->full, id));

	return xasprintf(PATH_DEVINFO_DP "/%s", name);
}

/* --- CDI --- */

static const char *const kinds[] =
	{[NODE_NET] = "net-pci", [NODE_ACCELERATOR] = "net-accel", [NODE_AUX] = "net-sf"};

/* Returns the CDI kind, such as "intel.com/net-pci" or "nvidia.com/net-rdma"; the caller frees
 * it. */
static char *resource_cdi_kind(const struct resource_conf *c)
{
	return c->form == RESOURCE_SHARED ? xstrdup(SHARED_KIND)
					  : xasprintf("%s/%s", c->prefix, kinds[c->class]);
}

char *resource_cdi_path(const struct resource_conf *c)
{
	auto_free char *name = NULL;

	if (c->form == RESOURCE_SRIOV)
		name = xasprintf("sriov-dp-%s-%s-%s", c->prefix, kinds[c->class], c->name);
	else if (strcmp(c->prefix, RESOURCE_SHARED_PREFIX) == 0)
		name = xasprintf("nvidia.com_%s", c->name);
	else
		name = xasprintf("nvidia.com_%s_%s", c->prefix, c->name);
	return xasprintf(PATH_CDI "/%s.yaml", flat(name));
}

/* Returns the CDI name of a device. The name of a shared HCA contains the resource: two resources
 * may share the HCA, and CDI refuses a device that two files define. */
static char *cdi_device(const struct resource_conf *c, const char *id)
{
	return c->form == RESOURCE_SHARED ? xasprintf("%s.%s", c->name, id) : xstrdup(id);
}

static bool has_verbs(const struct answer *a)
{
	for (size_t i = 0; i < a->n_nodes; i++)
		if (strncmp(a->nodes[i].host, VERBS, strlen(VERBS)) == 0)
			return true;
	return false;
}

/* Adds the hook, which applies to every container with a device of this specification. */
static void put_hook(const struct resource_hook *hook, struct json_out *o)
{
	const char *const args[] = {"unirail", "memlock-hook", hook->memlock};

	jo_key(o, "containerEdits");
	jo_obj(o);
	jo_key(o, "hooks");
	jo_arr(o);
	jo_obj(o);
	jo_kstr(o, "hookName", "createRuntime");
	jo_kstr(o, "path", hook->path);
	jo_key(o, "args");
	jo_arr(o);
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		jo_str(o, args[i]);
	jo_end_arr(o);
	jo_end_obj(o);
	jo_end_arr(o);
	jo_end_obj(o);
}

size_t resource_cdi_write(const struct resources *s, const struct resource *r,
			  const struct resource_hook *hook, struct buf *b)
{
	auto_free char *kind = resource_cdi_kind(r->conf);
	bool is_rdma = false;
	struct json_out o;
	size_t n = 0;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kstr(&o, "cdiVersion", "0.5.0"); /* 0.5.0 is the first version with hostPath */
	jo_kstr(&o, "kind", kind);
	jo_key(&o, "devices");
	jo_arr(&o);
	for (size_t i = 0; i < r->n; i++) {
		auto_answer struct answer a = {0};
		auto_free char *name = cdi_device(r->conf, r->v[i].device->id);

		add_member_nodes(s, r, &r->v[i], &a);
		/* CDI refuses a device without edits */
		if (!a.n_nodes)
			continue;
		n++;
		is_rdma |= has_verbs(&a);
		jo_obj(&o);
		jo_kstr(&o, "name", name);
		jo_key(&o, "containerEdits");
		jo_obj(&o);
		jo_key(&o, "deviceNodes");
		jo_arr(&o);
		for (size_t k = 0; k < a.n_nodes; k++) {
			jo_obj(&o);
			jo_kstr(&o, "path", a.nodes[k].container);
			jo_kstr(&o, "hostPath", a.nodes[k].host);
			jo_kstr(&o, "permissions", "rw");
			jo_end_obj(&o);
		}
		jo_end_arr(&o);
		jo_end_obj(&o);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	if (is_rdma && hook && hook->path)
		put_hook(hook, &o);
	jo_end_obj(&o);
	buf_char(b, '\n');
	return n;
}

bool resource_cdi_is_own(struct span text)
{
	auto_json struct json_doc *doc = NULL;
	const char *kind, *slash;

	if (json_parse(&doc, text, CDI_MAX, NULL) < 0)
		return false;
	kind = json_string(json_get(json_root(doc), "kind"));
	slash = kind ? strchr(kind, '/') : NULL;
	if (!slash || !json_get(json_root(doc), "cdiVersion"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i] && strcmp(slash + 1, kinds[i]) == 0)
			return true;
	return strcmp(kind, SHARED_KIND) == 0;
}

/* Adds CDI devices, instead of device nodes, for the devices that have device nodes. */
static void to_cdi(const struct resources *s, const struct resource *r,
		   const struct resource_member *const *v, size_t n, struct answer *ret)
{
	auto_free char *kind = resource_cdi_kind(r->conf);

	for (size_t i = 0; i < n; i++) {
		auto_answer struct answer a = {0};
		auto_free char *name = cdi_device(r->conf, v[i]->device->id);

		add_member_nodes(s, r, v[i], &a);
		if (a.n_nodes)
			VEC_PUSH(ret->cdi, ret->n_cdi) = xasprintf("%s=%s", kind, name);
	}
}

/* --- Allocate --- */

/* Returns "PCIDEVICE_INTEL_COM_SRIOV_NET": upper case, with dots replaced by underscores; other
 * characters stay. */
static char *env_name(const struct resource_conf *c, const char *suffix)
{
	char *name = xasprintf("PCIDEVICE_%s_%s%s", c->prefix, c->name, suffix);

	for (char *at = name; *at; at++) {
		if (*at == '.')
			*at = '_';
		if (*at >= 'a' && *at <= 'z')
			*at = (char)(*at - 'a' + 'A');
	}
	return name;
}

static int by_id(const void *a, const void *b)
{
	const struct resource_member *const *x = a, *const *y = b;

	return strcmp((*x)->device->id, (*y)->device->id);
}

static void add_envs(const struct resources *s, const struct resource *r,
		     const struct resource_member **v, size_t n, struct answer *a)
{
	auto_buf struct buf ids, info;
	struct json_out o;

	buf_init(&ids, IDS_MAX);
	buf_init(&info, INFO_MAX);
	for (size_t i = 0; i < n; i++)
		buf_printf(&ids, "%s%s", i ? "," : "", v[i]->device->id);
	add_env(a, env_name(r->conf, ""), buf_take(&ids));
	qsort(v, n, sizeof(const struct resource_member *), by_id);
	jo_init(&o, &info, 0);
	jo_obj(&o);
	for (size_t i = 0; i < n; i++)
		put_info(s, r, v[i], &o);
	jo_end_obj(&o);
	add_env(a, env_name(r->conf, "_INFO"), buf_take(&info));
}

static bool contains(const struct resource_member *const *v, size_t n,
		     const struct resource_member *m)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == m)
			return true;
	return false;
}

/* Collects the devices behind the ids, each once. */
static int collect(const struct resource *r, const char *const *ids, size_t n,
		   const struct resource_member ***ret, size_t *count, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int64_t at = resource_id_number(r, ids[i]);
		size_t from, many;

		if (at < 0)
			return err_kind(e, ERR_UNAVAILABLE, -ENOENT,
					"resource %s has no device '%.80s' any more", r->conf->full,
					ids[i]);
		resource_id_members(r, (size_t)at, &from, &many);
		for (size_t k = from; k < from + many; k++)
			if (!contains(*ret, *count, &r->v[k]))
				VEC_PUSH(*ret, *count) = &r->v[k];
	}
	return n ? 0
		 : err_kind(e, ERR_CONF, -EINVAL, "resource %s: the request names no device",
			    r->conf->full);
}

int resource_allocate(const struct resources *s, const struct resource *r, const char *const *ids,
		      size_t n, bool use_cdi, struct answer *ret, struct err *e)
{
	auto_free const struct resource_member **v = NULL;
	auto_answer struct answer a = {0};
	size_t count = 0;
	int code = collect(r, ids, n, &v, &count, e);

	if (code < 0)
		return code;
	for (size_t i = 0; i < count && !use_cdi; i++)
		add_member_nodes(s, r, v[i], &a);
	if (use_cdi)
		to_cdi(s, r, v, count, &a);
	if (r->conf->form == RESOURCE_SRIOV) {
		for (size_t i = 0; i < count && r->conf->class == NODE_NET; i++)
			VEC_PUSH(a.files, a.n_files) = (struct answer_file){
				resource_devinfo_path(r->conf, v[i]->device->id),
				devinfo_text(r, v[i])};
		add_envs(s, r, v, count, &a);
	}
	*ret = a;
	a = (struct answer){0};
	return 0;
}

/* --- writing of device-info files --- */

/* Returns whether the file already has this content and mode 0444: a repeated allocation of a VF
 * usually writes the same text, and reading costs a tenth of writing. */
static bool is_written(const struct root *root, const struct answer_file *f)
{
	size_t n = strlen(f->text);
	auto_buf struct buf b;
	struct stat st;

	buf_init(&b, n);
	if (file_lstat(root, f->path, &st, NULL) < 0 || !S_ISREG(st.st_mode) ||
	    (st.st_mode & 07777) != DEVINFO_MODE || st.st_size != (off_t)n)
		return false;
	return file_read(root, f->path, n, &b, NULL) >= 0 && b.len == n &&
	       memcmp(b.p, f->text, n) == 0;
}

static int write_file(const struct root *root, const struct answer_file *f, struct err *e)
{
	if (!f->text)
		return file_remove(root, f->path, e);
	return is_written(root, f) ? 0
				   : file_replace(root, f->path, span_of(f->text), DEVINFO_MODE, e);
}

int answer_files_write(const struct root *root, const struct answer *a, struct err *e)
{
	int first = a->n_files ? dir_make(root, PATH_DEVINFO_DP, 0755, e) : 0;

	for (size_t i = 0; i < a->n_files && first >= 0; i++) {
		int r = write_file(root, &a->files[i], e);

		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}
