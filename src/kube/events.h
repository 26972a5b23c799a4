/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_EVENTS_H
#define UNIRAIL_KUBE_EVENTS_H

/*
 * Events about objects, for `kubectl describe`. Best effort: nobody waits for them, and what cannot
 * be sent is dropped. As client-go does it, so that a loop that fails does not fill etcd:
 *
 *	the same event again counts up the one that is there
 *	more than 10 different messages of one reason about one object in 10 minutes become one,
 *	"(combined from similar events): the last message"
 *	one object gets 25 at once and one each 5 minutes after that
 *
 * At most 64 wait to be sent, one after another; 256 are remembered for counting.
 */

#include "kube/client.h"

enum { KUBE_EVENT_MESSAGE_MAX = 1024 };

struct kube_event {
	const char *api_version, *kind, *ns, *name,
		*uid; /* about what; ns "" or NULL: of the cluster */
	bool warning;
	const char *reason; /* "Allocated" */
	const char *message;
};

struct kube_events;

/* component: "unirail-agent"; host: the node's name, may be NULL. Copied. */
struct kube_events *kube_events_new(struct kube *k, const char *component, const char *host);
void kube_events_free(struct kube_events *s); /* what waits is dropped; NULL is fine */
void kube_events_add(struct kube_events *s, const struct kube_event *e);
size_t kube_events_waiting(const struct kube_events *s);

/* --- what is made of them, without a server --- */

enum kube_event_fate { KUBE_EVENT_DROP, KUBE_EVENT_NEW, KUBE_EVENT_AGAIN };

struct kube_event_plan {
	enum kube_event_fate fate;
	bool combined;	   /* the message stands for others too */
	unsigned int slot; /* of what is remembered */
	int count;
};

struct kube_event_filter;
struct kube_event_filter *kube_event_filter_new(void);
void kube_event_filter_free(struct kube_event_filter *f);
struct kube_event_plan kube_event_filter_add(struct kube_event_filter *f,
					     const struct kube_event *e, int64_t now_ms);

#endif
