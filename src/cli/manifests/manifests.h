/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_MANIFESTS_H
#define UNIRAIL_CLI_MANIFESTS_MANIFESTS_H

/* `unirail manifests`: entry points for the applet table. */

#include "base/option.h"

int manifests_main(int argc, char **argv);
extern const struct cmd manifests_cmds[];

#endif
