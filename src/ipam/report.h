/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_REPORT_H
#define UNIRAIL_IPAM_REPORT_H

/* Output and manual changes of a store: the commands of `unirail pool`, as text columns or JSON.
 * The CLI uses them on a store that it opens, the agent on its own store. */

#include "ipam/ipam.h"
#include "wire/json/json.h"

enum { REPORT_MAX = 16 << 20 };

struct report {
	struct ipam *store;
	bool json;
	struct buf *out;      /* the answer */
	struct buf *messages; /* messages for the user that are not part of the output */
	const char *empty;    /* output of `list` as text if there are no pools */
};

/* Releases an address regardless of its owner. DRY_RUN: only reports the effect; CONFIRM: reports
 * that confirmation is needed and fails with -EPERM. */
enum report_release { REPORT_CONFIRM, REPORT_DRY_RUN, REPORT_DO };
int report_release(const struct report *r, const char *address, enum report_release how,
		   struct err *e);

/* Runs a command of `unirail pool` by name, with its arguments. Returns the exit status, or a
 * negative errno; -ENOSYS: no such command; -EINVAL: wrong number of arguments, or an invalid
 * one. */
struct report_call {
	const char *command;
	const char *const *args;
	size_t n_args;
	enum report_release release;
};
int report_run(const struct report *r, const struct report_call *c, struct err *e);

/* Writes the result of a check: n findings, one per line, and the objects checked ("8 pools, ...";
 * NULL: omitted). Returns the exit status. */
int report_findings(const struct report *r, const char *checked, const struct buf *found, int n);

/* --- a pool's addresses in each state; parsers of the commands' arguments --- */

struct report_tally {
	uint64_t total, reserved, used, adopted, sticky, cooldown, quarantined, free;
};
int report_address(const char *text, struct ipaddr *ret, struct err *e);
/* Parses the number of addresses to show; -EINVAL: it is not a number from 1 to 100000. */
int report_count(const char *text, uint64_t *ret, struct err *e);

#endif
