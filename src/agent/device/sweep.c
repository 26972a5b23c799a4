/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/kinds.h"
#include "kube/patch.h"

enum {
	STATE_MAX = 1 << 20,
	RESOURCES_MAX = 1024, /* limit of the number of resources in the list */
	RESOURCE_BYTES = 320,
	CHECK_MS = 30 * 1000,
	/* interval of reads of the Node while nothing requires frequent checks: only `prefixes`
	 * require the read, a resource has been removable for FAST_MS or longer (another plugin
	 * may serve it), or the agent lacks a permission */
	SLOW_MS = 5 * 60 * 1000,
	FAST_MS = 15 * 60 * 1000, /* duration of frequent checks: the kubelet sets the capacity to 0
				   * after five minutes */
	FORGET_MS = 24 * 60 * 60 * 1000,
	SERVED = -1,
};

struct known {
	char *name;
	/* loop time at which the agent ceased to serve the resource, or first saw it; SERVED: the
	 * agent serves it */
	int64_t unserved_ms;
	bool served;	 /* served at the last check */
	bool remembered; /* recorded in the file, because unirail served it */
	bool planned;
};

struct device_sweep {
	struct device_sweep_conf conf;
	char *path;
	struct known *v; /* sorted by name */
	size_t n;
	struct loop_alarm timer;
	struct kube_call *call;
	int64_t read_ms; /* loop time of the last read of the Node */
	/* no request is sent before this loop time, because the API server denied one */
	int64_t retry_ms;
	struct log_once reported; /* last logged error */
};

/* --- list of resources --- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

static struct known *find(const struct device_sweep *s, const char *name)
{
	const struct known key = {.name = (char *)name};

	return s->n ? bsearch(&key, s->v, s->n, sizeof(key), by_name) : NULL;
}

/* Adds a resource that is not in the list yet. NULL: the list is full, or the name is too long. */
static struct known *add(struct device_sweep *s, const char *name, int64_t now_ms)
{
	if (s->n == RESOURCES_MAX || strlen(name) >= RESOURCE_BYTES)
		return NULL;
	VEC_PUSH(s->v, s->n) = (struct known){.name = xstrdup(name), .unserved_ms = now_ms};
	qsort(s->v, s->n, sizeof(*s->v), by_name);
	return find(s, name);
}

/* Returns the loop time since which the resource may be removed; INT64_MAX: the agent serves it. */
static int64_t removable_ms(const struct device_sweep *s, const struct known *k)
{
	return k->unserved_ms == SERVED ? INT64_MAX : k->unserved_ms + s->conf.grace_ms;
}

/* --- the file device-resources.json --- */

static void save(const struct device_sweep *s)
{
	struct err e = ERR_INIT;
	struct json_out o;
	auto_buf struct buf b;

	buf_init(&b, STATE_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kint(&o, "version", 1);
	jo_key(&o, "resources");
	jo_arr(&o);
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].remembered)
			jo_str(&o, s->v[i].name);
	jo_end_arr(&o);
	jo_end_obj(&o);
	if (file_replace(s->conf.root, s->path, buf_span(&b), 0644, &e) < 0)
		log_error("cannot record the resources of this node", LOG_S("error", e.text));
}

static int read_state(struct device_sweep *s, int64_t now_ms, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	const struct json *list, *v;
	struct json_walk w;
	auto_buf struct buf b;
	int r;

	buf_init(&b, STATE_MAX);
	r = file_read(s->conf.root, s->path, STATE_MAX, &b, e);
	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r >= 0)
		r = json_parse(&d, buf_span(&b), STATE_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "%s", s->path);
	list = json_get(json_root(d), "resources");
	w = json_walk_start(list);
	while ((v = json_walk_next(&w, NULL))) {
		const char *name = json_string(v);
		struct known *k = name && !find(s, name) ? add(s, name, now_ms) : NULL;

		if (k)
			k->remembered = true;
	}
	return 0;
}

/* --- resources that the agent serves --- */

static void read_served(struct device_sweep *s, int64_t now_ms)
{
	auto_free const char **names = xcalloc(RESOURCES_MAX, sizeof(*names));
	size_t n = s->conf.served(s->conf.arg, names, RESOURCES_MAX);
	bool is_new = false;

	for (size_t i = 0; i < s->n; i++)
		s->v[i].served = false;
	for (size_t i = 0; i < n; i++) {
		struct known *k = find(s, names[i]);

		if (!k)
			k = add(s, names[i], SERVED);
		if (!k)
			continue;
		is_new |= !k->remembered;
		k->served = k->remembered = true;
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].served)
			s->v[i].unserved_ms = SERVED;
		else if (s->v[i].unserved_ms == SERVED)
			s->v[i].unserved_ms = now_ms;
	if (is_new)
		save(s);
}

/* --- resources to remove from the Node --- */

static bool is_of_prefix(const struct device_sweep *s, const char *resource)
{
	struct span rest = span_of(s->conf.prefixes ? s->conf.prefixes : ""), word;
	const char *slash = strchr(resource, '/');

	while (slash && span_cut(&rest, ',', &word)) {
		word = span_trim(word);
		if (word.n && word.n == (size_t)(slash - resource) &&
		    !memcmp(word.p, resource, word.n))
			return true;
	}
	return false;
}

/* Every node of the cluster sends a request for each check, so checks are frequent only during
 * the first FAST_MS in which a resource may be removed. */
bool device_sweep_due(const struct device_sweep *s, int64_t now_ms)
{
	int64_t since = now_ms - s->read_ms;
	int64_t period = s->conf.grace_ms < SLOW_MS ? s->conf.grace_ms : SLOW_MS;

	if (now_ms < s->retry_ms)
		return false;
	if (s->conf.prefixes && *s->conf.prefixes && since >= period)
		return true;
	for (size_t i = 0; i < s->n; i++) {
		int64_t from = removable_ms(s, &s->v[i]);

		if (from <= now_ms && (since >= SLOW_MS || now_ms - from < FAST_MS))
			return true;
	}
	return false;
}

/* Removes a resource from the list if the Node does not have it any more, or another plugin
 * serves it. Waits FORGET_MS first, because a kubelet that is not running leaves the capacity
 * unchanged. */
static bool forget(struct device_sweep *s, const struct json *capacity, int64_t now_ms)
{
	bool was_remembered = false;
	size_t n_left = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct known *k = &s->v[i];
		const char *count = json_string(json_get(capacity, k->name));
		bool is_zero = count && strcmp(count, "0") == 0;
		int64_t from = removable_ms(s, k);

		if (is_zero || from > now_ms || now_ms - from < FORGET_MS) {
			s->v[n_left++] = *k;
			continue;
		}
		was_remembered |= k->remembered;
		free(k->name);
	}
	s->n = n_left;
	return was_remembered;
}

static void plan_one(struct known *k, const struct json *allocatable, struct kube_patch *patch)
{
	k->planned = true;
	jo_str(kube_patch_add(patch, "test", "status", "capacity", k->name, NULL), "0");
	kube_patch_add(patch, "remove", "status", "capacity", k->name, NULL);
	if (json_get(allocatable, k->name))
		kube_patch_add(patch, "remove", "status", "allocatable", k->name, NULL);
}

size_t device_sweep_plan(struct device_sweep *s, const struct json *node, int64_t now_ms,
			 struct kube_patch *patch)
{
	const struct json *status = json_get(node, "status"), *v;
	const struct json *capacity = json_get(status, "capacity");
	struct json_walk w = json_walk_start(capacity);
	const char *name;
	size_t n = 0;

	s->read_ms = now_ms;
	read_served(s, now_ms);
	if (forget(s, capacity, now_ms))
		save(s);
	for (size_t i = 0; i < s->n; i++)
		s->v[i].planned = false;
	while ((v = json_walk_next(&w, &name))) {
		struct known *k = find(s, name);

		if (!json_string(v) || strcmp(json_string(v), "0") != 0)
			continue;
		if (!k && is_of_prefix(s, name))
			k = add(s, name, now_ms);
		if (!k || removable_ms(s, k) > now_ms)
			continue;
		plan_one(k, json_get(status, "allocatable"), patch);
		n++;
	}
	return n;
}

static void report(const struct device_sweep *s, const char *name)
{
	auto_free char *text = xasprintf("extended resource '%s' removed from the Node: its "
					 "capacity is 0, and no device plugin of unirail serves it",
					 name);

	log_info("stale extended resource removed from the Node", LOG_S("resource", name));
	if (s->conf.event)
		s->conf.event(s->conf.arg, false, text);
}

void device_sweep_done(struct device_sweep *s)
{
	size_t n_left = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].planned) {
			s->v[n_left++] = s->v[i];
			continue;
		}
		report(s, s->v[i].name);
		free(s->v[i].name);
	}
	s->n = n_left;
	save(s);
}

/* --- reading and patching the Node --- */

static void failed(struct device_sweep *s, const char *what, const struct err *e)
{
	auto_free char *text = xasprintf(
		"cannot %s: %s%s", what, e->text,
		e->code == -EPERM ? "; allow the agent to 'get' nodes and to 'patch' nodes/status, "
				    "or set device-sweep to 0"
				  : "");

	if (e->code == -EPERM)
		s->retry_ms = loop_now_ms(kube_loop(s->conf.kube)) + SLOW_MS;
	if (!log_once(&s->reported, text))
		return;
	log_warn(text);
	if (s->conf.event && e->code == -EPERM)
		s->conf.event(s->conf.arg, true, text);
}

static void on_patched(void *arg, int status, const struct json *object, const struct err *e)
{
	struct device_sweep *s = arg;

	(void)status, (void)object;
	s->call = NULL;
	if (e)
		failed(s, "remove stale extended resources from the Node", e);
	else
		device_sweep_done(s);
}

static void on_node(void *arg, int status, const struct json *object, const struct err *e)
{
	struct device_sweep *s = arg;
	struct kube_patch patch;

	(void)status;
	s->call = NULL;
	if (e) {
		failed(s, "read this node's capacity", e);
		return;
	}
	kube_patch_init(&patch);
	if (device_sweep_plan(s, object, loop_now_ms(kube_loop(s->conf.kube)), &patch))
		s->call = kube_send(s->conf.kube,
				    &(struct kube_request){.verb = KUBE_JSON_PATCH,
							   .on = {.kind = &kube_nodes,
								  .name = s->conf.node,
								  .sub = "status"},
							   .body = kube_patch_end(&patch)},
				    on_patched, s);
	kube_patch_done(&patch);
}

static void on_check(void *arg)
{
	struct device_sweep *s = arg;

	loop_alarm_set(&s->timer, s->conf.grace_ms < CHECK_MS ? s->conf.grace_ms : CHECK_MS);
	read_served(s, loop_now_ms(kube_loop(s->conf.kube)));
	if (s->call || !device_sweep_due(s, loop_now_ms(kube_loop(s->conf.kube))))
		return;
	s->call =
		kube_send(s->conf.kube,
			  &(struct kube_request){.verb = KUBE_GET,
						 .on = {.kind = &kube_nodes, .name = s->conf.node}},
			  on_node, s);
}

void device_sweep_changed(struct device_sweep *s)
{
	if (!s)
		return;
	read_served(s, loop_now_ms(kube_loop(s->conf.kube)));
	loop_alarm_set(&s->timer, s->conf.grace_ms < CHECK_MS ? s->conf.grace_ms : CHECK_MS);
}

struct device_sweep *device_sweep_new(const struct device_sweep_conf *conf)
{
	struct device_sweep *s = xcalloc(1, sizeof(*s));
	struct err e = ERR_INIT;
	struct loop *l = conf->kube ? kube_loop(conf->kube) : NULL;
	int64_t now = l ? loop_now_ms(l) : 0;

	s->conf = *conf;
	s->timer = LOOP_ALARM(l, on_check, s);
	s->read_ms = now - SLOW_MS;
	s->path = xasprintf("%s/device-resources.json", conf->state_dir);
	if (read_state(s, now, &e) < 0)
		log_error("cannot read the list of extended resources that the agent served "
			  "before a restart: stale ones are not removed from the Node",
			  LOG_S("error", e.text));
	if (conf->kube)
		device_sweep_changed(s);
	return s;
}

void device_sweep_free(struct device_sweep *s)
{
	if (!s)
		return;
	kube_cancel(s->call);
	loop_alarm_cancel(&s->timer);
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].name);
	free(s->v);
	free(s->path);
	free(s);
}
