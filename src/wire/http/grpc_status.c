/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http/grpc_status.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

static const struct {
	const char *name;
	int code;
	enum err_kind kind;
} statuses[] = {
	{"OK", -EIO, ERR_OTHER},
	{"CANCELLED", -ECANCELED, ERR_AGAIN},
	{"UNKNOWN", -EREMOTEIO, ERR_OTHER},
	{"INVALID_ARGUMENT", -EINVAL, ERR_OTHER},
	{"DEADLINE_EXCEEDED", -ETIMEDOUT, ERR_AGAIN},
	{"NOT_FOUND", -ENOENT, ERR_OTHER},
	{"ALREADY_EXISTS", -EEXIST, ERR_OTHER},
	{"PERMISSION_DENIED", -EACCES, ERR_UNAVAILABLE},
	{"RESOURCE_EXHAUSTED", -EBUSY, ERR_AGAIN},
	{"FAILED_PRECONDITION", -EPERM, ERR_OTHER},
	{"ABORTED", -EAGAIN, ERR_AGAIN},
	{"OUT_OF_RANGE", -ERANGE, ERR_OTHER},
	{"UNIMPLEMENTED", -EOPNOTSUPP, ERR_UNAVAILABLE},
	{"INTERNAL", -EREMOTEIO, ERR_OTHER},
	{"UNAVAILABLE", -EAGAIN, ERR_AGAIN},
	{"DATA_LOSS", -EREMOTEIO, ERR_OTHER},
	{"UNAUTHENTICATED", -EACCES, ERR_UNAVAILABLE},
};

bool grpc_type_ok(const char *content_type)
{
	size_t n = strlen(GRPC_TYPE);

	return !strncmp(content_type, GRPC_TYPE, n) && strchr("+; ", content_type[n]);
}

/* "%41" -> 'A'; anything else is one byte as it stands. */
static char next_char(struct span *s)
{
	uint64_t v = (unsigned char)s->p[0];
	size_t used = 1;

	if (s->p[0] == '%' && s->n >= 3 && !num_hex((struct span){s->p + 1, 2}, 255, &v))
		used = 3;
	s->p += used;
	s->n -= used;
	return (char)v;
}

void grpc_message_decode(struct span s, char *ret, size_t size)
{
	size_t n = 0;

	while (s.n && n + 1 < size) {
		char c = next_char(&s);

		/* UTF-8 stays; control characters would reach a terminal */
		ret[n++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
	}
	ret[n] = '\0';
}

int grpc_status_err(int status, const char *method, const char *message, struct err *e)
{
	size_t i = (size_t)status;
	const char *between = message[0] ? ": " : "";

	if (i >= ARRAY_LEN(statuses))
		return err_set(e, -EREMOTEIO, "%s: gRPC status %d%s%s", method, status, between,
			       message);
	return err_kind(e, statuses[i].kind, statuses[i].code, "%s: %s%s%s", method,
			statuses[i].name, between, message);
}
