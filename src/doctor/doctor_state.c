/* SPDX-License-Identifier: Apache-2.0 */
/* What unirail itself keeps: addresses, and the links it made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "doctor/doctor.h"
#include "ipam/ipam.h"

enum { FOUND_MAX = 1 << 20, LOCK_MS = 5000 };

static void tell_lines(struct doctor *d, struct span text)
{
	struct span line;

	while (span_cut(&text, '\n', &line))
		if (line.n)
			doctor_find(d, FINDING_PROBLEM, d->pool_dir,
				    "'unirail pool check' and 'unirail pool list' have more",
				    "%.*s", (int)line.n, line.p);
}

static void cannot_open(struct doctor *d, int r, const struct err *e)
{
	if (r == -EBADMSG)
		doctor_find(d, FINDING_PROBLEM, d->state_dir, "'unirail pool check --repair'", "%s",
			    e->text);
	else
		doctor_find(d, FINDING_NOTE, d->state_dir, "run it again", "%s", e->text);
}

/* Without the store, whose opening would make its folder. */
static void check_pool_files(struct doctor *d, bool report_errors)
{
	auto_free char *user = doctor_local_pools_conf(d);
	struct pool_set set = {0};
	struct err e = ERR_INIT;
	int r = pool_set_load(d->f->root, d->pool_dir, &set, &e);

	if (doctor_skip(d, d->pool_dir, r))
		return;
	if (r < 0 && report_errors)
		doctor_find(d, FINDING_PROBLEM, d->pool_dir,
			    "mend the file; 'unirail pool check' tries it", "%s", e.text);
	if (r == 0 && !set.n && user)
		doctor_find(d, FINDING_PROBLEM, d->pool_dir,
			    "'unirail pool list' shows what a pool's file looks like",
			    "there are no pools, and '%s' takes addresses from them", user);
	if (r == 0)
		pool_set_done(&set);
}

/* A node whose addresses come from elsewhere has no pools, and that is fine. */
static bool has_records(struct ipam *store)
{
	auto_free struct ipam_record *v = NULL;
	size_t n = 0;

	return ipam_records(store, &v, &n, NULL) == 0 && n > 0;
}

void doctor_pools(struct doctor *d)
{
	const struct ipam_paths paths = {
		.pool_dir = d->pool_dir, .state_dir = d->state_dir, .lock_ms = LOCK_MS};
	struct ipam *store = NULL;
	auto_buf struct buf found = {0};
	struct err e = ERR_INIT;
	struct stat st;
	int r;

	r = file_lstat(d->f->root, d->state_dir, &st, NULL);
	check_pool_files(d, r < 0);
	if (r < 0) {
		doctor_skip(d, d->state_dir, r);
		return;
	}
	buf_init(&found, FOUND_MAX);
	r = ipam_open(&store, d->f->root, &paths, &e);
	if (r == 0 && (file_exists(d->f->root, d->pool_dir) || has_records(store)))
		r = ipam_check(store, &found, &e);
	if (r < 0 && !doctor_skip(d, d->state_dir, r))
		cannot_open(d, r, &e);
	tell_lines(d, buf_span(&found));
	ipam_close(store);
}

void doctor_stray_links(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_links; i++) {
		const struct link *l = &d->f->links[i];
		auto_free char *remedy = NULL;

		if (l->group != LINK_GROUP)
			continue;
		remedy = xasprintf("'ip link del %s'", l->name);
		doctor_find(d, FINDING_PROBLEM, l->name, remedy,
			    "this %s was made for a pod, and is on the host", l->kind);
	}
}
