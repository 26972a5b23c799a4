/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_CNI_WATCH_H
#define UNIRAIL_AGENT_NETWORK_CNI_WATCH_H

/*
 * Keeps the generated CNI configuration (host/cni/cni_config.h) up to date while the agent runs. The
 * directory is watched (inotify, and a scan every 30 s). The file is rewritten when the
 * configuration of the cluster's own network changes, or when another program removed it; if that
 * happens repeatedly (Cilium with cni.exclusive=true), after a backoff of 1 s to 60 s.
 *
 * The reason why the container runtime does not use the file is logged and reported as a Node event
 * each time it changes. It is also the agent's reason in /readyz and `unirail status`, and sets
 * unirail_cni_config_used.
 */

#include "base/loop.h"
#include "kube/events.h"
#include "host/cni/cni_config.h"
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

/* Writes the file at once if it is missing. A failure is reported and retried. Kind ERR_CONF: no
 * runtime would read a file of that name. */
int cni_watch_new(struct cni_watch **ret, const struct cni_watch_conf *c, struct err *e);
void cni_watch_free(struct cni_watch *w); /* the file stays; NULL is fine */

/* Returns 0 if the runtime uses unirail's configuration, or has none at all yet, or w is NULL.
 * Negative, kind ERR_AGAIN, with the reason if not. */
int cni_watch_ready(const struct cni_watch *w, struct err *e);
/* Writes {"used": bool, "file": the generated file or "", "network": the network it wraps or "",
 * "why": "" or the error}; null if w is NULL. */
void cni_watch_put(const struct cni_watch *w, struct json_out *o);
bool cni_watch_used(const struct cni_watch *w);

#endif
