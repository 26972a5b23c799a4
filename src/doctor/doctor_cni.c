/* SPDX-License-Identifier: Apache-2.0 */
/* CNI's folders: links, configurations, and what these need of the host. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "doctor/doctor.h"
#include "wire/json/json.h"

enum { CONF_MAX = 1 << 20 };

void doctor_cni_links(struct doctor *d)
{
	const struct root *root = d->f->root;
	char **names = NULL, target[PATH_MAX];
	size_t n = 0;
	int r = dir_list(root, d->cni_bin, &names, &n, NULL);

	if (r < 0) {
		doctor_skip(d, d->cni_bin, r);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", d->cni_bin, names[i]);
		struct stat st;

		if (file_lstat(root, path, &st, NULL) < 0 || !S_ISLNK(st.st_mode) ||
		    file_exists(root, path) ||
		    link_read(root, path, target, sizeof(target), NULL) < 0)
			continue;
		doctor_find(d, FINDING_PROBLEM, path, "'unirail install', or remove the link",
			    "the link leads to '%s', which is not there", target);
	}
	str_list_free(names, n);
}

/* --- configurations --- */

/* Called for the object of each plugin that a configuration names. */
typedef void (*visit_plugin)(struct doctor *d, const char *file, const struct json *plugin,
			     const char *type, void *arg);

struct visit {
	visit_plugin call;
	void *arg;
	bool report_unreadable;
};

/* Where plugins stand: the document itself, the elements of these, and "ipam". */
static bool holds_plugins(const char *key)
{
	static const char *const keys[] = {"plugins", "delegates", "networks", "ipam"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static void each_plugin(struct doctor *d, const char *file, const struct json *v, bool plugin,
			const struct visit *visit)
{
	struct json_walk w = json_walk_start(v);
	const char *type = json_string(json_get(v, "type")), *key;
	const struct json *one;

	if (plugin && type && *type)
		visit->call(d, file, v, type, visit->arg);
	while ((one = json_walk_next(&w, &key)))
		if (json_kind(one) == JSON_OBJECT || json_kind(one) == JSON_ARRAY)
			each_plugin(d, file, one, key ? holds_plugins(key) : plugin, visit);
}

/* Reports a finding of one file once. */
static void find_once(struct doctor *d, const char *file, const char *remedy, const char *what)
{
	for (size_t i = 0; i < d->out->n; i++)
		if (!strcmp(d->out->v[i].where, file) && !strcmp(d->out->v[i].what, what))
			return;
	doctor_find(d, FINDING_PROBLEM, file, remedy, "%s", what);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool is_conf(const char *name)
{
	return ends_with(name, ".conf") || ends_with(name, ".conflist") || ends_with(name, ".json");
}

static void check_installed(struct doctor *d, const char *file, const struct json *plugin,
			    const char *type, void *arg)
{
	auto_free char *path = xasprintf("%s/%s", d->cni_bin, type);
	auto_free char *what = xasprintf("plugin '%s' is not in '%s'", type, d->cni_bin);

	(void)plugin, (void)arg;
	if (!strchr(type, '/') && !file_exists(d->f->root, path))
		find_once(d, file,
			  "'unirail install' brings unirail's own; install the others' packages",
			  what);
}

static void visit_conf(struct doctor *d, const char *file, const struct visit *visit)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(d->f->root, file, CONF_MAX, &b, &e);
	if (r == 0)
		r = json_parse(&doc, buf_span(&b), CONF_MAX, &e);
	if (r == 0)
		each_plugin(d, file, json_root(doc), true, visit);
	else if (visit->report_unreadable && !doctor_skip(d, file, r))
		doctor_find(d, FINDING_PROBLEM, file,
			    "mend the file, or take it away: the first by name counts", "%s",
			    e.text);
}

static void each_conf(struct doctor *d, const struct visit *visit)
{
	char **names = NULL;
	size_t n = 0;
	int r = dir_list(d->f->root, d->cni_conf, &names, &n, NULL);

	if (r < 0) {
		if (visit->report_unreadable)
			doctor_skip(d, d->cni_conf, r);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		auto_free char *file = xasprintf("%s/%s", d->cni_conf, names[i]);

		if (is_conf(names[i]))
			visit_conf(d, file, visit);
	}
	str_list_free(names, n);
}

void doctor_cni_conf(struct doctor *d)
{
	each_conf(d, &(struct visit){.call = check_installed, .report_unreadable = true});
}

/* --- masters --- */

/* Plugins whose "master" is a link of the host. host-device's link may be in a pod. */
static bool has_master(const char *type)
{
	static const char *const types[] = {"macvlan", "ipvlan", "vlan", "ipoib", "bond"};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

static char *links_remedy(const struct doctor *d, const char *master)
{
	auto_free const char **names = xcalloc(d->f->n_links + 1, sizeof(*names));
	const char *nearest;

	for (size_t i = 0; i < d->f->n_links; i++)
		names[i] = d->f->links[i].name;
	nearest = opt_nearest(master, names, d->f->n_links);
	return nearest ? xasprintf("did you mean '%s'? 'ip link' lists the links", nearest)
		       : xstrdup("name a link that 'ip link' lists");
}

static void check_master(struct doctor *d, const char *file, const struct json *plugin,
			 const char *type, void *arg)
{
	const char *master = json_string(json_get(plugin, "master"));
	auto_free char *what = NULL, *remedy = NULL;

	(void)arg;
	if (!has_master(type) || !master || !*master ||
	    json_bool(json_get(plugin, "linkInContainer")) ||
	    link_find(d->f->links, d->f->n_links, master))
		return;
	what = xasprintf("master '%s' of plugin '%s' is no link of this host", master, type);
	remedy = links_remedy(d, master);
	find_once(d, file, remedy, what);
}

void doctor_cni_masters(struct doctor *d)
{
	if (d->f->n_links)
		each_conf(d, &(struct visit){.call = check_master});
}

/* --- where addresses come from --- */

struct source {
	char *file; /* the first that uses the node's own pools */
	bool agent; /* some plugin asks the node's agent */
};

static void find_source(struct doctor *d, const char *file, const struct json *plugin,
			const char *type, void *arg)
{
	struct source *s = arg;

	(void)d;
	if (json_get(plugin, "agent") || json_get(plugin, "ipam_unix_socket_path") ||
	    !strncmp(type, "multus", strlen("multus")))
		s->agent = true;
	else if (!strcmp(type, "spiderpool") && !s->file)
		s->file = xstrdup(file);
}

char *doctor_local_pools_conf(struct doctor *d)
{
	struct source s = {0};

	each_conf(d, &(struct visit){.call = find_source, .arg = &s});
	if (!s.agent)
		return s.file;
	free(s.file);
	return NULL;
}

/* --- the RDMA mode that they need --- */

static void mode_fits(struct doctor *d, const char *file, const struct json *plugin,
		      const char *type, void *arg)
{
	bool shared = d->f->mode == RDMA_NETNS_SHARED;

	(void)plugin, (void)arg;
	if (shared && (!strcmp(type, "rdma") || !strcmp(type, "ib-sriov")))
		doctor_find(d, FINDING_PROBLEM, file,
			    "'rdma system set netns exclusive' before any pod runs; at boot: "
			    "'options ib_core netns_mode=0' in /etc/modprobe.d",
			    "its plugin '%s' gives RDMA devices to pods, but namespaces share them "
			    "here",
			    type);
	if (!shared && (!strcmp(type, "macvlan") || !strcmp(type, "ipvlan")))
		doctor_find(d, FINDING_PROBLEM, file,
			    "'rdma system set netns shared' before any pod runs; at boot: 'options "
			    "ib_core netns_mode=1' in /etc/modprobe.d",
			    "rails by '%s' share the NIC's RDMA device, which exclusive mode hides "
			    "from pods",
			    type);
}

void doctor_rdma_mode(struct doctor *d)
{
	if (d->f->n_rdma)
		each_conf(d, &(struct visit){.call = mode_fits});
}
