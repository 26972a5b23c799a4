/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_SOURCE_H
#define UNIRAIL_DEVICE_RESOURCE_SOURCE_H

/*
 * Where configurations come from: files, and directories that a ConfigMap is mounted to. In a directory (a ConfigMap of the
 * SR-IOV operator has a key a node) the file with the node's name is read, else "config.json", else each "*.json" by name.
 * Names that begin with "." are the kubelet's own (..data) and no configuration.
 */

#include "device/resource/config.h"

/* Default path of the agent and the commands. */
#define RESOURCE_CONFIG_DIR "/etc/unirail/resources"

/*
 * Appends each source to c; `node` NULL or "": no node's own key. A source that cannot be read is a message and counted in
 * c->n_invalid, the others go on.
 * Returns how many documents were read. A source that does not exist counts as none, with a message unless `optional`.
 */
size_t resource_sources_read(const struct root *r, const char *const *paths, size_t n,
			     const char *node, bool optional, const struct resource_defaults *d,
			     struct resource_config *c, struct resource_messages *messages);

/*
 * The command line of an original, under its own name: `k8s-rdma-shared-dp` and `sriovdp`. Go's flags: -x, --x, -x=v, -x v, a
 * bool without value, "--" ends them; of sriovdp also those of its image's entry point (--log-dir, --log-level).
 */
struct resource_flags {
	const char *config_file;
	const char *prefix; /* NULL: not told, or the shared plugin */
	bool use_cdi, version, help;
	int64_t log_level; /* -v of sriovdp, --log-level; -1 not told */
};

/*
 * -EINVAL: a flag that the original does not have, or one without its value; e has the original's
 * words.
 */
int resource_flags_parse(enum resource_form form, int argc, char **argv, struct resource_flags *ret,
			 struct err *e);

#endif
