/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NETLINK_INTERNAL_H
#define UNIRAIL_KERN_NETLINK_INTERNAL_H

/* Shared by the files of this directory. */

#include <netlink/attr.h>
#include <netlink/msg.h>

#include "kern/netlink/nl.h"

struct nl_replay;

enum {
	/* more than the 32 KiB that the kernel puts into one datagram of a dump */
	NL_BUF_SIZE = 64 << 10,
	NL_BUF_MAX = 4 << 20,
	NL_ANSWER_MS = 5000, /* timeout of a response; the kernel normally answers at once */
};

struct nl_wire {
	enum nl_proto proto;
	struct nl_sock *sk; /* NULL: replay */
	int fd;
	uint32_t seq; /* the last assigned sequence number */
	/* sequence number of the last request's first message, which has number 0 in recordings */
	uint32_t base;
	int record_fd; /* -1: not recording */
	int record_error;
	struct nl_replay *replay;
	unsigned char *buf;
	size_t cap;
};

/* replay.c */
int nl_replay_load(struct nl_wire *w, const char *file, struct err *e);
int nl_replay_check(struct nl_wire *w, const void *p, size_t n, struct err *e);
int nl_replay_next(struct nl_wire *w, size_t *n);
void nl_replay_free(struct nl_replay *r);
const char *nl_proto_name(enum nl_proto p);
bool nl_proto_find(const char *name, enum nl_proto *ret);

/* record.c: writes one line per datagram. A failure is stored in w->record_error; from then on
 * every send fails with this code. */
void nl_record(struct nl_wire *w, char dir, const void *p, size_t n);
/* Adds `by` to every message's sequence number and sets its port id to 0. */
void nl_renumber(void *p, size_t n, uint32_t by);

/* nl.c */
struct nl_error {
	int code;	/* 0 or negative errno */
	char text[256]; /* text of the kernel's extended ack; "": none */
};

/* --- batches (nl.c) --- */

enum { NL_UNANSWERED = 1 }; /* result of an item until its ack arrives */

struct nl_item {
	struct nlmsghdr *h; /* message of the item; NULL: the item was refused and is never sent */
	unsigned int flags;
	uint32_t seq;
	char *what;
	int code; /* the result */
	/* text of the kernel's extended ack, or the reason passed to nl_batch_refuse(); NULL:
	 * none */
	char *text;
};

struct nl_batch {
	struct nl_item *items;
	size_t n;
	/* original of the message added last, whose copy is in `items`; NULL: none */
	struct nl_msg *last;
};

#endif
