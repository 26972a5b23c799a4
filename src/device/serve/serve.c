/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "device/resource/allocate.h"
#include "device/resource/plan.h"
#include "device/resource/prefer.h"
#include "device/resource/source.h"
#include "device/serve/facts.h"
#include "device/serve/health.h"
#include "device/serve/pod_gpus.h"
#include "device/serve/port_events.h"
#include "device/serve/sources.h"
#include "kern/net/watch.h"
#include "kern/pci/uevent.h"
#include "wire/http/grpc.h"
#include "wire/json/json.h"

enum {
	CDI_MAX = 4 << 20,
	RESCAN_S = 60, /* periodicUpdateInterval's default in the RDMA shared device plugin */
	/* delay after an event, because a driver causes tens of events when it binds */
	SETTLE_MS = 100,
	/* delay after a change of the configuration, because the files of a ConfigMap change one
	 * after the other */
	CONFIG_SETTLE_MS = 50,
	/* interval at which states are read whose changes cause no events: PCIe errors, ports of
	 * HCAs that the module port_events does not open */
	POLL_MS = 5000,
	/* timeout of the request for the kubelet's list of pods; short, because the kubelet
	 * admits no other pod while it waits for the answer to GetPreferredAllocation */
	PODRES_MS = 1000,
	/* delay of a second reading of the links, because a driver sets the state of the RDMA port
	 * after the carrier */
	AGAIN_MS = 30,
};

/* One state of the node: the inputs read, and the resources decided. */
struct generation {
	struct resource_config config;
	struct node_devices node;
	struct resources set;
};

struct served {
	struct device_serve *s;
	char *name; /* "prefix/name" */
	struct device_plugin *plugin;
	char *cdi; /* path of the CDI specification; NULL: there is none */
	bool is_wanted;
	bool is_waiting; /* waits for the kubelet's list of pods */
	struct served *next;
};

struct device_serve {
	struct device_serve_conf conf;
	struct device_plugins *plugins;
	struct generation *now;
	struct served *served;
	struct resource_messages messages;
	struct health *health;
	struct health_sources *sources; /* NULL if another host's files are read */
	struct port_events *ports;	/* NULL if another host's files are read */
	struct device_facts *facts;	/* NULL if another host's files are read */
	int uevents, links, inotify;
	struct loop_fd *watches[3];
	struct loop_alarm rescan, judge;
	/* request for the kubelet's list of pods, in flight; NULL: none */
	struct grpc_async *asking;
	/* the kubelet's response; valid while the pending calls are answered */
	struct podres_list pods;
	struct pod_gpus pod_gpus;
	bool again; /* the links are to be read once more after AGAIN_MS */
};

static void generation_free(struct generation *g)
{
	if (!g)
		return;
	resources_done(&g->set);
	resource_config_done(&g->config);
	node_devices_done(&g->node);
	free(g);
}

static void report(const struct device_serve *s, bool is_warning, const char *reason,
		   const char *resource, const char *text)
{
	if (s->conf.event)
		s->conf.event(s->conf.arg, is_warning, reason, resource, text);
}

/* --- the kubelet's calls --- */

static const struct resource *resource_of(const struct served *v)
{
	return resource_find(&v->s->now->set, v->name);
}

static void on_list(void *arg, struct device_plugin_list *ret)
{
	const struct resource *r = resource_of(arg);

	for (size_t i = 0; r && i < resource_ids(r); i++) {
		struct resource_id id;

		resource_id_at(r, i, &id);
		device_plugin_list_add(ret, id.id, !id.unhealthy, -1);
		for (size_t k = 0; k < id.n_numa; k++)
			device_plugin_list_add_numa(ret, id.numa[k]);
	}
}

static int unconfigured(const struct served *v, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "resource '%s' is not configured any more",
			v->name);
}

static void log_allocation(const struct served *v, const struct device_plugin_ids *ids)
{
	auto_buf struct buf b;

	buf_init(&b, 1024);
	for (size_t i = 0; i < ids->n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", ids->v[i]);
	log_info("devices allocated", LOG_S("resource", v->name),
		 LOG_S("devices", b.over ? "many" : b.p));
}

/* Returns whether a requested device was in a pod at the last scan, lacked its RDMA device then,
 * or has been back from a pod for less than NODE_RETURN_MS: its attributes may be incomplete. */
static bool is_outdated(const struct resource *r, const struct device_plugin_ids *ids,
			int64_t now_ms)
{
	for (size_t i = 0; i < ids->n; i++) {
		int64_t k = resource_id_number(r, ids->v[i]);
		size_t from = 0, n = 0;

		if (k >= 0)
			resource_id_members(r, (size_t)k, &from, &n);
		for (size_t m = from; m < from + n; m++)
			if (node_device_is_partial(r->v[m].device, now_ms))
				return true;
	}
	return false;
}

static void read_devices(struct device_serve *s);

static int on_allocate(void *arg, const struct device_plugin_ids *ids,
		       struct device_plugin_allocation *ret, struct err *e)
{
	const struct served *v = arg;
	const struct resource *r = resource_of(v);
	auto_answer struct answer a = {0};
	int n;

	if (r && is_outdated(r, ids, loop_now_ms(v->s->conf.loop))) {
		read_devices(v->s);
		r = resource_of(v);
	}
	if (!r)
		return unconfigured(v, e);
	n = resource_allocate(&v->s->now->set, r, ids->v, ids->n, v->s->conf.use_cdi, &a, e);
	/* writes the device-info files before the response, because Multus reads them as soon as
	 * CNI runs */
	if (n >= 0)
		n = answer_files_write(v->s->conf.root, &a, e);
	if (n < 0)
		return n;
	for (size_t i = 0; i < a.n_envs; i++)
		device_plugin_env(ret, a.envs[i].key, a.envs[i].value);
	for (size_t i = 0; i < a.n_nodes; i++)
		device_plugin_node(ret, a.nodes[i].container, a.nodes[i].host,
				   a.nodes[i].permissions);
	for (size_t i = 0; i < a.n_cdi; i++)
		device_plugin_cdi(ret, a.cdi[i]);
	log_allocation(v, ids);
	if (r->conf->form == RESOURCE_SHARED && v->s->conf.allocated)
		v->s->conf.allocated(v->s->conf.arg);
	return 0;
}

/* --- the GPUs of the pod --- */

static void answer_waiting(struct device_serve *s)
{
	for (struct served *v = s->served; v; v = v->next) {
		if (!v->is_waiting)
			continue;
		v->is_waiting = false;
		plugin_prepared(v->plugin);
	}
}

static void on_pods(void *arg, struct span reply, const struct err *reason)
{
	struct device_serve *s = arg;
	struct err e = ERR_INIT;

	s->asking = NULL;
	if (reason)
		log_debug("cannot list the devices of pods", LOG_S("error", reason->text));
	else if (podres_decode(reply, &s->pods, &e) < 0)
		log_warn("cannot list the devices of pods", LOG_S("error", e.text));
	answer_waiting(s);
	podres_done(&s->pods);
}

static bool on_prepare(void *arg)
{
	struct served *v = arg;
	struct device_serve *s = v->s;
	const struct grpc_call call = {
		.socket = s->conf.podres, .method = PODRES_LIST, .timeout_ms = PODRES_MS};

	if (!s->conf.podres || !s->now->node.n_gpus)
		return false;
	if (!s->asking && grpc_start(s->conf.loop, &call, on_pods, s, &s->asking, NULL) < 0)
		return false;
	v->is_waiting = true;
	return true;
}

static size_t on_preferred(void *arg, const struct device_plugin_ids *available,
			   const struct device_plugin_ids *must, size_t size, const char **ret)
{
	const struct served *v = arg;
	const struct resource *r = resource_of(v);
	struct prefer_request q = {.available = available->v,
				   .n_available = available->n,
				   .must = must->v,
				   .n_must = must->n,
				   .size = size};
	auto_free const char **chosen = NULL, **gpus = NULL;
	size_t n = 0;

	if (v->s->pods.n_pods)
		q.n_gpus = pod_gpus_choose(&v->s->pod_gpus, &v->s->pods, &v->s->now->node, v->name,
					   &gpus);
	q.gpus = gpus;
	if (r)
		resource_prefer(&v->s->now->set, r, &q, &chosen, &n);
	for (size_t i = 0; i < n && i < size; i++)
		ret[i] = chosen[i];
	return n < size ? n : size;
}

static void on_registered(void *arg, bool registered, const char *reason)
{
	const struct served *v = arg;

	if (registered)
		report(v->s, false, "DevicePluginRegistered", v->name,
		       "registered with the kubelet");
	else
		report(v->s, true, "DevicePluginNotRegistered", v->name, reason);
}

static const struct device_plugin_ops ops = {.list = on_list,
					     .allocate = on_allocate,
					     .preferred = on_preferred,
					     .prepare = on_prepare,
					     .registered = on_registered};

/* --- added and removed resources --- */

static void served_free(struct served *v)
{
	plugin_stop(v->plugin);
	free(v->name);
	free(v->cdi);
	free(v);
}

static struct served *served_find(struct device_serve *s, const char *name)
{
	for (struct served *v = s->served; v; v = v->next)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}

/* Returns the socket name of the originals: resourceName, and prefix_resourceName for the SR-IOV plugin. */
static char *socket_of(const struct resource_conf *c)
{
	return c->form == RESOURCE_SHARED ? xstrdup(c->name)
					  : xasprintf("%s_%s", c->prefix, c->name);
}

static struct served *serve_one(struct device_serve *s, const struct resource_conf *c)
{
	struct served *v = xcalloc(1, sizeof(*v));
	auto_free char *socket = socket_of(c);
	struct err e = ERR_INIT;

	v->s = s;
	v->name = xstrdup(c->full);
	if (plugin_serve(s->plugins, c->full, socket, &ops, v, &v->plugin, &e) < 0) {
		log_error("resource is not advertised", LOG_S("resource", c->full),
			  LOG_S("error", e.text));
		report(s, true, "ResourceInvalid", c->full, e.text);
		served_free(v);
		return NULL;
	}
	v->next = s->served;
	s->served = v;
	return v;
}

static void remove_cdi(struct served *v)
{
	struct err e = ERR_INIT;

	if (v->cdi && file_remove(v->s->conf.root, v->cdi, &e) < 0)
		log_error("cannot remove a CDI specification", LOG_S("resource", v->name),
			  LOG_S("error", e.text));
	free(v->cdi);
	v->cdi = NULL;
}

/*
 * Writes the CDI specification of the resource, which defines the CDI names in responses to Allocate. It remains when
 * this process ends, because containers that have the devices may be restarted meanwhile.
 */
static void write_cdi(struct served *v, const struct resource *r)
{
	const struct device_serve_conf *c = &v->s->conf;
	const struct resource_hook hook = {c->hook_path, c->hook_memlock};
	auto_free char *path = resource_cdi_path(r->conf);
	struct err e = ERR_INIT;
	auto_buf struct buf b, old;
	bool is_written;

	if (v->cdi && strcmp(v->cdi, path) != 0)
		remove_cdi(v);
	/* Sets the path even if this process has not written the file, so that remove_cdi() also
	 * removes the file of an earlier process, whose devices may no longer exist. */
	if (!v->cdi)
		v->cdi = xstrdup(path);
	buf_init(&b, CDI_MAX);
	buf_init(&old, CDI_MAX);
	if (!resource_cdi_write(&v->s->now->set, r, &hook, &b)) {
		remove_cdi(v);
		return;
	}
	/* compares the content first, because container runtimes read the directory again at each
	 * change */
	is_written = file_read(c->root, path, CDI_MAX, &old, NULL) >= 0 && old.len == b.len &&
		     memcmp(old.p, b.p, b.len) == 0;
	if (!is_written && (dir_make(c->root, PATH_CDI, 0755, &e) < 0 ||
			    file_replace(c->root, path, buf_span(&b), 0644, &e) < 0))
		log_error("cannot write a CDI specification", LOG_S("resource", v->name),
			  LOG_S("error", e.text));
}

static void advertise(struct device_serve *s)
{
	const struct resources *set = &s->now->set;
	struct served **at = &s->served;
	bool changed = false;

	for (struct served *v = s->served; v; v = v->next)
		v->is_wanted = false;
	for (size_t i = 0; i < set->n; i++) {
		struct served *v = served_find(s, set->v[i].conf->full);

		if (v)
			plugin_changed(v->plugin);
		else
			changed |= (v = serve_one(s, set->v[i].conf)) != NULL;
		if (v)
			v->is_wanted = true;
		if (v && s->conf.use_cdi)
			write_cdi(v, &set->v[i]);
	}
	while (*at) {
		struct served *v = *at;

		if (v->is_wanted) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		log_info("resource is not configured any more", LOG_S("resource", v->name));
		remove_cdi(v);
		served_free(v);
		changed = true;
	}
	if (changed && s->conf.changed)
		s->conf.changed(s->conf.arg);
}

/* --- the node's devices and configurations, and the resources decided from them --- */

static bool was_reported(const struct resource_messages *l, const struct resource_message *m)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].text, m->text))
			return true;
	return false;
}

/* Logs and reports only messages that the previous scan did not have. */
static void report_messages(struct device_serve *s, struct resource_messages *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct resource_message *m = &l->v[i];

		if (was_reported(&s->messages, m))
			continue;
		if (m->level == MESSAGE_ERROR)
			log_error(m->text, LOG_S("resource", m->resource ? m->resource : "-"));
		else
			log_warn(m->text, LOG_S("resource", m->resource ? m->resource : "-"));
		report(s, true, "ResourceConfig", m->resource, m->text);
	}
	resource_messages_done(&s->messages);
	s->messages = *l;
	*l = (struct resource_messages){0};
}

static int read_config(struct device_serve *s, struct generation *g, struct resource_messages *l,
		       struct err *e)
{
	const struct device_serve_conf *c = &s->conf;
	const struct resource_defaults d = {c->sriov_prefix};
	size_t n = resource_sources_read(c->root, c->sources, c->n_sources, c->node, c->optional,
					 &d, &g->config, l);

	return !n && !l->n && c->plan ? resource_plan(&g->node, &g->config, l, e) : 0;
}

/* Moves the configuration; the resources of `from` then borrow from the configuration of `to`. */
static void move_config(struct generation *to, struct generation *from)
{
	resource_config_done(&to->config);
	to->config = from->config;
	from->config = (struct resource_config)RESOURCE_CONFIG_INIT;
}

/* Keeps the previous configuration for a generation with an invalid document. All documents of the
 * previous configuration must have been valid. */
static void keep_config(struct generation *g, struct generation *old, struct resource_messages *l)
{
	for (size_t i = 0; i < l->n; i++) {
		char *text = l->v[i].text;

		if (l->v[i].level != MESSAGE_ERROR)
			continue;
		l->v[i].text = xasprintf("%s; the previous configuration stays in force", text);
		free(text);
	}
	move_config(g, old);
}

static void report_health(const struct device_serve *s, const struct node_devices *before)
{
	for (size_t i = 0; i < s->now->node.n; i++) {
		const struct node_device *d = &s->now->node.v[i];
		const struct node_device *old = before ? node_device_find(before, d->id) : NULL;
		const char *was = old ? old->unhealthy : NULL;
		char text[256];

		if (d->unhealthy == was || d->pf[0])
			continue;
		snprintf(text, sizeof(text), "device %s (%s) is %s%s%s", d->id,
			 d->n_rdma	? d->rdma[0].name
			 : d->netdev[0] ? d->netdev
					: "-",
			 d->unhealthy ? "unhealthy" : "healthy", d->unhealthy ? ": " : "",
			 d->unhealthy ? d->unhealthy : "");
		if (d->unhealthy)
			log_warn(text);
		else
			log_info(text);
		report(s, d->unhealthy != NULL, d->unhealthy ? "DeviceUnhealthy" : "DeviceHealthy",
		       NULL, text);
	}
}

static void on_judge(void *arg);

static void judge_at(struct device_serve *s)
{
	int64_t now = loop_now_ms(s->conf.loop), due = health_due(s->health);
	int64_t poll = now + (s->again ? AGAIN_MS : POLL_MS);

	if (due < 0 || due > poll)
		due = poll;
	s->again = false;
	loop_alarm_set(&s->judge, due > now ? due - now : 0);
}

static void judge_now(void *arg)
{
	struct device_serve *s = arg;

	if (!s->now)
		return;
	loop_alarm_within(&s->judge, 0);
}

static bool judge(struct device_serve *s, struct node_devices *node)
{
	auto_free enum health_link *links = xcalloc(node->n, sizeof(*links));
	auto_free int64_t *pci_errors = xcalloc(node->n, sizeof(*pci_errors));
	auto_free enum health_report *reports = xcalloc(node->n, sizeof(*reports));
	const struct health_state state = {links, pci_errors, reports};

	health_read_links(s->conf.root, node, links);
	health_read_pci_errors(s->conf.root, node, pci_errors);
	if (s->sources)
		health_sources_read(s->sources, node, reports);
	return health_judge(s->health, node, &state, loop_now_ms(s->conf.loop));
}

static const char **unhealthy_of(const struct node_devices *node)
{
	const char **v = xcalloc(node->n, sizeof(*v));

	for (size_t i = 0; i < node->n; i++)
		v[i] = node->v[i].unhealthy;
	return v;
}

/* Called after an event, at health_due(), and at the latest after POLL_MS. */
static void on_judge(void *arg)
{
	struct device_serve *s = arg;
	struct node_devices *node = &s->now->node, before = {.n = node->n};
	auto_free const char **was = unhealthy_of(node);

	if (judge(s, node)) {
		before.v = xcalloc(node->n, sizeof(*before.v));
		for (size_t i = 0; i < node->n; i++) {
			before.v[i] = node->v[i];
			before.v[i].unhealthy = was[i];
		}
		report_health(s, &before);
		free(before.v);
		for (struct served *v = s->served; v; v = v->next)
			plugin_changed(v->plugin);
	}
	judge_at(s);
}

static void on_rescan(void *arg);

static void rescan_in(struct device_serve *s, int64_t ms)
{
	loop_alarm_within(&s->rescan, ms);
}

static int observe(struct device_serve *s, struct generation *g, struct err *e)
{
	int r = node_devices_observe(s->conf.dir, &g->node, e);

	if (r >= 0 && s->facts)
		device_facts_apply(s->facts, &g->node, s->now ? &s->now->node : NULL);
	if (r >= 0 && s->now)
		node_devices_carry(&g->node, &s->now->node, loop_now_ms(s->conf.loop));
	return r;
}

static void rescan(struct device_serve *s)
{
	struct generation *g = xcalloc(1, sizeof(*g)), *old = s->now;
	struct resource_messages l = {0};
	struct err e = ERR_INIT;
	int r;

	if (s->sources)
		health_sources_open(s->sources);
	g->config = (struct resource_config)RESOURCE_CONFIG_INIT;
	r = observe(s, g, &e);
	if (r >= 0)
		r = read_config(s, g, &l, &e);
	if (r < 0) {
		log_error("cannot read the node's devices or plan their resources, keeping the "
			  "previous ones, if any",
			  LOG_S("error", e.text));
		resource_messages_done(&l);
		if (old) {
			generation_free(g);
			return;
		}
	}
	if (old && g->config.n_invalid && !old->config.n_invalid)
		keep_config(g, old, &l);
	judge(s, &g->node);
	resources_decide(&g->config, &g->node, &g->set, &l);
	s->now = g;
	/* Until devlink's attributes are known, resources may lack devices: nothing is reported or
	 * advertised. */
	if (s->facts && !device_facts_are_known(s->facts)) {
		resource_messages_done(&l);
		generation_free(old);
		return;
	}
	report_messages(s, &l);
	report_health(s, old ? &old->node : NULL);
	generation_free(old);
	advertise(s);
	judge_at(s);
}

/*
 * Reads only the devices, for a call that needs them now. The next rescan handles other changes (added and removed
 * resources, messages): the resource of the call must exist until the call ends.
 */
static void read_devices(struct device_serve *s)
{
	struct generation *g = xcalloc(1, sizeof(*g)), *old = s->now;
	auto_resource_messages struct resource_messages l = {0};
	struct err e = ERR_INIT;

	if (observe(s, g, &e) < 0) {
		log_error("cannot read the node's devices, keeping the previous ones",
			  LOG_S("error", e.text));
		free(g);
		return;
	}
	move_config(g, old);
	judge(s, &g->node);
	resources_decide(&g->config, &g->node, &g->set, &l);
	s->now = g;
	report_health(s, &old->node);
	generation_free(old);
	rescan_in(s, 0);
}

static void on_rescan(void *arg)
{
	struct device_serve *s = arg;

	rescan(s);
	if (s->now->config.update_s != 0)
		rescan_in(s, 1000 * (s->now->config.update_s > 0 ? s->now->config.update_s
								 : RESCAN_S));
}

void device_serve_hook(struct device_serve *s, const char *path, const char *memlock)
{
	if (!s)
		return;
	s->conf.hook_path = path;
	s->conf.hook_memlock = memlock;
	if (s->conf.use_cdi)
		rescan_in(s, 0);
}

void device_serve_reload(struct device_serve *s)
{
	rescan_in(s, 0);
}

/* --- events --- */

static void on_uevent(void *arg, uint32_t events)
{
	struct device_serve *s = arg;
	struct uevent u;
	int r;

	(void)events;
	while ((r = uevent_next(s->uevents, &u, NULL)) > 0)
		if (!strcmp(u.subsystem, "net") || !strcmp(u.subsystem, "infiniband") ||
		    !strcmp(u.subsystem, "infiniband_verbs") || !strcmp(u.subsystem, "pci") ||
		    !strcmp(u.subsystem, "auxiliary") || !strcmp(u.subsystem, "vdpa"))
			rescan_in(s, SETTLE_MS);
	if (r == -ENOBUFS)
		rescan_in(s, SETTLE_MS);
}

static void on_link(void *arg, uint32_t events)
{
	struct device_serve *s = arg;

	(void)events;
	if (!net_watch_drain(s->links))
		return;
	judge_now(s);
	s->again = true;
}

static void on_facts(void *arg)
{
	rescan_in(arg, 0);
}

static void on_rdma_devices(void *arg)
{
	rescan_in(arg, SETTLE_MS);
}

static void watch_sources(struct device_serve *s);

static void on_config(void *arg, uint32_t events)
{
	struct device_serve *s = arg;
	_Alignas(struct inotify_event) char b[4096];

	(void)events;
	while (read(s->inotify, b, sizeof(b)) > 0)
		;
	watch_sources(s);
	rescan_in(s, CONFIG_SETTLE_MS);
}

/* Watches each source that is a directory, and the parent directory of each other source: the files
 * of a ConfigMap are symbolic links that are replaced. */
static void watch_sources(struct device_serve *s)
{
	for (size_t i = 0; i < s->conf.n_sources; i++) {
		auto_free char *dir =
			xasprintf("%s%s", s->conf.dir ? s->conf.dir : "", s->conf.sources[i]);
		char *slash = strrchr(dir, '/');
		const uint32_t mask = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM |
				      IN_DELETE | IN_ONLYDIR;

		if (inotify_add_watch(s->inotify, dir, mask) >= 0 || !slash || slash == dir)
			continue;
		*slash = '\0';
		inotify_add_watch(s->inotify, dir, mask);
	}
}

static int open_watches(struct device_serve *s, struct err *e)
{
	struct loop *l = s->conf.loop;
	int r = uevent_open(&s->uevents, e);

	if (r >= 0)
		r = net_watch_open(&s->links, NET_WATCH_LINKS, e);
	if (r >= 0) {
		s->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		r = s->inotify < 0 ? err_sys(e, -errno,
					     "watch configurations (see sysctl "
					     "fs.inotify.max_user_instances)")
				   : 0;
	}
	if (r >= 0)
		r = loop_add_fd(l, s->uevents, EPOLLIN, on_uevent, s, &s->watches[0], e);
	if (r >= 0)
		r = loop_add_fd(l, s->links, EPOLLIN, on_link, s, &s->watches[1], e);
	if (r >= 0)
		r = loop_add_fd(l, s->inotify, EPOLLIN, on_config, s, &s->watches[2], e);
	return r < 0 ? r : 0;
}

int device_serve_new(struct device_serve **ret, const struct device_serve_conf *conf, struct err *e)
{
	struct device_serve *s = xcalloc(1, sizeof(*s));
	int r;

	s->conf = *conf;
	s->rescan = LOOP_ALARM(conf->loop, on_rescan, s);
	s->judge = LOOP_ALARM(conf->loop, on_judge, s);
	s->uevents = s->links = s->inotify = -1;
	s->health = health_new(loop_now_ms(conf->loop));
	r = device_plugins_new(&s->plugins, conf->loop, &conf->plugins, e);
	if (r == 0)
		r = open_watches(s, e);
	if (r < 0) {
		device_serve_free(s);
		return r;
	}
	watch_sources(s);
	if (!conf->dir)
		s->facts = device_facts_new(&(struct device_facts_conf){
			.loop = conf->loop, .changed = on_facts, .arg = s});
	if (!conf->dir)
		s->sources = health_sources_new(&(struct health_sources_conf){
			.loop = conf->loop,
			.health = judge_now,
			.devices = on_rdma_devices,
			.arg = s,
		});
	on_rescan(s);
	if (!conf->dir && s->now)
		s->ports = port_events_new(&(struct port_events_conf){.loop = conf->loop,
								      .root = conf->root,
								      .changed = judge_now,
								      .arg = s},
					   &s->now->node);
	*ret = s;
	return 0;
}

void device_serve_free(struct device_serve *s)
{
	if (!s)
		return;
	s->conf.event = NULL;
	grpc_cancel(s->asking);
	while (s->served) {
		struct served *v = s->served;

		s->served = v->next;
		served_free(v);
	}
	device_plugins_free(s->plugins);
	for (size_t i = 0; i < ARRAY_LEN(s->watches); i++)
		loop_del_fd(s->watches[i]);
	loop_alarm_cancel(&s->rescan);
	loop_alarm_cancel(&s->judge);
	cleanup_fd(&s->uevents);
	cleanup_fd(&s->links);
	cleanup_fd(&s->inotify);
	device_facts_free(s->facts);
	health_sources_free(s->sources);
	port_events_free(s->ports);
	health_free(s->health);
	pod_gpus_done(&s->pod_gpus);
	resource_messages_done(&s->messages);
	generation_free(s->now);
	free(s);
}

/* --- getters --- */

size_t device_serve_names(const struct device_serve *s, const char **v, size_t max)
{
	size_t n = 0;

	for (const struct served *r = s->served; r && n < max; r = r->next)
		v[n++] = r->name;
	return n;
}

void device_serve_rdma(const struct device_serve *s, const char *resource, const char *id,
		       bool only_shared, void (*each)(void *arg, const char *device), void *arg)
{
	const struct resource *r = resource_find(&s->now->set, resource);
	int64_t i = r ? resource_id_number(r, id) : -ENOENT;
	size_t from, n;

	if (i < 0 || (only_shared && r->conf->form != RESOURCE_SHARED))
		return;
	resource_id_members(r, (size_t)i, &from, &n);
	for (size_t k = from; k < from + n; k++) {
		const struct resource_member *m = &r->v[k];

		if (r->conf->form == RESOURCE_SRIOV && !r->conf->selectors[m->selector].is_rdma)
			continue;
		for (size_t d = 0; d < m->device->n_rdma; d++)
			each(arg, m->device->rdma[d].name);
	}
}

struct device_serve_count device_serve_count(const struct device_serve *s)
{
	struct device_serve_count c = {0};

	for (const struct served *v = s->served; v; v = v->next) {
		const struct resource *r = resource_of(v);

		c.resources++;
		c.registered += plugin_is_registered(v->plugin);
		for (size_t i = 0; r && i < resource_ids(r); i++) {
			struct resource_id id;

			resource_id_at(r, i, &id);
			c.devices++;
			c.unhealthy += id.unhealthy != NULL;
		}
	}
	return c;
}

void device_serve_write(const struct device_serve *s, struct json_out *o)
{
	jo_arr(o);
	for (const struct served *v = s->served; v; v = v->next) {
		const struct resource *r = resource_of(v);

		jo_obj(o);
		jo_kstr(o, "resource", v->name);
		jo_key(o, "registered");
		jo_bool(o, plugin_is_registered(v->plugin));
		jo_kstr(o, "reason", plugin_error(v->plugin));
		jo_key(o, "devices");
		jo_arr(o);
		for (size_t i = 0; r && i < r->n; i++) {
			const struct node_device *d = r->v[i].device;

			jo_obj(o);
			jo_kstr(o, "id", d->id);
			jo_kstr(o, "unhealthy", d->unhealthy ? d->unhealthy : "");
			jo_end_obj(o);
		}
		jo_end_arr(o);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}
