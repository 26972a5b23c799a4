/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds modules and gpudirect. The host's modprobe loads the modules, so that the options in
 * modprobe.d (`options ib_core netns_mode=0`) also apply to the modules that are loaded as
 * dependencies. At boot systemd loads the modules listed in modules-load.d.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/nics.h"
#include "host/steps/steps.h"

#define LOAD_FILE "/etc/modules-load.d/unirail.conf"

enum { MODULE_NAME_MAX = 56, MODULES_TEXT_MAX = 1 << 20, MODPROBE_MS = 60000, NEEDS_MAX = 4096 };

static bool has_module(const struct host *h, const char *name)
{
	auto_free char *path = xasprintf("/sys/module/%s", name);

	return file_exists(&h->root, path);
}

/* --- modules --- */

struct modules_want {
	struct host_want head;
	const char *load;
};

static const struct opt modules_keys[] = {
	{"load", 0, OPT_STR, "NAME,...",
	 "modules to load now and at boot (default on a host with RDMA NICs: ib_umad and "
	 "rdma_ucm; with InfiniBand also ib_ipoib; with NVIDIA's GPU driver also nvidia_peermem)",
	 offsetof(struct modules_want, load), 0, 0},
	{0},
};

struct module {
	char name[MODULE_NAME_MAX];
	/* unloaded modules that modprobe loads together with this one, "rdma_cm,ib_cm"; NULL or "":
	 * none */
	char *needs;
	bool loaded, builtin, available;
};

struct modules_found {
	struct module *v;
	size_t n;
	struct host_file file;
	bool rdma, infiniband, nvidia;
	bool has_list; /* the kernel's list of modules was found */
	bool has_modprobe;
};

static bool module_name_ok(struct span s)
{
	if (!s.n || s.n >= MODULE_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || (c == '-' && i)))
			return false;
	}
	return true;
}

static int modules_check(void *want, struct err *e)
{
	const struct modules_want *w = want;
	struct span rest = span_of(w->load), name;

	while (span_cut(&rest, ',', &name))
		if (!module_name_ok(span_trim(name)))
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"load is '%s', expected names of modules separated by commas",
				w->load);
	return 0;
}

/* Adds a module once. The kernel's name has underscores, even if the user wrote '-'. */
static void add_module(struct modules_found *f, struct span name)
{
	struct module m = {.loaded = false};

	name = span_trim(name);
	if (!module_name_ok(name))
		return;
	snprintf(m.name, sizeof(m.name), "%.*s", (int)name.n, name.p);
	for (char *p = m.name; *p; p++)
		if (*p == '-')
			*p = '_';
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->v[i].name, m.name))
			return;
	VEC_PUSH(f->v, f->n) = m;
}

static void default_modules(struct modules_found *f)
{
	add_module(f, span_of("ib_umad"));
	add_module(f, span_of("rdma_ucm"));
	if (f->infiniband)
		add_module(f, span_of("ib_ipoib"));
	if (f->nvidia)
		add_module(f, span_of("nvidia_peermem"));
}

/* Returns whether a line of modules.dep or modules.builtin is this module's:
 * "kernel/.../ib_umad.ko.xz: ...". */
static bool is_line_of(struct span line, const char *module)
{
	size_t n = strlen(module), i;
	struct span path;
	const char *base;

	span_cut(&line, ':', &path);
	base = path.n ? memrchr(path.p, '/', path.n) : NULL;
	base = base ? base + 1 : path.p;
	if (!base || (size_t)(path.p + path.n - base) < n + 3)
		return false;
	for (i = 0; i < n; i++)
		if ((base[i] == '-' ? '_' : base[i]) != module[i])
			return false;
	return !memcmp(base + n, ".ko", 3);
}

static char *module_of(struct span path)
{
	const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
	struct span name = path;
	char *ret;

	if (slash)
		name = (struct span){slash + 1, (size_t)(path.p + path.n - slash - 1)};
	ret = span_dup(name);
	for (char *p = ret; *p; p++)
		if (*p == '-')
			*p = '_';
	if (strstr(ret, ".ko"))
		*strstr(ret, ".ko") = '\0';
	return ret;
}

/* `line` is a line of modules.dep, "MODULE: DEPENDENCY ...". Returns the dependencies that are not
 * loaded, "rdma_cm,ib_cm"; each comes before those that it needs. modprobe loads them together
 * with the module. */
static char *not_loaded(struct host *h, struct span line)
{
	struct span path;
	struct buf b;

	buf_init(&b, NEEDS_MAX);
	span_cut(&line, ':', &path);
	while (span_cut(&line, ' ', &path)) {
		auto_free char *name = module_of(span_trim(path));

		if (module_name_ok(span_of(name)) && !has_module(h, name))
			buf_printf(&b, "%s%s", b.len ? "," : "", name);
	}
	return buf_take(&b);
}

static void find_lines(struct host *h, struct modules_found *f, const char *release,
		       const char *list, bool builtin)
{
	auto_free char *path = xasprintf("/lib/modules/%s/%s", release, list);
	auto_buf struct buf b;
	struct span rest, line;

	buf_init(&b, 8 * (size_t)MODULES_TEXT_MAX);
	if (file_read(&h->root, path, b.max, &b, NULL) < 0)
		return;
	if (!builtin)
		f->has_list = true;
	for (rest = buf_span(&b); span_cut(&rest, '\n', &line);)
		for (size_t i = 0; i < f->n; i++)
			if (is_line_of(line, f->v[i].name)) {
				f->v[i].builtin |= builtin;
				f->v[i].available = true;
				if (!builtin && !f->v[i].needs)
					f->v[i].needs = not_loaded(h, line);
			}
}

static void inspect_nics(struct host *h, struct modules_found *f)
{
	auto_free struct host_nic *nics = NULL;
	size_t n = 0;

	if (host_nics_read(h, &nics, &n, NULL) < 0)
		return;
	f->rdma = n > 0;
	for (size_t i = 0; i < n; i++)
		f->infiniband |= nics[i].infiniband;
}

static int modules_observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct modules_found *f = xcalloc(1, sizeof(*f));
	auto_free char *release = host_attr_read(h, "/proc/sys/kernel/osrelease");
	bool given = false;

	*found = f;
	inspect_nics(h, f);
	f->nvidia = has_module(h, "nvidia");
	for (size_t i = 0; i < w->n; i++) {
		const struct modules_want *one = (const struct modules_want *)w->v[i];
		struct span rest = span_of(one->load), name;

		given |= one->load != NULL;
		while (span_cut(&rest, ',', &name))
			add_module(f, name);
	}
	/* A host without RDMA NICs needs no modules. */
	if (!given && f->rdma)
		default_modules(f);
	if (release && !strchr(release, '/')) {
		find_lines(h, f, release, "modules.builtin", true);
		find_lines(h, f, release, "modules.dep", false);
	}
	for (size_t i = 0; i < f->n; i++)
		f->v[i].loaded = has_module(h, f->v[i].name);
	f->has_modprobe = !h->kernel || host_has_program(h, "modprobe");
	return host_file_read(h, LOAD_FILE, &f->file, e);
}

static void modules_forget(void *found)
{
	struct modules_found *f = found;

	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		free(f->v[i].needs);
	free(f->v);
	host_file_done(&f->file);
	free(f);
}

static void module_step(struct host_plan *p, const struct modules_found *f, const struct module *m)
{
	struct host_step *s = host_plan_add(p, "modules", m->name);

	host_step_text(s, "not loaded", "loaded");
	host_step_command(s, "modprobe %s", m->name);
	host_op_begin(&s->action, "load");
	host_op_add(&s->action, "module", "%s", m->name);
	host_op_begin(&s->undo, "unload");
	host_op_add(&s->undo, "module", "%s", m->name);
	if (m->needs && m->needs[0]) {
		host_op_add(&s->action, "needs", "%s", m->needs);
		host_op_add(&s->undo, "needs", "%s", m->needs);
	}
	if (!f->has_modprobe) {
		s->lacks_program = true;
		host_step_blocked(s, "modprobe is not on this host: install kmod");
	} else if (f->has_list && !m->available)
		host_step_blocked(s,
				  "this kernel has no module '%s': install the package that has it "
				  "(linux-modules-extra, NVIDIA's driver)",
				  m->name);
}

static int modules_decide(const struct host_wants *w, const void *found, struct host_plan *p,
			  struct err *e)
{
	const struct modules_found *f = found;
	auto_buf struct buf text = {0};

	(void)e;
	if (!w->n || !f->n)
		return 0;
	buf_init(&text, MODULES_TEXT_MAX);
	buf_str(&text, "# written by `unirail host modules`\n");
	for (size_t i = 0; i < f->n; i++) {
		const struct module *m = &f->v[i];

		if (m->builtin)
			continue;
		if (!m->loaded)
			module_step(p, f, m);
		/* a module that does not exist is not written, because systemd-modules-load would
		 * fail at each boot */
		if (m->loaded || m->available || !f->has_list)
			buf_printf(&text, "%s\n", m->name);
	}
	host_plan_file(p, "modules", "host", &f->file, buf_span(&text).p, 0644);
	return 0;
}

static int load(struct host *h, char *name, struct err *e)
{
	char modprobe[] = "modprobe", end[] = "--";
	char *argv[] = {modprobe, end, name, NULL};
	auto_buf struct buf out;
	int r;

	buf_init(&out, 4096);
	r = host_run(h, argv, &out, MODPROBE_MS, e);
	if (r < 0)
		return r;
	if (r > 0 || !has_module(h, name)) {
		struct span output = span_trim(buf_span(&out)), line = {0};

		span_cut(&output, '\n', &line);
		return err_kind(e, ERR_UNAVAILABLE, -ENOENT, "load module '%s': %.*s", name,
				line.n ? (int)line.n : 26,
				line.n ? line.p : "modprobe did not load it");
	}
	return 0;
}

static int unload(struct host *h, const char *name, struct err *e)
{
	if (!has_module(h, name))
		return 0;
	if (syscall(SYS_delete_module, name, O_NONBLOCK) == 0 || errno == ENOENT)
		return 0;
	if (errno == EWOULDBLOCK || errno == EBUSY)
		return err_kind(e, ERR_AGAIN, -EBUSY,
				"unload module '%s': Device or resource busy (EBUSY): it is in use",
				name);
	return err_sys(e, -errno, "unload module '%s'", name);
}

/* Unloads the modules of an argument `needs`, except those that are in use now. */
static void unload_needs(struct host *h, const char *list)
{
	struct span rest = span_of(list), name;

	while (span_cut(&rest, ',', &name)) {
		auto_free char *one = span_dup(name);

		if (module_name_ok(name))
			unload(h, one, NULL);
	}
}

static int modules_act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *module = host_op_get(op, "module");
	auto_free char *name = xstrdup(module ? module : "");

	if (!module_name_ok(span_of(name)))
		return err_kind(e, ERR_CONF, -EINVAL, "invalid module name '%s'", name);
	if (!strcmp(op->verb, "unload")) {
		int r = unload(h, name, e);

		if (r >= 0)
			unload_needs(h, host_op_get(op, "needs"));
		return r;
	}
	return has_module(h, name) ? 0 : load(h, name, e);
}

static int modules_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *module = host_op_get(op, "module");
	struct span rest = span_of(host_op_get(op, "needs")), name;

	(void)e;
	if (!module || has_module(h, module) == !strcmp(op->verb, "load"))
		return 1;
	/* modprobe first loads the modules that this module needs (argument `needs`): a load
	 * that was interrupted is in effect if at least one of them is loaded. */
	while (span_cut(&rest, ',', &name)) {
		auto_free char *one = span_dup(name);

		if (has_module(h, one))
			return 1;
	}
	return 0;
}

static void modules_show(const void *found, struct host_rows *rows)
{
	const struct modules_found *f = found;

	for (size_t i = 0; i < f->n; i++)
		host_rows_add(rows, "host", f->v[i].name, "%s",
			      f->v[i].builtin  ? "built into the kernel"
			      : f->v[i].loaded ? "loaded"
					       : "not loaded");
}

const struct host_kind host_modules = {
	.name = "modules",
	.section = "modules",
	.help = "kernel modules of RDMA, now and at boot",
	.keys = modules_keys,
	.size = sizeof(struct modules_want),
	.check = modules_check,
	.observe = modules_observe,
	.forget = modules_forget,
	.decide = modules_decide,
	.act = modules_act,
	.in_effect = modules_in_effect,
	.show = modules_show,
};

/* --- gpudirect: a check, it changes nothing --- */

struct gpudirect_want {
	struct host_want head;
};

static const struct opt gpudirect_keys[] = {{0}};

struct gpu {
	char bdf[PCI_BDF_MAX];
	uint64_t bar1;
};

struct gpudirect_found {
	struct gpu *v;
	size_t n;
	bool nvidia_gpu; /* at least one GPU is NVIDIA's */
	bool nvidia, open_driver, peermem, iommu_translates;
	unsigned int major, minor; /* version of the kernel */
};

/* Returns the size of BAR1 in bytes; 0: unknown. The second line of the file `resource` describes
 * BAR1: "0xSTART 0xEND 0xFLAGS". */
static uint64_t bar1_size(struct host *h, const char *bdf)
{
	auto_free char *path = xasprintf("/sys/bus/pci/devices/%s/resource", bdf);
	auto_buf struct buf b;
	struct span rest, line, start, end;
	uint64_t from, to;

	buf_init(&b, 4096);
	if (file_read(&h->root, path, 4096, &b, NULL) < 0)
		return 0;
	rest = buf_span(&b);
	if (!span_cut(&rest, '\n', &line) || !span_cut(&rest, '\n', &line))
		return 0;
	if (!span_cut(&line, ' ', &start) || !span_cut(&line, ' ', &end) ||
	    num_hex(start, UINT64_MAX, &from) < 0 || num_hex(end, UINT64_MAX, &to) < 0 ||
	    to <= from)
		return 0;
	return to - from + 1;
}

static void read_gpus(struct host *h, struct gpudirect_found *f)
{
	auto_free struct pci_dev *all = NULL;
	size_t n = 0;

	if (!file_exists(&h->root, "/sys/bus/pci/devices") ||
	    pci_list(&h->root, &all, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct gpu g = {.bar1 = 0};

		if (!host_is_gpu(&all[i]))
			continue;
		str_copy(g.bdf, sizeof(g.bdf), all[i].bdf);
		g.bar1 = bar1_size(h, g.bdf);
		f->nvidia_gpu |= all[i].vendor == PCI_VENDOR_NVIDIA;
		VEC_PUSH(f->v, f->n) = g;
	}
}

/* IOMMU groups of type "identity" pass addresses through; those of type "DMA" and "DMA-FQ"
 * translate them. */
static bool iommu_translates(struct host *h)
{
	char **names = NULL;
	bool translates = false;
	size_t n = 0;

	if (dir_list(&h->root, "/sys/kernel/iommu_groups", &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !translates; i++) {
		auto_free char *path = xasprintf("/sys/kernel/iommu_groups/%s/type", names[i]);
		auto_free char *type = host_attr_read(h, path);

		translates = type && !strncmp(type, "DMA", 3);
	}
	str_list_free(names, n);
	return translates;
}

static int gpudirect_observe(struct host *h, const struct host_wants *w, void **found,
			     struct err *e)
{
	struct gpudirect_found *f = xcalloc(1, sizeof(*f));
	auto_free char *release = host_attr_read(h, "/proc/sys/kernel/osrelease");
	auto_free char *version = host_attr_read(h, "/proc/driver/nvidia/version");

	(void)w, (void)e;
	*found = f;
	read_gpus(h, f);
	f->nvidia = has_module(h, "nvidia");
	f->open_driver = version && strstr(version, "Open Kernel Module");
	f->peermem = has_module(h, "nvidia_peermem") || has_module(h, "nv_peer_mem");
	f->iommu_translates = iommu_translates(h);
	if (release && sscanf(release, "%u.%u", &f->major, &f->minor) != 2)
		f->major = f->minor = 0;
	return 0;
}

static void gpudirect_forget(void *found)
{
	struct gpudirect_found *f = found;

	if (f)
		free(f->v);
	free(f);
}

static bool has_dmabuf(const struct gpudirect_found *f)
{
	return f->open_driver && (f->major > 5 || (f->major == 5 && f->minor >= 12));
}

static int gpudirect_decide(const struct host_wants *w, const void *found, struct host_plan *p,
			    struct err *e)
{
	const struct gpudirect_found *f = found;

	(void)e;
	if (!w->n || !f->n)
		return 0;
	/* These two remarks concern only NVIDIA's driver. */
	if (f->nvidia_gpu && !f->nvidia)
		host_plan_remark(p, "gpudirect", "host",
				 "NVIDIA's GPU driver is not loaded: GPUs cannot be RDMA targets");
	else if (f->nvidia_gpu && !f->peermem && !has_dmabuf(f))
		host_plan_remark(
			p, "gpudirect", "host",
			"neither nvidia_peermem nor dma-buf (open GPU driver, Linux 5.12) is "
			"available: RDMA goes through host memory; load the module by 'unirail host "
			"modules --load nvidia_peermem'");
	if (f->iommu_translates)
		host_plan_remark(p, "gpudirect", "host",
				 "the IOMMU translates addresses, which sends peer-to-peer traffic "
				 "through the root complex: boot with iommu=pt");
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].bar1 && f->v[i].bar1 <= UINT64_C(256) << 20)
			host_plan_remark(
				p, "gpudirect", f->v[i].bdf,
				"BAR1 is %llu MiB: RDMA can reach no more of the GPU's "
				"memory; enable large BARs (Above 4G Decoding) in the BIOS",
				(unsigned long long)(f->v[i].bar1 >> 20));
	return 0;
}

static void gpudirect_show(const void *found, struct host_rows *rows)
{
	const struct gpudirect_found *f = found;

	host_rows_add(rows, "host", "gpus", "%zu", f->n);
	host_rows_add(rows, "host", "nvidia-driver", "%s",
		      !f->nvidia       ? "not loaded"
		      : f->open_driver ? "open"
				       : "proprietary");
	host_rows_add(rows, "host", "peermem", "%s", f->peermem ? "loaded" : "not loaded");
	host_rows_add(rows, "host", "dma-buf", "%s", has_dmabuf(f) ? "yes" : "no");
	host_rows_add(rows, "host", "iommu", "%s",
		      f->iommu_translates ? "translates" : "off or pass-through");
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].bar1)
			host_rows_add(rows, f->v[i].bdf, "bar1", "%llu MiB",
				      (unsigned long long)(f->v[i].bar1 >> 20));
}

const struct host_kind host_gpudirect = {
	.name = "gpudirect",
	.section = "gpudirect",
	.help = "checks the requirements of GPUDirect RDMA; changes nothing",
	.keys = gpudirect_keys,
	.size = sizeof(struct gpudirect_want),
	.observe = gpudirect_observe,
	.forget = gpudirect_forget,
	.decide = gpudirect_decide,
	.show = gpudirect_show,
};
