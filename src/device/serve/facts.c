/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/log.h"

enum { FACTS_MAX = 1 << 16 };

struct device_facts {
	struct device_facts_conf conf;
	/*
	 * Attributes of each device that needs devlink, in the order of the devices. Until devlink
	 * has answered, these are the previous attributes.
	 */
	struct node_fact *v;
	size_t n;
	struct child *child; /* the running child, or a killed one that has not ended */
	/* set only while child_start() runs, for the child process */
	const struct node_devices *node;
	bool is_known, is_outdated, is_late;
};

/* --- requests in the child process --- */

static int read_facts(void *arg)
{
	const struct device_facts *f = arg;
	auto_nl struct nl_wire *wire = NULL;
	auto_devlink struct devlink *devlink = NULL;

	child_close_others();
	if (!f->conf.read &&
	    (nl_open(&wire, NL_GENERIC, -1, NULL) < 0 || devlink_open(&devlink, wire, NULL) < 0))
		return 1;
	for (size_t i = 0; i < f->node->n; i++) {
		struct node_fact one = {0};

		if (!node_device_wants_fact(&f->node->v[i]))
			continue;
		if (f->conf.read)
			f->conf.read(&f->node->v[i], &one);
		else
			node_fact_read(devlink, &f->node->v[i], &one);
		/* Writes the answer before the next request, which may block. */
		if (!child_put(&one, sizeof(one)))
			return 1;
	}
	return 0;
}

/* --- answers of the child, in the event loop --- */

/* Finds a device by id; NULL: v does not have it. v is sorted in the order of struct node_devices,
 * and successive calls must pass ids in that order, because the search goes on at *from, where the
 * last one ended (0 at first). */
static struct node_fact *find(struct node_fact *v, size_t n, size_t *from, const char *id)
{
	while (*from < n && node_device_order(v[*from].id, id) < 0)
		++*from;
	return *from < n && strcmp(v[*from].id, id) == 0 ? &v[*from] : NULL;
}

/* Takes the child's answers; returns whether one has changed. Finds each device by its id, since
 * devices may have been added or removed after the child was started. */
static bool take_answers(struct device_facts *f, struct span out)
{
	size_t from = 0;
	bool changed = false;

	for (size_t i = 0; i < out.n / sizeof(struct node_fact); i++) {
		struct node_fact one, *known;

		memcpy(&one, out.p + i * sizeof(one), sizeof(one));
		known = find(f->v, f->n, &from, one.id);
		if (!known ||
		    (known->rdma_enabled == one.rdma_enabled && strcmp(known->ddp, one.ddp) == 0))
			continue;
		*known = one;
		changed = true;
	}
	return changed;
}

static void on_ended(void *arg)
{
	struct device_facts *f = arg;

	f->child = NULL;
	/* The owner then calls device_facts_apply(), whose new child sends the requests again. */
	f->conf.changed(f->conf.arg);
}

static void on_answers(void *arg, int status, struct span out, const struct err *e)
{
	struct device_facts *f = arg;
	bool is_first = !f->is_known, is_late = e && e->code == -ETIMEDOUT;
	bool is_changed = take_answers(f, out);

	(void)status;
	if (!is_late)
		f->child = NULL;
	if (is_late && !f->is_late)
		log_warn(
			"a driver does not answer devlink's requests, the last state of its device "
			"is kept, will retry");
	f->is_late = is_late;
	f->is_known = true;
	if (is_first || is_changed || (f->is_outdated && !f->child))
		f->conf.changed(f->conf.arg);
}

static bool can_read(const struct device_facts *f)
{
	auto_nl struct nl_wire *wire = NULL;
	auto_devlink struct devlink *devlink = NULL;

	return f->n && (f->conf.read || (nl_open(&wire, NL_GENERIC, -1, NULL) >= 0 &&
					 devlink_open(&devlink, wire, NULL) >= 0));
}

static void start(struct device_facts *f, const struct node_devices *node)
{
	const struct child_conf c = {
		.run = read_facts,
		.run_arg = f,
		.timeout_ms = f->conf.timeout_ms ? f->conf.timeout_ms : DEVICE_FACTS_MS,
		.max = FACTS_MAX * sizeof(struct node_fact),
		.ended = on_ended,
	};
	struct err e = ERR_INIT;

	f->node = node;
	f->is_outdated = false;
	if (child_start(&f->child, f->conf.loop, &c, on_answers, f, &e) < 0) {
		log_warn("cannot start the process that reads devlink attributes, will retry",
			 LOG_S("error", e.text));
		f->is_known = true;
	}
	f->node = NULL;
}

/* Copies the previous attributes of a device for which devlink has no answer yet. */
static void inherit(struct node_fact *to, const char *id, const struct node_devices *before,
		    size_t *from)
{
	str_copy(to->id, sizeof(to->id), id);
	while (before && *from < before->n && node_device_order(before->v[*from].id, id) < 0)
		++*from;
	if (!before || *from == before->n || strcmp(before->v[*from].id, id) != 0)
		return;
	to->rdma_enabled = node_device_is_rdma(&before->v[*from]);
	str_copy(to->ddp, sizeof(to->ddp), before->v[*from].ddp);
}

static void keep_facts(struct device_facts *f, const struct node_devices *now,
		       const struct node_devices *before)
{
	struct node_fact *v = NULL, *known;
	size_t n = 0, from = 0, from_before = 0;

	for (size_t i = 0; i < now->n; i++) {
		if (!node_device_wants_fact(&now->v[i]) || n == FACTS_MAX)
			continue;
		known = find(f->v, f->n, &from, now->v[i].id);
		if (known)
			VEC_PUSH(v, n) = *known;
		else
			inherit(&VEC_PUSH(v, n), now->v[i].id, before, &from_before);
	}
	free(f->v);
	f->v = v;
	f->n = n;
}

void device_facts_apply(struct device_facts *f, struct node_devices *now,
			const struct node_devices *before)
{
	keep_facts(f, now, before);
	node_devices_set_facts(now, f->v, f->n);
	if (f->child)
		f->is_outdated = true;
	else if (can_read(f))
		start(f, now);
	else
		f->is_known = true;
}

bool device_facts_are_known(const struct device_facts *f)
{
	return f->is_known;
}

struct device_facts *device_facts_new(const struct device_facts_conf *c)
{
	struct device_facts *f = xcalloc(1, sizeof(*f));

	f->conf = *c;
	return f;
}

void device_facts_free(struct device_facts *f)
{
	if (!f)
		return;
	child_cancel(f->child);
	free(f->v);
	free(f);
}
