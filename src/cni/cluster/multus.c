/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/log.h"
#include "cni/cluster/internal.h"

/* `multus` on an existing Multus configuration. */

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	return pod_add(c, true, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	return pod_del(c, true, e);
}

static int check(struct cni_call *c, struct err *e)
{
	return pod_check(c, true, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	return pod_gc(c, true, e);
}

static int status(struct cni_call *c, struct err *e)
{
	return pod_status(c, true, e);
}

const struct cni_plugin cni_multus = {
	.name = "multus",
	.about = "CNI multus plugin unirail",
	.keys = JSON_TABLES(&pod_conf_table),
	.relays = true,
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};

/*
 * `multus-shim` on a node that had Multus as a daemon: the daemon's file takes precedence over the
 * netconf that the daemon wrote.
 */

#define DAEMON_CONF "/etc/cni/net.d/multus.d/daemon-config.json"

enum { DAEMON_CONF_MAX = 1 << 20 };

/* Reads the daemon's file into *doc and c->daemon. Returns 0 also if the file does not exist. */
static int read_daemon(struct cni_call *c, struct json_doc **doc, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, DAEMON_CONF_MAX);
	r = file_read(&c->root, DAEMON_CONF, DAEMON_CONF_MAX, &text, e);
	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r >= 0)
		r = json_parse(doc, buf_span(&text), DAEMON_CONF_MAX, e);
	if (r < 0)
		return err_wrap(e, r, DAEMON_CONF);
	if (json_kind(json_root(*doc)) != JSON_OBJECT)
		return json_wants(json_root(*doc), DAEMON_CONF, "an object", e);
	c->daemon = *doc;
	return 0;
}

/* Reads the daemon's file for verbs that must not fail because of an invalid file. */
static void read_if_readable(struct cni_call *c, struct json_doc **doc)
{
	struct err reason = ERR_INIT;

	if (read_daemon(c, doc, &reason) < 0)
		log_warn("Multus' daemon-config.json is invalid or cannot be read, using only "
			 "the netconf",
			 LOG_S("error", reason.text));
}

static int multus_shim_add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = read_daemon(c, &doc, e);

	return r < 0 ? r : pod_add(c, true, out, e);
}

static int multus_shim_del(struct cni_call *c, struct err *e)
{
	auto_json struct json_doc *doc = NULL;

	read_if_readable(c, &doc);
	return pod_del(c, true, e);
}

static int multus_shim_check(struct cni_call *c, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = read_daemon(c, &doc, e);

	return r < 0 ? r : pod_check(c, true, e);
}

static int multus_shim_gc(struct cni_call *c, struct err *e)
{
	auto_json struct json_doc *doc = NULL;

	read_if_readable(c, &doc);
	return pod_gc(c, true, e);
}

static int multus_shim_status(struct cni_call *c, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = read_daemon(c, &doc, e);

	return r < 0 ? r : pod_status(c, true, e);
}

const struct cni_plugin cni_multus_shim = {
	.name = "multus-shim",
	.about = "CNI multus-shim plugin unirail",
	.keys = JSON_TABLES(&pod_conf_table),
	.relays = true,
	.add = multus_shim_add,
	.check = multus_shim_check,
	.del = multus_shim_del,
	.gc = multus_shim_gc,
	.status = multus_shim_status,
};
