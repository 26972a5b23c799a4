/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_CNI_WATCH_H
#define UNIRAIL_AGENT_NETWORK_CNI_WATCH_H

/*
 * Keeps the generated CNI configuration (host/cni_config.h) true while the agent runs: the folder is
 * watched (inotify, and looked at every 30 s), and the file is written again when the cluster's own network
 * has another configuration, or when somebody removed ours. Where another program removes it again and
 * again (Cilium with cni.exclusive=true), it is written after a backoff of 1 s to 60 s.
 *
 * What keeps the container runtime from using it is logged and told as a Node event once each time it
 * changes, and is the agent's reason in /readyz, `unirail status` and unirail_cni_config_used.
 */

#include "base/loop.h"
#include "kube/events.h"
#include "host/cni_config.h"
#include "wire/json/json.h"

enum {
	CNI_WATCH_EVERY_MS = 30 * 1000,
	CNI_WATCH_DELAY_MS = 100,
	CNI_WATCH_BACKOFF_MAX_MS = 60 * 1000
};

struct cni_watch;

struct cni_watch_conf {
	struct loop *loop;
	const struct root *root;
	struct kube_events *events;		/* NULL: none */
	const char *dir, *name, *socket, *node; /* borrowed */
};

/* Writes what is missing at once. What cannot be done is told, and tried again; kind ERR_CONF for a name
 * that no runtime would read. */
int cni_watch_new(struct cni_watch **ret, const struct cni_watch_conf *c, struct err *e);
void cni_watch_free(struct cni_watch *w); /* the file stays; NULL is fine */

/* 0: the runtime uses unirail's configuration, or has none at all yet. Negative, kind ERR_AGAIN: not so,
 * and why. NULL: 0. */
int cni_watch_ready(const struct cni_watch *w, struct err *e);
/* {"used": bool, "file": what the agent keeps or "", "network": what it wraps or "", "why": "" or what is
 * wrong}; NULL: null. */
void cni_watch_put(const struct cni_watch *w, struct json_out *o);
bool cni_watch_used(const struct cni_watch *w);

#endif
