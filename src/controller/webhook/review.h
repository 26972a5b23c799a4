/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_H
#define UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_H

/*
 * AdmissionReview of admission.k8s.io/v1: the API server's request before it stores an object, and
 * the answer. Parsing and writing are pure (review_parse, review_write); between them a hook
 * decides:
 *
 * 	static void on_pool(void *arg, struct review *q)
 * 	{
 * 		struct review_answer a;
 *
 * 		review_allow(&a);
 * 		if (...)
 * 			review_cause(&a, REVIEW_INVALID, "spec.ips[0]", "\"10.6.0.300\": expected ...");
 * 		review_answer(q, &a);
 * 	}
 *
 * A hook answers each review exactly once, immediately or later, even if the client has
 * disconnected meanwhile. A review with `dry_run` must have no side effects.
 *
 * A review for another kind or version than the hook's is denied without a call of the hook; the
 * code 400 is in the status of the AdmissionReview.
 */

#include "wire/json/json.h"

/* Borrowed; valid until the review is answered. */
struct review {
	const char *uid; /* UID of the request */
	/* kind in which the API server sends `object` and `old`; group "": core */
	const char *group, *version, *kind;
	const char *resource, *subresource; /* subresource "": the object itself */
	/* namespace and name; "": there is none, or none yet (generateName) */
	const char *ns, *name;
	/* operation of the request, "CREATE", "UPDATE", "DELETE", "CONNECT" */
	const char *operation;
	const char *user; /* user of the request; may be "" */
	bool dry_run;
	const struct json *object, *old; /* NULL: absent (object of DELETE, old of CREATE) */
};

typedef void (*review_webhook)(void *arg, struct review *q);

/* --- answer to a review --- */

/* Causes of metav1.Status for an invalid field. */
enum review_fault {
	REVIEW_INVALID,	      /* "Invalid value" */
	REVIEW_REQUIRED,      /* "Required value" */
	REVIEW_FORBIDDEN,     /* "Forbidden" */
	REVIEW_NOT_SUPPORTED, /* "Unsupported value" */
	REVIEW_DUPLICATE,     /* "Duplicate value" */
};

enum { REVIEW_CAUSES_MAX = 32, REVIEW_WARNINGS_MAX = 16, REVIEW_WARNING_MAX = 256 };

struct review_answer {
	int code; /* 0: allowed */
	struct review_cause *causes;
	char **warnings;
	size_t n_causes, n_warnings;
	char *text;  /* reason of a denial that is not about a field */
	char *patch; /* JSON patch; NULL: none */
};

/* Initializes an answer: allowed, without warnings. */
void review_allow(struct review_answer *a);
/* Frees an answer that is not sent. */
void review_drop(struct review_answer *a);
/* Denies the whole object with an HTTP status: 403, 409, 500 ... Only the first call for an
 * answer counts. */
void review_refuse(struct review_answer *a, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Denies with 422 "Invalid" because of a field, given by its path ("spec.ips[0]"). `text` begins
 * with the value if one was given: "\"x\": expected a CIDR". The first REVIEW_CAUSES_MAX causes are
 * reported, in the format `SpiderIPPool.spiderpool.spidernet.io "p" is invalid: spec.ips[0]:
 * Invalid value: "x": expected ...`.
 */
void review_cause(struct review_answer *a, enum review_fault fault, const char *field,
		  const char *text);
/* Adds a warning for the user ("Warning: ..." in kubectl), also to a denial; ignored after
 * REVIEW_WARNINGS_MAX. */
void review_warn(struct review_answer *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Sets the JSON patch, a text that kube/patch.h creates; the text is copied. "" and "[]" mean no
 * patch. A denial is sent without the patch. */
void review_patch(struct review_answer *a, struct span patch);

/* Sends the answer and frees both: `q` is invalid afterwards, `a` is empty. */
void review_answer(struct review *q, struct review_answer *a);

/* --- decoding and encoding of reviews --- */

/*
 * Limits of a review. REVIEW_MAX: bytes of the body, in which an object and its old version fit.
 * REVIEW_VALUES_MAX: number of JSON values; this many take 4 MiB of memory while parsing and as
 * much for the patch. The largest objects of real clusters have about 10,000 values.
 */
enum { REVIEW_MAX = 7 << 20, REVIEW_VALUES_MAX = 1 << 18 };

struct review_doc {
	struct review q;
	struct json_doc *doc;
};

/*
 * Returns 0; -EOPNOTSUPP for an "apiVersion" other than admission.k8s.io/v1; -EINVAL for anything
 * else that cannot be answered, e names the field.
 */
int review_parse(struct review_doc *ret, struct span text, struct err *e);
void review_doc_done(struct review_doc *d);

/* Writes the AdmissionReview with the answer to q. */
void review_write(struct buf *b, const struct review *q, const struct review_answer *a);
/* Writes the reasons of a denial as text for users, or nothing if the request is allowed. */
void review_messages(struct buf *b, const struct review *q, const struct review_answer *a);

#endif
