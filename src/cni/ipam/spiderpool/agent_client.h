/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_SPIDERPOOL_AGENT_CLIENT_H
#define UNIRAIL_CNI_IPAM_SPIDERPOOL_AGENT_CLIENT_H

/*
 * The spiderpool IPAM as a client of the server that the netconf names (ipam_unix_socket_path).
 *
 * `unirail ipam serve` and `unirail agent` get one request for all attachments. If the server
 * answers this request with 404, it is Spiderpool's own agent. It then gets the requests of Spiderpool's plugin, a
 * health check and one request per interface. This API is limited: requests for specific addresses
 * are refused (kind ERR_UNSUPPORTED), sticky is ignored with a warning, CHECK and GC do nothing,
 * and STATUS only checks the agent's health.
 *
 * If no server answers: "unhealthy spiderpool-agent backend, failed to check: ...", of class
 * ERR_AGAIN for DEL, so that the runtime retries and no address leaks. If Spiderpool's agent
 * answers a release request with an error other than 503, the error is only logged, as by
 * Spiderpool's plugin: the agent's GC releases the addresses later.
 */

#include "cni/ipam/spiderpool/spiderpool.h"

/* The request of one attachment: what its netconf and CNI_ARGS request. */
struct rail_request {
	const struct cni_ipam_call *call;
	struct spiderpool_conf conf;
	struct ipam_request request;
	struct ipaddr *want;
	size_t n_want;
	bool done; /* its store or server has been called */
};

/* Allocates for rails of one pod and one socket. A failure may leave addresses allocated: the
 * caller then calls spiderpool_undo(). */
int spiderpool_socket_add(const struct rail_request *const *v, size_t n, struct err *e);
int spiderpool_socket_try(const struct rail_request *v, struct err *e);
enum { SPIDERPOOL_SOCKET_MS = 100 * 1000 }; /* as long as Spiderpool's plugin waits */
/* Releases the addresses of the calls' interfaces; all calls are for the same container. */
int spiderpool_socket_del(const char *socket, int limit_ms,
			  const struct cni_ipam_call *const *calls, size_t n, struct err *e);
/* Reads the addresses of one interface into *held, which the caller frees; sets *known to false if
 * this server does not report them. */
int spiderpool_socket_held(const char *socket, const struct cni_ipam_call *call,
			   struct ipnet **held, size_t *n, bool *known, struct err *e);
int spiderpool_socket_gc(const char *socket, const struct cni_ipam_call *call, struct err *e);
int spiderpool_socket_conflict(const char *socket, const struct cni_ipam_call *call,
			       const struct ipaddr *a, const struct mac *other, struct err *e);

#endif
