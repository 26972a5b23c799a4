/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files on a node's disk (or blocks in the API server) that another program, a later release or a
 * crash left. The first line names the kind; the rest are files, separated by NUL.
 *
 *	multus		the scratch file, then libcni's cache of net1, of net2 and of net1 again,
 *			by another network's name
 *	sriov, rdma	the record of the device that was moved into a pod
 *	whereabouts	stdin, then the flat file
 *	host-local	each part: a line with a file name ("10.0.0.5", "last_reserved_ip.0"),
 *			then the content
 *	log, block	a node's log of its blocks; a block's object
 *	settings	the agent's settings; install: the record of an earlier installation
 *	redact, verify	a file of a snapshot; a message of the peer of `unirail verify`
 *
 * For sriov, rdma and verify, a parsed object is written, and parsed again with the same result.
 * For log, the log is closed and opened again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "files.h"
#include "state.h"

static const struct {
	const char *name;
	state_try *try;
} kinds[] = {
	{"multus", state_multus},
	{"sriov", state_sriov},
	{"rdma", state_rdma},
	{"whereabouts", state_whereabouts},
	{"host-local", state_host_local},
	{"log", state_log},
	{"block", state_block},
	{"settings", state_settings},
	{"install", state_install},
	{"redact", state_redact},
	{"verify", state_verify},
};

struct span state_part(struct feed *f)
{
	const uint8_t *end = f->n ? memchr(f->p, '\0', f->n) : NULL;
	struct span part = {(const char *)f->p, end ? (size_t)(end - f->p) : f->n};
	size_t used = part.n + (end != NULL);

	if (used == 0)
		return span_of("");
	f->p += used;
	f->n -= used;
	return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span kind = feed_line(&f);
	struct err e = ERR_INIT;

	log_threshold = LOG_NONE;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (span_eq(kind, kinds[i].name))
			fuzz_refused(kinds[i].try(f, &e), &e);
	files_clear();
	return 0;
}
