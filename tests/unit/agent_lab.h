/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_AGENT_LAB_H
#define UNIRAIL_TESTS_AGENT_LAB_H

/*
 * Servers in processes of their own, and a client that reads their responses. Include after cmocka.
 */

#include <sys/types.h>

#include "server/http_server.h"
#include "ipam_lab.h"

/* The IPAM API on l's root, listening on <l->dir>/sock; `more` may be NULL. */
struct ipam_api_conf;
pid_t al_serve_ipam(const struct ipam_lab *l, const struct http_limits *limits,
		    void (*more)(struct ipam_api_conf *c));
/* Some handler. */
pid_t al_serve(const struct ipam_lab *l, const struct http_limits *limits, http_handler handle);
/*
 * A fake of Spiderpool's own agent: it has none of unirail's requests, and answers `add` (a status
 * and a body) to POST /v1/ipam/ip. It appends the line of each request to <l->dir>/asked.
 */
pid_t al_serve_original(const struct ipam_lab *l, int status, const char *add);
void al_stop(pid_t pid);

/* A listening socket on <l->dir>/sock, for a server of the test. */
int al_listen(const struct ipam_lab *l);
int al_connect(const struct ipam_lab *l);
void al_send(int fd, const char *text);
/* One request, after which the server closes; body NULL: none. */
void al_send_request(int fd, const char *method, const char *target, const char *body);
/*
 * Reads until the peer closes, or until `until` has been read (NULL: not compared). The caller
 * frees.
 */
char *al_read(int fd, const char *until);
/* Sends one request on a new connection; the caller frees the reply. */
char *al_ask(const struct ipam_lab *l, const char *method, const char *target, const char *body);
/* Expects this status and body. */
void al_expect(const struct ipam_lab *l, const char *method, const char *target, const char *body,
	       int status, const char *answer);

#endif
