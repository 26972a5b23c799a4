/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CNI_CALL_H
#define UNIRAIL_CNI_PROTOCOL_CNI_CALL_H

/* How cni.c fills a struct cni_call; not for plugins. */

#include "cni/protocol/cni.h"

/* Attachments that a runtime names at GC: ten interfaces of 1,600 pods. */
enum { CNI_INPUT_MAX = 4 << 20, CNI_VALID_MAX = 16 << 10 };

/*
 * How many CNI plugins of ours executed one another to come here: counted in this variable, which plugins of others hand
 * on. A configuration whose plugins execute one another in a circle ends at CNI_DEPTH_MAX.
 */
#define CNI_DEPTH "UNIRAIL_CNI_DEPTH"
enum { CNI_DEPTH_MAX = 8 };
int64_t cni_env_depth(char *const env[]);

/* First value of a variable in an "K=V" list, as getenv. "" when absent. */
const char *cni_env_get(char *const env[], const char *name);
/* CNI_* into c, validated as pkg/skel does, in its order and words. Borrows from env. */
int cni_env_read(struct cni_call *c, char *const env[], struct err *e);
/* [a-zA-Z0-9][a-zA-Z0-9_.-]*: container ids and network names. */
bool cni_name_ok(const char *name);

/* c->stdin_text: parsed, with a valid network name. */
int cni_conf_read(struct cni_call *c, struct err *e);
/* May this plugin carry out this verb for this configuration's version? Sets c->version. */
int cni_conf_version(struct cni_call *c, unsigned int supported, struct err *e);
/* prevResult and the attachments that GC keeps. */
int cni_conf_prev(struct cni_call *c, struct err *e);
int cni_conf_valid(struct cni_call *c, struct err *e);

#endif
