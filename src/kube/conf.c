/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the places it is; conf_file.c reads a kubeconfig. */
#include "kube/conf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

enum { CONF_MAX = 1 << 20, NS_MAX = 256, PORT_DEFAULT = 443 };

void kube_conf_done(struct kube_conf *c)
{
	char **const all[] = {&c->host,	   &c->prefix,		 &c->tls_name, &c->ca_file,
			      &c->ca_pem,  &c->cert_file,	 &c->cert_pem, &c->key_file,
			      &c->key_pem, &c->token_file,	 &c->token,    &c->ns,
			      &c->from,	   &c->exec.api_version, &c->exec.hint};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		free(*all[i]);
	for (char **p = c->exec.argv; p && *p; p++)
		free(*p);
	for (char **p = c->exec.env; p && *p; p++)
		free(*p);
	free(c->exec.argv);
	free(c->exec.env);
	*c = (struct kube_conf){0};
}

static int bad_url(const char *url, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "'%s' is no URL like https://10.0.0.1:6443", url);
}

/* "host:port", "[::1]:port" */
static int host_port(struct kube_conf *c, struct span where, const char *url, struct err *e)
{
	struct span host, port = {0};
	uint64_t n = PORT_DEFAULT;

	if (span_has_prefix(where, "[")) {
		struct span inner = {where.p + 1, where.n - 1};

		span_cut(&inner, ']', &host);
		if (!inner.p || (inner.n && *inner.p != ':'))
			return bad_url(url, e);
		if (inner.n)
			port = (struct span){inner.p + 1, inner.n - 1};
	} else {
		span_cut(&where, ':', &host);
		port = where;
	}
	if (!host.p || host.n == 0 || memchr(host.p, '@', host.n) ||
	    (port.p && num_u64(port, 1, 65535, &n) < 0))
		return bad_url(url, e);
	c->host = span_dup(host);
	c->port = (uint16_t)n;
	return 0;
}

int kube_conf_server(struct kube_conf *c, const char *url, struct err *e)
{
	static const char scheme[] = "https://";
	struct span rest, where;

	if (strncmp(url, "http://", strlen("http://")) == 0)
		return err_kind(e, ERR_CONF, -EPROTONOSUPPORT,
				"'%s' is not encrypted: give an https:// address", url);
	if (strncmp(url, scheme, strlen(scheme)))
		return bad_url(url, e);
	rest = span_of(url + strlen(scheme));
	span_cut(&rest, '/', &where);
	while (rest.n && rest.p[rest.n - 1] == '/')
		rest.n--;
	for (size_t i = 0; i < rest.n; i++)
		if (rest.p[i] <= ' ' || rest.p[i] > '~' || rest.p[i] == '?' || rest.p[i] == '#')
			return bad_url(url, e);
	c->prefix = rest.n ? xasprintf("/%.*s", (int)rest.n, rest.p) : xstrdup("");
	return host_port(c, where, url, e);
}

/* --- a pod's service account --- */

static int account(struct kube_conf *c, const struct root *r, struct err *e)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	char ns[NS_MAX];
	uint64_t n;

	if (!port || num_u64(span_of(port), 1, 65535, &n) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"in a pod: KUBERNETES_SERVICE_PORT is '%s', wants a port",
				port ? port : "");
	c->host = xstrdup(host);
	c->port = (uint16_t)n;
	c->prefix = xstrdup("");
	c->ca_file = xstrdup(KUBE_ACCOUNT_DIR "/ca.crt");
	c->token_file = xstrdup(KUBE_ACCOUNT_DIR "/token");
	c->from = xstrdup("the pod's service account");
	if (file_read_line(r, KUBE_ACCOUNT_DIR "/namespace", ns, sizeof(ns), NULL) == 0)
		c->ns = xstrdup(ns);
	return 0;
}

static bool in_pod(const struct root *r)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");

	return host && *host && file_exists(r, KUBE_ACCOUNT_DIR "/token");
}

/* --- a kubeconfig --- */

static int from_file(struct kube_conf *c, const struct kube_where *w, const char *path,
		     struct err *e)
{
	auto_free char *dir = xstrdup(path);
	auto_buf struct buf text;
	int r;

	buf_init(&text, CONF_MAX);
	r = file_read(w->root, path, CONF_MAX, &text, e);
	if (r < 0) {
		err_default_kind(e, ERR_CONF);
		return err_wrap(e, r, "kubeconfig");
	}
	*strrchr(dir, '/') = '\0';
	r = kube_conf_parse(c, buf_span(&text), dir, w->context, e);
	explicit_bzero(text.p, text.len);
	if (r < 0)
		return err_wrap(e, r, "kubeconfig '%s'", path);
	c->from = xasprintf("kubeconfig '%s'", path);
	return 0;
}

static char *home_config(const struct root *r)
{
	const char *home = getenv("HOME");
	char *path = home && *home == '/' ? xasprintf("%s/.kube/config", home) : NULL;

	if (path && file_exists(r, path))
		return path;
	free(path);
	return NULL;
}

static int load(struct kube_conf *c, const struct kube_where *w, struct err *e)
{
	const char *env = getenv("KUBECONFIG");
	auto_free char *path = NULL;

	if (w->kubeconfig)
		return from_file(c, w, w->kubeconfig, e);
	if (env && *env) {
		if (strchr(env, ':'))
			return err_kind(e, ERR_CONF, -EINVAL,
					"KUBECONFIG names several files: name one of them");
		path = path_absolute(env);
		return from_file(c, w, path, e);
	}
	if (in_pod(w->root))
		return account(c, w->root, e);
	path = home_config(w->root);
	if (path)
		return from_file(c, w, path, e);
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no API server is known: name a kubeconfig (--kubeconfig or KUBECONFIG), or "
		"run in a pod that has a service account's token");
}

int kube_conf_load(struct kube_conf *ret, const struct kube_where *w, struct err *e)
{
	struct kube_conf c = {0};
	int r = load(&c, w, e);

	if (r < 0)
		kube_conf_done(&c);
	else
		*ret = c;
	return r;
}

void kube_conf_files(const struct kube_conf *c, const char *ret[static KUBE_CONF_FILES])
{
	const char *const all[] = {c->ca_file, c->cert_file, c->key_file, c->token_file};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i])
			ret[n++] = all[i];
	ret[n] = NULL;
}
