/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_SOURCE_H
#define UNIRAIL_DEVICE_RESOURCE_SOURCE_H

/*
 * Reads configurations from files, and from directories where a ConfigMap is mounted. In a directory it reads the file
 * with the node's name (a ConfigMap of the SR-IOV operator has one key per node), else
 * "config.json", else all files "*.json" in the order of their names. It ignores names that begin
 * with ".", which the kubelet uses (..data).
 */

#include "device/resource/config.h"

/*
 * Appends each source to c; `node` NULL or "": does not search for a file with the node's name. A
 * source that cannot be read adds a message and is counted in c->n_invalid; the others are read.
 * With `optional` a source that does not exist is skipped. Returns how many documents were read.
 */
size_t resource_sources_read(const struct root *r, const char *const *paths, size_t n,
			     const char *node, bool optional, const struct resource_defaults *d,
			     struct resource_config *c, struct resource_messages *messages);

/*
 * The command line of an original plugin, which unirail accepts if it is called as
 * `k8s-rdma-shared-dp` or `sriovdp`. Go's flags: -x, --x, -x=v, -x v, a bool without value; "--"
 * ends the flags. sriovdp also accepts the flags of its image's entry point (--log-dir,
 * --log-level).
 */
struct resource_flags {
	const char *config_file;
	/* resource prefix; NULL: not given, as always for the shared device plugin, which has no
	 * such flag */
	const char *prefix;
	bool use_cdi, version, help;
	int64_t log_level; /* value of -v or --log-level of sriovdp; -1: not given */
};

/* Parses the flags. -EINVAL: bad syntax, a flag that the original does not have, or a missing or
 * invalid value; e has the message of the original. */
int resource_flags_parse(enum resource_form form, int argc, char **argv, struct resource_flags *ret,
			 struct err *e);

#endif
