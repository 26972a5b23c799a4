/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_AGENT_H
#define UNIRAIL_AGENT_AGENT_H

/* Entry points in the applet table of main.c. */

#include "base/applet.h"
#include "server/settings.h"

int ipam_main(int argc, char **argv);
extern const struct cmd ipam_cmds[];
extern const struct settings ipam_serve_settings;
int agent_main(int argc, char **argv);
extern const struct cmd agent_cmds[];

#endif
