/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NETWORK_CNI_WATCH_H
#define UNIRAIL_AGENT_NETWORK_CNI_WATCH_H

/*
 * Updates the generated CNI configuration (host/cni/cni_config.h) while the agent runs. The agent
 * watches the CNI configuration directory (inotify, and a scan every 30 s). It rewrites the file
 * when the configuration of the cluster's own network changes, or when another program removed the
 * file; after repeated removals (Cilium with cni.exclusive=true) it first waits 1 s to 60 s.
 *
 * The reason why the container runtime does not use the file is logged each time it changes, and
 * `unirail status` shows it. Unless the reason is that there is no network to wrap yet, it is also
 * a Node event and the agent's reason in /readyz. unirail_cni_config_used has the state.
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
	struct kube_events *events;		/* writer of events; NULL: no events are written */
	const char *dir, *name, *socket, *node; /* borrowed */
};

/* Writes the file at once if it is missing or outdated. A failure to write is reported and retried.
 * Fails with kind ERR_CONF if the container runtime would not read a file of that name. */
int cni_watch_new(struct cni_watch **ret, const struct cni_watch_conf *c, struct err *e);
void cni_watch_free(struct cni_watch *w); /* the file is not removed; w may be NULL */

/* Returns 0 if the container runtime uses unirail's configuration, if there is no network to wrap
 * yet, or if w is NULL. Otherwise a negative code, kind ERR_AGAIN, and the reason. */
int cni_watch_ready(const struct cni_watch *w, struct err *e);
/* Writes {"used": bool, "file": name of the generated file, "network": name of the file with the
 * network that it wraps, or "", "reason": the reason why it is not used, or ""}; null if w is
 * NULL. */
void cni_watch_put(const struct cni_watch *w, struct json_out *o);
bool cni_watch_used(const struct cni_watch *w);

#endif
