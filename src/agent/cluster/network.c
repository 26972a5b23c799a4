/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cluster/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "host/cni/cni_config.h"

enum { NAME_SIZE_MAX = 4096 };

struct cluster_network {
	struct cluster_network_conf conf;
	struct loop_alarm timer;
	char *dir, *path;
	struct err error; /* last logged error; code 0: none */
};

/* Returns the name of the cluster's own network; NULL: there is none. */
static const char *network_name(const struct cni_config_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		const char *name;

		if (files->v[i].kind != CNI_CONFIG_OTHER)
			continue;
		name = json_string(json_get_go(json_root(files->v[i].doc), "name"));
		return name && *name && !strpbrk(name, "\r\n") ? name : NULL;
	}
	return NULL;
}

static int write_name(const struct cluster_network *n, const char *name, struct err *e)
{
	auto_free char *line = xasprintf("%s\n", name);
	auto_buf struct buf existing;
	int r;

	buf_init(&existing, NAME_SIZE_MAX);
	if (file_read(n->conf.root, n->path, NAME_SIZE_MAX, &existing, NULL) == 0 &&
	    span_eq(buf_span(&existing), line))
		return 0;
	r = dir_make(n->conf.root, n->dir, 0755, e);
	return r < 0 ? r : file_replace(n->conf.root, n->path, span_of(line), 0644, e);
}

static int publish(const struct cluster_network *n, struct err *e)
{
	auto_cni_config struct cni_config_files files = {0};
	const char *name;
	int r = cni_config_read(n->conf.root, n->conf.cni_dir, &files, e);

	if (r < 0 && r != -ENOENT)
		return r;
	name = network_name(&files);
	return name ? write_name(n, name, e) : file_remove(n->conf.root, n->path, e);
}

static void on_time(void *arg)
{
	struct cluster_network *n = arg;
	struct err e = ERR_INIT;
	int r = publish(n, &e);

	loop_alarm_set(&n->timer, CLUSTER_NETWORK_EVERY_MS);
	if (r >= 0) {
		err_clear(&n->error);
		return;
	}
	if (n->error.code != r)
		log_warn("failed to publish the name of the cluster's network, will retry",
			 LOG_S("file", n->path), LOG_S("error", e.text));
	n->error = e;
}

struct cluster_network *cluster_network_new(const struct cluster_network_conf *c)
{
	struct cluster_network *n = xcalloc(1, sizeof(*n));
	const char *slash = strrchr(c->socket, '/');

	n->conf = *c;
	n->timer = LOOP_ALARM(c->loop, on_time, n);
	n->dir = xasprintf("%.*s/public", slash ? (int)(slash - c->socket) : 1,
			   slash ? c->socket : ".");
	n->path = xasprintf("%s/cluster-network", n->dir);
	on_time(n);
	return n;
}

void cluster_network_free(struct cluster_network *n)
{
	if (!n)
		return;
	loop_alarm_cancel(&n->timer);
	free(n->dir);
	free(n->path);
	free(n);
}

const char *cluster_network_dir(const struct cluster_network *n)
{
	return n->dir;
}
