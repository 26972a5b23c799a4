/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_RAIL_LAB_H
#define UNIRAIL_TESTS_RAIL_LAB_H

/*
 * The configuration of a CNI plugin that makes a link, read from the text of a netconf. The strings
 * of the configuration belong to rl_doc; the next call of a function below frees rl_doc.
 */

#include "cni/attach/rail.h"

extern struct json_doc *rl_doc;

/* Reads the netconf `text`; its key `defaults` has the default values. args_mac: MAC= of
 * CNI_ARGS, or NULL. */
int rl_read(const struct link_driver *k, const char *text, const char *args_mac,
	    struct rail_conf *ret, struct err *e);
/* Fails the test if the netconf is refused. */
struct rail_conf rl_conf(const struct link_driver *k, const char *text);
/* Fails the test unless the netconf is refused with an error of this kind whose text contains
 * `part`. */
void rl_refused(const struct link_driver *k, const char *text, enum err_kind kind,
		const char *part);
int rl_teardown(void **state); /* cmocka's teardown of a group */

#endif
