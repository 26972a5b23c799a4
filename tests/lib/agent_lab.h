/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_AGENT_LAB_H
#define UNIRAIL_TESTS_AGENT_LAB_H

/*
 * Servers, each in its own child process, and a client that reads their responses. al_serve*()
 * return the process id, which the caller passes to al_stop(). Include after cmocka.
 */

#include <sys/types.h>

#include "server/http_server.h"
#include "ipam_lab.h"

/*
 * Serves the IPAM API on the root of l, at <l->dir>/sock. `more` may change the configuration;
 * NULL: unchanged.
 */
struct ipam_api_conf;
pid_t al_serve_ipam(const struct ipam_lab *l, const struct http_limits *limits,
		    void (*more)(struct ipam_api_conf *c));
/*
 * Serves with the handler of the test; limits NULL: the defaults. `start` (or NULL) is called in
 * the child before the first connection is accepted.
 */
pid_t al_serve(const struct ipam_lab *l, const struct http_limits *limits, http_handler handle,
	       void (*start)(struct http_server *s, struct loop *loop));
/*
 * A fake of Spiderpool's agent: it answers 404 to paths of unirail, replies to POST /v1/ipam/ip
 * with `status` and the body `add`, and appends method, target and body of each request as a line
 * to <l->dir>/asked. With status 599 it refuses DELETE /v1/ipam/ip with 500.
 */
pid_t al_serve_original(const struct ipam_lab *l, int status, const char *add);
void al_stop(pid_t pid);

/* For a test program with one server, on il_lab: al_teardown(), a cmocka teardown, stops
 * al_server (0: none) and drops il_lab. */
extern pid_t al_server;
int al_teardown(void **state);

/* A listening socket at <l->dir>/sock, for a server that the test implements itself. */
int al_listen(const struct ipam_lab *l);
int al_connect(const struct ipam_lab *l);
void al_send(int fd, const char *text);
/* Sends one request with "Connection: close"; body NULL: no body. */
void al_send_request(int fd, const char *method, const char *target, const char *body);
/*
 * Reads until the peer closes, or until the received text contains `until` (NULL: until the peer
 * closes). The caller frees.
 */
char *al_read(int fd, const char *until);
/* Sends one request on a new connection; the caller frees the reply. */
char *al_request(const struct ipam_lab *l, const char *method, const char *target,
		 const char *body);
/* Sends the request and fails the test unless the response has this status and body. */
void al_expect(const struct ipam_lab *l, const char *method, const char *target, const char *body,
	       int status, const char *answer);

#endif
