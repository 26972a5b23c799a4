/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include "wire/json/json.h"

static const char *level_name(enum finding_level l)
{
	return l == FINDING_PROBLEM ? "problem" : l == FINDING_NOTE ? "note" : "skipped";
}

static void count_functions(const struct host_facts *f, size_t *pfs, size_t *vfs)
{
	*pfs = *vfs = 0;
	for (size_t i = 0; i < f->n_pci; i++) {
		bool network = f->pci[i].class >> 16 == 0x02;

		*pfs += network && f->pci[i].is_pf;
		*vfs += network && f->pci[i].physfn[0];
	}
}

static size_t count_checks(void)
{
	size_t n = 0;

	while (doctor_checks[n].name)
		n++;
	return n;
}

static const char *mode_name(const struct host_facts *f)
{
	if (!f->has_rdma)
		return NULL;
	return f->mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";
}

static void put_kernel(const struct host_facts *f, char *ret, size_t size)
{
	if (file_read_line(f->root, "/proc/sys/kernel/osrelease", ret, size, NULL) < 0)
		str_copy(ret, size, "unknown");
}

static void put_level(const struct findings *l, enum finding_level level, FILE *out)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].level == level)
			fprintf(out, "%-7s  %s: %s: %s\n", level_name(level), l->v[i].where,
				l->v[i].what, l->v[i].remedy);
}

void doctor_show_text(const struct host_facts *f, const struct findings *l, FILE *out)
{
	size_t skipped = findings_count(l, FINDING_SKIPPED);
	size_t pfs, vfs;
	char kernel[128];

	count_functions(f, &pfs, &vfs);
	put_kernel(f, kernel, sizeof(kernel));
	fprintf(out, "kernel %s; ", kernel);
	if (f->has_rdma)
		fprintf(out, "RDMA devices: %zu (%s mode)", f->n_rdma, mode_name(f));
	else
		fputs("no RDMA", out);
	fprintf(out, "; PFs: %zu, VFs: %zu; links: %zu\n", pfs, vfs, f->n_links);
	put_level(l, FINDING_PROBLEM, out);
	put_level(l, FINDING_NOTE, out);
	put_level(l, FINDING_SKIPPED, out);
	fprintf(out, "%zu checks: %zu problems, %zu notes", count_checks(),
		findings_count(l, FINDING_PROBLEM), findings_count(l, FINDING_NOTE));
	if (skipped)
		fprintf(out, ", %zu skipped", skipped);
	fputc('\n', out);
}

void doctor_show_json(const struct host_facts *f, const struct findings *l, struct buf *b)
{
	size_t pfs, vfs;
	struct json_out o;
	char kernel[128];

	count_functions(f, &pfs, &vfs);
	put_kernel(f, kernel, sizeof(kernel));
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", !findings_count(l, FINDING_PROBLEM));
	jo_kstr(&o, "kernel", kernel);
	jo_kstr(&o, "rdmaMode", mode_name(f));
	jo_kint(&o, "rdmaDevices", (int64_t)f->n_rdma);
	jo_kint(&o, "pfs", (int64_t)pfs);
	jo_kint(&o, "vfs", (int64_t)vfs);
	jo_key(&o, "findings");
	jo_arr(&o);
	for (size_t i = 0; i < l->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "check", l->v[i].check);
		jo_kstr(&o, "level", level_name(l->v[i].level));
		jo_kstr(&o, "where", l->v[i].where);
		jo_kstr(&o, "what", l->v[i].what);
		jo_kstr(&o, "remedy", l->v[i].remedy);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

void doctor_list_text(FILE *out)
{
	for (const struct doctor_check *c = doctor_checks; c->name; c++)
		fprintf(out, "%-13s  %s\n", c->name, c->about);
}

void doctor_list_json(struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		jo_obj(&o);
		jo_kstr(&o, "check", c->name);
		jo_kstr(&o, "about", c->about);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	buf_char(b, '\n');
}
