/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"
#include "kern_lab.h"

#include <string.h>

#include "base/alloc.h"
#include "device/inventory.h"
#include "wire/json/json.h"

static struct err e;

static const struct inventory_function *function(const struct inventory *inv, const char *bdf)
{
	for (size_t i = 0; i < inv->n; i++)
		if (strcmp(inv->v[i].pci.bdf, bdf) == 0)
			return &inv->v[i];
	fail_msg("no function %s", bdf);
	return NULL;
}

/* Representors belong to the eswitch, not to the PF. The port name of a representor has the
 * number of its VF: "ens2f0_1" is the first representor by name, but it belongs to VF 1. */
static void test_representors_are_listed_apart_from_their_pf(void **state)
{
	auto_inventory struct inventory inv = {0};
	const struct inventory_function *f;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_switchdev.tree");
	OK(inventory_read(&h.root, NULL, NULL, &inv, &e));
	ASSERT_EQ(inv.n, 5);
	f = function(&inv, "0000:81:00.0");
	assert_true(f->pci.is_pf && f->vf == -1 && !f->has_eswitch);
	ASSERT_EQ(f->n_netdevs, 1);
	ASSERT_STR_EQ(f->netdevs[0].name, "ens2f0np0");
	ASSERT_STR_EQ(f->netdevs[0].mac, "b8:ce:f6:a1:c3:b4");
	assert_true(f->netdevs[0].mtu == 9000 && f->netdevs[0].up);
	ASSERT_STR_EQ(f->netdevs[0].operstate, "up");
	f = function(&inv, "0000:81:00.3");
	ASSERT_EQ(f->vf, 1);
	ASSERT_STR_EQ(f->representor, "ens2f0_1");
	ASSERT_STR_EQ(f->rdma[0].name, "mlx5_2");
	assert_false(inventory_is_in_other_netns(f));
	/* one VF is bound to vfio-pci, the next one is in a pod */
	f = function(&inv, "0000:81:00.4");
	assert_true(f->vf == 2 && !f->n_netdevs && !inventory_is_in_other_netns(f));
	ASSERT_STR_EQ(f->representor, "ens2f0_2");
	f = function(&inv, "0000:81:00.5");
	assert_true(inventory_is_in_other_netns(f));
	host_remove(&h);
}

/* The GIDs are in the order of their indexes, without unused entries of the table. */
static void test_gids_are_listed_by_index(void **state)
{
	static const int indexes[] = {0, 1, 2, 10};
	auto_inventory struct inventory inv = {0};
	const struct inventory_port *p;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_switchdev.tree");
	OK(inventory_read(&h.root, NULL, NULL, &inv, &e));
	p = &function(&inv, "0000:81:00.0")->rdma[0].ports[0];
	ASSERT_EQ(p->port, 1);
	ASSERT_STR_EQ(p->state, "ACTIVE");
	ASSERT_STR_EQ(p->link_layer, "Ethernet");
	ASSERT_STR_EQ(p->rate, "100 Gb/sec (4X EDR)");
	ASSERT_EQ(p->n_gids, ARRAY_LEN(indexes));
	for (size_t i = 0; i < p->n_gids; i++)
		ASSERT_EQ(p->gids[i].index, indexes[i]);
	ASSERT_STR_EQ(p->gids[3].gid, "0000:0000:0000:0000:0000:ffff:ac10:0102");
	ASSERT_STR_EQ(p->gids[3].type, "RoCE v2");
	ASSERT_STR_EQ(p->gids[3].netdev, "ens2f0np0");
	host_remove(&h);
}

static void test_pf_bound_to_vfio_has_no_interfaces(void **state)
{
	auto_inventory struct inventory inv = {0};
	const struct inventory_function *f;
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_vfio.tree");
	OK(inventory_read(&h.root, NULL, NULL, &inv, &e));
	f = function(&inv, "0000:c1:00.0");
	assert_true(f->pci.is_pf && !f->n_netdevs && !f->n_rdma && !inventory_is_in_other_netns(f));
	ASSERT_EQ(function(&inv, "0000:c1:00.3")->vf, 1);
	ASSERT_EQ(function(&inv, "0000:c1:00.2")->n_rdma, 1);
	host_remove(&h);
}

/* The GPU and the disk of this host are not network functions; virtfn10 sorts before virtfn2. */
static void test_vfs_have_the_numbers_that_their_pf_lists(void **state)
{
	auto_inventory struct inventory inv = {0};
	struct host_lab h;

	(void)state;
	host_unpack(&h, "mlx5_roce.tree");
	OK(inventory_read(&h.root, NULL, NULL, &inv, &e));
	ASSERT_EQ(inv.n, 14);
	ASSERT_EQ(function(&inv, "0000:3d:00.4")->vf, 2);
	ASSERT_EQ(function(&inv, "0000:3d:01.4")->vf, 10);
	host_remove(&h);
}

static void test_host_without_pci_has_no_functions(void **state)
{
	auto_inventory struct inventory inv = {0};
	struct host_lab h;

	(void)state;
	host_empty(&h);
	OK(inventory_read(&h.root, NULL, NULL, &inv, &e));
	ASSERT_EQ(inv.n, 0);
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_representors_are_listed_apart_from_their_pf),
		cmocka_unit_test(test_gids_are_listed_by_index),
		cmocka_unit_test(test_pf_bound_to_vfio_has_no_interfaces),
		cmocka_unit_test(test_vfs_have_the_numbers_that_their_pf_lists),
		cmocka_unit_test(test_host_without_pci_has_no_functions),
	};

	return T_RUN(tests, NULL, NULL);
}
