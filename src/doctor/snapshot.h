/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_SNAPSHOT_H
#define UNIRAIL_DOCTOR_SNAPSHOT_H

/*
 * A snapshot of a host as one text (doctor/tree.h): the files of /sys, /proc, /etc, /dev, /run,
 * /usr/lib, /opt and /var that unirail reads, with symbolic links preserved, no file larger than
 * SNAPSHOT_FILE_MAX, and no secrets (doctor/redact.h; kubeconfigs, tokens and keys are never read).
 *
 * Of processes only those that have an RDMA device open are included: name, limits, status, and the
 * link of one descriptor of such a device.
 *
 * The table of paths is in snapshot.c. doctor/facts.h adds the netlink recordings.
 */

#include "base/file.h"

enum { SNAPSHOT_MAX = 48 << 20, SNAPSHOT_FILE_MAX = 256 << 10 };

struct snapshot {
	const struct root *root;
	/* text of the snapshot, limited to SNAPSHOT_MAX; if out->over is set, the snapshot is too
	 * large */
	struct buf *out;
	size_t n_files, n_left; /* numbers of files: included; left out, with a comment */
};

/* How the content of a file is included. */
enum snap_how {
	SNAP_TEXT, /* unchanged */
	/* only the existence of the file, without content (a device node, a program) */
	SNAP_NAME,
	SNAP_GID,     /* unchanged; left out if all digits are zero */
	SNAP_JSON,    /* redact_json() */
	SNAP_LINES,   /* redact_lines() */
	SNAP_CMDLINE, /* redact_cmdline() */
	SNAP_BYTES,   /* unchanged, without zeros at the end: configuration space of PCI */
};

/* Path pattern; '*' matches a name or a part of one ("virtfn*", "*.conf"). */
struct snap_rule {
	const char *glob;
	enum snap_how how;
};

/*
 * A directory whose entries are links to devices, and the rules for each device: their paths are
 * relative to the device's directory.
 */
struct snap_devices {
	const char *dir;
	const struct snap_rule *rules;
	/* returns whether to include a device; NULL: all devices; `device` is the device's
	 * directory */
	bool (*wanted)(const struct root *r, const char *device);
};

extern const struct snap_devices snap_devices[]; /* terminated by {0} */

/*
 * Writes the files of the tables in snapshot.c, and of each process that has an RDMA device open
 * its name, limits, status, and the link of one descriptor of such a device. Unreadable files are
 * skipped. A comment replaces a file that is too large, or that is not JSON although its rule is
 * SNAP_JSON.
 */
void snapshot_take(struct snapshot *s);

#endif
