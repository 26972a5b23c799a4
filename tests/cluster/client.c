/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses src/kube as the agent does, one of the following commands per run, for tests/cluster.
 * Answers are printed as "STATUS JSON" or "STATUS! error".
 *
 *	client create|replace|merge|patch NS NAME BODY	of a ConfigMap; NAME "-": no name
 *	client status NS NAME BODY	merge patch of a pod's status
 *	client delete NS NAME UID VERSION	UID or VERSION "-": without this precondition
 *	client lease NS NAME ID	a candidate for the Lease; SIGTERM: releases the Lease and ends
 *	client events NS NAME COUNT MESSAGE	"%d" in MESSAGE: number of the Event, from 0
 *	client many NS COUNT	creates COUNT ConfigMaps at once
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kube/events.h"
#include "kube/kinds.h"
#include "kube/leader.h"

static const struct kube_kind config_maps = {"", "v1", "configmaps", "configmap", true};

static struct loop *loop;
static struct kube *kube;
static long waiting;

static void print(int status, const struct json *v, const struct err *e)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, KUBE_BODY_MAX);
	jo_init(&o, &b, 0);
	if (e)
		printf("%d! %s\n", status, e->text);
	else {
		jo_val(&o, v, false);
		printf("%d %s\n", status, b.p);
	}
	fflush(stdout);
	buf_done(&b);
}

static void on_done(void *arg, int status, const struct json *v, const struct err *e)
{
	(void)arg;
	print(status, v, e);
	if (--waiting == 0)
		loop_stop(loop, 0);
}

static const char *given(const char *s)
{
	return strcmp(s, "-") ? s : NULL;
}

static int request(int argc, char **argv)
{
	static const char *const names[] = {"create", "replace", "merge", "patch"};
	static const enum kube_verb verbs[] = {KUBE_CREATE, KUBE_REPLACE, KUBE_MERGE_PATCH,
					       KUBE_JSON_PATCH};
	struct kube_request r = {
		.on = {.kind = &config_maps, .ns = argv[2], .name = given(argv[3])}};

	(void)argc;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(argv[1], names[i]) == 0)
			r.verb = verbs[i];
	r.body = span_of(argv[4]);
	if (strcmp(argv[1], "status") == 0) {
		r.verb = KUBE_MERGE_PATCH;
		r.on.kind = &kube_pods;
		r.on.sub = "status";
	}
	if (strcmp(argv[1], "delete") == 0) {
		r.verb = KUBE_DELETE;
		r.body = (struct span){0};
		r.uid = given(argv[4]);
		r.resource_version = given(argv[5]);
	}
	waiting = 1;
	kube_send(kube, &r, on_done, NULL);
	return loop_run(loop);
}

static int many(char **argv)
{
	char body[128];

	waiting = atol(argv[3]);
	for (long i = 0; i < waiting; i++) {
		const struct kube_request r = {.verb = KUBE_CREATE,
					       .on = {.kind = &config_maps, .ns = argv[2]},
					       .body = {body, strlen(body)}};
		struct kube_request with = r;

		snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"many-%ld\"}}", i);
		with.body = span_of(body);
		kube_send(kube, &with, on_done, NULL);
	}
	return loop_run(loop);
}

/* --- lease --- */

static struct kube_lease *lease;

static void say(const char *what)
{
	printf("%s %lld\n", what, (long long)now_mono_ms());
	fflush(stdout);
}

static void on_gained(void *arg)
{
	(void)arg;
	say("gained");
}

static void on_lost(void *arg, const struct err *e)
{
	(void)arg, (void)e;
	say("lost");
}

static void on_released(void *arg)
{
	(void)arg;
	say("released");
	loop_stop(loop, 0);
}

static void on_signal(void *arg, uint32_t events)
{
	(void)events;
	loop_del_fd(*(struct loop_fd **)arg);
	kube_lease_release(lease, on_released, NULL);
}

static int lead(char **argv)
{
	struct loop_fd *watch;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	loop_add_fd(loop, fd, EPOLLIN, on_signal, &watch, &watch, NULL);
	lease = kube_lease_new(kube, &(struct kube_lease_conf){.ns = argv[2],
							       .name = argv[3],
							       .id = argv[4],
							       .gained = on_gained,
							       .lost = on_lost});
	loop_run(loop);
	kube_lease_free(lease);
	close(fd);
	return 0;
}

/* --- events --- */

static void check(void *arg)
{
	struct kube_events *s = arg;

	if (kube_events_waiting(s))
		loop_add_timer(loop, 20, check, s);
	else
		loop_stop(loop, 0);
}

static int events(char **argv)
{
	struct kube_events *s = kube_events_new(kube, "unirail-test", "n1");

	for (long i = 0; i < atol(argv[4]); i++) {
		char number[24];
		auto_free char *text = xstrdup(argv[5]);
		char *at = strstr(text, "%d");
		auto_free char *message = NULL;

		snprintf(number, sizeof(number), "%ld", i);
		if (at)
			*at = '\0';
		message = xasprintf("%s%s%s", text, at ? number : "", at ? at + 2 : "");
		kube_events_add(s, &(struct kube_event){.api_version = "v1",
							.kind = "Pod",
							.ns = argv[2],
							.name = argv[3],
							.warning = true,
							.reason = "Testing",
							.message = message});
	}
	check(s);
	loop_run(loop);
	kube_events_free(s);
	return 0;
}

static int run(int argc, char **argv)
{
	if (strcmp(argv[1], "lease") == 0)
		return lead(argv);
	if (strcmp(argv[1], "events") == 0)
		return events(argv);
	return strcmp(argv[1], "many") == 0 ? many(argv) : request(argc, argv);
}

int main(int argc, char **argv)
{
	struct kube_conf conf;
	struct err e = ERR_INIT;
	struct root root;
	int r = root_open(&root, NULL, &e);

	if (r == 0)
		r = kube_conf_load(&conf, &(struct kube_where){.root = &root}, &e);
	if (r == 0)
		r = loop_new(&loop, &e);
	if (r < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	kube = kube_new(loop, &root, &conf, &(struct kube_settings){.timeout_ms = 15000});
	r = run(argc, argv);
	kube_free(kube);
	loop_free(loop);
	kube_conf_done(&conf);
	root_close(&root);
	return r;
}
