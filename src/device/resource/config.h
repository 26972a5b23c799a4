/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_CONFIG_H
#define UNIRAIL_DEVICE_RESOURCE_CONFIG_H

/*
 * Reads the configurations of resources from one or more documents, in the format of the original
 * device plugins: that of the RDMA shared device plugin ({"configList": ...}) and that of the
 * SR-IOV network device plugin ({"resourceList": ...}); a document may have both. Keys match
 * without case, and the last duplicate counts, as in Go's encoding/json.
 *
 * unirail's own keys of an entry of configList:
 *
 *	"spread": true		each id stands for one HCA of the resource; of the HCAs nearest to the pod's GPUs,
 *				GetPreferredAllocation prefers the least loaded one
 *	"perDevice": true	rdmaHcaMax ids for each HCA (fewer if the sum exceeds RESOURCE_HCA_MAX), such as "mlx5_0-17", which stand for this HCA only
 *	"deviceNodes": [...]	only these kinds of nodes: "ucm", "issm", "umad", "uverbs", "rdma_cm"
 *
 * An error in one resource omits only this resource and adds one message (resource_report); the originals exit.
 */

#include "device/resource/node.h"
#include "wire/json/json.h"

#define RESOURCE_SHARED_PREFIX "rdma"
#define RESOURCE_SRIOV_PREFIX  "intel.com"

enum {
	/* maximum size of a configuration, which is that of a ConfigMap */
	RESOURCE_TEXT_MAX = 1 << 20,
	RESOURCE_VALUES_MAX = 1 << 16, /* maximum number of JSON values in a configuration */
	RESOURCE_CONF_MAX = 512,       /* maximum number of resources of a node */
	/* maximum of rdmaHcaMax, equal to DEVICE_PLUGIN_DEVICES_MAX */
	RESOURCE_HCA_MAX = 16384,
	RESOURCE_NAME_MAX = 320, /* "prefix/name" */
};

/* --- messages for the administrator, one line each --- */

enum resource_level { MESSAGE_WARNING, MESSAGE_ERROR };

struct resource_message {
	enum resource_level level;
	/* "prefix/name"; NULL: the message concerns no single resource, or one whose name is not
	 * known yet */
	char *resource;
	char *text; /* message such as "FILE: configList[2].rdmaHcaMax is ..." */
};

struct resource_messages {
	struct resource_message *v;
	size_t n;
};

/* Adds a message; omits duplicates. After 256 messages one more reports that further ones are omitted. */
void resource_report(struct resource_messages *l, enum resource_level level, const char *resource,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void resource_messages_done(struct resource_messages *l);
#define auto_resource_messages __attribute__((cleanup(resource_messages_done)))

/* --- selectors --- */

/* Selectors, in the order in which the original plugins apply them. */
enum select_key {
	SELECT_VENDORS,
	SELECT_DEVICES, /* "deviceIDs" in configList, "devices" in resourceList */
	SELECT_DRIVERS,
	SELECT_PCI_ADDRESSES,
	SELECT_ACPI_INDEXES,
	SELECT_IF_NAMES,
	SELECT_PF_NAMES,
	SELECT_ROOT_DEVICES,
	SELECT_LINK_TYPES,
	SELECT_DDP_PROFILES,
	SELECT_PKEYS,
	SELECT_AUX_TYPES,
	SELECT_LISTS,
};

struct selector {
	struct json_strs lists[SELECT_LISTS]; /* an empty list is no condition */
	bool is_rdma, need_vhost_net;
	/* type of the vDPA device, "virtio" or "vhost"; NULL: no condition */
	const char *vdpa_type;
};

/* --- resources --- */

enum resource_form { RESOURCE_SHARED, RESOURCE_SRIOV };

enum {
	RESOURCE_NODE_RDMA_CM = 1 << NODE_CHAR_KINDS,
	RESOURCE_NODES_ALL = (1 << (NODE_CHAR_KINDS + 1)) - 1
};

struct resource_conf {
	enum resource_form form;
	/* name and prefix are borrowed from the document, or are default values */
	const char *name, *prefix;
	char full[RESOURCE_NAME_MAX]; /* "prefix/name" */
	char *origin;		      /* "FILE: configList[2]" */
	/* class from deviceType; NODE_NET for entries of configList */
	enum node_class class;
	struct selector *selectors; /* a device must match at least one of them */
	size_t n_selectors;
	int64_t hca_max;
	bool exclude_topology, spread, per_device;
	/* kinds of device nodes as bits: 1 << enum node_char_kind, RESOURCE_NODE_RDMA_CM */
	unsigned int nodes;
	const struct json *additional; /* additionalInfo; NULL: none */
};

struct resource_config {
	struct resource_conf *v;
	size_t n;
	struct json_doc **docs; /* the documents, which own the strings */
	size_t n_docs;
	/* number of documents that could not be read or are not a configuration */
	size_t n_invalid;
	/* the shortest nonzero periodicUpdateInterval of all documents, in seconds; 0: each
	 * document that sets it has 0, which turns rescans off; -1: no document sets it, which
	 * means 60 s */
	int64_t update_s;
};

struct resource_defaults {
	const char *sriov_prefix; /* value of --resource-prefix; NULL: RESOURCE_SRIOV_PREFIX */
};

#define RESOURCE_CONFIG_INIT                                                                       \
	{                                                                                          \
		.update_s = -1                                                                     \
	}

/*
 * Appends the resources of a document; `name` is its path for messages. -EINVAL, -E2BIG (ERR_CONF,
 * ERR_DECODE): the document is too large, is not JSON, or is neither kind of configuration; nothing
 * is appended then. An error in a single resource is a message, and the resource is omitted. The
 * caller may free the text afterwards.
 */
int resource_config_add(struct resource_config *c, struct span text, const char *name,
			const struct resource_defaults *d, struct resource_messages *messages,
			struct err *e);
void resource_config_done(struct resource_config *c);
#define auto_resource_config __attribute__((cleanup(resource_config_done)))

/* Returns the selector's key in a form of configuration, such as "vendors". */
const char *select_key_name(enum select_key key, enum resource_form form);

#endif
