/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_STATUS_H
#define UNIRAIL_KUBE_STATUS_H

/*
 * Errors of the API server: an HTTP status and usually a Status object, as one line:
 * "create ipblock 'x': 403 Forbidden: ...". The errno by status:
 *
 *	400 422 -EINVAL	  401 -EACCES	403 -EPERM   404 -ENOENT   405 415 -EOPNOTSUPP
 *	409 -EEXIST (AlreadyExists) or -ESTALE (the object has another state)
 *	410 -ESTALE	  413 -EFBIG	429 500 502 503 504 -EAGAIN
 *	any other -EREMOTEIO
 *
 * The kind is ERR_AGAIN for 409, 410 and all that have -EAGAIN.
 *
 * A 404 has kind ERR_OTHER if the object does not exist, and ERR_UNAVAILABLE if the server does not
 * serve its resource (the CRD is not installed).
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/json/json.h"

enum { KUBE_STATUS_MAX = 64 << 10 };

struct kube_status {
	int code;
	int64_t retry_after; /* seconds; -1: none */
	char reason[48];     /* such as "AlreadyExists"; "" when the body was not a Status */
};

/* Sets e and fills *ret, with retry_after from the Status details. `body` may be any text. Returns
 * e's code. */
int kube_status_err(int http, struct span body, const char *what, struct kube_status *ret,
		    struct err *e);
/* Like kube_status_err(), for the Status object of an ERROR event of a watch. */
int kube_status_object(const struct json *status, const char *what, struct kube_status *ret,
		       struct err *e);

#endif
