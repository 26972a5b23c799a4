/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* For each check, the program that tests the check on a broken and on a mended host. */
static const struct {
	const char *check, *program;
} programs[] = {
	{"rdma-kernel", "test_doctor"},
	{"rdma-verbs", "test_doctor"},
	{"rdma-ports", "test_doctor_use"},
	{"rdma-mode", "test_doctor"},
	{"link-type", "test_doctor_use"},
	{"rail-mtu", "test_doctor"},
	{"mtu-vfs", "test_doctor_use"},
	{"mtu-conf", "test_doctor_use"},
	{"mtu-pods", "test_doctor_use"},
	{"rail-subnets", "test_doctor"},
	{"rdma-gids", "test_doctor_hardware"},
	{"rdma-guids", "test_doctor_hardware"},
	{"rdma-umad", "test_doctor_hardware"},
	{"rail-macs", "test_doctor_hardware"},
	{"rail-rp-filter", "test_doctor_hardware"},
	{"rail-managed", "test_doctor_hardware"},
	{"rail-networkd", "test_doctor_use"},
	{"rail-foreign", "test_doctor_use"},
	{"host-drift", "test_doctor_use"},
	{"pci-acs", "test_doctor_hardware"},
	{"pci-read", "test_doctor_hardware"},
	{"gpu-peermem", "test_doctor_hardware"},
	{"memlock", "test_doctor_hardware"},
	{"vf-drivers", "test_doctor"},
	{"vf-pfs", "test_doctor"},
	{"vf-rdma", "test_doctor"},
	{"vf-resources", "test_doctor_use"},
	{"node-resources", "test_doctor_use"},
	{"node-drivers", "test_doctor_use"},
	{"node-address", "test_doctor_use"},
	{"cni-links", "test_doctor"},
	{"cni-conf", "test_doctor"},
	{"cni-first", "test_doctor"},
	{"cni-masters", "test_doctor"},
	{"pools", "test_doctor"},
	{"leftover-links", "test_doctor"},
	{"rdma-firmware", "test_doctor_use"},
};

static bool has_pair[DOCTOR_LAB_CHECKS];

void doctor_lab_begin(struct doctor_lab *l, const char *tree)
{
	*l = (struct doctor_lab){0};
	if (tree)
		host_unpack(&l->host, tree);
	else
		host_empty(&l->host);
	l->f.root = &l->host.root;
	l->f.mode = RDMA_NETNS_SHARED;
	if (tree)
		ASSERT_EQ(pci_list(l->f.root, &l->f.pci, &l->f.n_pci, NULL), 0);
}

void doctor_lab_begin_rails(struct doctor_lab *l, const char *tree)
{
	doctor_lab_begin(l, tree);
	for (int i = 0; i < 2; i++) {
		snprintf(l->links[i].name, sizeof(l->links[i].name), "ens%d", i + 1);
		l->links[i].mac = (struct mac){6, {2, 0, 0, 0, 0, (uint8_t)i}};
		snprintf(l->rdma[i].name, sizeof(l->rdma[i].name), "mlx5_%d", i);
		l->rdma[i].node_guid = 0xa088c20300000001u + (uint64_t)i;
		l->rdma[i].ports[0] = (struct rdma_port){.port = 1, .state = 4};
		strcpy(l->rdma[i].ports[0].link_layer, "Ethernet");
		strcpy(l->rdma[i].ports[0].netdev, l->links[i].name);
	}
	strcpy(l->links[2].name, "eth0");
	for (int i = 0; i < 4; i++) {
		l->links[i].index = i + 2;
		l->links[i].mtu = 9000;
		l->links[i].arptype = 1;
		l->links[i].parent_netnsid = -1;
	}
	l->addrs[0] = (struct addr){.index = 2, .net = {{4, {172, 16, 1, 10}}, 24}};
	l->f.has_rdma = true;
	l->f.rdma = l->rdma;
	l->f.n_rdma = 2;
	l->f.links = l->links;
	l->f.n_links = 3;
	l->f.addrs = l->addrs;
	l->f.n_addrs = 1;
}

void doctor_lab_end(struct doctor_lab *l)
{
	findings_done(&l->found);
	free(l->f.pci);
	json_free(l->f.node);
	host_remove(&l->host);
}

struct doctor doctor_lab_doctor(struct doctor_lab *l)
{
	findings_done(&l->found);
	return (struct doctor){.f = &l->f,
			       .cni_bin = "/opt/cni/bin",
			       .cni_conf = "/etc/cni/net.d",
			       .pool_dir = "/etc/unirail/pools",
			       .state_dir = "/var/lib/unirail/ipam",
			       .out = &l->found};
}

static void record(struct doctor_lab *l, size_t check, size_t n)
{
	assert_true(check < DOCTOR_LAB_CHECKS);
	if (n)
		l->is_broken[check] = true;
	else if (l->is_broken[check])
		has_pair[check] = true;
}

size_t doctor_lab_run(struct doctor_lab *l, void (*check)(struct doctor *))
{
	struct doctor d = doctor_lab_doctor(l);
	size_t at = 0;

	while (doctor_checks[at].name && doctor_checks[at].run != check)
		at++;
	assert_non_null(doctor_checks[at].name);
	l->found.check = doctor_checks[at].name;
	check(&d);
	record(l, at, l->found.n);
	return l->found.n;
}

void doctor_lab_run_all(struct doctor_lab *l)
{
	struct doctor d = doctor_lab_doctor(l);

	doctor_run(&d);
	for (size_t i = 0; doctor_checks[i].name; i++)
		record(l, i, doctor_lab_count(l, doctor_checks[i].name));
}

static void has_parts(const struct finding *f, const char *what, const char *remedy)
{
	if (!strstr(f->what, what))
		fail_msg("'%s' is not in '%s'", what, f->what);
	if (!strstr(f->remedy, remedy))
		fail_msg("'%s' is not in '%s'", remedy, f->remedy);
}

void doctor_lab_first_is(const struct doctor_lab *l, const char *where, const char *what,
			 const char *remedy)
{
	assert_true(l->found.n > 0);
	ASSERT_STR_EQ(l->found.v[0].subject, where);
	has_parts(&l->found.v[0], what, remedy);
}

const struct finding *doctor_lab_find(const struct doctor_lab *l, const char *check,
				      const char *where)
{
	for (size_t i = 0; i < l->found.n; i++)
		if (!strcmp(l->found.v[i].check, check) && !strcmp(l->found.v[i].subject, where))
			return &l->found.v[i];
	return NULL;
}

void doctor_lab_finds(const struct doctor_lab *l, const char *check, const char *where,
		      const char *what, const char *remedy)
{
	const struct finding *f = doctor_lab_find(l, check, where);

	if (!f)
		fail_msg("check %s has no finding at %s", check, where);
	has_parts(f, what, remedy);
}

size_t doctor_lab_count(const struct doctor_lab *l, const char *check)
{
	size_t n = 0;

	for (size_t i = 0; i < l->found.n; i++)
		n += !strcmp(l->found.v[i].check, check);
	return n;
}

static const char *program_of(const char *check)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (!strcmp(programs[i].check, check))
			return programs[i].program;
	fail_msg("no program tests check %s on a broken and on a mended host", check);
	return NULL;
}

void doctor_lab_verify(const char *program)
{
	size_t n = 0;

	for (; doctor_checks[n].name; n++)
		if (!strcmp(program_of(doctor_checks[n].name), program) && !has_pair[n])
			fail_msg("check %s: no test has a host with a finding of this check "
				 "that is gone after the host is mended",
				 doctor_checks[n].name);
	ASSERT_EQ(n, ARRAY_LEN(programs)); /* programs has no row of a removed check */
}
