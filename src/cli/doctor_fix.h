/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_DOCTOR_FIX_H
#define UNIRAIL_CLI_DOCTOR_FIX_H

/*
 * The commands of `unirail host` that mend findings (finding.fix), one command per kind of step,
 * and one `apply` for all kinds that drifted. The command of a kind replaces the section of this
 * kind in host.conf and host.d, so it repeats the values of that section in addition to the values
 * that the findings require.
 */

#include "doctor/checks.h"
#include "host/conf.h"

struct fix_command {
	char **args; /* "sysctl", "net.ipv4.conf.ens1.rp_filter=2", ... */
	size_t n;
};

struct fix_commands {
	struct fix_command *v;
	size_t n;
};

/* Computes the commands. conf: the configuration of host.conf and host.d; may be NULL. */
void fix_collect(const struct findings *l, const struct host_conf *conf, struct fix_commands *ret);
/* "unirail host sysctl ..."; the caller frees it. */
char *fix_text(const struct fix_command *c);
void fix_done(struct fix_commands *l);
#define auto_fix __attribute__((cleanup(fix_done)))

/*
 * Prints each command with its steps, and unless `dry_run` carries them out with the journal, so
 * that `unirail host undo` reverts them. dir: --root of the commands; NULL: this host. Returns the
 * exit status: 0, or 1 if a command failed.
 */
int fix_run(const struct fix_commands *l, const char *dir, bool dry_run);

#endif
