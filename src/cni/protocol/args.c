/* SPDX-License-Identifier: Apache-2.0 */
/* CNI_ARGS: "K=V;K=V", as strict as types.LoadArgs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "cni/protocol/cni.h"
#include "cni/protocol/quote.h"

enum { ARGS_MAX = 64 << 10 };

/* All of UTF-8 above ASCII is treated as printable and is not escaped. */
void cni_quote(struct buf *b, const char *s)
{
	static const char plain[] = "\a\b\f\n\r\t\v\\\"", escaped[] = "abfnrtv\\\"";

	buf_char(b, '"');
	for (; *s; s++) {
		const char *at = strchr(plain, *s);

		if (at)
			buf_printf(b, "\\%c", escaped[at - plain]);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			buf_printf(b, "\\x%02x", (unsigned char)*s);
		else
			buf_char(b, *s);
	}
	buf_char(b, '"');
}

/* Returns the member for a key; NULL: unirail does not use the key. */
static const char **field(struct cni_args *a, struct span key)
{
	const struct {
		const char *key;
		const char **at;
	} fields[] = {
		{"IP", &a->ip},
		{"MAC", &a->mac},
		{"GATEWAY", &a->gateway},
		{"K8S_POD_NAMESPACE", &a->pod_namespace},
		{"K8S_POD_NAME", &a->pod_name},
		{"K8S_POD_UID", &a->pod_uid},
		{"K8S_POD_INFRA_CONTAINER_ID", &a->infra_container_id},
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (span_eq(key, fields[i].key))
			return fields[i].at;
	return NULL;
}

static int fail_pair(struct err *e, const char *what, const char *pair, const char *reason)
{
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	cni_quote(&b, pair);
	return err_kind(e, ERR_ENV, -EINVAL, "ARGS: %s %s%s%s", what, b.p, *reason ? ": " : "",
			reason);
}

static int read_bool(const char *pair, const char *value, bool *ret, struct err *e)
{
	char reason[128];

	if (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0) {
		*ret = true;
		return 0;
	}
	if (strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0) {
		*ret = false;
		return 0;
	}
	snprintf(reason, sizeof(reason), "boolean unmarshal error: invalid input %.64s", value);
	return fail_pair(e, ORIG("error parsing value of pair"), pair, reason);
}

/* Parses one "K=V". If the key is unknown, appends the pair to `unknown`, quoted. */
static int read_pair(struct cni_args *a, const char *pair, struct buf *unknown, struct err *e)
{
	struct span key = {pair, strcspn(pair, "=")};
	const char *value = pair + key.n + 1, **at;

	if (!pair[key.n] || strchr(value, '='))
		return fail_pair(e, "invalid pair", pair, "");
	if (span_eq(key, "IgnoreUnknown"))
		return read_bool(pair, value, &a->ignore_unknown, e);
	at = field(a, key);
	if (at) {
		*at = value;
		return 0;
	}
	if (unknown->len)
		buf_char(unknown, ' ');
	cni_quote(unknown, pair);
	return 0;
}

int cni_args_parse(const char *text, struct cni_args *ret, struct buf *keep, struct err *e)
{
	struct cni_args a = {0};
	auto_buf struct buf unknown;
	char *pair, *next;

	buf_init(&unknown, ERR_TEXT_MAX);
	if (!text || !*text) {
		*ret = a;
		return 0;
	}
	if (strlen(text) > ARGS_MAX)
		return err_kind(e, ERR_ENV, -E2BIG, "ARGS: %zu bytes, %d are allowed", strlen(text),
				ARGS_MAX);
	buf_str(keep, text);
	if (keep->over)
		return err_kind(e, ERR_ENV, -E2BIG, "ARGS: %zu bytes are too many", strlen(text));
	for (pair = keep->p + keep->len - strlen(text); pair; pair = next) {
		int r;

		next = strchr(pair, ';');
		if (next)
			*next++ = '\0';
		r = read_pair(&a, pair, &unknown, e);
		if (r < 0)
			return r;
	}
	if (unknown.len && !a.ignore_unknown)
		return err_kind(e, ERR_ENV, -EINVAL, "ARGS: unknown args [%s]", unknown.p);
	*ret = a;
	return 0;
}
