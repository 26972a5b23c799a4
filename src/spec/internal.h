/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_INTERNAL_H
#define UNIRAIL_SPEC_INTERNAL_H

/* Shared by the files of this directory. */

#include "spec/pool_annotation.h"
#include "wire/json/json.h"

#define ANNOTATION_IPPOOLS  "ipam.spidernet.io/ippools"
#define ANNOTATION_IPPOOL   "ipam.spidernet.io/ippool"
#define ANNOTATION_SUBNETS  "ipam.spidernet.io/subnets"
#define ANNOTATION_SUBNET   "ipam.spidernet.io/subnet"
#define ANNOTATION_DEFAULT4 "ipam.spidernet.io/default-ipv4-ippool"
#define ANNOTATION_DEFAULT6 "ipam.spidernet.io/default-ipv6-ippool"
#define ANNOTATION_ROUTES   "ipam.spidernet.io/routes"

enum { ANNOTATIONS_MAX = 256 << 10 }; /* limit for all annotations of an object together */

/* An annotation, with the object that it belongs to for messages. */
struct annotation {
	const char *key, *value;
	bool of_namespace;
	const char *ns, *name;
};

/* Sets the error "pod 'a/b': wrong input, invalid format of Pod annotation 'KEY': ...". */
int annotation_error(const struct annotation *n, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void annotation_log_default(const struct annotation *n, const char *what,
			    const char *as); /* a warning */
int annotation_parse(const struct annotation *n, struct json_doc **ret, struct err *e);

/* An entry of the annotation `ippools`, or the content of `ippool`. */
struct pod_entry {
	char *ifname; /* NULL: the entry names no interface */
	struct pod_pool_request request;
};

struct pod_entries {
	struct pod_entry *v;
	size_t n;
	bool each; /* v[0] applies to every interface */
};

#endif
