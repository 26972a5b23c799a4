/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_HOST_H
#define UNIRAIL_CLI_HOST_H

#include "base/applet.h"

/* Filled by host_cmds_init() from the table of kinds: show, plan, apply ... and a command for each kind. */
extern struct cmd host_cmds[];
void host_cmds_init(void);
int host_main(int argc, char **argv);

#endif
