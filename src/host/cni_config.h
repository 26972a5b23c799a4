/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_CNI_CONFIG_H
#define UNIRAIL_HOST_CNI_CONFIG_H

/*
 * The CNI configuration that makes a node's container runtime call unirail-cni for every pod. A runtime
 * uses the first file of its folder by name (libcni: .conf, .conflist and .json, bytewise); so one file is
 * generated whose name sorts first and which names the cluster's own network as `clusterNetwork`, as Multus
 * does with --multus-conf-file=auto:
 *
 *	{"cniVersion": that of the wrapped network, "name": "unirail", "unirail.io/generated": true,
 *	 "plugins": [{"type": "unirail-cni", "capabilities": those of the wrapped network's plugins,
 *	   "agent": SOCKET, "clusterNetwork": "/etc/cni/net.d/10-calico.conflist", "confDir": "/etc/cni/net.d"},
 *	  plugins that another program has appended (istio-cni)]}
 *
 * The wrapped network is the first valid configuration that is neither unirail's nor Multus'. From a Multus
 * configuration, which this one stands in for, come namespaceIsolation, globalNamespaces, systemNamespaces,
 * multusNamespace, defaultNetworks, and a clusterNetwork that is a definition's or network's name.
 *
 * Only files with the mark "unirail.io/generated" are replaced or removed; any other file stays as it is,
 * byte for byte. Nothing is generated
 *	while there is no network to wrap (the node is not ready then, and says so itself);
 *	where somebody has written a configuration of unirail-cni by hand: that one counts;
 *	behind a Multus configuration: Multus would take ours for the cluster's network and attach
 *	each network twice.
 */

#include "base/file.h"
#include "wire/json/json.h"

#define CNI_CONFIG_DIR	"/etc/cni/net.d"
#define CNI_CONFIG_NAME "0-unirail.conflist" /* sorts before Multus' 00-multus.conf */
#define CNI_CONFIG_MARK "unirail.io/generated"

enum cni_config_kind {
	CNI_CONFIG_OTHER,     /* a network's */
	CNI_CONFIG_MULTUS,    /* Multus', also where our binary stands in for it */
	CNI_CONFIG_WRITTEN,   /* unirail-cni's, written by hand */
	CNI_CONFIG_GENERATED, /* ours */
	CNI_CONFIG_INVALID,   /* a runtime that comes to it loads none */
	CNI_CONFIG_EMPTY,     /* a list without plugins: the runtime takes the next file */
	CNI_CONFIG_IGNORED,   /* no configuration by its name; generated once, and renamed since */
};

struct cni_config_file {
	char *name;
	enum cni_config_kind kind;
	struct json_doc *doc; /* NULL: cannot be read */
	char *why;	      /* then */
};

/* In the order of names. */
struct cni_config_files {
	struct cni_config_file *v;
	size_t n;
	struct json_doc *
		daemon; /* multus.d/daemon-config.json, which a multus-shim's settings are in; or NULL */
};

/* Files that are no configurations by their names are only listed where they are generated ones
 * (Cilium renames what is not its own to NAME.cilium_bak). -ENOENT: there is no such folder. */
int cni_config_read(const struct root *r, const char *dir, struct cni_config_files *ret,
		    struct err *e);
void cni_config_done(struct cni_config_files *l);
#define auto_cni_config __attribute__((cleanup(cni_config_done)))

enum cni_config_state {
	CNI_CONFIG_IS_FIRST,   /* or will be, once the text is written */
	CNI_CONFIG_IS_WRITTEN, /* the first one is unirail-cni's, written by hand */
	CNI_CONFIG_NO_NETWORK, /* there is no network to wrap */
	CNI_CONFIG_IS_BEHIND,  /* another file is used: pods get no rails */
};

struct cni_config_plan {
	enum cni_config_state state;
	const char *file; /* what is wrapped, was written by hand, is used instead; NULL: none */
	const char *why;  /* of CNI_CONFIG_IS_BEHIND: what is wrong with that file; NULL: nothing */
	bool multus;	  /* that file is a Multus configuration */
	bool written;	  /* unirail-cni's own was written by hand, and another file is used */
	struct buf text;  /* what the generated file has to be; empty: it must not be there */
	bool write;	  /* it is not so now */
	bool remove;	  /* it is there and must not */
};

/* What has to be done for the file `name` of folder `dir`. `socket`: the agent's. Names are borrowed from
 * `files`, which may be empty. */
void cni_config_plan(const struct cni_config_files *files, const char *dir, const char *name,
		     const char *socket, struct cni_config_plan *ret);
void cni_config_plan_done(struct cni_config_plan *p);
/* What is wrong, in one line with the remedy; nothing when the state is first or written by hand. */
void cni_config_describe(const struct cni_config_plan *p, const char *dir, const char *name,
			 struct buf *b);

/* Carries the plan out. The new file replaces the old one in one step, mode 0600. */
int cni_config_apply(const struct root *r, const char *dir, const char *name,
		     const struct cni_config_plan *p, struct err *e);
/* Removes generated files of whatever name but `except` (NULL: all), also renamed ones; says their number. */
int cni_config_remove(const struct root *r, const char *dir, const struct cni_config_files *files,
		      const char *except, struct err *e);
/* "NAME.conflist" without a '/'; kind ERR_CONF. */
int cni_config_check_name(const char *name, struct err *e);

#endif
