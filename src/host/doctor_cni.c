/* SPDX-License-Identifier: Apache-2.0 */
/* CNI's folders: links, configurations, and what these need of the host. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "host/doctor.h"
#include "wire/json.h"

enum { CONF_MAX = 1 << 20 };

void doctor_cni_links(struct doctor *d)
{
	const struct root *root = d->f->root;
	char **names = NULL, target[PATH_MAX];
	size_t n = 0;

	if (dir_list(root, d->cni_bin, &names, &n, NULL) < 0)
		return;
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

typedef void (*see_type)(struct doctor *d, const char *file, const char *type);

/* Plugins have a "type": the document itself, elements of "plugins" and "delegates", "ipam". */
static void each_type(struct doctor *d, const char *file, const struct json *v, bool plugin,
		      see_type see)
{
	struct json_walk w = json_walk_start(v);
	const char *type = json_string(json_get(v, "type")), *key;
	const struct json *one;

	if (plugin && type && *type)
		see(d, file, type);
	while ((one = json_walk_next(&w, &key))) {
		bool inside = !key ? plugin
				   : !strcmp(key, "plugins") || !strcmp(key, "delegates") ||
					      !strcmp(key, "ipam");

		if (json_kind(one) == JSON_OBJECT || json_kind(one) == JSON_ARRAY)
			each_type(d, file, one, inside, see);
	}
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

static void plugin_is_there(struct doctor *d, const char *file, const char *type)
{
	auto_free char *path = xasprintf("%s/%s", d->cni_bin, type);
	auto_free char *what = xasprintf("plugin '%s' is not in '%s'", type, d->cni_bin);

	if (strchr(type, '/') || file_exists(d->f->root, path))
		return;
	/* once a file and plugin */
	for (size_t i = 0; i < d->out->n; i++)
		if (!strcmp(d->out->v[i].where, file) && !strcmp(d->out->v[i].what, what))
			return;
	doctor_find(d, FINDING_PROBLEM, file,
		    "'unirail install' brings unirail's own; install the others' packages", "%s",
		    what);
}

static void one_conf(struct doctor *d, const char *file, see_type see)
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
		each_type(d, file, json_root(doc), true, see);
	else if (see == plugin_is_there)
		doctor_find(d, FINDING_PROBLEM, file,
			    "mend the file, or take it away: the first by name counts", "%s",
			    e.text);
}

static void each_conf(struct doctor *d, see_type see)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(d->f->root, d->cni_conf, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *file = xasprintf("%s/%s", d->cni_conf, names[i]);

		if (is_conf(names[i]))
			one_conf(d, file, see);
	}
	str_list_free(names, n);
}

void doctor_cni_conf(struct doctor *d)
{
	each_conf(d, plugin_is_there);
}

/* --- the RDMA mode that they need --- */

static void mode_fits(struct doctor *d, const char *file, const char *type)
{
	bool shared = d->f->mode == RDMA_NETNS_SHARED;

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
		each_conf(d, mode_fits);
}
