/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_RESULT_H
#define UNIRAIL_CNI_PROTOCOL_RESULT_H

/*
 * CNI results of all versions: one internal form (that of 1.1.0), parsed from a result of any
 * version, and printed in any version byte for byte as libcni prints it.
 */

#include "base/ip.h"
#include "wire/json/json.h"

enum cni_version {
	CNI_0_1_0,
	CNI_0_2_0,
	CNI_0_3_0,
	CNI_0_3_1,
	CNI_0_4_0,
	CNI_1_0_0,
	CNI_1_1_0,
	CNI_VERSIONS,
};

const char *cni_version_str(enum cni_version v);
int cni_version_parse(const char *s, enum cni_version *ret); /* -EINVAL: unsupported */

/* An interface's RDMA device, member "rdma" of its object (cni/attach/rdma_info.h). An extension
 * of unirail, ignored by other readers. device "": absent. */
struct cni_rdma {
	char device[64];
	uint32_t port;
	int gid_index;
	char gid[IP_TEXT_MAX]; /* "::ffff:172.16.1.20" */
};

/* Strings are owned by the result. */
struct cni_iface {
	char *name, *mac, *sandbox, *socket_path, *pci_id; /* NULL: absent */
	uint32_t mtu;					   /* 0: absent */
	struct cni_rdma rdma;
};

struct cni_ip {
	struct ipnet address;
	struct ipaddr gateway; /* family 0: absent */
	int iface;	       /* index into ifaces; -1: absent */
};

struct cni_route {
	struct ipnet dst;
	struct ipaddr gw;
	uint32_t mtu, advmss, priority; /* 0: absent */
	bool has_table, has_scope;
	uint32_t table, scope;
};

struct cni_dns {
	char *domain;
	char **nameservers, **search, **options;
	size_t n_nameservers, n_search, n_options;
};

struct cni_result {
	struct cni_iface *ifaces;
	size_t n_ifaces;
	struct cni_ip *ips;
	size_t n_ips;
	struct cni_route *routes;
	size_t n_routes;
	struct cni_dns dns;
};

void cni_result_done(struct cni_result *r);
#define auto_result __attribute__((cleanup(cni_result_done)))
struct cni_iface *cni_result_iface(struct cni_result *r, const char *name, const char *mac,
				   const char *sandbox); /* appends */
/* Returns the index of the pod interface of that name; -1: none. Interfaces of the node, which have
 * no sandbox, do not count. */
int cni_result_pod_iface(const struct cni_result *r, const char *ifname);
void cni_result_ip(struct cni_result *r, const struct cni_ip *ip);
/* Returns the first gateway of the family; without one, an address of family 0. */
struct ipaddr cni_result_gateway(const struct cni_result *r, int family);
bool cni_iface_in_pod(const struct cni_iface *i);
void cni_result_route(struct cni_result *r, const struct cni_route *rt);
/* Copies a result to *dst, which must be empty. */
void cni_result_copy(struct cni_result *dst, const struct cni_result *src);

/* Prints as libcni does, indented by 4 spaces, without a final newline. For 0.1.0 and 0.2.0, a
 * result without an address gives -EINVAL "cannot convert: no valid IP addresses". */
int cni_result_print(const struct cni_result *r, enum cni_version v, struct buf *b, struct err *e);
/* Prints another plugin's result in version v, to pass on or store. Unlike cni_result_print() it
 * accepts a result without an address for 0.1.0 and 0.2.0. */
void cni_result_relay(const struct cni_result *r, enum cni_version v, struct buf *b);
/* Parses prevResult (or the stdout of an executed plugin) by the schema of conf_version. Refuses
 * (ERR_DECODE), as libcni does, an object whose cniVersion has a different schema. *ret is
 * overwritten. */
int cni_result_parse(struct json_doc *d, const struct json *v, enum cni_version conf_version,
		     struct cni_result *ret, struct err *e);

/* Read "routes" and "dns", which have the same form in configurations and results, and append to
 * *r; only dns.domain replaces the domain of *r. If v is NULL or JSON null, *r does not change.
 * `place`: JSON path of v, for errors. */
int cni_result_read_routes(struct json_doc *d, const struct json *v, const char *place,
			   struct cni_result *r, struct err *e);
int cni_result_read_dns(struct json_doc *d, const struct json *v, const char *place,
			struct cni_result *r, struct err *e);

#endif
