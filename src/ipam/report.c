/* SPDX-License-Identifier: Apache-2.0 */
/* Which report is asked for; what changes or judges the store. */
#include "ipam/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { SAID_MAX = 1 << 20 };

int report_address(const char *text, struct ipaddr *ret, struct err *e)
{
	if (ip_parse(span_of(text), ret) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' is not an address", text);
}

/* --- release --- */

static bool find_record(const struct report *o, const struct ipaddr *a, struct ipam_record *ret,
			int *r, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	size_t n = 0;

	*r = ipam_records(o->store, &v, &n, e);
	for (size_t i = 0; *r == 0 && i < n; i++)
		if (ip_eq(&v[i].ip, a)) {
			*ret = v[i];
			return true;
		}
	return false;
}

static void say_release(const struct report *o, const struct ipam_record *rec, bool done)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf who;
	struct json_out j;

	buf_init(&who, 1024);
	report_owner_words(rec, &who);
	ip_str(&rec->ip, text);
	if (o->json) {
		jo_init(&j, o->out, 4);
		jo_obj(&j);
		jo_kstr(&j, "address", text);
		jo_kstr(&j, "state", rec->state);
		jo_kstr(&j, "owner", who.p);
		jo_kbool(&j, "released", done);
		jo_end_obj(&j);
		buf_char(o->out, '\n');
	} else {
		buf_printf(o->out, "%s %s (%s%s%s)\n", done ? "released" : "would release", text,
			   rec->state, who.len ? " by " : "", who.p);
	}
}

/* Taking an address from a pod that runs makes two pods with one address. */
int report_release(const struct report *o, const char *address, enum report_release how,
		   struct err *e)
{
	struct ipam_record rec;
	struct ipaddr a;
	int r = report_address(address, &a, e);

	if (r < 0)
		return r;
	if (!find_record(o, &a, &rec, &r, e))
		return r < 0 ? r : err_set(e, -ENOENT, "nobody holds %s", address);
	if (how != REPORT_DO)
		say_release(o, &rec, false);
	if (how == REPORT_ASK)
		return err_set(e, -EPERM,
			       "say --yes when no running pod has %s any more: another pod may get "
			       "it at once",
			       address);
	if (how == REPORT_DRY)
		return 0;
	r = ipam_release_ip(o->store, &a, e);
	if (r >= 0)
		say_release(o, &rec, true);
	return r < 0 ? r : 0;
}

/* --- check --- */

static int findings_text(const struct report *o, const char *checked, const struct buf *found,
			 int n)
{
	buf_add(o->out, found->p, found->len);
	if (checked)
		buf_printf(o->out, "checked %s: ", checked);
	if (n == 0)
		buf_str(o->out, "nothing found\n");
	else if (checked)
		buf_printf(o->out, "%d finding%s\n", n, n == 1 ? "" : "s");
	return n > 0;
}

int report_findings(const struct report *o, const char *checked, const struct buf *found, int n)
{
	struct span rest = buf_span(found), line;
	struct json_out j;

	if (!o->json)
		return findings_text(o, checked, found, n);
	jo_init(&j, o->out, 4);
	jo_obj(&j);
	jo_kbool(&j, "ok", n == 0);
	if (checked)
		jo_kstr(&j, "checked", checked);
	jo_key(&j, "findings");
	jo_arr(&j);
	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_dup(line);

		if (line.n > 0)
			jo_str(&j, text);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(o->out, '\n');
	return n > 0;
}

int report_check(const struct report *o, struct err *e)
{
	auto_free struct ipam_record *records = NULL;
	auto_free char *checked = NULL;
	auto_buf struct buf found;
	size_t n_records = 0;
	int n;

	buf_init(&found, SAID_MAX);
	n = ipam_check(o->store, &found, e);
	if (n < 0)
		return n;
	if (ipam_records(o->store, &records, &n_records, NULL) < 0)
		n_records = 0;
	checked = xasprintf("%zu pools, %zu addresses in the journal and the network namespaces of "
			    "their pods",
			    ipam_pools(o->store)->n, n_records);
	return report_findings(o, checked, &found, n);
}

/* --- by name --- */

static const struct known {
	const char *name;
	size_t least, most; /* words behind it */
} known[] = {{"list", 0, 0},  {"show", 1, 1},	 {"free", 1, 2},
	     {"owner", 1, 1}, {"release", 1, 1}, {"check", 0, 0}};

int report_run(const struct report *o, const struct report_call *c, struct err *e)
{
	const struct known *k = known;

	while (k < known + ARRAY_LEN(known) && strcmp(k->name, c->command) != 0)
		k++;
	if (k == known + ARRAY_LEN(known))
		return err_set(e, -ENOSYS,
			       "'%.50s' is none of list, show, free, owner, release, check",
			       c->command);
	if (c->n_words < k->least || c->n_words > k->most)
		return err_set(e, -EINVAL, "'%s' wants %zu to %zu words, not %zu", k->name,
			       k->least, k->most, c->n_words);
	if (strcmp(k->name, "list") == 0)
		return report_list(o, e);
	if (strcmp(k->name, "check") == 0)
		return report_check(o, e);
	if (strcmp(k->name, "show") == 0)
		return report_show(o, c->words[0], e);
	if (strcmp(k->name, "free") == 0)
		return report_free(o, c->words[0], c->n_words > 1 ? c->words[1] : "10", e);
	if (strcmp(k->name, "owner") == 0)
		return report_owner(o, c->words[0], e);
	return report_release(o, c->words[0], c->release, e);
}
