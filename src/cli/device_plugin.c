/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail device-plugin`: runs the device plugins without an agent. This file also has the
 * entry points that run it as the original programs k8s-rdma-shared-dp and sriovdp, with their
 * flags. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/nri/adjust.h"
#include "base/alloc.h"
#include "base/paths.h"
#include "cli/cli.h"
#include "device/podres.h"
#include "device/resource/allocate.h"
#include "device/resource/source.h"
#include "device/serve/serve.h"
#include "kern/sys/caps.h"
#include "server/confine.h"
#include "server/daemon.h"

struct plugin_opts {
	const char *node, *prefix, *plugins_dir, *registry_dir, *pod_resources, *root;
	const char *log_level, *log_format, *sandbox;
	const char *memlock_hook, *memlock;
	bool use_cdi;
};

#define O(m) offsetof(struct plugin_opts, m)
static const struct opt opts[] = {
	{"node", 0, OPT_STR, "NAME",
	 "name of this node; if a directory of configurations has a file of that name, only that "
	 "file of the directory is read",
	 O(node), 0, 0},
	{"resource-prefix", 0, OPT_STR, "PREFIX",
	 "prefix of resourceList's entries without resourcePrefix (" RESOURCE_SRIOV_PREFIX ")",
	 O(prefix), 0, 0},
	{"use-cdi", 0, OPT_FLAG, NULL,
	 "pass devices to the container runtime by CDI instead of as "
	 "device nodes",
	 O(use_cdi), 0, 0},
	{"memlock-hook", 0, OPT_STR, "PATH",
	 "with use-cdi: path of unirail on the host, for container runtimes without NRI: CDI "
	 "specifications name it as a hook that sets the limit rdma-memlock",
	 O(memlock_hook), 0, 0},
	{"rdma-memlock", 0, OPT_STR, "BYTES",
	 "limit of locked memory of containers with RDMA devices, with memlock-hook: unlimited "
	 "(default), a number of bytes, or no (the limit is not changed)",
	 O(memlock), 0, 0},
	{"plugins-dir", 0, OPT_STR, "DIR",
	 "directory of the kubelet's socket (" PATH_DEVICE_PLUGINS ")", O(plugins_dir), 0, 0},
	{"registry-dir", 0, OPT_STR, "DIR",
	 "directory of plugins that the kubelet watches, used if it exists (" DEVICE_PLUGIN_REGISTRY
	 "); '': none",
	 O(registry_dir), 0, 0},
	{"pod-resources", 0, OPT_STR, "PATH",
	 "kubelet's socket that lists the devices of pods, to prefer NICs near a pod's GPUs "
	 "(" PODRES_SOCKET "); '': none",
	 O(pod_resources), 0, 0},
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 O(root), 0, 0},
	{"log-level", 0, OPT_STR, "LEVEL", "lowest level that is logged: debug, info, warn, error",
	 O(log_level), 0, 0},
	{"log-format", 0, OPT_CHOICE, "logfmt|json", "format of the log", O(log_format), 0, 0},
	{"sandbox", 0, OPT_CHOICE, SETTINGS_ON_OFF_LOG,
	 "deny system calls and files that the plugin does not need (seccomp, Landlock)",
	 O(sandbox), 0, 0},
	{0},
};

const struct cmd device_plugin_cmds[] = {
	{NULL, "[CONFIG...]",
	 "advertise RDMA devices and VFs to the kubelet; CONFIG: files, or directories of a mounted "
	 "ConfigMap (" PATH_RESOURCES "); without CONFIG, if this default path does not exist: "
	 "resources named by rail, as 'unirail device plan' prints them",
	 opts, 0, -1},
	{0},
};

struct plugin {
	struct loop *loop;
	struct root root;
	struct daemon *daemon;
	struct device_serve *serve;
};

static void reload(void *arg)
{
	device_serve_reload(((struct plugin *)arg)->serve);
}

static void stop(void *arg)
{
	loop_stop(((struct plugin *)arg)->loop, 0);
}

static const char *or_default(const char *value, const char *otherwise)
{
	return value ? value : otherwise;
}

/* --root does not apply to the kubelet's directories: they are always those of this host. */
static int confine(const struct plugin_opts *o, const struct device_serve_conf *conf, struct err *e)
{
	const char *dirs[] = {or_default(o->plugins_dir, PATH_DEVICE_PLUGINS),
			      or_default(o->registry_dir, DEVICE_PLUGIN_REGISTRY)};
	struct root host;
	struct confine c = {.root = &host, .mode = SANDBOX_AGENT};
	char unconfined[256];
	int r = root_open(&host, NULL, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (*dirs[i] && file_exists(&host, dirs[i]))
			confine_dir(&c, dirs[i], SANDBOX_SOCKETS);
	if (o->root) {
		confine_dir(&c, o->root, SANDBOX_WRITE);
	} else {
		for (size_t i = 0; i < conf->n_sources; i++)
			confine_file(&c, conf->sources[i], SANDBOX_READ);
		confine_dir(&c, "/sys", SANDBOX_READ);
		confine_dir(&c, "/proc", SANDBOX_READ);
		confine_dir(&c, PATH_DEVINFO_DP, SANDBOX_WRITE);
		if (o->use_cdi)
			confine_dir(&c, PATH_CDI, SANDBOX_WRITE);
	}
	confine_enter(&c, o->sandbox, unconfined, sizeof(unconfined));
	root_close(&host);
	return 0;
}

static int start(struct plugin *p, const struct plugin_opts *o, struct device_serve_conf *conf,
		 struct err *e)
{
	static const struct daemon_ops ops = {reload, stop};
	int r = daemon_log(o->log_level, o->log_format, e);

	if (r == 0)
		r = root_open(&p->root, o->root, e);
	if (r == 0)
		r = loop_new(&p->loop, e);
	if (r == 0)
		r = daemon_new(&p->daemon, p->loop, &ops, p, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r < 0)
		return r;
	conf->loop = p->loop;
	conf->root = &p->root;
	r = device_serve_new(&p->serve, conf, e);
	/*
	 * Enters the sandbox here: the loop opens the kubelet's sockets later, and the sandbox
	 * permits these sockets.
	 */
	if (r == 0)
		r = confine(o, conf, e);
	return r;
}

static int check_hook(const struct plugin_opts *o, struct err *e)
{
	uint64_t bytes;

	if (o->memlock_hook && !o->use_cdi)
		return err_kind(e, ERR_CONF, -EINVAL,
				"memlock-hook is part of CDI specifications: set use-cdi as well");
	if (o->memlock_hook && *o->memlock_hook != '/')
		return err_kind(e, ERR_CONF, -EINVAL,
				"memlock-hook '%.80s' is not an absolute "
				"path",
				o->memlock_hook);
	return o->memlock ? nri_memlock_parse(o->memlock, &bytes, e) : 0;
}

static int serve(const struct plugin_opts *o, struct device_serve_conf *conf, struct err *e)
{
	struct plugin p = {.root.fd = -1};
	int r = check_hook(o, e);

	if (r < 0)
		return r;

	conf->dir = o->root;
	conf->node = or_default(o->node, getenv("NODE_NAME"));
	conf->sriov_prefix = o->prefix;
	conf->use_cdi = o->use_cdi;
	conf->hook_path = o->memlock_hook;
	conf->hook_memlock = or_default(o->memlock, "unlimited");
	/* The value "no" means that the limit is not changed. */
	if (strcmp(conf->hook_memlock, "no") == 0)
		conf->hook_path = NULL;
	conf->podres = or_default(o->pod_resources, PODRES_SOCKET);
	if (!*conf->podres)
		conf->podres = NULL;
	conf->plugins.dir = o->plugins_dir;
	conf->plugins.registry = o->registry_dir;
	r = start(&p, o, conf, e);
	if (r == 0)
		r = loop_run(p.loop);
	device_serve_free(p.serve);
	daemon_free(p.daemon);
	loop_free(p.loop);
	if (p.root.fd >= 0)
		root_close(&p.root);
	return r;
}

static int finish(const char *name, int r, const struct err *e)
{
	if (!e->code)
		return r;
	fprintf(stderr, "%s: %s\n", name, e->text);
	return 1;
}

int device_plugin_main(int argc, char **argv)
{
	static const char *const usual[] = {PATH_RESOURCES};
	struct plugin_opts o = {.log_level = "info", .log_format = "logfmt", .sandbox = "on"};
	struct device_serve_conf conf = {
		.sources = usual, .n_sources = 1, .optional = true, .plan = true};
	struct err e = ERR_INIT;
	char **paths = NULL;
	int n = opt_parse(&device_plugin_cmds[0], "unirail device-plugin", argc - 1, argv + 1, &o,
			  &e);
	int r;

	if (n < 0)
		return opt_exit("unirail device-plugin", n, &e);
	if (argc - 1 > n) {
		conf.n_sources = (size_t)(argc - 1 - n);
		conf.optional = conf.plan = false;
		paths = xcalloc(conf.n_sources, sizeof(*paths));
		for (size_t i = 0; i < conf.n_sources; i++)
			paths[i] = path_absolute(argv[1 + n + (int)i]);
		conf.sources = (const char *const *)paths;
	}
	r = serve(&o, &conf, &e);
	str_list_free(paths, paths ? conf.n_sources : 0);
	return finish("unirail device-plugin", r, &e);
}

/* Runs as the original program `name`, with its flags. */
static int original_main(enum resource_form form, const char *name, int argc, char **argv)
{
	struct plugin_opts o = {.log_level = "info", .log_format = "logfmt", .sandbox = "on"};
	struct device_serve_conf conf = {.n_sources = 1};
	struct resource_flags f;
	struct err e = ERR_INIT;
	int r = resource_flags_parse(form, argc - 1, argv + 1, &f, &e);

	if (r < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 2;
	}
	if (f.version || f.help) {
		printf("%s version:%s (unirail)\n", name, unirail_version());
		return 0;
	}
	o.use_cdi = f.use_cdi;
	o.prefix = f.prefix;
	if (f.log_level >= 10)
		o.log_level = "debug";
	conf.sources = &f.config_file;
	/* The original programs have no flags for these settings. */
	o.plugins_dir = getenv("UNIRAIL_DEVICE_PLUGIN_DIR");
	o.registry_dir = getenv("UNIRAIL_DEVICE_PLUGIN_REGISTRY");
	return finish(name, serve(&o, &conf, &e), &e);
}

int shared_dp_main(int argc, char **argv)
{
	return original_main(RESOURCE_SHARED, "k8s-rdma-shared-dp", argc, argv);
}

int sriovdp_main(int argc, char **argv)
{
	return original_main(RESOURCE_SRIOV, "sriovdp", argc, argv);
}
