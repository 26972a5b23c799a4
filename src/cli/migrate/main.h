/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_MAIN_H
#define UNIRAIL_CLI_MIGRATE_MAIN_H

/* `unirail migrate`: entry points for the applet table. */

#include "base/option.h"

int migrate_main(int argc, char **argv);
extern const struct cmd migrate_cmds[];

#endif
