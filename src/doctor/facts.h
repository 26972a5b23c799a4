/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_FACTS_H
#define UNIRAIL_DOCTOR_FACTS_H

/*
 * The state of a host, read by the same code in three ways: from the host itself; from the host
 * while its netlink conversations are recorded; or from a root directory into which a snapshot was
 * unpacked and whose recordings answer the netlink requests:
 *
 * 	/unirail/netlink/NAME.nl	recordings (kern/netlink/nl.h): links, addresses, routes, rules, rdma,
 * 					mode, dcb
 * 	/unirail/verbs			"DEVICE: why libibverbs cannot use it", one per line
 * 	/unirail/pods/NAME		"INTERFACE MTU PCI-ADDRESS" of each PCI function in the
 * 					namespace /run/netns/NAME, one per line
 * 	/unirail/about			version and time
 * 	/unirail/node.json		the Node object of the host, if it was given (doctor --node-file)
 */

#include "base/file.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/pci/pci.h"
#include "kern/rdma/rdma.h"
#include "kern/net/route.h"
#include "wire/json/json.h"

#define HOST_NETLINK "/unirail/netlink"
#define HOST_VERBS   "/unirail/verbs"
#define HOST_PODS    "/unirail/pods"
#define HOST_ABOUT   "/unirail/about"
#define HOST_NODE    "/unirail/node.json" /* the host's Node object */

enum { HOST_NODE_MAX = 1 << 20 };

struct host_source {
	const struct root *root;
	const char *dir;    /* path of the root, if it is not the host's; NULL: the host itself */
	struct buf *record; /* receives the recorded conversations as tree entries; NULL: no
	                     * recording */
};

struct host_facts {
	const struct root *root;
	const char *dir; /* the snapshot's directory; NULL: the facts are not from a snapshot */
	bool live;	 /* this is the running host: processes, device nodes and /run can be
			  * inspected */
	struct json_doc *node; /* the Node object; NULL: not known */
	struct link *links;
	size_t n_links;
	struct addr *addrs;
	size_t n_addrs;
	struct route *routes;
	size_t n_routes;
	struct rule *rules;
	size_t n_rules;
	bool has_rdma; /* the kernel supports RDMA */
	enum rdma_netns_mode mode;
	struct rdma_dev *rdma;
	size_t n_rdma;
	struct pci_dev *pci;
	size_t n_pci;
};

int host_facts_read(struct host_facts *f, const struct host_source *s, struct err *e);
void host_facts_done(struct host_facts *f);
#define auto_host_facts __attribute__((cleanup(host_facts_done)))

/*
 * Lists the links of the namespace /run/netns/NAME. On the running host: all of them (needs root).
 * In a snapshot: those of PCI functions, with name, MTU and device only. -errno: the namespace
 * cannot be read, or the snapshot does not have it. The caller frees the list.
 */
int host_pod_links(const struct host_facts *f, const char *name, struct link **ret, size_t *n);

/* Returns the netdev of an RDMA port; NULL: none in this network namespace. */
const struct link *host_port_link(const struct host_facts *f, const struct rdma_port *p);
const struct pci_dev *host_pci(const struct host_facts *f, const char *bdf);

#endif
