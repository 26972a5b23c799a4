/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_EVENTS_H
#define UNIRAIL_KUBE_EVENTS_H

/*
 * Events about objects, for `kubectl describe`. Best effort: callers never wait for them, and an
 * event that cannot be sent is dropped. Events are aggregated and rate-limited as in client-go, so
 * that a failing loop does not fill etcd:
 *
 *	a repeated event increments the count of the existing one
 *	after 10 different messages of one reason about one object within 10 minutes, further ones
 *	are combined into one, "(combined from similar events): the last message"
 *	one object may have a burst of 25 events, then one every 5 minutes
 *
 * Events are sent one after another; at most 64 wait, further ones are dropped. The last 256 events
 * are remembered for counting.
 */

#include "kube/client.h"

enum { KUBE_EVENT_MESSAGE_MAX = 1024 };

struct kube_event {
	const char *api_version, *kind, *ns, *name,
		*uid; /* the involved object; ns "" or NULL: cluster-scoped */
	bool warning;
	const char *reason; /* "Allocated" */
	const char *message;
};

struct kube_events;

/* component: "unirail-agent"; host: the node's name, may be NULL. Copied. */
struct kube_events *kube_events_new(struct kube *k, const char *component, const char *host);
void kube_events_free(struct kube_events *s); /* drops pending events; accepts NULL */
void kube_events_add(struct kube_events *s, const struct kube_event *e);
size_t kube_events_waiting(const struct kube_events *s);

/* --- aggregation, without a server --- */

enum kube_event_fate { KUBE_EVENT_DROP, KUBE_EVENT_NEW, KUBE_EVENT_AGAIN };

struct kube_event_plan {
	enum kube_event_fate fate;
	bool combined;	   /* the message represents several events */
	unsigned int slot; /* index of the remembered event */
	int count;
};

struct kube_event_filter;
struct kube_event_filter *kube_event_filter_new(void);
void kube_event_filter_free(struct kube_event_filter *f);
struct kube_event_plan kube_event_filter_add(struct kube_event_filter *f,
					     const struct kube_event *e, int64_t now_ms);

#endif
