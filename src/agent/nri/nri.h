/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NRI_NRI_H
#define UNIRAIL_AGENT_NRI_NRI_H

/*
 * unirail as a plugin of NRI, the container runtime's interface for node resources (containerd
 * from 1.7, CRI-O): a container that gets RDMA devices gets unlimited locked memory and the
 * environment of its rails (agent/nri/adjust.h), so the administrator need not edit the runtime's
 * configuration. Serves both generations of the protocol: version 0.12 has an RPC for each event,
 * earlier versions report most events by the RPC StateChange.
 *
 * Connects to the runtime's socket, and reconnects after the runtime restarts, with a backoff of at
 * most 1.5 times NRI_RETRY_MS. A runtime without NRI has no socket, which is logged once. The
 * plugin answers from memory and one small file (rails.json on tmpfs), since a runtime disconnects
 * a plugin that takes more than two seconds.
 */

#include "agent/nri/adjust.h"
#include "base/applet.h"
#include "base/file.h"
#include "base/loop.h"

#define NRI_SOCKET "/var/run/nri/nri.sock"
/* Runtimes call plugins in the order of their index. */
#define NRI_INDEX "10"
#define NRI_NAME  "unirail"
/* Environment variable that the runtime sets for a plugin it starts: the descriptor of the
 * plugin's connection. */
#define NRI_FD_VARIABLE "NRI_PLUGIN_SOCKET"

enum { NRI_RETRY_MS = 15 * 1000 };

struct nri_conf {
	struct loop *loop;
	const struct root *root;
	const char *socket; /* borrowed until nri_free() */
	/* descriptor of the runtime's connection, which is not renewed when it ends; -1: connect to
	 * `socket` */
	int fd;
	struct nri_policy policy;
	/* Called when the connection of fd has ended; may be NULL. */
	void (*ended)(void *arg);
	void *arg;
};

struct nri;

struct nri *nri_new(const struct nri_conf *c);
void nri_free(struct nri *n); /* accepts NULL */
void nri_settings(struct nri *n, const struct nri_policy *p);

struct nri_counters {
	bool connected;	   /* the runtime has configured the plugin */
	uint64_t adjusted; /* containers */
};
struct nri_counters nri_count(const struct nri *n);

/* Entry point of `unirail nri` in the applet table of main.c. */
int nri_main(int argc, char **argv);
extern const struct cmd nri_cmds[];

#endif
