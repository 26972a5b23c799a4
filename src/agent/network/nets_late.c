/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses that nobody was told, or that the agent did not live to write. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/network/nets_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cni/cluster/pod_agent.h"

enum {
	UNTIL_KNOWN_MS = 1000,
	EVERY_MS = 60 * 1000,
	HALF_SECONDS = 60, /* by then its writer is done, or dead */
	FILE_MAX = 4 << 20,
};

static char *path_of(const struct nets *n, const char *container_id)
{
	return xasprintf("%s" POD_STATUS_DIR "/%s", n->conf.state_dir, container_id);
}

/* As the runtime's: no way out of the folder. */
static bool is_name(const char *s)
{
	return *s && *s != '.' && !strchr(s, '/') && strlen(s) < 256;
}

void nets_late_forget(const struct nets *n, const char *container_id)
{
	auto_free char *path = is_name(container_id) ? path_of(n, container_id) : NULL;
	struct err e = ERR_INIT;

	if (path && file_remove(n->conf.root, path, &e) < 0)
		log_warn("a status that is written is not forgotten", LOG_S("error", e.text));
}

static const struct json_field fields[] = {
	{"containerID", J_STR, .offset = offsetof(struct nets_status, container_id)},
	{"podNamespace", J_STR, .offset = offsetof(struct nets_status, ns)},
	{"podName", J_STR, .offset = offsetof(struct nets_status, name)},
	{"podUID", J_STR, .offset = offsetof(struct nets_status, uid)},
	{"networkStatus", J_STR, .offset = offsetof(struct nets_status, annotation)},
	{"message", J_STR, .offset = offsetof(struct nets_status, words)},
	{0}};
static const struct json_table table = {fields, 0, 0};

static int read_status(const struct nets *n, const char *path, const char *name,
		       struct json_doc **doc, struct nets_status *ret, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, FILE_MAX);
	r = file_read(n->conf.root, path, FILE_MAX, &b, e);
	if (r == 0)
		r = json_parse(doc, buf_span(&b), FILE_MAX, e);
	if (r == 0)
		r = json_read(*doc, json_root(*doc), &table, ret, "status", e);
	if (r == 0 && (!ret->container_id || strcmp(ret->container_id, name) != 0 || !ret->ns ||
		       !ret->name || !ret->uid || !ret->annotation))
		r = err_set(e, -EINVAL, "it is not the status of a pod's container");
	return r;
}

static bool is_old(const struct nets *n, const char *path)
{
	struct stat st;

	return file_lstat(n->conf.root, path, &st, NULL) == 0 &&
	       time(NULL) - st.st_mtime > HALF_SECONDS;
}

static void take_up(struct nets *n, const char *name)
{
	auto_free char *path = path_of(n, name);
	auto_json struct json_doc *doc = NULL;
	struct nets_status s = {0};
	struct err e = ERR_INIT;

	if (read_status(n, path, name, &doc, &s, &e) == 0) {
		log_info("a pod's network-status is made good for", LOG_S("namespace", s.ns),
			 LOG_S("pod", s.name));
		nets_tell(n, &s);
	} else if (is_old(n, path)) {
		log_warn("a pod's network-status is not known", LOG_S("file", path),
			 LOG_S("error", e.text));
		nets_late_forget(n, name);
	}
}

static void on_look(void *arg)
{
	struct nets *n = arg;
	bool known = cluster_synced(n->conf.cluster, CLUSTER_PODS);
	auto_free char *folder = path_of(n, "");
	char **names = NULL;
	size_t count = 0;

	n->look = loop_add_timer(n->conf.loop, known ? EVERY_MS : UNTIL_KNOWN_MS, on_look, n);
	if (!known || dir_list(n->conf.root, folder, &names, &count, NULL) < 0)
		return;
	for (size_t i = 0; i < count && n->n_patches < NETS_STATUS_WAITING; i++)
		if (is_name(names[i]) && !nets_status_has(n, names[i]))
			take_up(n, names[i]);
	str_list_free(names, count);
}

void nets_late_start(struct nets *n)
{
	auto_free char *folder = path_of(n, "");
	struct err e = ERR_INIT;

	if (dir_make(n->conf.root, folder, 0700, &e) < 0)
		log_warn("statuses are lost when the agent dies", LOG_S("error", e.text));
	n->look = loop_add_timer(n->conf.loop, UNTIL_KNOWN_MS, on_look, n);
}
