/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the CPU time that client and server each need for a TLS handshake, full and resumed.
 * The program prints figures and asserts nothing about time. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "wire/tls/tls.h"
#include "wire/tls/x509.h"

enum { N = 300 };

struct cost {
	double client, server; /* microseconds */
	int resumed;
};

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int timed(struct tls *t, double *sum)
{
	double began = cpu_us();
	int r = tls_handshake(t, NULL);

	*sum += cpu_us() - began;
	return r;
}

static void connect_once(struct tls_conf *client, struct tls_conf *server, struct cost *cost)
{
	int fds[2], c = -EAGAIN, s = -EAGAIN,
		    made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds);
	struct tls *a = tls_new(client, fds[0], "localhost"), *b = tls_new(server, fds[1], NULL);
	double began;
	char byte;

	assert(made == 0);
	while (c == -EAGAIN || s == -EAGAIN) {
		if (c == -EAGAIN)
			c = timed(a, &cost->client);
		if (s == -EAGAIN)
			s = timed(b, &cost->server);
	}
	assert(c == 0 && s == 0);
	tls_write(b, "b", 1, NULL);
	began = cpu_us();
	while (tls_read(a, &byte, 1, NULL) == -EAGAIN)
		;
	cost->client += cpu_us() - began; /* the ticket */
	cost->resumed += tls_resumed(a);
	tls_free(a);
	tls_free(b);
	close(fds[0]);
	close(fds[1]);
}

static struct tls_conf *conf(enum tls_side side, const struct tls_material *m)
{
	struct tls_conf *c = NULL;
	struct err e = ERR_INIT;

	if (tls_conf_new(&c, side, m, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	return c;
}

int main(void)
{
	static const char *const names[] = {"localhost"};
	auto_free char *ca = NULL, *ca_key = NULL, *cert = NULL, *key = NULL;
	int64_t now = time(NULL);
	struct cost full = {0}, resumed = {0};
	struct tls_material of_client, of_server;
	struct tls_conf *client, *server;

	if (x509_make(&(struct x509_request){.name = "ca", .from = now - 60, .to = now + 86400},
		      &ca, &ca_key, NULL) < 0 ||
	    x509_make(&(struct x509_request){.name = "leaf",
					     .names = names,
					     .n_names = 1,
					     .from = now - 60,
					     .to = now + 86400,
					     .ca = span_of(ca),
					     .ca_key = span_of(ca_key)},
		      &cert, &key, NULL) < 0)
		return 1;
	of_client = (struct tls_material){.ca = span_of(ca)};
	of_server = (struct tls_material){.cert = span_of(cert), .key = span_of(key)};
	server = conf(TLS_SERVER, &of_server);
	for (int i = 0; i < N; i++) {
		client = conf(TLS_CLIENT, &of_client);
		connect_once(client, server, &full);
		tls_conf_put(client);
	}
	client = conf(TLS_CLIENT, &of_client);
	connect_once(client, server, &(struct cost){0});
	for (int i = 0; i < N; i++)
		connect_once(client, server, &resumed);
	tls_conf_put(client);
	tls_conf_put(server);
	printf("TLS 1.3 handshake, ECDSA P-256, CPU in microseconds   client  server\n"
	       "full (%d resumed of %d)                                %6.0f  %6.0f\n"
	       "resumed (%d resumed of %d)                           %6.0f  %6.0f\n",
	       full.resumed, N, full.client / N, full.server / N, resumed.resumed, N,
	       resumed.client / N, resumed.server / N);
	return 0;
}
