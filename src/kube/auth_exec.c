/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows our credentials. */
#include "kube/auth_exec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kube/time.h"
#include "wire/json/json.h"

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

int kube_exec_start(struct child **ret, struct loop *l, const struct kube_exec *x,
		    child_done_fn done, void *arg, struct err *e)
{
	return child_start(ret, l, &(struct child_conf){run, (void *)x, EXEC_MS, OUT_MAX}, done,
			   arg, e);
}

int kube_exec_result(const struct kube_exec *x, int status, const struct err *why, struct err *e)
{
	const char *hint = x->hint && (why || status) ? x->hint : NULL;
	int r = 0;

	if (why)
		r = err_kind(e, ERR_UNAVAILABLE, why->code, "%s", why->text);
	else if (status == NOT_FOUND)
		r = err_kind(e, ERR_UNAVAILABLE, -ENOENT, "it cannot be executed%s%s",
			     hint ? ": " : "", hint ? hint : "");
	else if (status)
		r = err_kind(e, ERR_UNAVAILABLE, -EIO, "it exited with status %d%s%s", status,
			     hint ? ": " : "", hint ? hint : "");
	return r;
}

/* --- what it prints --- */

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
				"it printed neither status.token nor status.clientCertificateData");
	if (!c->cert != !c->key)
		return err_kind(e, ERR_DECODE, -EBADMSG,
				"status.clientCertificateData and clientKeyData go together");
	if (until && kube_time_parse(until, &c->until_ms) < 0)
		return err_kind(e, ERR_DECODE, -EBADMSG, "status.expirationTimestamp is no time");
	return 0;
}

int kube_credential_parse(struct kube_credential *ret, struct span text, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct kube_credential c = {0};
	const char *kind;
	int r;

	if (json_parse(&doc, text, OUT_MAX, NULL) < 0)
		return err_kind(e, ERR_DECODE, -EBADMSG, "it did not print JSON");
	kind = json_string(json_get(json_root(doc), "kind"));
	if (!kind || strcmp(kind, "ExecCredential"))
		return err_kind(e, ERR_DECODE, -EBADMSG, "it did not print an ExecCredential");
	r = take_status(&c, json_get(json_root(doc), "status"), e);
	if (r < 0)
		kube_credential_done(&c);
	else
		*ret = c;
	return r;
}
