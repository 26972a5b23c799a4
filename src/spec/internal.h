/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_INTERNAL_H
#define UNIRAIL_SPEC_INTERNAL_H

/* Shared by the files of this directory. */

#include "spec/pool_annotation.h"
#include "wire/json/json.h"

#define NOTE_IPPOOLS  "ipam.spidernet.io/ippools"
#define NOTE_IPPOOL   "ipam.spidernet.io/ippool"
#define NOTE_SUBNETS  "ipam.spidernet.io/subnets"
#define NOTE_SUBNET   "ipam.spidernet.io/subnet"
#define NOTE_DEFAULT4 "ipam.spidernet.io/default-ipv4-ippool"
#define NOTE_DEFAULT6 "ipam.spidernet.io/default-ipv6-ippool"
#define NOTE_ROUTES   "ipam.spidernet.io/routes"

enum { POD_NOTE_MAX = 256 << 10 }; /* all annotations of an object together */

/* An annotation, and the object that has it. */
struct multus_cache_entry {
	const char *key, *value;
	bool of_namespace;
	const char *ns, *name;
};

/* "pod 'a/b': wrong input, invalid format of Pod annotation 'KEY': ..." */
int multus_cache_wrong(const struct multus_cache_entry *n, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void multus_cache_taken(const struct multus_cache_entry *n, const char *what,
			const char *as); /* a warning */
int multus_cache_parse(const struct multus_cache_entry *n, struct json_doc **ret, struct err *e);

/* An entry of `ippools`, or the one of `ippool`. */
struct pod_entry {
	char *ifname; /* NULL: it names none */
	struct pod_wish wish;
};

struct pod_entries {
	struct pod_entry *v;
	size_t n;
	bool each; /* v[0] is for each interface */
};

/* Reads the first present of the two annotations; ret->n 0: none. */
int pod_entries_read(const struct pod_facts *p, struct pod_entries *ret, struct err *e);
void pod_entries_done(struct pod_entries *l);
/* A list of names: ["p"]. */
int pod_names_read(const struct multus_cache_entry *n, char ***ret, size_t *count, struct err *e);
void pod_names_add(char ***v, size_t *n, const char *name); /* once */

/* 1: pools are made for the pod's application. */
int pod_pools_check_subnets(const struct pod_pools_facts *f, struct err *e);
int pod_pools_from_subnets(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
			   struct pod_wish *ret, struct err *e);

#endif
