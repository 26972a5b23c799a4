/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_SPIDERPOOL_LEGACY_AGENT_H
#define UNIRAIL_CNI_IPAM_SPIDERPOOL_LEGACY_AGENT_H

/*
 * Functions shared by the clients of unirail's server (agent_client.c) and of Spiderpool's agent
 * (legacy_agent.c).
 */

#include "cni/ipam/spiderpool/agent_client.h"

/* The answer of a server. */
struct agent_reply {
	int status;
	struct buf body;
	struct json_doc *doc; /* parsed body; NULL: the body is not JSON */
};
#define AGENT_REPLY_INIT                                                                           \
	{                                                                                          \
		0                                                                                  \
	}
void agent_reply_done(struct agent_reply *r);
#define auto_agent_reply __attribute__((cleanup(agent_reply_done)))

/* Sends a request; `body` NULL: without a body. Negative: the request is too long (-EFBIG), or
 * the server sent no valid answer or answered 503 (-EAGAIN, kind ERR_AGAIN): "unhealthy
 * spiderpool-agent backend, ...". */
int agent_call(const char *socket, const struct root *root, const char *method, const char *path,
	       const struct buf *body, struct agent_reply *ret, struct err *e);
/*
 * Sets the error of an answer that is not 200: `what`, then the reason in the answer. A CNI code
 * from unirail's server becomes e's kind.
 */
int agent_failure(const struct agent_reply *r, const char *what, struct err *e);

/* Adds to the result the "dns" of `obj` and those of its "ips" and "routes" that belong to the
 * rail's interface, and sets the flags of rail->call. -ENODATA: `obj` has no address for the
 * interface. */
int agent_take_rail(const struct agent_reply *reply, const struct json *obj,
		    const struct rail_request *rail, struct err *e);

/* Write the fields that both APIs have. */
void agent_put_pod(struct json_out *o, const struct cni_ipam_call *call,
		   const struct cni_args *args);
void agent_put_pools(struct json_out *o, const struct spiderpool_conf *c);

/* Functions that send requests to Spiderpool's own agent. */
int agent_healthy(const char *socket, const struct cni_ipam_call *call, struct err *e);
int agent_add(const struct rail_request *const *v, size_t n, struct err *e);
int agent_del(const char *socket, const struct cni_ipam_call *const *calls, size_t n,
	      struct err *e);
int agent_conflict(const char *socket, const struct cni_ipam_call *call, const struct ipaddr *a,
		   const struct mac *other, struct err *e);

#endif
