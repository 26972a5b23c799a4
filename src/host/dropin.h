/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_DROPIN_H
#define UNIRAIL_HOST_DROPIN_H

/*
 * Files of /etc/unirail/host.d, one section each. `unirail host KIND ...` writes them, so that its
 * settings are applied again at boot. They are read after host.conf, in the order of their names; a
 * section replaces an earlier one of the same kind and name.
 */

#include "host/conf.h"

#define HOST_DROPIN_DIR "/etc/unirail/host.d"

/* Returns the section as text that host_conf_parse() reads back: the keys whose values differ from
 * the defaults, and the pairs. The caller frees it. */
char *host_dropin_text(const struct host_kind *k, const struct host_want *w);
/* Adds the step that writes the section's file or, if the section requests a removal
 * (host_kind.clears), removes the file. Call it before host_plan_make(), so that this step comes
 * first. */
int host_dropin_plan(const struct host *h, const struct host_kind *k, const struct host_want *w,
		     struct host_plan *p, struct err *e);
/* Reads host.conf at `path` (`must`: a missing file is an error), then the files of
 * HOST_DROPIN_DIR. */
int host_dropin_read(struct host_conf *c, const struct root *root, const char *path, bool must,
		     struct err *e);

#endif
