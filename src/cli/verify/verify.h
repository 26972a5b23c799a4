/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_VERIFY_H
#define UNIRAIL_CLI_VERIFY_VERIFY_H

/*
 * `unirail verify`: options and output (verify.c), client with the measurements (client.c), server
 * (server.c), the protocol between both (verify_msg.h), selection of the device for an address
 * (select.h), queue pair and memory of one side (rdma.h).
 */

#include <signal.h>
#include <stdio.h>

#include "base/option.h"
#include "cli/verify/rdma.h"

struct verify_test {
	enum verbs_op op;
	uint32_t size;
	uint64_t count; /* messages of the bandwidth test; 0: as many as fit into time_ms */
	int64_t time_ms;
	struct ipaddr at; /* server address to test; family 0: the address of the connection */
	struct verify_choice choice;
};

/* Result for one rail. */
struct verify_result {
	char ifname[16], device[64], peer_ifname[16], peer_device[64];
	/* addresses of the two rails; family 0: device and GID were chosen without an address */
	struct ipnet net, peer_net;
	uint32_t port, peer_port;
	int gid_index, peer_gid_index;
	bool ethernet;
	enum verbs_op op;
	uint32_t size, mtu;
	uint32_t link_mtu, peer_link_mtu; /* MTU of the interfaces; 0: not known */
	uint64_t checked;		  /* number of bytes whose content was verified */
	/* latencies, each half of a round trip */
	uint64_t pings, lat_min_ns, lat_avg_ns, lat_p50_ns, lat_p99_ns;
	uint64_t messages, bytes, rate; /* rate: bytes per second */
	int64_t time_us;
	struct err err; /* code 0: success */
};

/* --- client.c: one test with a server --- */

/* Runs one test on its own connection; a failure is stored in ret->err as well. */
int verify_run(const struct verify_facts *f, const struct verify_place *to,
	       const struct verify_test *t, struct verify_result *ret, struct err *e);
/* verify_record_near() sets the members of this side, verify_record_far() those of the peer. */
void verify_record_near(struct verify_result *r, const struct verify_rail *rail);
void verify_record_far(struct verify_result *r, const struct verify_msg *m);

/* --- verify.c: pairs of rails to test --- */

/* A rail of the server. */
struct verify_far {
	char ifname[16], device[64];
	struct ipnet net;
};
/*
 * Finds in `far` the peer's rail for each rail of `near`, of the same address family: one in the
 * same subnet, preferably with the same interface name; if no subnet matches, one with the same
 * interface name. ret: n indexes into `far`; -1: none.
 */
void verify_match(const struct verify_rail *near, size_t n, const struct verify_far *far,
		  size_t n_far, int *ret);

/* --- server.c: the server of `unirail verify`, which measures with its clients --- */

struct verify_serve {
	struct verify_place at;
	struct verify_choice choice;
	bool once, json;
};
extern volatile sig_atomic_t verify_stop;
/* Serves clients until SIGINT or SIGTERM arrives or, with `once`, until one test has run.
 * Returns the exit status; negative errno: it cannot listen. */
int verify_serve(const struct verify_serve *s, struct err *e);

/* --- verify.c: output of results, and the applet --- */

void verify_show_one(const struct verify_result *r, FILE *f);
void verify_show_table(const struct verify_result *v, size_t n, FILE *f);
void verify_show_json(const struct verify_result *v, size_t n, struct buf *b);
enum { VERIFY_NUMBER_MAX = 32 };
const char *verify_rate_str(uint64_t bytes_per_s, char ret[static VERIFY_NUMBER_MAX]);
const char *verify_time_str(uint64_t ns, char ret[static VERIFY_NUMBER_MAX]);
const char *verify_size_str(uint64_t bytes, char ret[static VERIFY_NUMBER_MAX]);

/* For the applet table. */
int verify_main(int argc, char **argv);
extern const struct cmd verify_cmds[];

#endif
