/* SPDX-License-Identifier: Apache-2.0 */
/* What unirail itself keeps: addresses, and the links it made. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/doctor.h"
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

/* Opening the store would make its folder. */
static void check_pools_alone(struct doctor *d)
{
	struct pool_set set = {0};
	struct err e = ERR_INIT;

	if (!file_exists(d->f->root, d->pool_dir))
		return;
	if (pool_set_load(d->f->root, d->pool_dir, &set, &e) < 0)
		doctor_find(d, FINDING_PROBLEM, d->pool_dir,
			    "mend the file; 'unirail pool check' tries it", "%s", e.text);
	else
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
	int r;

	if (!file_exists(d->f->root, d->state_dir)) {
		check_pools_alone(d);
		return;
	}
	buf_init(&found, FOUND_MAX);
	r = ipam_open(&store, d->f->root, &paths, &e);
	if (r == 0 && (file_exists(d->f->root, d->pool_dir) || has_records(store)))
		r = ipam_check(store, &found, &e);
	if (r < 0)
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
