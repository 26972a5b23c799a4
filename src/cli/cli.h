/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_CLI_H
#define UNIRAIL_CLI_CLI_H

/* Entry points for main.c's applet table: main function and commands of each tool in this
 * directory. */

#include "base/applet.h"

int rdma_main(int argc, char **argv);
extern const struct cmd rdma_cmds[];
int ibdev2netdev_main(int argc, char **argv);
extern const struct cmd ibdev2netdev_cmds[];
int show_gids_main(int argc, char **argv);
extern const struct cmd show_gids_cmds[];
int ibstat_main(int argc, char **argv);
extern const struct cmd ibstat_cmds[];
int device_main(int argc, char **argv);
extern const struct cmd device_cmds[];
int device_plugin_main(int argc, char **argv);
extern const struct cmd device_plugin_cmds[];
int memlock_hook_main(int argc, char **argv);
extern const struct cmd memlock_hook_cmds[];
int shared_dp_main(int argc, char **argv); /* device-plugin, called as k8s-rdma-shared-dp */
int sriovdp_main(int argc, char **argv);
int kube_main(int argc, char **argv);
extern const struct cmd kube_cmds[];
int status_main(int argc, char **argv);
extern const struct cmd status_cmds[];
int doctor_main(int argc, char **argv);
extern const struct cmd doctor_cmds[];
int lint_main(int argc, char **argv);
extern const struct cmd lint_cmds[];
int version_main(int argc, char **argv);
extern const struct cmd version_cmds[];
int help_main(int argc, char **argv);
extern const struct cmd help_cmds[];
int man_main(int argc, char **argv);
extern const struct cmd man_cmds[];
int completion_main(int argc, char **argv);
extern const struct cmd completion_cmds[];

/* --- help.c: help texts from the applet table --- */

void help_list(struct buf *b);				 /* `unirail --help` */
void help_applet(const struct applet *a, struct buf *b); /* `unirail pool --help` */
extern const char help_plugin_text[];			 /* how a runtime calls a CNI plugin */
/* Returns -ENOENT; e suggests the applet with the most similar name, if any name is similar. */
int help_unknown(const char *name, struct err *e);
/* returns whether the applet has commands with names */
bool applet_has_commands(const struct applet *a);

const char *unirail_version(void); /* "0.1.0" */

#endif
