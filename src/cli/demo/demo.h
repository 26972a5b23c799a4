/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_DEMO_DEMO_H
#define UNIRAIL_CLI_DEMO_DEMO_H

/*
 * `unirail demo`: a node with its rails, a fabric and two pods, all in network namespaces of the
 * demo.
 *
 * 	demo.c		options, sequence, exit status; pools file and netconf; CNI calls of a runtime
 * 	fabric.c	state directory, namespaces, --keep and --clean; links and addresses
 * 	check.c		ICMP echo through a given NIC; kernel state before and after, and the expected state
 * 	show.c		output as text and JSON
 */

#include <signal.h>
#include <stdbool.h>

#include "base/file.h"
#include "base/ip.h"
#include "base/option.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/net/route.h"

enum { DEMO_RAILS_MAX = 64, DEMO_NICS_MAX = DEMO_RAILS_MAX + 1, DEMO_PODS = 2 };

enum demo_ns { NS_FABRIC, NS_NODE, NS_POD, NS_COUNT = NS_POD + DEMO_PODS };

struct demo_options {
	int64_t rails;
	const char *plan;   /* "shared", "exclusive" */
	const char *output; /* "text", "json" */
	bool keep, clean;
};

/* NIC 0 belongs to the default network, NIC i to rail i-1. */
struct demo_nic {
	char name[LINK_NAME_MAX];   /* name on the node: "eth0", "rail0" ... */
	char pod_if[LINK_NAME_MAX]; /* name in a pod: "eth0", "net1" ... */
	char pool[32];		    /* name or pattern of the pools, as in the netconf */
	uint32_t mtu;
	struct ipnet node;     /* the node's address on this NIC */
	struct ipaddr gateway; /* address of the bridge on the fabric */
};

/* Kernel state of a namespace. */
struct demo_facts {
	struct link *links;
	struct addr *addrs;
	struct route *routes;
	struct rule *rules;
	struct neigh *neighs;
	size_t n_links, n_addrs, n_routes, n_rules, n_neighs;
	bool marks; /* the nf_tables rules that mark replies exist */
};

struct demo_call {
	int64_t wall_us, cpu_us;
	int status;   /* exit status, or 128 + signal */
	char *output; /* stdout, NUL-terminated */
	size_t n;
};

struct demo_ping {
	size_t pod, nic;
	const char *to; /* "gateway", "pod-2" */
	struct ipaddr from, target;
	int64_t requested_us; /* time of the last request */
	int64_t us;	      /* round trip; -1: no reply */
	int fd;
	uint16_t id;
};

struct demo_pod {
	char name[16];
	char container_id[65];
	struct demo_call add, del;
	struct demo_facts facts; /* while attached */
};

struct demo {
	struct demo_options opt;
	struct root root;
	int ns[NS_COUNT];
	char ns_path[NS_COUNT][64];
	char dir[64]; /* directory of the demo's pools file and its IPAM state */
	/* the directory is a tmpfs in a mount namespace of the demo, so it need not be removed */
	bool dir_is_mount;
	bool ns_mounted;
	struct demo_nic nics[DEMO_NICS_MAX];
	size_t n_nics;
	struct demo_pod pods[DEMO_PODS];
	struct demo_ping *pings;
	size_t n_pings;
	char **before[NS_COUNT]; /* state before the attachments, as sorted lines */
	size_t n_before[NS_COUNT];
	char **problems; /* deviations from the expected state */
	size_t n_problems;
	size_t n_leftovers; /* number of problems that demo_facts_compare() found */
	int step, steps;
};

extern volatile sig_atomic_t demo_stop; /* signal that stops the demo; 0: none */

void demo_problem(struct demo *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* returns a name such as "fabric", "node", "pod-1" ... */
const char *demo_ns_name(enum demo_ns ns);

/* fabric.c */
int demo_place_open(struct demo *d, struct err *e);
void demo_place_close(struct demo *d);
/*
 * Removes the namespaces and the directory that an earlier --keep left; returns how many of them
 * existed.
 */
int demo_place_clean(struct demo *d, struct err *e);
void demo_plan(struct demo *d); /* sets the names and addresses of the NICs from the options */
int demo_fabric_build(struct demo *d, struct err *e);

/* check.c: sends the ICMP echo requests of each pod one after the other, and repeats those
 * without a reply until a timeout. */
int demo_ping_all(struct demo *d, struct err *e);

/* check.c */
int demo_facts_read(int netns_fd, struct demo_facts *ret, struct err *e);
void demo_facts_done(struct demo_facts *f);
/* Sets ret to the first IPv4 address of a link, with its prefix length; returns false if the link
 * has none. */
bool demo_link_ip(const struct demo_facts *f, const char *name, struct ipnet *ret);
const char *demo_table_name(uint32_t table, char buf[static 16]);
char *demo_rule_describe(const struct rule *r);
char *demo_route_describe(const struct demo_facts *f, const struct route *r);
int demo_facts_remember(struct demo *d, struct err *e); /* into d->before */
/*
 * after the DEL: compares with d->before; adds each difference, and each address still in use, as a
 * problem
 */
int demo_facts_compare(struct demo *d, struct err *e);
void demo_facts_expect(struct demo *d, size_t pod);

/* show.c */
void demo_show_head(const struct demo *d);
void demo_show_pod(const struct demo *d, size_t pod);
void demo_show_pings(const struct demo *d);
void demo_show_end(const struct demo *d);
void demo_json(const struct demo *d);

/* For the applet table. */
int demo_main(int argc, char **argv);
extern const struct cmd demo_cmds[];

#endif
