/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/resolve.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <errno.h>

enum { TEXT_MAX = 4096 };

struct resolve {
	struct child *child;
	char *host;
	resolve_fn fn;
	void *arg;
};

/* print_address() and lookup() run in the child, which prints one address per line, or "!" and
 * the error. */
static void print_address(const struct sockaddr *sa)
{
	struct ipaddr a = {0};
	char text[IP_TEXT_MAX];

	if (sa->sa_family == AF_INET) {
		a.family = 4;
		memcpy(a.b, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		a.family = 6;
		memcpy(a.b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	} else {
		return;
	}
	printf("%s\n", ip_str(&a, text));
}

static int lookup(void *arg)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list = NULL;
	int r = getaddrinfo(arg, NULL, &hints, &list);

	if (r)
		printf("!%s\n", gai_strerror(r));
	for (const struct addrinfo *i = list; i; i = i->ai_next)
		print_address(i->ai_addr);
	fflush(stdout);
	return 0;
}

static void finish(struct resolve *r, const struct ipaddr *v, size_t n, const struct err *e)
{
	resolve_fn fn = r->fn;
	void *arg = r->arg;

	free(r->host);
	free(r);
	fn(arg, v, n, e);
}

static void on_done(void *arg, int status, struct span out, const struct err *cause)
{
	struct resolve *r = arg;
	struct ipaddr v[RESOLVE_MAX];
	struct err e = ERR_INIT;
	struct span line, reason = span_of("no address");
	size_t n = 0;

	(void)status;
	while (n < RESOLVE_MAX && span_cut(&out, '\n', &line)) {
		if (span_has_prefix(line, "!"))
			reason = (struct span){line.p + 1, line.n - 1};
		else if (ip_parse(line, &v[n]) == 0)
			n++;
	}
	if (n == 0 && cause) {
		e = *cause;
		err_wrap(&e, cause->code, "look up '%s'", r->host);
	} else if (n == 0) {
		err_kind(&e, ERR_UNAVAILABLE, -EHOSTUNREACH, "look up '%s': %.*s", r->host,
			 (int)reason.n, reason.p);
	}
	finish(r, v, n, n ? NULL : &e);
}

int resolve_start(struct resolve **ret, struct loop *l, const char *host, int timeout_ms,
		  resolve_fn fn, void *arg, struct err *e)
{
	struct resolve *r = xcalloc(1, sizeof(*r));
	int rc;

	*r = (struct resolve){.host = xstrdup(host), .fn = fn, .arg = arg};
	rc = child_start(&r->child, l,
			 &(struct child_conf){lookup, r->host, timeout_ms, TEXT_MAX, NULL}, on_done,
			 r, e);
	if (rc < 0) {
		free(r->host);
		free(r);
		return err_wrap(e, rc, "look up '%s'", host);
	}
	*ret = r;
	return 0;
}

void resolve_cancel(struct resolve *r)
{
	if (!r)
		return;
	child_cancel(r->child);
	free(r->host);
	free(r);
}
