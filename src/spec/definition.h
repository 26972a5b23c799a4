/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_DEFINITION_H
#define UNIRAIL_SPEC_DEFINITION_H

/*
 * What the author of a network definition (NetworkAttachmentDefinition, SpiderMultusConfig) may
 * request on a node. CNI plugins run as root on the node, so a definition could otherwise execute a
 * file of a pod's volume, or write anywhere.
 *
 * A definition is trusted, and not checked, if an administrator wrote it. Trusted are:
 * - files of the node (confDir, clusterNetwork as a path), and the netconf's own networks
 * - definitions in a namespace that definition_trusted() accepts
 * - definitions in the namespace that the netconf's multusNamespace names, if the agent knows this
 *   namespace, and ANNOTATION_TRUSTED on it is absent or "true"
 *
 * A namespace does not become trusted by being listed in Multus' globalNamespaces: that setting
 * restricts who uses their definitions, not who writes them (without the setting, "default" is such
 * a namespace). Any definition that is not trusted is treated as written by a tenant, and refused
 * if it has, at any depth:
 *
 *	type		multus*, unirail* or ifacer, which act on the node itself; a name that is not of letters, digits, '_', '.' and '-' only; the type of the
 *			plugin that calls it. If the node checks: a plugin that is neither built in, nor a file that only
 *			root can change in a directory that only root can change
 *	ipam.type	a known plugin that is not an IPAM plugin
 *	keys		that name directories, files, sockets, credentials or the node (table in definition.c), unless the
 *			value is the plugin's default
 *	any value	that is an absolute path, or begins with unix: or file: (except of kernelpath, which names a NIC)
 *	any key		that is not ASCII: Go matches some non-ASCII letters with ASCII letters
 *
 * Called by the controller when a SpiderMultusConfig is admitted, by the node for each definition
 * that the agent names, and by `unirail lint` and `unirail migrate`. What remains possible is in
 * deploy/README.md, Threat model.
 */

#include "base/err.h"
#include "wire/json/json.h"

/* Returns whether definitions in a namespace are trusted: annotation, the value of
 * ANNOTATION_TRUSTED on the namespace, is "true". If annotation is NULL (absent), kube-system and
 * own_ns (unirail's namespace) are trusted, but never "default". */
bool definition_trusted(const char *ns, const char *annotation, const char *own_ns);

struct definition_rules {
	/* Returns 0 if the node may execute the plugin, else a negative code with *e set. NULL: the
	 * node is unknown, so this is not checked. */
	int (*installed)(void *arg, const char *type, struct err *e);
	void *arg;
	bool logs_pass; /* accept names of log files, which definition_drop_logs() removes */
};

/* Checks a definition. config: a plugin or a list of plugins. If the definition is refused,
 * returns -EPERM with kind ERR_CONF ("plugins[0].type is 'multus', ..."), or the error of
 * installed(). */
int definition_check(const struct json *config, const struct definition_rules *r, struct err *e);

/*
 * Removes the names of log files, so that existing definitions stay usable: *ret is a new document,
 * or NULL if there is nothing to remove.
 */
int definition_drop_logs(const struct json *config, struct json_doc **ret, struct err *e);

/* Returns whether `type` is a known plugin that is not an IPAM plugin. Such a plugin must not be
 * an ipam.type: if it calls ipam.type, it executes itself with the same configuration, without
 * end. */
bool definition_is_interface_plugin(const char *type);

#endif
