/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_REFERENCE_H
#define UNIRAIL_CLI_REFERENCE_H

/*
 * Reference text for `unirail help` and the man pages, generated from the tables that the program
 * itself uses: keys of netconfs (struct json_table, by which the plugins read them), settings of the
 * daemons (struct settings, struct opt) and metrics (METRIC() of server/prometheus.h).
 *
 * A topic is a page of its own: `unirail help netconf`, `unirail help settings agent`,
 * `unirail man metrics`. The keys of one plugin are part of its applet's page.
 */

#include "base/applet.h"
#include "server/settings.h"

/* How a page is written: as text for a terminal, or for roff. */
struct reference_style {
	void (*section)(struct buf *b, const char *title);
	void (*paragraph)(struct buf *b, const char *text);
	void (*row)(struct buf *b, const char *name, const char *value, const char *help);
};

/* The plugins of this program, ended by NULL. main() sets it; empty until then. */
struct cni_plugin;
extern const struct cni_plugin *const *reference_plugins;

struct reference_topic {
	const char *name, *help; /* "netconf", one line */
};

extern const struct reference_topic reference_topics[]; /* ended by {0} */

/* NULL: no such topic. */
const struct reference_topic *reference_find(const char *name);
/* One topic; `part` limits settings to a daemon (agent, controller or ipam), NULL: all of the topic.
 * -ENOENT: it has no such part. */
int reference_write(const struct reference_topic *t, const char *part,
		    const struct reference_style *s, struct buf *b, struct err *e);

/* The netconf of a plugin: every key with type, default and meaning. Nothing for a tool. */
void reference_keys(const struct applet *a, const struct reference_style *s, struct buf *b);
/* A daemon's settings: each with default, environment variables and whether a restart is needed. */
void reference_settings(const struct settings *t, const struct reference_style *s, struct buf *b);

#endif
