/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

enum { MESSAGE_MAX = 700 };

static const struct {
	int http, code;
	enum err_kind kind;
	const char *name;
} codes[] = {
	{400, -EINVAL, ERR_CONF, "Bad Request"},
	{401, -EACCES, ERR_UNAVAILABLE, "Unauthorized"},
	{403, -EPERM, ERR_UNAVAILABLE, "Forbidden"},
	{404, -ENOENT, ERR_OTHER, "Not Found"},
	{405, -EOPNOTSUPP, ERR_OTHER, "Method Not Allowed"},
	{409, -ESTALE, ERR_AGAIN, "Conflict"},
	{410, -ESTALE, ERR_AGAIN, "Gone"},
	{413, -EFBIG, ERR_OTHER, "Request Entity Too Large"},
	{415, -EOPNOTSUPP, ERR_OTHER, "Unsupported Media Type"},
	{422, -EINVAL, ERR_CONF, "Invalid"},
	{429, -EAGAIN, ERR_AGAIN, "Too Many Requests"},
	{500, -EAGAIN, ERR_AGAIN, "Internal Server Error"},
	{502, -EAGAIN, ERR_AGAIN, "Bad Gateway"},
	{503, -EAGAIN, ERR_AGAIN, "Service Unavailable"},
	{504, -EAGAIN, ERR_AGAIN, "Gateway Timeout"},
};

/* Turns the server's text into one line. */
static void one_line(const char *s, size_t n, char *ret, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n && at + 1 < size; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c > ' ' && c != 127)
			ret[at++] = (char)c;
		else if (at > 0 && ret[at - 1] != ' ')
			ret[at++] = ' ';
	}
	while (at > 0 && (ret[at - 1] == ' ' || ret[at - 1] == '.'))
		at--;
	ret[at] = '\0';
}

static int say(int http, const char *reason, const char *message, const char *what, struct err *e)
{
	const char *name = "";
	enum err_kind kind = ERR_OTHER;
	int code = -EREMOTEIO;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].http == http) {
			code = codes[i].code;
			kind = codes[i].kind;
			name = codes[i].name;
		}
	if (http == 409 && strcmp(reason, "AlreadyExists") == 0)
		code = -EEXIST;
	/* A 404 of the server's HTTP router instead of a resource handler means that the path is
	 * unknown. */
	if (http == 404 && (!*reason || strstr(message, "could not find the requested resource")))
		return err_kind(
			e, ERR_UNAVAILABLE, -ENOENT,
			"%s: 404 Not Found: the server does not serve this resource: is its CRD "
			"installed?",
			what);
	return err_kind(e, kind, code, "%s: %d %s%s%s", what, http, *reason ? reason : name,
			*message ? ": " : "", message);
}

static void take_reason(struct kube_status *s, const struct json *v)
{
	const char *reason = json_string(json_get(v, "reason"));
	const struct json *after = json_get(json_get(v, "details"), "retryAfterSeconds");
	int64_t n;

	one_line(reason ? reason : "", reason ? strlen(reason) : 0, s->reason, sizeof(s->reason));
	if (json_int(after, &n) == 0 && n >= 0)
		s->retry_after = n;
}

int kube_status_object(const struct json *v, const char *what, struct kube_status *ret,
		       struct err *e)
{
	const char *text = json_string(json_get(v, "message"));
	char message[MESSAGE_MAX];
	int64_t code = 0;

	*ret = (struct kube_status){.retry_after = -1};
	if (json_int(json_get(v, "code"), &code) == 0 && code > 0 && code < 1000)
		ret->code = (int)code;
	take_reason(ret, v);
	one_line(text ? text : "", text ? strlen(text) : 0, message, sizeof(message));
	return say(ret->code, ret->reason, message, what, e);
}

int kube_status_err(int http, struct span body, const char *what, struct kube_status *ret,
		    struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	char message[MESSAGE_MAX];
	const char *kind = NULL;

	if (json_parse(&doc, body, KUBE_STATUS_MAX, NULL) == 0)
		kind = json_string(json_get(json_root(doc), "kind"));
	if (kind && strcmp(kind, "Status") == 0) {
		int r = kube_status_object(json_root(doc), what, ret, e);

		/* The HTTP status takes precedence over the code of the Status object. */
		if (ret->code == http)
			return r;
		ret->code = http;
	} else {
		*ret = (struct kube_status){.code = http, .retry_after = -1};
	}
	one_line(body.p ? body.p : "", body.n, message, 200);
	return say(http, ret->reason, message, what, e);
}
