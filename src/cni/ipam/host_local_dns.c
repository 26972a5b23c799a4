/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cni/ipam/host_local_conf.h"

enum { RESOLV_MAX = 64 << 10 };

/* The next word of a line; empty at its end. */
static struct span word(struct span *rest)
{
	struct span w = span_trim(*rest);

	rest->p = w.p + w.n;
	rest->n = 0;
	for (size_t i = 0; i < w.n; i++)
		if (strchr(" \t\v\f\r", w.p[i])) {
			rest->p = w.p + i;
			rest->n = w.n - i;
			w.n = i;
			break;
		}
	return w;
}

static void add_words(struct span rest, char ***list, size_t *n)
{
	struct span w;

	while ((w = word(&rest)).n)
		VEC_PUSH(*list, *n) = span_dup(w);
}

static void add_line(struct span line, struct cni_dns *dns)
{
	struct span key = word(&line), first, rest = line;

	first = word(&rest);
	if (key.n == 0 || first.n == 0 || *key.p == '#' || *key.p == ';')
		return;
	if (span_eq(key, "nameserver")) {
		VEC_PUSH(dns->nameservers, dns->n_nameservers) = span_dup(first);
	} else if (span_eq(key, "domain")) {
		free(dns->domain);
		dns->domain = span_dup(first);
	} else if (span_eq(key, "search")) {
		add_words(line, &dns->search, &dns->n_search);
	} else if (span_eq(key, "options")) {
		add_words(line, &dns->options, &dns->n_options);
	}
}

int host_local_dns(const struct root *root, const char *path, struct cni_dns *dns, struct err *e)
{
	struct span rest, line;
	auto_buf struct buf text;
	int r;

	buf_init(&text, RESOLV_MAX);
	r = file_read(root, path, RESOLV_MAX, &text, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, r, "conf.ipam.resolvConf");
	}
	rest = buf_span(&text);
	while (span_cut(&rest, '\n', &line))
		add_line(line, dns);
	return 0;
}
