/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_POOL_STATUS_WRITE_H
#define UNIRAIL_CONTROLLER_GC_POOL_STATUS_WRITE_H

/*
 * The records of a pool (which pod has which address) in Spiderpool's format: the map that Go's
 * json.Marshal writes, keys in bytewise order, no whitespace.
 *
 * 	{"10.6.0.2":{"pod":"default/web-0","podUid":"6f0f..."}}
 */

#include "base/ip.h"

/* An object in etcd is limited to 1.5 MiB, which the text shares with the rest of the pool. */
enum { RECORDS_TEXT_MAX = 1000 * 1000 };

struct record {
	struct ipaddr ip;
	const char *ns; /* namespace of the pod; NULL: pod is "namespace/name" */
	const char *pod, *uid;
};

/* The strings are borrowed. */
struct records {
	struct record *v;
	size_t n;
};

void records_add(struct records *r, const struct record *one);
void records_done(struct records *r);
/* Sorts by address. Of several records for one address the first one added stays. */
void records_sort(struct records *r);
/*
 * Returns the text of at most `max` records, the first in bytewise order, limited to about
 * RECORDS_TEXT_MAX bytes; SIZE_MAX: all records. "" if there are none. Sorts r. The caller frees
 * the text.
 */
char *records_text(struct records *r, size_t max);

#endif
