/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_REFERENCE_H
#define UNIRAIL_CLI_REFERENCE_H

/*
 * Reference text for `unirail help` and the man pages, generated from tables that the program also
 * uses at run time: keys of netconfs (struct json_table, by which the plugins read them), settings
 * of the daemons (struct settings, struct opt) and metrics (METRIC() of server/prometheus.h).
 *
 * A topic is a page of its own: `unirail help netconf`, `unirail help settings agent`,
 * `unirail man metrics`. The keys of one plugin are part of its applet's page.
 */

#include "base/applet.h"
#include "server/settings.h"

/* Format of a page: text for a terminal, or roff. */
struct reference_style {
	void (*section)(struct buf *b, const char *title);
	void (*paragraph)(struct buf *b, const char *text);
	void (*row)(struct buf *b, const char *name, const char *value, const char *help);
};

/* The plugins of this program, terminated by NULL. main() sets the list; until then it is empty. */
struct cni_plugin;
extern const struct cni_plugin *const *reference_plugins;

struct reference_topic {
	const char *name, *help; /* name: such as "netconf"; help: one line */
};

extern const struct reference_topic reference_topics[]; /* terminated by {0} */

/* Returns NULL if there is no such topic. */
const struct reference_topic *reference_find(const char *name);
/*
 * Writes one topic. part: for the topic "settings", the program whose settings are written (agent,
 * controller or ipam); NULL: the whole topic. -ENOENT: the topic has no such part.
 */
int reference_write(const struct reference_topic *t, const char *part,
		    const struct reference_style *s, struct buf *b, struct err *e);

/*
 * Writes the netconf of a plugin: each key with type, default and meaning; nothing for an applet
 * that is not a plugin.
 */
void reference_keys(const struct applet *a, const struct reference_style *s, struct buf *b);
/*
 * Writes the settings of a daemon: each with default, environment variables and whether a change
 * needs a restart.
 */
void reference_settings(const struct settings *t, const struct reference_style *s, struct buf *b);

#endif
