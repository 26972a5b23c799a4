/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/auth.h"
#include "base/child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/time.h"
#include "wire/json/json.h"
#include "wire/tls/digest.h"

enum {
	VALID_MS = 60000,
	EARLY_MS = 10000, /* run the exec program this long before its credential expires */
	/* minimum interval between reads of the files after credentials or a certificate were
	 * rejected */
	AGAIN_MS = 1000,
	EXEC_AGAIN_MS = 10000,
	PEM_MAX = 1 << 20,
};

struct kube_auth {
	struct loop *loop;
	const struct root *root;
	const struct kube_conf *conf;
	void (*changed)(void *arg);
	void *arg;
	char *header;
	struct tls_conf *tls;
	char tls_sum[DIGEST_HEX];
	unsigned int generation;
	bool known, stale;
	int64_t read_at;
	struct child *child;
	struct kube_credential exec;
	bool has_exec;
	struct err exec_err; /* error of the program's last run; code 0: it succeeded */
	int64_t exec_at;
};

struct kube_auth *kube_auth_new(struct loop *l, const struct root *root, const struct kube_conf *c,
				void (*changed)(void *arg), void *arg)
{
	struct kube_auth *a = xcalloc(1, sizeof(*a));

	*a = (struct kube_auth){.loop = l, .root = root, .conf = c, .changed = changed, .arg = arg};
	return a;
}

static void set_header(struct kube_auth *a, struct span token)
{
	if (a->header)
		explicit_bzero(a->header, strlen(a->header));
	free(a->header);
	a->header = token.n ? xasprintf("Bearer %.*s", (int)token.n, token.p) : NULL;
}

void kube_auth_free(struct kube_auth *a)
{
	if (!a)
		return;
	child_cancel(a->child);
	kube_credential_done(&a->exec);
	set_header(a, (struct span){0});
	tls_conf_put(a->tls);
	free(a);
}

const char *kube_auth_header(const struct kube_auth *a)
{
	return a->header;
}

struct tls_conf *kube_auth_tls(const struct kube_auth *a)
{
	return a->tls;
}

unsigned int kube_auth_generation(const struct kube_auth *a)
{
	return a->generation;
}

/* --- read of tokens and certificates --- */

/* Initializes *b and fills it from `file`, or from `text` if `file` is NULL; both NULL: empty. */
static int content(const struct kube_auth *a, const char *file, const char *text, struct buf *b,
		   struct err *e)
{
	buf_init(b, PEM_MAX);
	if (file)
		return file_read(a->root, file, PEM_MAX, b, e);
	buf_str(b, text ? text : "");
	return 0;
}

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

static int read_token(struct kube_auth *a, struct err *e)
{
	const char *file = a->conf->token_file;
	auto_buf struct buf b;
	struct span token;
	int r = content(a, file, a->has_exec ? a->exec.token : a->conf->token, &b, e);

	if (r < 0)
		return err_wrap(e, r, "token");
	token = span_trim(buf_span(&b));
	if (file && token.n == 0)
		r = err_kind(e, ERR_CONF, -EINVAL, "token: '%s' is empty", file);
	else if (token.n > KUBE_TOKEN_MAX || (token.n && !is_token(token)))
		r = err_kind(
			e, ERR_CONF, -EINVAL,
			"token: %s%s%s is not a token: expected at most %d bytes of printable ASCII without white space",
			file ? "'" : "",
			file ? file
			     : "the value of the kubeconfig or of its "
			       "exec program",
			file ? "'" : "", KUBE_TOKEN_MAX);
	else
		set_header(a, token);
	explicit_bzero(b.p, b.len);
	return r;
}

/* Creates a new TLS configuration only if the CA, the certificate or the key has changed. */
static int new_tls(struct kube_auth *a, const struct tls_material *m, struct err *e)
{
	struct tls_conf *tls;
	char sum[DIGEST_HEX];
	auto_buf struct buf all;
	int r;

	buf_init(&all, 4 * PEM_MAX);
	buf_add(&all, m->ca.p, m->ca.n);
	buf_add(&all, m->cert.p, m->cert.n);
	buf_add(&all, m->key.p, m->key.n);
	digest_sha256(buf_span(&all), sum);
	explicit_bzero(all.p, all.len);
	if (a->tls && strcmp(sum, a->tls_sum) == 0)
		return 0;
	r = tls_conf_new(&tls, TLS_CLIENT, m, e);
	if (r < 0)
		return r;
	tls_conf_put(a->tls);
	a->tls = tls;
	memcpy(a->tls_sum, sum, sizeof(sum));
	a->generation++;
	return 0;
}

static int read_tls(struct kube_auth *a, struct err *e)
{
	const struct kube_conf *c = a->conf;
	bool own = a->has_exec && a->exec.cert;
	struct buf ca, cert, key;
	int r = content(a, c->ca_file, c->ca_pem, &ca, e), q, s;

	q = content(a, own ? NULL : c->cert_file, own ? a->exec.cert : c->cert_pem, &cert,
		    r < 0 ? NULL : e);
	s = content(a, own ? NULL : c->key_file, own ? a->exec.key : c->key_pem, &key,
		    r < 0 || q < 0 ? NULL : e);
	if (r == 0 && q == 0 && s == 0)
		r = new_tls(a,
			    &(struct tls_material){buf_span(&ca), buf_span(&cert), buf_span(&key),
						   "h2"},
			    e);
	else
		r = r < 0 ? r : q < 0 ? q : s;
	if (key.p)
		explicit_bzero(key.p, key.len);
	buf_done(&ca);
	buf_done(&cert);
	buf_done(&key);
	if (r == -EINVAL && c->ca_file)
		err_wrap(e, r, "'%s'%s%s", c->ca_file, c->cert_file ? ", " : "",
			 c->cert_file ? c->cert_file : "");
	return r;
}

static int read_all(struct kube_auth *a, struct err *e)
{
	int r = read_token(a, e);

	if (r == 0)
		r = read_tls(a, e);
	a->read_at = loop_now_ms(a->loop);
	a->stale = false;
	if (r == 0)
		a->known = true;
	if (r < 0 && a->known) {
		log_warn("kube: cannot reload credentials, the previous ones stay in use",
			 LOG_S("error", e->text));
		err_clear(e);
		return 0;
	}
	return r < 0 ? err_wrap(e, r, "credentials of %s", a->conf->from) : 0;
}

/* --- credentials of an exec program --- */

static int kube_exec_result(const struct kube_exec *x, int status, const struct err *reason,
			    struct err *e);

static void on_exec(void *arg, int status, struct span out, const struct err *reason)
{
	struct kube_auth *a = arg;
	struct kube_credential c;
	int r = kube_exec_result(&a->conf->exec, status, reason, &a->exec_err);

	a->child = NULL;
	a->exec_at = loop_now_ms(a->loop);
	if (r == 0)
		r = kube_credential_parse(&c, out, &a->exec_err);
	if (r == 0) {
		kube_credential_done(&a->exec);
		a->exec = c;
		a->has_exec = true;
		a->known = false;
		err_clear(&a->exec_err);
	} else {
		err_wrap(&a->exec_err, r, "credentials: '%s'", a->conf->exec.argv[0]);
	}
	a->stale = false;
	a->changed(a->arg);
}

static bool exec_is_due(const struct kube_auth *a)
{
	if (!a->has_exec || a->stale)
		return true;
	return a->exec.until_ms && now_real_ms() + EARLY_MS >= a->exec.until_ms;
}

static int kube_exec_start(struct child **ret, struct loop *l, const struct kube_exec *x,
			   child_done_fn done, void *arg, struct err *e);

/* Returns 1 if the caller may use the stored credential, 0 while the program runs; negative: the
 * program failed less than EXEC_AGAIN_MS ago, or cannot be started. */
static int refresh_exec(struct kube_auth *a, struct err *e)
{
	int r;

	if (!exec_is_due(a))
		return 1;
	if (a->child)
		return 0;
	/* Limits how often a program runs that fails or prints expired credentials. */
	if (a->exec_at && loop_now_ms(a->loop) - a->exec_at < EXEC_AGAIN_MS) {
		if (a->exec_err.code) {
			*e = a->exec_err;
			return e->code;
		}
		return 1;
	}
	r = kube_exec_start(&a->child, a->loop, &a->conf->exec, on_exec, a, e);
	return r < 0 ? err_wrap(e, r, "credentials: '%s'", a->conf->exec.argv[0]) : 0;
}

int kube_auth_refresh(struct kube_auth *a, struct err *e)
{
	int64_t age = loop_now_ms(a->loop) - a->read_at;
	struct err room = ERR_INIT;
	int r = 1;

	e = e ? e : &room;
	if (a->conf->exec.argv)
		r = refresh_exec(a, e);
	if (r <= 0)
		return r;
	if (a->known && age < (a->stale ? AGAIN_MS : VALID_MS))
		return 1;
	r = read_all(a, e);
	return r < 0 ? r : 1;
}

bool kube_auth_rejected(struct kube_auth *a)
{
	const struct kube_conf *c = a->conf;

	a->stale = true;
	return c->exec.argv || c->token_file || c->cert_file || c->ca_file;
}

/* --- running the exec program of a kubeconfig --- */

enum { EXEC_MS = 60000, OUT_MAX = 256 << 10, NOT_FOUND = 127 };

extern char **environ;

static int run(void *arg)
{
	const struct kube_exec *x = arg;
	auto_free char *info = xasprintf("{\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\","
					 "\"spec\":{\"interactive\":false}}",
					 x->api_version);

	setenv("KUBERNETES_EXEC_INFO", info, 1);
	for (char **p = x->env; p && *p; p++)
		putenv(*p);
	execvp(x->argv[0], x->argv);
	return NOT_FOUND;
}

/* Starts the exec program of a kubeconfig (client.authentication.k8s.io). */
static int kube_exec_start(struct child **ret, struct loop *l, const struct kube_exec *x,
			   child_done_fn done, void *arg, struct err *e)
{
	return child_start(ret, l, &(struct child_conf){run, (void *)x, EXEC_MS, OUT_MAX, NULL},
			   done, arg, e);
}

/* Returns 0 if the program exited with status 0, else a negative errno with the reason in e. */
static int kube_exec_result(const struct kube_exec *x, int status, const struct err *reason,
			    struct err *e)
{
	const char *hint = x->hint && (reason || status) ? x->hint : NULL;
	int r = 0;

	if (reason)
		r = err_kind(e, ERR_UNAVAILABLE, reason->code, "%s", reason->text);
	else if (status == NOT_FOUND)
		r = err_kind(e, ERR_UNAVAILABLE, -ENOENT,
			     "the program cannot be executed or exited with status 127%s%s",
			     hint ? ": " : "", hint ? hint : "");
	else if (status)
		r = err_kind(e, ERR_UNAVAILABLE, -EIO, "the program exited with status %d%s%s",
			     status, hint ? ": " : "", hint ? hint : "");
	return r;
}

/* --- the ExecCredential that the program prints --- */

void kube_credential_done(struct kube_credential *c)
{
	char **const all[] = {&c->token, &c->cert, &c->key};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (*all[i])
			explicit_bzero(*all[i], strlen(*all[i]));
		free(*all[i]);
	}
	*c = (struct kube_credential){0};
}

static char *copy(const struct json *status, const char *key)
{
	const char *s = json_string(json_get(status, key));

	return s && *s ? xstrdup(s) : NULL;
}

static int take_status(struct kube_credential *c, const struct json *status, struct err *e)
{
	const char *until = json_string(json_get(status, "expirationTimestamp"));

	c->token = copy(status, "token");
	c->cert = copy(status, "clientCertificateData");
	c->key = copy(status, "clientKeyData");
	if (!c->token && !c->cert)
		return err_kind(e, ERR_DECODE, -EBADMSG,
				"the program printed neither status.token nor "
				"status.clientCertificateData");
	if (!c->cert != !c->key)
		return err_kind(
			e, ERR_DECODE, -EBADMSG,
			"status.clientCertificateData and clientKeyData must be set together");
	if (until && kube_time_parse(until, &c->until_ms) < 0)
		return err_kind(e, ERR_DECODE, -EBADMSG,
				"status.expirationTimestamp is not a time");
	return 0;
}

int kube_credential_parse(struct kube_credential *ret, struct span text, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct kube_credential c = {0};
	const char *kind;
	int r;

	if (json_parse(&doc, text, OUT_MAX, NULL) < 0)
		return err_kind(e, ERR_DECODE, -EBADMSG, "the program's output is not JSON");
	kind = json_string(json_get(json_root(doc), "kind"));
	if (!kind || strcmp(kind, "ExecCredential"))
		return err_kind(e, ERR_DECODE, -EBADMSG,
				"the program's output is not an ExecCredential");
	r = take_status(&c, json_get(json_root(doc), "status"), e);
	if (r < 0)
		kube_credential_done(&c);
	else
		*ret = c;
	return r;
}
