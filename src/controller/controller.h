/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CONTROLLER_H
#define UNIRAIL_CONTROLLER_CONTROLLER_H

/* Entry points for the applet table of main.c. */

#include "base/applet.h"

int controller_main(int argc, char **argv);
extern const struct cmd controller_cmds[];

#endif
