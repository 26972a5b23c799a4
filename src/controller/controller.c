/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail controller`: settings, who leads, from start to end. */
#include "controller/controller.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller_priv.h"
#include "server/confine.h"
#include "kern/sys/caps.h"
#include "base/random.h"

#define LEASE "unirail-controller"

/* END_MS: for the Lease to be given back. SILENT_MS: longer than any hand-over takes. */
enum { METRICS_MAX = 1 << 20, END_MS = 3000, SILENT_MS = 60 * 1000 };

const struct cmd controller_cmds[] = {
	{NULL, NULL, "run the cluster's controller: webhooks, networks, pools, clean-up",
	 controller_opts, 0, 0},
	{0},
};

/* --- settings --- */

const struct controller_conf *controller_first(const struct controller *c)
{
	return c->first.own.v ? &c->first : &c->conf;
}

static void reload(void *arg)
{
	struct controller *c = arg;
	struct controller_conf conf;
	struct err e = ERR_INIT;
	const char *needs;

	if (controller_conf_read(&conf, &c->root, NULL, c->argc, c->argv, &e) < 0) {
		log_error("settings are not valid, those read before stay in force",
			  LOG_S("error", e.text));
		return;
	}
	needs = settings_needs_restart(&controller_settings, controller_first(c), &conf);
	if (needs)
		log_warn("a setting changes with the next start only", LOG_S("setting", needs));
	/* Texts of the first ones are pointed to by everybody. */
	if (!c->first.own.v)
		c->first = c->conf;
	else
		controller_conf_done(&c->conf);
	c->conf = conf;
	daemon_log(c->conf.log_level, c->conf.log_format, NULL);
	controller_tell_settings(c);
	log_info("settings read", LOG_S("file", c->conf.config));
}

/* --- who leads --- */

static void on_gained(void *arg)
{
	struct controller *c = arg;

	c->gained++;
	log_info("this replica leads");
	if (kube_lease_silent_ms(c->lease) > SILENT_MS)
		world_listen(c->world, controller_first(c)->hold_ms);
	controller_lead(c);
}

static void on_lost(void *arg, const struct err *why)
{
	struct controller *c = arg;

	log_warn("this replica does not lead any more", LOG_S("error", why->text));
	controller_follow(c);
}

/* Of this process alone: a container that is started again has the old one's name. */
static void start_lease(struct controller *c)
{
	auto_free char *id = NULL;
	unsigned char r[4];

	random_bytes(r, sizeof(r));
	id = xasprintf("%s_%02x%02x%02x%02x", c->conf.name, r[0], r[1], r[2], r[3]);
	c->lease = kube_lease_new(c->kube, &(struct kube_lease_conf){
						   .ns = c->conf.ns,
						   .name = LEASE,
						   .id = id,
						   .lease_ms = (int)c->conf.lease_ms,
						   .renew_ms = (int)c->conf.renew_ms,
						   .retry_ms = (int)c->conf.retry_ms,
						   .gained = on_gained,
						   .lost = on_lost,
						   .arg = c,
					   });
}

/* --- the end --- */

static void on_drained(void *arg)
{
	loop_stop(((struct controller *)arg)->loop, 0);
}

static void on_released(void *arg)
{
	struct controller *c = arg;

	if (c->drains)
		return;
	c->drains = true;
	controller_drain(c, on_drained);
}

static void end(void *arg)
{
	struct controller *c = arg;

	controller_follow(c);
	loop_add_timer(c->loop, END_MS, on_released, c);
	kube_lease_release(c->lease, on_released, c);
}

/* --- ports --- */

static int on_ready(void *arg, struct err *e)
{
	struct controller *c = arg;
	int r = controller_ready(c, e);

	if (r == 0 && !c->ready)
		log_info("ready");
	c->ready = r == 0;
	return r;
}

static void on_scrape(void *arg)
{
	struct controller *c = arg;
	auto_buf struct buf b;

	buf_init(&b, METRICS_MAX);
	controller_metrics(c, &b);
	ports_metrics(c->ports, buf_span(&b));
}

static int open_ports(struct controller *c, struct err *e)
{
	bool metrics = settings_yes(c->conf.metrics);

	return ports_new(&c->ports,
			 &(struct ports_conf){.loop = c->loop,
					      .health_listen = c->conf.health_listen,
					      .metrics_listen = c->conf.metrics_listen
									? c->conf.metrics_listen
									: c->conf.listen,
					      .health = (int)c->conf.health_port,
					      .metrics = metrics ? (int)c->conf.metrics_port : 0,
					      .ready = on_ready,
					      .scrape = on_scrape,
					      .arg = c},
			 e);
}

/* --- from start to end --- */

static int know_cluster(struct controller *c, struct err *e)
{
	const struct kube_where where = {&c->root, c->conf.kubeconfig, c->conf.context};
	int r = kube_conf_load(&c->kube_conf, &where, e);

	if (r < 0)
		return r;
	log_info("API server", LOG_S("host", c->kube_conf.host), LOG_I("port", c->kube_conf.port),
		 LOG_S("by", c->kube_conf.from), LOG_S("name", c->conf.name));
	c->kube = kube_new(c->loop, &c->root, &c->kube_conf, &(struct kube_settings){0});
	c->world = world_new(c->kube);
	c->events = kube_events_new(c->kube, "unirail-controller", c->conf.name);
	return 0;
}

static void confine(struct controller *c)
{
	struct confine s = {.root = &c->root, .mode = SANDBOX_CONTROLLER};
	const char *files[KUBE_CONF_FILES];
	char words[256];

	confine_file(&s, c->conf.config, SANDBOX_READ);
	kube_conf_files(&c->kube_conf, files);
	confine_server(&s, c->kube_conf.host, files,
		       c->kube_conf.exec.argv ? c->kube_conf.exec.argv[0] : NULL);
	confine_folder(&s, c->conf.cni_dir, SANDBOX_READ);
	confine_file(&s, c->conf.network_file, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_cert, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_key, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_ca, SANDBOX_READ);
	confine_file(&s, c->conf.webhook_client_ca, SANDBOX_READ);
	confine_file(&s, c->conf.pid_file, SANDBOX_REMOVE);
	confine_enter(&s, c->conf.sandbox, words, sizeof(words));
}

static int start(struct controller *c, struct err *e)
{
	static const struct daemon_ops ops = {reload, end};
	int r = daemon_log(c->conf.log_level, c->conf.log_format, e);

	if (r == 0)
		r = loop_new(&c->loop, e);
	if (r == 0)
		r = daemon_new(&c->daemon, c->loop, &ops, c, e);
	if (r == 0)
		r = open_ports(c, e);
	if (r == 0)
		r = caps_files_only(e);
	if (r == 0)
		r = know_cluster(c, e);
	if (r == 0)
		r = controller_serve(c, e);
	if (r < 0)
		return r;
	start_lease(c);
	daemon_watch(c->daemon, c->conf.config);
	r = daemon_pid_file(c->daemon, &c->root, c->conf.pid_file, e);
	if (r == 0)
		confine(c);
	return r;
}

static void stop(struct controller *c)
{
	kube_lease_free(c->lease);
	controller_follow(c);
	controller_part_from(c);
	ports_free(c->ports);
	kube_events_free(c->events);
	world_free(c->world);
	kube_free(c->kube);
	kube_conf_done(&c->kube_conf);
	daemon_free(c->daemon);
	loop_free(c->loop);
	controller_conf_done(&c->conf);
	controller_conf_done(&c->first);
}

static int run(struct controller *c)
{
	struct err e = ERR_INIT;
	int r = start(c, &e), status = 1;

	if (r < 0) {
		fprintf(stderr, "unirail controller: %s\n", e.text);
	} else {
		status = loop_run(c->loop);
		log_info("ended");
	}
	stop(c);
	return status;
}

int controller_main(int argc, char **argv)
{
	struct controller c = {.argc = argc - 1, .argv = argv + 1};
	struct err e = ERR_INIT;
	int r = root_open(&c.root, NULL, &e), status;

	if (r == 0)
		r = controller_conf_read(&c.conf, &c.root, NULL, c.argc, c.argv, &e);
	if (r < 0)
		return opt_exit("unirail controller", r, &e);
	status = run(&c);
	root_close(&c.root);
	return status;
}
