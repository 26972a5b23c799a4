/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod with eth0 and eight rails. One rail fails at some step, by itself or because the node
 * changes during the ADD: the ADD must then undo the other rails, and its error must name the
 * failing rail, the step and the reason.
 */
#include "fault.h"
#include "rails.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/alloc.h"
#include "base/num.h"

enum { CONF_MAX = 1 << 16, STATE_MAX = 1 << 22, REPORT_MAX = 1 << 16 };

/* --- the pod --- */

static void put_network(const struct mishap *m, int rail, bool this, struct buf *b)
{
	static const char detect[] =
		",\"enable_gateway_detection\":true,\"enable_ip_conflict_detection\":"
		"true,\"detect\":{\"tries\":2,\"interval_ms\":10,\"total_ms\":300}";
	char nic[LINK_NAME_MAX] = "eth0", ifname[LINK_NAME_MAX] = "eth0";

	if (rail >= 0) {
		rail_nic(rail, nic);
		rail_ifname(rail, ifname);
	}
	buf_printf(
		b,
		"{\"name\":\"%s\",\"ifname\":\"%s\",\"plugins\":[{\"type\":\"macvlan\",\"master\":\"%s\",",
		nic, ifname, this && m->master ? m->master : nic);
	if (this && m->mtu)
		buf_printf(b, "\"mtu\":%u,", m->mtu);
	buf_printf(b, "\"ipam\":{\"type\":\"spiderpool\",\"default_ipv4_ippool\":[\"%s\"]%s}},",
		   nic, m->detect ? detect : "");
	buf_str(b, "{\"type\":\"coordinator\",\"mode\":\"underlay\"}]}");
}

static void make_conf(const struct mishap *m, int rail, struct buf *b)
{
	buf_init(b, CONF_MAX);
	buf_str(b,
		"{\"cniVersion\":\"1.1.0\",\"name\":\"rails\",\"type\":\"unirail-cni\",\"networks\":[");
	for (int i = -1; i < RAILS; i++) {
		buf_str(b, i < 0 ? "" : ",");
		put_network(m, i, i == rail, b);
	}
	buf_str(b, "]}");
}

static void make_pools(struct lab *l, const struct mishap *m, int rail)
{
	auto_buf struct buf b;

	buf_init(&b, CONF_MAX);
	for (int i = -1; i < RAILS; i++) {
		char nic[LINK_NAME_MAX] = "eth0";

		if (i >= 0)
			rail_nic(i, nic);
		buf_printf(
			&b,
			"[pool %s]\nsubnet=172.16.%d.0/24\ngateway=172.16.%d.1\nips=172.16.%d.10\n",
			nic, i + 1, i + 1, i + 1);
		if (!(i == rail && m->only))
			buf_printf(&b, "ips=172.16.%d.11-172.16.%d.20\n", i + 1, i + 1);
	}
	lab_file(l, "/etc/unirail/pools/rails.conf", b.p);
}

/* --- one ADD --- */

struct trial {
	struct lab *l;
	struct tally *tally;
	const struct mishap *m;
	int rail;
	/* race: the node changes before the n-th send; refuse, refuse_del: the n-th message is
	 * refused; n >= 1 */
	long n;
	/* base: state before; after: expected state after the failure; now: current state */
	struct buf base, after, now;
	struct outcome o;
	struct refusal refusal;
	bool show;
	bool spoilt; /* the trial left changes: the lab is not usable for further points */
};

static void wrong(struct trial *t, const char *reason, const struct buf *diff)
{
	auto_free char *again = xasprintf("--one rails %s %d %ld", t->m->name, t->rail, t->n);
	auto_free char *where = xasprintf("eight rails, %s %d %ld", t->m->name, t->rail, t->n);

	report_failure(t->tally, where, reason, diff, &t->o, again);
}

static bool same(struct trial *t, const struct buf *wanted, const char *reason)
{
	auto_buf struct buf diff;

	buf_init(&diff, REPORT_MAX);
	if (lab_becomes(t->l, wanted, text_differs, &t->now, &diff))
		return true;
	wrong(t, reason, &diff);
	return false;
}

/* An error of DEL, or of a refused query, may concern all rails and need not name the rail. */
static bool names_rail(const struct trial *t, const char *text)
{
	char ifname[LINK_NAME_MAX];

	if (t->m->refuse_del)
		return true;
	rail_ifname(t->rail, ifname);
	return t->m->refuse ? refused_named(&t->refusal, text) : strstr(text, ifname) != NULL;
}

static bool has_expected(const struct mishap *m, const char *text)
{
	if (m->instead && strcasestr(text, m->instead))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(m->expected) && m->expected[i]; i++)
		if (!strcasestr(text, m->expected[i]))
			return false;
	return true;
}

/* The error names the rail by its interface, and the step and reason by their texts. */
static void check_text(struct trial *t)
{
	auto_free char *text = error_text(&t->o);

	if (!text || !names_rail(t, text) || !has_expected(t->m, text))
		wrong(t, "the error does not name rail, step and reason", NULL);
}

static void strike(void *arg)
{
	struct trial *t = arg;

	t->m->begin(t->l, t->rail);
}

static void judge(struct trial *t)
{
	enum end end = end_of(&t->o, V_ADD, NULL);

	count(&t->tally->points);
	if (end == END_REFUSED) {
		check_text(t);
		same(t, &t->after, "failed and left changes behind");
		count(&t->tally->undone);
	} else if (end != END_FINE) {
		wrong(t, "the ADD neither succeeded nor failed with an error", NULL);
	} else if (!t->m->race && !t->m->refuse) {
		wrong(t, "did not fail", NULL);
	} else {
		count(&t->tally->survived);
	}
}

static void detach(struct trial *t, const struct step *st, const char *prev)
{
	call_plugin(t->l, st, V_DEL, &pod_here, prev, NULL, &t->o);
	if (t->o.status != 0)
		wrong(t, "DEL fails", NULL);
	t->spoilt = !same(t, prev ? &t->base : &t->after, "left after DEL");
}

/* Returns the result of the ADD; NULL: it failed. */
static char *result_of(const struct trial *t)
{
	return t->o.status == 0 ? span_dup(buf_span(&t->o.out)) : NULL;
}

/* False: there is no n-th message. */
static bool add(struct trial *t, const struct step *st)
{
	struct shot race = {
		.act = ACT_CALL, .n = t->n, .only_nr = SYS_sendto, .fn = strike, .arg = t};

	if (t->m->refuse) {
		refusal_init(&t->refusal, t->n);
		call_plugin(t->l, st, V_ADD, &pod_here, NULL, &t->refusal.shot, &t->o);
		return t->refusal.hit;
	}
	if (t->m->race) {
		call_plugin(t->l, st, V_ADD, &pod_here, NULL, &race, &t->o);
	} else {
		if (t->m->begin)
			t->m->begin(t->l, t->rail);
		call_plugin(t->l, st, V_ADD, &pod_here, NULL, NULL, &t->o);
	}
	if (t->m->end && (!t->m->race || race.hit))
		t->m->end(t->l, t->rail);
	return !t->m->race || race.hit;
}

static void show(const struct trial *t)
{
	if (!t->show)
		return;
	printf("%.*s\n", (int)t->o.out.len, t->o.out.p);
	fflush(stdout);
}

static bool try_add(struct trial *t, const struct step *st)
{
	bool hit = add(t, st);
	auto_free char *prev = result_of(t);

	show(t);
	if (hit)
		judge(t);
	else if (end_of(&t->o, V_ADD, NULL) != END_FINE)
		wrong(t, "failed although nothing was refused", NULL);
	detach(t, st, prev);
	return hit;
}

static bool try_del(struct trial *t, const struct step *st)
{
	auto_free char *prev = NULL;

	call_plugin(t->l, st, V_ADD, &pod_here, NULL, NULL, &t->o);
	prev = result_of(t);
	if (!prev)
		wrong(t, "ADD failed although nothing was refused", NULL);
	refusal_init(&t->refusal, t->n);
	call_plugin(t->l, st, V_DEL, &pod_here, prev, &t->refusal.shot, &t->o);
	show(t);
	if (t->refusal.hit)
		count(&t->tally->points);
	if (t->o.status == 0) {
		same(t, &t->base, "DEL succeeded and left something");
		count(&t->tally->survived);
	} else {
		check_text(t);
		count(&t->tally->cleaned);
	}
	detach(t, st, prev);
	return t->refusal.hit;
}

/* False: there is no n-th message. */
static bool try_once(struct trial *t)
{
	auto_buf struct buf conf;
	struct step st = {"unirail-cni", "eth0", NULL};
	bool hit;

	make_conf(t->m, t->rail, &conf);
	st.conf = conf.p;
	hit = t->m->refuse_del ? try_del(t, &st) : try_add(t, &st);
	lab_reset(t->l);
	return hit;
}

/* --- all --- */

long rails_jobs(void)
{
	long n = 0;

	while (mishaps[n].name)
		n++;
	return n * RAILS;
}

long rails_find(const char *mishap, const char *rail)
{
	int64_t n;

	if (num_i64(span_of(rail), 0, RAILS - 1, &n) < 0)
		return -1;
	for (long i = 0; mishaps[i].name; i++)
		if (strcmp(mishaps[i].name, mishap) == 0)
			return i * RAILS + (long)n;
	return -1;
}

static void trial_init(struct trial *t, struct lab *l, struct tally *tally, long job)
{
	*t = (struct trial){
		.l = l, .tally = tally, .m = &mishaps[job / RAILS], .rail = (int)(job % RAILS)};
	buf_init(&t->base, STATE_MAX);
	buf_init(&t->after, STATE_MAX);
	buf_init(&t->now, STATE_MAX);
	outcome_init(&t->o);
	make_pools(l, t->m, t->rail);
	lab_keep(l);
	lab_dump_stable(l, &t->base);
	buf_add(&t->after, t->base.p, t->base.len);
	if (t->m->quarantines)
		buf_printf(&t->after,
			   "address 172.16.%d.10/24: quarantine in var/lib/unirail/ipam/journal\n",
			   t->rail + 1);
}

static void trial_done(struct trial *t)
{
	buf_done(&t->base);
	buf_done(&t->after);
	buf_done(&t->now);
	outcome_done(&t->o);
}

/* Runs the trials of one job. A race is repeated before each send. A refusal is repeated for every
 * eighth message, beginning with message number 1 + the job's rail: the jobs of the eight rails
 * together refuse each message. quick: every seventh of these trials, and only rails 0, 3 and 6. */
bool rails_run(struct lab *l, struct tally *tally, long job, bool quick)
{
	struct trial t;
	bool more = true;
	long stride = quick ? 7 : 1;
	bool by_message;

	if (quick && job % RAILS % 3 != 0)
		return true;
	trial_init(&t, l, tally, job);
	by_message = t.m->refuse || t.m->refuse_del;
	t.n = 1;
	if (by_message) {
		t.n += t.rail;
		stride *= RAILS;
	}
	for (; more && !t.spoilt; t.n += stride)
		more = try_once(&t) && (t.m->race || by_message);
	trial_done(&t);
	return !t.spoilt;
}

void rails_run_one(struct lab *l, struct tally *tally, long job, long n)
{
	struct trial t;

	trial_init(&t, l, tally, job);
	t.n = n;
	t.show = true;
	try_once(&t);
	trial_done(&t);
}
