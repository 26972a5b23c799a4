/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_AGENT_LAB_H
#define UNIRAIL_TESTS_AGENT_LAB_H

/* Servers in processes of their own, and a client that reads what they say. Include after cmocka. */

#include <sys/types.h>

#include "server/http_server.h"
#include "ipam_lab.h"

/* The IPAM API on l's root, listening on <l->dir>/sock; `more` may be NULL. */
struct ipam_api_conf;
pid_t al_serve_ipam(const struct ipam_lab *l, const struct http_limits *limits,
		    void (*more)(struct ipam_api_conf *c));
/* Some handler. */
pid_t al_serve(const struct ipam_lab *l, const struct http_limits *limits, http_handler handle);
/* Spiderpool's own agent, by what we know of it: knows nothing of ours, and answers `add` (a status
 * and a body) to POST /v1/ipam/ip; each request's line goes to <l->dir>/asked. */
pid_t al_serve_original(const struct ipam_lab *l, int status, const char *add);
void al_stop(pid_t pid);

/* A listening socket on <l->dir>/sock, for a server of one's own. */
int al_listen(const struct ipam_lab *l);
int al_connect(const struct ipam_lab *l);
void al_send(int fd, const char *text);
/* One request, after which the server closes; body NULL: none. */
void al_send_request(int fd, const char *method, const char *target, const char *body);
/* Until the peer closes, or `until` has been read (NULL: not looked for). The caller frees. */
char *al_read(int fd, const char *until);
/* One request on a connection of its own; the caller frees. */
char *al_ask(const struct ipam_lab *l, const char *method, const char *target, const char *body);
/* Status and body are these. */
void al_expect(const struct ipam_lab *l, const char *method, const char *target, const char *body,
	       int status, const char *answer);

#endif
