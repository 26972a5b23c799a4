/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "wire/json/json.h"
#include "wire/tls/base64.h"
#include "wire/yaml/yaml.h"

/* --- source of the configuration --- */

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
	return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not a URL like https://10.0.0.1:6443", url);
}

/* Sets host and port from "host[:port]" or "[::1][:port]". */
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
				"'%s' is not encrypted: set an https:// address", url);
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
				"in a pod: KUBERNETES_SERVICE_PORT is '%s', expected a port",
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
	if (r == -ENOENT)
		return err_kind(
			e, ERR_CONF, r,
			"kubeconfig: '%s' does not exist: set --kubeconfig or KUBECONFIG to "
			"an existing file, or leave both unset for the pod's service account "
			"or ~/.kube/config",
			path);
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

static char *home_dir_config(const struct root *r)
{
	const char *home_dir = getenv("HOME");
	char *path = home_dir && *home_dir == '/' ? xasprintf("%s/.kube/config", home_dir) : NULL;

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
					"KUBECONFIG names several files: set it to one file");
		path = path_absolute(env);
		return from_file(c, w, path, e);
	}
	if (in_pod(w->root))
		return account(c, w->root, e);
	path = home_dir_config(w->root);
	if (path)
		return from_file(c, w, path, e);
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no API server is configured: pass a kubeconfig (--kubeconfig or KUBECONFIG), or "
		"run in a pod that has a service account token");
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

/* --- reading the text of a kubeconfig --- */

enum { JSON_MAX = 2 << 20 };

struct cluster {
	const char *server, *tls_name, *ca, *ca_data, *proxy;
	bool insecure;
};

struct named_env {
	const char *name, *value;
};

struct exec {
	const char *command, *api_version, *hint, *interactive;
	struct json_strs args;
	struct json_list env;
	bool cluster_info;
};

struct user {
	const char *cert, *cert_data, *key, *token_file;
	const char *username, *as;
	/* secrets: of type J_VAL, because the errors of other types quote the value */
	const struct json *token, *key_data;
	const struct json *provider;
	struct exec exec;
	bool has_exec;
};

struct context {
	const char *cluster, *user, *ns;
};

#define NAMED(type)                                                                                \
	struct named_##type {                                                                      \
		const char *name;                                                                  \
		struct type v;                                                                     \
	}
NAMED(cluster);
NAMED(user);
NAMED(context);

struct file {
	const char *current;
	struct json_list clusters, users, contexts;
};

#define STR(key, type, field) JSON_FIELD(key, J_STR, struct type, field)

static const struct json_field cluster_fields[] = {
	JSON_FIELD("server", J_STR, struct cluster, server, .required = true),
	STR("tls-server-name", cluster, tls_name),
	STR("certificate-authority", cluster, ca),
	STR("certificate-authority-data", cluster, ca_data),
	STR("proxy-url", cluster, proxy),
	JSON_FIELD("insecure-skip-tls-verify", J_BOOL, struct cluster, insecure),
	{0}};
static const struct json_field env_fields[] = {
	JSON_FIELD("name", J_STR, struct named_env, name, .required = true),
	JSON_FIELD("value", J_STR, struct named_env, value, .required = true),
	{0}};
static const struct json_table env_table = {env_fields, 0, sizeof(struct named_env)};
static const struct json_field exec_fields[] = {
	JSON_FIELD("command", J_STR, struct exec, command, .required = true),
	JSON_FIELD("apiVersion", J_STR, struct exec, api_version, .required = true),
	STR("installHint", exec, hint),
	STR("interactiveMode", exec, interactive),
	JSON_FIELD("args", J_STRS, struct exec, args),
	JSON_FIELD("env", J_OBJS, struct exec, env, .sub = &env_table),
	JSON_FIELD("provideClusterInfo", J_BOOL, struct exec, cluster_info),
	{0}};
static const struct json_table exec_table = {exec_fields, 0, 0};
static const struct json_field user_fields[] = {
	STR("client-certificate", user, cert),
	STR("client-certificate-data", user, cert_data),
	STR("client-key", user, key),
	JSON_FIELD("client-key-data", J_VAL, struct user, key_data),
	JSON_FIELD("token", J_VAL, struct user, token),
	STR("tokenFile", user, token_file),
	STR("username", user, username),
	STR("as", user, as),
	JSON_FIELD("auth-provider", J_VAL, struct user, provider),
	JSON_FIELD("exec", J_OBJ, struct user, exec, .has = offsetof(struct user, has_exec),
		   .sub = &exec_table),
	{0}};
static const struct json_field context_fields[] = {
	JSON_FIELD("cluster", J_STR, struct context, cluster, .required = true),
	JSON_FIELD("user", J_STR, struct context, user, .required = true),
	STR("namespace", context, ns),
	{0}};

#define NAMED_TABLE(type)                                                                          \
	static const struct json_table type##_table = {type##_fields, 0, 0};                       \
	static const struct json_field named_##type##_fields[] = {                                 \
		{"name", J_STR, .offset = offsetof(struct named_##type, name), .required = true},  \
		{#type, J_OBJ, .offset = offsetof(struct named_##type, v), .sub = &type##_table},  \
		{0}};                                                                              \
	static const struct json_table named_##type##_table = {named_##type##_fields, 0,           \
							       sizeof(struct named_##type)}
NAMED_TABLE(cluster);
NAMED_TABLE(user);
NAMED_TABLE(context);

static const struct json_field file_fields[] = {
	STR("current-context", file, current),
	JSON_FIELD("clusters", J_OBJS, struct file, clusters, .sub = &named_cluster_table),
	JSON_FIELD("users", J_OBJS, struct file, users, .sub = &named_user_table),
	JSON_FIELD("contexts", J_OBJS, struct file, contexts, .sub = &named_context_table),
	{0}};
static const struct json_table file_table = {file_fields, 0, 0};

/* Finds the element called `name`; the first member of each element is its name. */
static void *find(const struct json_list *l, size_t size, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		void *one = (char *)l->v + i * size;
		const char *its = *(const char **)one;

		if (its && strcmp(its, name) == 0)
			return one;
	}
	return NULL;
}

static int refuse(const char *subject, const char *field, const char *remedy, struct err *e)
{
	return err_kind(e, ERR_CONF, -EOPNOTSUPP, "%s: '%s' is not supported: %s", subject, field,
			remedy);
}

/* Resolves a path relative to the directory of the kubeconfig. */
static char *resolve(const char *dir, const char *path)
{
	return *path == '/' ? xstrdup(path) : xasprintf("%s/%s", dir, path);
}

/* Takes the inline data, or else the path of the file, as kubectl does. */
static int file_or_data(const char *subject, const char *field, const char *dir, const char *path,
			const char *data, char **ret_path, char **ret_text, struct err *e)
{
	if (data && *data) {
		int r = base64_decode(span_of(data), ret_text);

		if (r < 0)
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s: %s-data is not base64 of a text (PEM)", subject,
					field);
	} else if (path && *path) {
		*ret_path = resolve(dir, path);
	}
	return 0;
}

static int take_cluster(struct kube_conf *c, const struct cluster *k, const char *name,
			const char *dir, struct err *e)
{
	auto_free char *subject = xasprintf("cluster '%s'", name);
	int r;

	if (!k->server)
		return err_kind(e, ERR_CONF, -EINVAL, "%s: server is missing", subject);
	if (k->insecure)
		return refuse(subject, "insecure-skip-tls-verify",
			      "set the CA of the server (certificate-authority)", e);
	if (k->proxy && *k->proxy)
		return refuse(subject, "proxy-url",
			      "set a server address that is reachable without a proxy", e);
	r = kube_conf_server(c, k->server, e);
	if (r == 0)
		r = file_or_data(subject, "certificate-authority", dir, k->ca, k->ca_data,
				 &c->ca_file, &c->ca_pem, e);
	else
		err_wrap(e, r, "%s: server", subject);
	if (r == 0 && !c->ca_file && !c->ca_pem)
		c->ca_file = xstrdup("/etc/ssl/certs/ca-certificates.crt");
	if (k->tls_name && *k->tls_name)
		c->tls_name = xstrdup(k->tls_name);
	return r;
}

static void take_exec(struct kube_exec *x, const struct exec *from, const char *dir)
{
	const struct named_env *env = from->env.v;
	size_t n = 0, m = 0;

	/* A name without a slash is searched in PATH. */
	VEC_PUSH(x->argv, n) = strchr(from->command, '/') ? resolve(dir, from->command)
							  : xstrdup(from->command);
	for (size_t i = 0; i < from->args.n; i++)
		VEC_PUSH(x->argv, n) = xstrdup(from->args.v[i]);
	VEC_PUSH(x->argv, n) = NULL;
	for (size_t i = 0; i < from->env.n; i++)
		VEC_PUSH(x->env, m) = xasprintf("%s=%s", env[i].name, env[i].value);
	VEC_PUSH(x->env, m) = NULL;
	x->api_version = xstrdup(from->api_version);
	x->hint = from->hint ? xstrdup(from->hint) : NULL;
}

static int check_user(const struct user *u, const char *subject, struct err *e)
{
	if (json_kind(u->provider) != JSON_NULL)
		return refuse(subject, "auth-provider", "use 'exec'", e);
	if (u->username && *u->username)
		return refuse(subject, "username", "use a token or a client certificate", e);
	if (u->as && *u->as)
		return refuse(subject, "as", "use credentials of that account", e);
	if (u->has_exec && u->exec.cluster_info)
		return refuse(subject, "exec.provideClusterInfo", "set it to false", e);
	if (u->has_exec && u->exec.interactive && strcmp(u->exec.interactive, "Always") == 0)
		return refuse(subject, "exec.interactiveMode: Always", "set Never or IfAvailable",
			      e);
	if (u->has_exec && strncmp(u->exec.api_version, "client.authentication.k8s.io/v1", 31))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: exec.apiVersion is '%s', expected client.authentication.k8s.io/v1",
			subject, u->exec.api_version);
	return 0;
}

/* Reads a secret string; *ret is NULL when the field is not set. */
static int secret(const struct json *v, const char *subject, const char *field, const char **ret,
		  struct err *e)
{
	*ret = json_string(v);
	if (*ret || json_kind(v) == JSON_NULL)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s: %s is not a string but %s: put it into quotes",
			subject, field, json_kind_name(v));
}

static int take_user(struct kube_conf *c, const struct user *u, const char *name, const char *dir,
		     struct err *e)
{
	auto_free char *subject = xasprintf("user '%s'", name);
	const char *token = NULL, *key_data = NULL;
	int r = check_user(u, subject, e);

	if (r == 0)
		r = secret(u->token, subject, "token", &token, e);
	if (r == 0)
		r = secret(u->key_data, subject, "client-key-data", &key_data, e);
	if (r == 0)
		r = file_or_data(subject, "client-certificate", dir, u->cert, u->cert_data,
				 &c->cert_file, &c->cert_pem, e);
	if (r == 0)
		r = file_or_data(subject, "client-key", dir, u->key, key_data, &c->key_file,
				 &c->key_pem, e);
	if (r < 0)
		return r;
	if ((c->cert_file || c->cert_pem) != (c->key_file || c->key_pem))
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s: client-certificate and client-key must be set together",
				subject);
	/* tokenFile takes precedence over `token`, as in kubectl, because a token in a file is
	 * rotated. */
	if (u->token_file && *u->token_file)
		c->token_file = resolve(dir, u->token_file);
	else if (token && *token)
		c->token = xstrdup(token);
	else if (u->has_exec)
		take_exec(&c->exec, &u->exec, dir);
	return 0;
}

static int missing(const char *what, const char *name, const char *where, struct err *e)
{
	return err_kind(e, ERR_CONF, -ENOENT, "there is no %s '%s'%s", what, name, where);
}

static int take_file(struct kube_conf *c, const struct file *f, const char *dir,
		     const char *context, struct err *e)
{
	const char *name = context ? context : f->current;
	const struct named_context *x;
	const struct named_cluster *k;
	const struct named_user *u;
	int r;

	if (!name || !*name)
		return err_kind(e, ERR_CONF, -ENOENT, "current-context is not set: pass a context");
	x = find(&f->contexts, sizeof(*x), name);
	if (!x)
		return missing("context", name, "", e);
	k = find(&f->clusters, sizeof(*k), x->v.cluster ? x->v.cluster : "");
	if (!k)
		return missing("cluster", x->v.cluster ? x->v.cluster : "",
			       ", to which the context refers", e);
	u = find(&f->users, sizeof(*u), x->v.user ? x->v.user : "");
	if (!u)
		return missing("user", x->v.user ? x->v.user : "", ", to which the context refers",
			       e);
	if (x->v.ns && *x->v.ns)
		c->ns = xstrdup(x->v.ns);
	r = take_cluster(c, &k->v, k->name, dir, e);
	return r < 0 ? r : take_user(c, &u->v, u->name, dir, e);
}

int kube_conf_parse(struct kube_conf *ret, struct span text, const char *dir, const char *context,
		    struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct kube_conf c = {0};
	struct file f = {0};
	auto_buf struct buf json;
	int r;

	buf_init(&json, JSON_MAX);
	r = yaml_to_json(text, &json, e);
	if (r == 0)
		r = json_parse(&doc, buf_span(&json), JSON_MAX, e);
	explicit_bzero(json.p, json.len);
	if (r == 0)
		r = json_read(doc, json_root(doc), &file_table, &f, "", e);
	if (r == 0)
		r = take_file(&c, &f, dir, context, e);
	if (r < 0) {
		err_default_kind(e, ERR_CONF);
		kube_conf_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}
