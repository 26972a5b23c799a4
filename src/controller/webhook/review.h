/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_H
#define UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_H

/*
 * What the API server asks before it takes an object, AdmissionReview of admission.k8s.io/v1, and what
 * it is told. Reading and writing are pure (review_parse, review_write); between them a hook decides:
 *
 *	static void on_pool(void *arg, struct review *q)
 *	{
 *		struct review_answer a;
 *
 *		review_allow(&a);
 *		if (...)
 *			review_cause(&a, REVIEW_INVALID, "spec.ips[0]", "\"10.6.0.300\": wants ...");
 *		review_answer(q, &a);
 *	}
 *
 * A hook answers each review once, then or later. Whoever asked may be gone by then: it is answered
 * all the same. A review with `dry_run` changes nothing, here or at the API server.
 *
 * Who asks for another kind than the hook is for, or in another version, is refused with 400.
 */

#include "wire/json/json.h"

/* Borrowed, until it is answered. */
struct review {
	const char *uid;		    /* of the request */
	const char *group, *version, *kind; /* of the object as it is sent; group "": core */
	const char *resource, *subresource; /* subresource "": the object itself */
	const char *ns, *name;		    /* "" for what has none (yet: generateName) */
	const char *operation;		    /* "CREATE", "UPDATE", "DELETE", "CONNECT" */
	const char *user;		    /* who changes it; may be "" */
	bool dry_run;
	const struct json *object, *old; /* NULL: not there (object of DELETE, old of CREATE) */
};

typedef void (*review_hook)(void *arg, struct review *q);

/* --- the answer --- */

/* metav1's words for what is wrong with a field. */
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
	char *text;  /* of a refusal that is about no field */
	char *patch; /* a JSON patch; NULL: none */
};

/* Begins it: allowed, without a word. */
void review_allow(struct review_answer *a);
/* Of one that is not given. */
void review_drop(struct review_answer *a);
/* Refused as a whole, with an HTTP status: 403, 409, 500 ... The first text stays. */
void review_refuse(struct review_answer *a, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Refused with 422 "Invalid" for one field, by its real path ("spec.ips[0]"), and `text`, which has
 * the value in front where one was given: "\"x\": wants a CIDR". All causes are told, as
 * `SpiderIPPool.spiderpool.spidernet.io "p" is invalid: spec.ips[0]: Invalid value: "x": wants ...`.
 */
void review_cause(struct review_answer *a, enum review_fault fault, const char *field,
		  const char *text);
/* Told to who applies it, allowed or not ("Warning: ..." by kubectl). */
void review_warn(struct review_answer *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* kube/patch.h's text; copied. "[]" and nothing at all are no patch; one of a refusal is not sent. */
void review_patch(struct review_answer *a, struct span patch);

/* Gives it, and ends both: `q` is gone, `a` is empty. */
void review_answer(struct review *q, struct review_answer *a);

/* --- as bytes --- */

/*
 * What a review may cost. Bytes: an object and what it was, each as large as etcd takes them. Values: 4 MiB of memory
 * while it is read and as much again for its patch; the largest objects of real clusters have some 10,000.
 */
enum { REVIEW_MAX = 7 << 20, REVIEW_VALUES_MAX = 1 << 18 };

struct review_doc {
	struct review q;
	struct json_doc *doc;
};

/*
 * -EINVAL: no AdmissionReview that can be answered; e says what and where. An "apiVersion" other
 * than admission.k8s.io/v1 is -EOPNOTSUPP.
 */
int review_parse(struct review_doc *ret, struct span text, struct err *e);
void review_doc_done(struct review_doc *d);

/* The AdmissionReview that answers q. */
void review_write(struct buf *b, const struct review *q, const struct review_answer *a);
/* What it refuses with, as people read it; "" when allowed. */
void review_words(struct buf *b, const struct review *q, const struct review_answer *a);

#endif
