/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_SNAPSHOT_H
#define UNIRAIL_DOCTOR_SNAPSHOT_H

/*
 * A host as one text (doctor/tree.h): what unirail reads of /sys, /proc, /etc, /dev, /opt/cni and
 * /var/lib, with links as they are, no file larger than SNAPSHOT_FILE_MAX, and no secrets
 * (doctor/redact.h; kubeconfigs, tokens and keys are not looked at at all).
 *
 * snapshot.c is the table of what is taken. Netlink is added by host/facts.h.
 */

#include "base/file.h"

enum { SNAPSHOT_MAX = 48 << 20, SNAPSHOT_FILE_MAX = 256 << 10 };

struct snapshot {
	const struct root *root;
	struct buf *out; /* of SNAPSHOT_MAX; .over: it was too much */
	size_t n_files, n_left;
};

/* How a file's content is taken. */
enum snap_how {
	SNAP_TEXT,  /* as it is */
	SNAP_NAME,  /* only that it is there (a device node, a program): empty */
	SNAP_GID,   /* as it is, unless it is all zero */
	SNAP_JSON,  /* redact_json() */
	SNAP_LINES, /* redact_lines() */
	SNAP_WORDS, /* redact_words() */
};

/* Paths; a '*' stands for any name, or a part of one ("virtfn*", "*.conf"). */
struct snap_rule {
	const char *glob;
	enum snap_how how;
};

/* A folder whose entries are links to devices; of each device these rules, below its own folder. */
struct snap_devices {
	const char *folder;
	const struct snap_rule *rules;
	/* NULL: all; `device` is the device's folder */
	bool (*wanted)(const struct root *r, const char *device);
};

extern const struct snap_rule snap_rules[];	 /* ended by {0} */
extern const struct snap_devices snap_devices[]; /* ended by {0} */

/* Everything of the tables. What cannot be read is left out, with a comment when it is too large. */
void snapshot_take(struct snapshot *s);

#endif
