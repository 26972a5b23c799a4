/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CNI_CALL_H
#define UNIRAIL_CNI_PROTOCOL_CNI_CALL_H

/* How cni.c fills a struct cni_call; internal, not for plugins. */

#include "cni/protocol/cni.h"

/* CNI_INPUT_MAX: limit of the netconf on stdin, in bytes. CNI_VALID_MAX: limit of valid
 * attachments at GC, enough for ten interfaces in each of 1,600 pods. */
enum { CNI_INPUT_MAX = 4 << 20, CNI_VALID_MAX = 16 << 10 };

/*
 * Environment variable with the number of unirail plugins that have executed one another down to
 * this process; other plugins in between pass it on. A configuration whose plugins execute each
 * other in a cycle fails when the number exceeds CNI_DEPTH_MAX.
 */
#define CNI_DEPTH "UNIRAIL_CNI_DEPTH"
enum { CNI_DEPTH_MAX = 8 };
int64_t cni_env_depth(char *const env[]);

/* Returns the first value of a variable in a "K=V" list, like getenv(); "" if it is absent. */
const char *cni_env_get(char *const env[], const char *name);
/* Returns whether the name matches [a-zA-Z0-9][a-zA-Z0-9_.-]*: container ids and network names. */
bool cni_name_ok(const char *name);

/* Parses c->stdin_text and validates the network name. */
int cni_conf_read(struct cni_call *c, struct err *e);
/* Checks that the plugin supports this verb in the configuration's version. Sets c->version and
 * c->type. */
int cni_conf_version(struct cni_call *c, unsigned int supported, struct err *e);
/* Reads prevResult. An invalid prevResult fails ADD and CHECK; other verbs ignore it. */
int cni_conf_prev(struct cni_call *c, struct err *e);

#endif
