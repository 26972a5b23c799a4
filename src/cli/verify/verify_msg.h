/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_VERIFY_MSG_H
#define UNIRAIL_CLI_VERIFY_VERIFY_MSG_H

/*
 * The protocol between the two sides of `unirail verify` over TCP: lines of text,
 *
 * 	unirail-verify/1 VERB key=value key=value ... text=REST OF THE LINE
 *
 * at most VERIFY_LINE_MAX bytes. Unknown keys are ignored (a later release of unirail may send
 * more), missing keys have the value 0. A test:
 *
 * 	client: hello  the test; the client's queue pair            server: ready, with its queue pair
 * 	client: step   fill, recv, check, drain, ping, sent         server: done
 * 	client: bye    the numbers, for the server's report         server: done
 *
 * or "rails": the server answers with a "rail" for each rail, then "done". "fail" with a text may
 * replace any message and ends the test.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ip.h"

enum { VERIFY_VERSION = 1, VERIFY_LINE_MAX = 1024, VERIFY_TEXT_MAX = 640 };

enum verify_verb {
	VERIFY_HELLO,
	VERIFY_READY,
	VERIFY_STEP,
	VERIFY_DONE,
	VERIFY_BYE,
	VERIFY_RAILS,
	VERIFY_RAIL,
	VERIFY_FAIL,
	VERIFY_VERBS,
};

struct verify_msg {
	enum verify_verb verb;
	/* hello, ready: struct verbs_end */
	uint32_t qpn, psn, rkey, path_mtu, reads, lid, ethernet;
	uint8_t gid[16];
	uint64_t addr, len;
	/* hello */
	char op[8];	  /* "write" ... */
	struct ipaddr at; /* server address to test; family 0: the connection's */
	uint32_t size, depth;
	/* hello, ready; a rail message has only device, ifname and net */
	char device[64];
	uint32_t port;
	int32_t gid_index; /* -1: none */
	char ifname[16];
	struct ipnet net;
	/* MTU of the interface; 0: none, or not sent by an older release of unirail */
	uint32_t link_mtu;
	/* step; of these members, a bye has only count, the number of verified bytes */
	char step[8];
	uint64_t seed, count;
	/* bye: latencies in nanoseconds; rate in bytes per second and number of bytes of the
	 * bandwidth test */
	uint64_t lat_min, lat_avg, lat_p50, lat_p99, rate, bytes;
	/* fail */
	char text[VERIFY_TEXT_MAX];
};

/* Appends one line with its newline. */
void verify_msg_put(const struct verify_msg *m, struct buf *b);
/* Parses a line without its newline. The error of an invalid value names the field. */
int verify_msg_parse(struct span line, struct verify_msg *ret, struct err *e);
const char *verify_verb_name(enum verify_verb v);

#endif
