/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CONTROLLER_H
#define UNIRAIL_CONTROLLER_CONTROLLER_H

/* What main.c's table names. */

#include "base/applet.h"

int controller_main(int argc, char **argv);
extern const struct cmd controller_cmds[];

#endif
