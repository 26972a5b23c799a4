/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_INTERNAL_H
#define UNIRAIL_KUBE_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/backoff.h"
#include "base/log.h"
#include "kube/auth.h"
#include "kube/cache.h"
#include "kube/client.h"
#include "kube/events.h"
#include "kube/informer.h"
#include "kube/status.h"
#include "kube/listwatch.h"
#include "wire/http/https.h"

/* State of client.c. */

struct kube_conn {
	struct kube *k;
	struct https *h;
	unsigned int generation; /* kube_auth_generation() when the connection was opened */
	bool ready;
	struct kube_conn *next; /* in k->old */
};

struct kube {
	struct loop *loop;
	const struct kube_conf *conf;
	struct kube_settings set;
	struct kube_auth *auth;
	/* old: list of replaced connections that finish their requests */
	struct kube_conn *conn, *old;
	struct kube_call *calls;
	struct loop_alarm pump, again, cleanup;
	struct backoff backoff;
	bool down; /* true: further failures to connect are not logged */
};

/* --- requests with a streamed answer --- */

struct kube_stream_ops {
	void (*open)(void *arg); /* a successful answer begins; may be NULL */
	/* Called with the body of a successful answer only. A negative result ends the request with
	 * the error e. */
	int (*data)(void *arg, struct span bytes, struct err *e);
	/* Called at the end of the request; s is NULL unless the server refused the request. */
	void (*end)(void *arg, int status, const struct kube_status *s, const struct err *e);
	/* Called instead of `end` when the call is cancelled; must free arg. */
	void (*drop)(void *arg);
};

/* The timeout of a KUBE_WATCH limits only the wait for the head of its answer; if the request has
 * no timeout, it is KUBE_HEAD_MS. A watch that was sent is retried only after its first 401. */
struct kube_call *kube_stream(struct kube *k, const struct kube_request *r,
			      const struct kube_stream_ops *ops, void *arg);
/* returns a description such as "kube: get pod 'x'" */
const char *kube_call_describe(const struct kube_call *c);

/* Limits of events.c. */

enum { KUBE_EVENTS_SEEN = 256, KUBE_EVENTS_WAITING = 64 };

/* State of informer.c. */

enum next { NEXT_LIST, NEXT_PROBE, NEXT_WATCH };

struct kube_informer {
	struct kube *k;
	struct kube_informer_conf c;
	char *ns, *labels, *fields;
	struct kube_store store;
	char *version;	    /* version to resume from; NULL: list first */
	unsigned int round; /* number of the last list; its end removes objects of older rounds */
	bool synced;
	struct kube_list *list;
	struct kube_call *probe;
	struct kube_watch *watch;
	struct loop_alarm timer;
	enum next next;
	struct backoff backoff;
	/* loop times in ms; behind_from 0: the informer is watching */
	int64_t watch_from, behind_from;
	struct log_once logged; /* last failure that was logged */
	/* state of kube_informer_read_again(): timer, request in flight, and the namespace and
	 * name of the object that is being read */
	struct loop_alarm again_timer;
	struct kube_call *again;
	char *again_ns, *again_name;
	struct backoff again_backoff; /* backoff after a failed read */
};

/* State of cache.c. */

struct kube_cache_watch {
	struct kube_cache *c;
	int kind;
	struct kube_informer *informer;
	struct err error; /* why the kind is not in sync; code 0: no error */
	struct kube_cache_listener {
		kube_cache_fn fn; /* NULL: removed */
		void *arg;
	} * v;
	size_t n;
};

struct kube_cache {
	struct kube_cache_conf conf;
	struct loop_timer *not_installed; /* logs kinds whose CRDs are not installed */
	struct kube_cache_watch watch[];
};

#endif
