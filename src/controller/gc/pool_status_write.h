/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_POOL_STATUS_WRITE_H
#define UNIRAIL_CONTROLLER_GC_POOL_STATUS_WRITE_H

/*
 * Which pod has which address of a pool, as Spiderpool's text: the map that Go's json.Marshal writes,
 * keys in the order of their bytes, no blanks.
 *
 *	{"10.6.0.2":{"pod":"default/web-0","podUid":"6f0f..."}}
 */

#include "base/ip.h"

/* Spiderpool's IPPOOL_MAX_ALLOCATED_IPS. TEXT_MAX: an object has 1.5 MiB in etcd, and others' parts of it. */
enum { RECORDS_MAX = 5000, RECORDS_TEXT_MAX = 1000 * 1000 };

struct record {
	struct ipaddr ip;
	const char *ns; /* NULL: pod is "namespace/name" */
	const char *pod, *uid;
};

/* Strings are borrowed. */
struct records {
	struct record *v;
	size_t n;
};

void records_add(struct records *r, const struct record *one);
void records_done(struct records *r);
/* Sorts them by address; of one address that came twice the first stays. */
void records_sort(struct records *r);
/* At most `max` of them, those whose text comes first, in at most about RECORDS_TEXT_MAX bytes, or SIZE_MAX: all;
 * "" when there are none. Sorts. */
char *records_text(struct records *r, size_t max);

#endif
