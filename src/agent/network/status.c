/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/network/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "cni/cluster/agent_client.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

/* The network-status annotation, written after the networks are attached. */

enum { FIRST_MS = 500, LONGEST_MS = 30 * 1000, TIMEOUT_MS = 20 * 1000 };

struct nets_patch {
	struct work w; /* queue entry with the pod's namespace and name */
	struct nets *nets;
	char *container_id, *uid, *annotation;
	int64_t until;
};

static void free_members(void *item)
{
	struct nets_patch *p = item;

	free(p->container_id);
	free(p->uid);
	free(p->annotation);
}

static void status_recovery_forget(const struct nets *n, const char *container_id);

/* Frees a patch that was written or is dropped, and removes the file with its status. */
static void settle(struct nets_patch *p)
{
	status_recovery_forget(p->nets, p->container_id);
	workqueue_remove(&p->w);
}

static bool nets_status_has(const struct nets *n, const char *container_id)
{
	for (const struct nets_patch *p = workqueue_first(n->patches); p; p = workqueue_next(&p->w))
		if (strcmp(p->container_id, container_id) == 0)
			return true;
	return false;
}

void nets_status_free(struct nets *n)
{
	if (workqueue_count(n->patches))
		log_warn("pending network-status of pods will be written after the restart",
			 LOG_I("pods", (int64_t)workqueue_count(n->patches)));
	workqueue_free(n->patches);
}

static void say(const struct nets_patch *p, const char *what, const char *cause)
{
	log_limited(LOG_WARN, 2, what, LOG_S("namespace", p->w.ns), LOG_S("pod", p->w.name),
		    LOG_S("error", cause));
}

static void drop(struct nets_patch *p, const char *cause)
{
	say(p, "dropped a pod's network-status", cause);
	settle(p);
}

/* Drops a patch that could not be written now; the periodic scan finds its file later. */
static void put_off(struct nets_patch *p, const char *cause)
{
	say(p, "deferred a pod's network-status", cause);
	workqueue_remove(&p->w);
}

/* Returns whether the pod of that UID was deleted: the watch shows another pod of this name, or
 * none. */
static bool is_deleted(const struct nets_patch *p)
{
	struct cluster *c = p->nets->conf.cluster;
	const struct pod_facts *pod = cluster_pod(c, p->w.ns, p->w.name);

	if (pod)
		return *p->uid && strcmp(pod->uid, p->uid) != 0;
	return kube_cache_error(cluster_objects(c), CLUSTER_PODS, NULL) == 0;
}

static void again(struct nets_patch *p, const struct err *e)
{
	int64_t wait = backoff_next(&p->w.backoff);

	if (loop_now_ms(p->nets->conf.loop) + wait > p->until) {
		put_off(p, e->text);
		return;
	}
	log_debug("retrying network-status", LOG_S("pod", p->w.name), LOG_S("error", e->text));
	workqueue_add_after(&p->w, wait);
}

/* Returns whether the error is temporary. The patch is idempotent, so it is repeated if its outcome
 * is unknown. */
static bool is_passing(int status, const struct err *e)
{
	bool unreadable = status >= 200 && status <= 299;

	return unreadable || e->kind == ERR_AGAIN || e->code == -EAGAIN || e->code == -ETIMEDOUT ||
	       e->code == -ECONNRESET;
}

static void on_patched(void *arg, void *item, int status, const struct json *object,
		       const struct err *e)
{
	struct nets_patch *p = item;

	(void)arg, (void)object;
	if (!e)
		settle(p);
	else if (is_passing(status, e))
		again(p, e);
	else
		drop(p, status == 404 || is_deleted(p) ? "the pod was deleted" : e->text);
}

static void send_patch(struct nets_patch *p)
{
	struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {.kind = &kube_pods, .ns = p->w.ns, .name = p->w.name, .sub = "status"},
		.timeout_ms = TIMEOUT_MS,
	};
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, KUBE_BODY_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	if (*p->uid)
		jo_kstr(&o, "uid", p->uid);
	jo_key(&o, "annotations");
	jo_obj(&o);
	jo_kstr(&o, ANNOTATION_NETWORK_STATUS, p->annotation);
	jo_end_obj(&o);
	jo_end_obj(&o);
	jo_end_obj(&o);
	r.body = buf_span(&b);
	workqueue_send(&p->w, &r);
}

static void reconcile(void *arg, void *item)
{
	struct nets_patch *p = item;

	(void)arg;
	if (is_deleted(p))
		drop(p, "the pod was deleted");
	else
		send_patch(p);
}

/* --- status that a CNI process reports --- */

static void add(struct nets *n, const struct nets_status *s, const char *uid)
{
	struct nets_patch *p = workqueue_find(n->patches, s->ns, s->name);

	if (p && strcmp(p->container_id, s->container_id) != 0)
		status_recovery_forget(n, p->container_id);
	if (p)
		workqueue_remove(&p->w);
	if (workqueue_count(n->patches) >= NETS_STATUS_WAITING)
		put_off(workqueue_first(n->patches), "too many network-statuses are pending");
	p = workqueue_get(n->patches, s->ns, s->name);
	p->nets = n;
	p->container_id = xstrdup(s->container_id);
	p->uid = xstrdup(uid);
	p->annotation = xstrdup(s->annotation);
	p->until = loop_now_ms(n->conf.loop) + NETS_STATUS_MS;
	workqueue_add(&p->w);
}

/* Returns the UID of the pod at the API server, which for a static pod differs from the UID at the
 * runtime. */
static const char *uid_of(const struct nets *n, const struct nets_status *s)
{
	const struct pod_facts *pod = cluster_pod(n->conf.cluster, s->ns, s->name);

	return pod && (!*s->uid || pod_is_static(pod)) ? pod->uid : s->uid;
}

void nets_notify(struct nets *n, const struct nets_status *s)
{
	const char *uid = uid_of(n, s);
	const struct pod_facts pod = {
		.ns = (char *)s->ns, .name = (char *)s->name, .uid = (char *)uid};

	add(n, s, uid);
	if (s->message && *s->message)
		nets_event(n, &pod, false, "AddedInterface", s->message);
}

/* Recovery of statuses that were not reported to an agent, or that an agent did not finish
 * writing. */

enum {
	UNTIL_KNOWN_MS = 1000,
	EVERY_MS = 60 * 1000,
	/* age in seconds after which an incomplete file is removed, because its writer must have
	 * ended */
	HALF_SECONDS = 60,
	FILE_MAX = 4 << 20,
};

static char *path_of(const struct nets *n, const char *container_id)
{
	return xasprintf("%s" POD_STATUS_DIR "/%s", n->conf.state_dir, container_id);
}

/* Returns whether a container ID is a file name: others could be paths out of the directory. */
static bool is_name(const char *s)
{
	return *s && *s != '.' && !strchr(s, '/') && strlen(s) < 256;
}

/* Removes the file of a container whose status was written or dropped. */
static void status_recovery_forget(const struct nets *n, const char *container_id)
{
	auto_free char *path = is_name(container_id) ? path_of(n, container_id) : NULL;
	struct err e = ERR_INIT;

	if (path && file_remove(n->conf.root, path, &e) < 0)
		log_warn(
			"failed to remove the file of a network-status that was written or dropped",
			LOG_S("error", e.text));
}

static const struct json_field fields[] = {
	JSON_FIELD("containerID", J_STR, struct nets_status, container_id),
	JSON_FIELD("podNamespace", J_STR, struct nets_status, ns),
	JSON_FIELD("podName", J_STR, struct nets_status, name),
	JSON_FIELD("podUID", J_STR, struct nets_status, uid),
	JSON_FIELD("networkStatus", J_STR, struct nets_status, annotation),
	JSON_FIELD("message", J_STR, struct nets_status, message),
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
		r = err_set(e, -EINVAL,
			    "containerID is not the file's name, or another member is missing");
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
		log_info("recovering a pod's network-status", LOG_S("namespace", s.ns),
			 LOG_S("pod", s.name));
		nets_notify(n, &s);
	} else if (is_old(n, path)) {
		log_warn("cannot recover a pod's network-status", LOG_S("file", path),
			 LOG_S("error", e.text));
		status_recovery_forget(n, name);
	}
}

static void on_rescan(void *arg)
{
	struct nets *n = arg;
	bool known = kube_cache_synced(cluster_objects(n->conf.cluster), CLUSTER_PODS);
	auto_free char *dir = path_of(n, "");
	char **names = NULL;
	size_t count = 0;

	loop_alarm_set(&n->scan, known ? EVERY_MS : UNTIL_KNOWN_MS);
	if (!known || dir_list(n->conf.root, dir, &names, &count, NULL) < 0)
		return;
	for (size_t i = 0; i < count && workqueue_count(n->patches) < NETS_STATUS_WAITING; i++)
		if (is_name(names[i]) && !nets_status_has(n, names[i]))
			take_up(n, names[i]);
	str_list_free(names, count);
}

void status_recovery_start(struct nets *n)
{
	auto_free char *dir = path_of(n, "");
	struct err e = ERR_INIT;

	if (dir_make(n->conf.root, dir, 0700, &e) < 0)
		log_warn("pending network-status of pods would be lost in a crash: cannot create "
			 "the directory that stores them",
			 LOG_S("error", e.text));
	n->patches = workqueue_new(&(struct workqueue_conf){.kube = n->conf.kube,
							    .in_flight_max = NETS_STATUS_AT_ONCE,
							    .retry_ms = FIRST_MS,
							    .retry_most_ms = LONGEST_MS,
							    .size = sizeof(struct nets_patch),
							    .reconcile = reconcile,
							    .done = on_patched,
							    .drop = free_members,
							    .arg = n});
	n->scan = LOOP_ALARM(n->conf.loop, on_rescan, n);
	loop_alarm_set(&n->scan, UNTIL_KNOWN_MS);
}
