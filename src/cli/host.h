/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_HOST_H
#define UNIRAIL_CLI_HOST_H

#include "base/applet.h"

/*
 * The commands of `unirail host`: show, plan, apply ... and one for each kind of step.
 * host_cmds_init() fills the table.
 */
extern struct cmd host_cmds[];
void host_cmds_init(void);
int host_main(int argc, char **argv);

#endif
