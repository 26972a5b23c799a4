/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "kube/client.h"
#include "kube/kinds.h"
#include "kube/time.h"

enum { COPY_MAX = KUBE_BODY_MAX, HOUR_MS = 3600 * 1000 };

/* --- requests, one after the other --- */

struct fetch {
	struct loop *loop;
	struct json_doc *doc;
	struct err e;
};

static void on_answer(void *arg, int status, const struct json *v, const struct err *e)
{
	struct fetch *f = arg;
	auto_buf struct buf b;
	struct json_out o;

	(void)status;
	buf_init(&b, COPY_MAX);
	if (e) {
		f->e = *e;
	} else {
		jo_init(&o, &b, 0);
		jo_val(&o, v, false);
		json_parse(&f->doc, buf_span(&b), COPY_MAX, &f->e);
	}
	loop_stop(f->loop, 0);
}

static int fetch(struct fetch *f, struct kube *k, const struct kube_request *q,
		 struct json_doc **ret, struct err *e)
{
	f->doc = NULL;
	err_clear(&f->e);
	kube_send(k, q, on_answer, f);
	loop_run(f->loop);
	if (f->e.code < 0) {
		if (e)
			*e = f->e;
		return f->e.code;
	}
	*ret = f->doc;
	return 0;
}

static int read_both(struct fetch *f, struct kube *k, const char *node, struct json_doc **ret,
		     struct json_doc **events, struct err *e)
{
	auto_free char *fields = xasprintf("involvedObject.kind=Node,involvedObject.name=%s", node);
	auto_buf struct buf query;
	struct err refused = ERR_INIT;
	int r;

	buf_init(&query, 4096);
	kube_path_query(&query, "fieldSelector", fields);
	kube_path_query(&query, "limit", "500");
	r = fetch(f, k,
		  &(struct kube_request){.verb = KUBE_GET,
					 .on = {.kind = &kube_nodes, .name = node}},
		  ret, e);
	/* A user may lack the permission for events: the report has only the Node then. */
	if (r == 0 && fetch(f, k,
			    &(struct kube_request){.verb = KUBE_LIST,
						   .on = {.kind = &kube_events_kind},
						   .query = query.p},
			    events, &refused) < 0)
		fprintf(stderr, "unirail doctor: the report has no events: %s\n", refused.text);
	return r;
}

int doctor_node_read(const struct doctor_node_access *a, struct json_doc **node,
		     struct json_doc **events, struct err *e)
{
	const struct kube_settings set = {.timeout_ms = (int)a->timeout_ms, .impatient = true};
	auto_free char *path = path_absolute(a->kubeconfig);
	struct kube_conf conf = {0};
	struct fetch f = {0};
	struct kube *k = NULL;
	struct root root;
	int r = root_open(&root, NULL, e);

	if (r < 0)
		return r;
	r = kube_conf_load(&conf, &(struct kube_where){&root, path, a->context}, e);
	if (r == 0)
		r = loop_new(&f.loop, e);
	if (r == 0) {
		k = kube_new(f.loop, &root, &conf, &set);
		r = read_both(&f, k, a->node, node, events, e);
		kube_free(k);
		loop_free(f.loop);
	}
	kube_conf_done(&conf);
	root_close(&root);
	return r;
}

/* --- findings --- */

static void check_conditions(struct doctor *d, const char *name, const struct json *status)
{
	struct json_walk w = json_walk_start(json_get(status, "conditions"));
	const struct json *c;

	while ((c = json_walk_next(&w, NULL))) {
		const char *type = json_get_text(c, "type"), *is = json_get_text(c, "status");

		if (!strcmp(type, "Ready") && strcmp(is, "True") != 0)
			doctor_find(d, FINDING_PROBLEM, name, "see 'kubectl describe node'",
				    "the node is not Ready: %s", json_get_text(c, "message"));
		if (!strcmp(type, "HostDrift") && !strcmp(is, "True"))
			doctor_find(
				d, FINDING_PROBLEM, name,
				"'unirail host plan' on the node shows the steps, 'unirail host "
				"apply' carries them out",
				"'unirail host watch' reports drift or a failed round (%s): %s",
				json_get_text(c, "reason"), json_get_text(c, "message"));
	}
}

static void check_resources(struct doctor *d, const struct json *status)
{
	struct json_walk w = json_walk_start(json_get(status, "capacity"));
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		const char *free = json_get_text(json_get(status, "allocatable"), key);
		uint64_t all = 0, usable = 0;

		if (!strchr(key, '/') || strstr(key, "kubernetes.io/") || !json_string(v) ||
		    num_u64(span_of(json_string(v)), 0, INT64_MAX, &all) < 0)
			continue;
		if (!all)
			doctor_find(d, FINDING_REMARK, key,
				    "if unirail's agent served the resource, the agent removes it "
				    "from the Node after the time set with device-sweep; 'unirail "
				    "device plan' on the node shows the resources of its devices",
				    "no device plugin of the node serves this resource now");
		else if (num_u64(span_of(free), 0, INT64_MAX, &usable) == 0 && usable < all)
			doctor_find(d, FINDING_PROBLEM, key,
				    "run 'unirail device explain' and 'unirail doctor' on the node",
				    "%llu of %llu devices are unhealthy",
				    (unsigned long long)(all - usable), (unsigned long long)all);
	}
}

static void check_events(struct doctor *d, const struct json *events, int64_t now_ms)
{
	struct json_walk w = json_walk_start(json_get(events, "items"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *component = json_get_text(json_get(v, "source"), "component");
		int64_t at = 0;

		if (strncmp(component, "unirail", strlen("unirail")) != 0 ||
		    strcmp(json_get_text(v, "type"), "Warning") != 0 ||
		    (kube_time_parse(json_get_text(v, "lastTimestamp"), &at) == 0 &&
		     now_ms - at > HOUR_MS))
			continue;
		doctor_find(d, FINDING_REMARK, json_get_text(v, "reason"),
			    "'kubectl describe node' shows all events", "%s",
			    json_get_text(v, "message"));
	}
}

void doctor_node_report(struct doctor *d, const struct json *events, int64_t now_ms)
{
	const struct json *node = json_root(d->f->node), *status = json_get(node, "status");
	const char *name = json_get_text(json_get(node, "metadata"), "name");

	d->out->check = "node";
	check_conditions(d, name, status);
	check_resources(d, status);
	check_events(d, events, now_ms);
	doctor_node_drivers(d);
}
