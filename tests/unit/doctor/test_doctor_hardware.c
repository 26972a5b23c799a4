/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each check of doctor/hardware.c on a host that has the fault, and on the same host without the
 * fault.
 */
#include "doctor_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/pci/config.h"

static void test_pci_acs_and_read_request_faults_are_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, "hw_eight_ofed.tree");
	ASSERT_EQ(doctor_lab_run(&l, doctor_pci_acs), 8);
	doctor_lab_first_is(&l, "0000:12:04.0", "ACS (control 0x001d)", "'unirail host acs'");
	for (size_t i = 0; i < 8; i++)
		ASSERT_EQ(pci_acs_set(l.f.root, l.found.v[i].subject, 0, NULL), 0);
	ASSERT_EQ(doctor_lab_run(&l, doctor_pci_acs), 0);
	ASSERT_EQ(doctor_lab_run(&l, doctor_pci_read), 8);
	doctor_lab_first_is(&l, "0000:13:00.0", "MaxReadReq is 512",
			    "'unirail host pci --max-read-request 4096'");
	for (size_t i = 0; i < 8; i++)
		ASSERT_EQ(pci_max_read_set(l.f.root, l.found.v[i].subject, 4096, NULL), 0);
	ASSERT_EQ(doctor_lab_run(&l, doctor_pci_read), 0);
	doctor_lab_end(&l);
}

static void test_active_port_without_gid_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids), 0); /* nothing recorded */
	host_write(&l.host, "/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
	host_write(&l.host, "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
		   "0000:0000:0000:0000:0000:0000:0000:0000");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids), 1);
	doctor_lab_first_is(&l, "mlx5_0 port 1", "GID table is empty", "'unirail host addr'");
	host_write(&l.host, "/sys/class/infiniband/mlx5_0/ports/1/gids/3",
		   "0000:0000:0000:0000:0000:ffff:ac10:0102");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_gids), 0);
	doctor_lab_end(&l);
}

static void test_duplicate_guids_and_macs_are_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_guids), 0);
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_macs), 0);
	l.rdma[1].node_guid = l.rdma[0].node_guid;
	l.links[1].mac = l.links[0].mac;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_guids), 1);
	assert_non_null(strstr(l.found.v[0].what, "a088c20300000001"));
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_macs), 1);
	doctor_lab_first_is(&l, "ens2", "that of 'ens1'", "'unirail host vf");
	l.links[0].master = l.links[1].master = 9; /* a bond */
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_macs), 0);
	/* VFs without a configured GUID all have GUID 0, which is no duplicate */
	l.rdma[0].node_guid = l.rdma[1].node_guid = 0;
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_guids), 0);
	doctor_lab_end(&l);
}

static void test_infiniband_port_without_umad_device_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_umad), 0); /* Ethernet needs no umad device */
	strcpy(l.rdma[0].ports[0].link_layer, "InfiniBand");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_umad), 1);
	doctor_lab_first_is(&l, "/dev/infiniband/umad0", "ib_umad", "'unirail host modules'");
	host_write(&l.host, "/dev/infiniband/umad0", "");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rdma_umad), 0);
	doctor_lab_end(&l);
}

static void test_strict_rp_filter_and_managed_rails_are_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	host_write(&l.host, "/proc/sys/net/ipv4/conf/all/rp_filter", "0");
	host_write(&l.host, "/proc/sys/net/ipv4/conf/ens1/rp_filter", "2");
	host_write(&l.host, "/proc/sys/net/ipv4/conf/ens2/rp_filter", "1");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_rp_filter), 1);
	doctor_lab_first_is(&l, "ens2", "strict",
			    "'unirail host sysctl net.ipv4.conf.ens2.rp_filter=2'");
	host_write(&l.host, "/proc/sys/net/ipv4/conf/ens2/rp_filter", "2");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_rp_filter), 0);
	host_write(&l.host, "/run/NetworkManager/devices/2", "[device]\nmanaged=true");
	host_write(&l.host, "/run/NetworkManager/devices/3", "[device]\nmanaged=false");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_managed), 1);
	doctor_lab_first_is(&l, "ens1", "NetworkManager", "'unirail host nm-ignore'");
	host_write(&l.host, "/run/NetworkManager/devices/2", "[device]\nmanaged=false");
	ASSERT_EQ(doctor_lab_run(&l, doctor_rail_managed), 0);
	doctor_lab_end(&l);
}

static void test_missing_gpu_peer_memory_module_is_found(void **state)
{
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l,
			       /* this host's open-source GPU driver needs no nvidia_peermem */
			       "hw_eight_ofed.tree");
	ASSERT_EQ(doctor_lab_run(&l, doctor_gpu_peermem), 0);
	host_write(&l.host, "/proc/driver/nvidia/version",
		   "NVRM version: NVIDIA UNIX x86_64 Kernel Module");
	ASSERT_EQ(doctor_lab_run(&l, doctor_gpu_peermem), 1);
	doctor_lab_first_is(&l, "nvidia_peermem", "not loaded", "'unirail host modules");
	host_write(&l.host, "/sys/module/nvidia_peermem/refcnt", "0");
	ASSERT_EQ(doctor_lab_run(&l, doctor_gpu_peermem), 0);
	doctor_lab_end(&l);
}

#define LIMIT(soft)                                                                                \
	"Limit                     Soft Limit           Hard Limit           Units\n"              \
	"Max locked memory         " soft "              8388608              bytes"

static void test_process_with_a_low_memlock_limit_is_found(void **state)
{
	char path[128];
	struct doctor_lab l;

	(void)state;
	doctor_lab_begin_rails(&l, NULL);
	host_write(&l.host, "/proc/4711/limits", LIMIT("8388608"));
	host_write(&l.host, "/proc/4711/status", "Name:\tpython3\nCapEff:\t00000000a80425fb");
	host_write(&l.host, "/proc/4711/comm", "python3");
	host_write(&l.host, "/proc/4711/fd/0", "");
	ASSERT_EQ(doctor_lab_run(&l, doctor_memlock), 0); /* no RDMA */
	snprintf(path, sizeof(path), "%s/proc/4711/fd/7", l.host.dir);
	ASSERT_EQ(symlink("/dev/infiniband/uverbs0", path), 0);
	ASSERT_EQ(doctor_lab_run(&l, doctor_memlock), 1);
	doctor_lab_first_is(&l, "process 4711 (python3)", "may lock 8192 KiB",
			    "'unirail host memlock'");
	host_write(&l.host, "/proc/4711/status", "Name:\tpython3\nCapEff:\t00000000a80465fb");
	/* CapEff has CAP_IPC_LOCK, so the limit does not apply */
	ASSERT_EQ(doctor_lab_run(&l, doctor_memlock), 0);
	host_write(&l.host, "/proc/4711/status", "Name:\tpython3\nCapEff:\t00000000a80425fb");
	host_write(&l.host, "/proc/4711/limits", LIMIT("unlimited"));
	ASSERT_EQ(doctor_lab_run(&l, doctor_memlock), 0);
	doctor_lab_end(&l);
}

static void test_each_check_reports_a_broken_host_and_not_a_mended_host(void **state)
{
	(void)state;
	doctor_lab_verify("test_doctor_hardware");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pci_acs_and_read_request_faults_are_found),
		cmocka_unit_test(test_active_port_without_gid_is_found),
		cmocka_unit_test(test_duplicate_guids_and_macs_are_found),
		cmocka_unit_test(test_infiniband_port_without_umad_device_is_found),
		cmocka_unit_test(test_strict_rp_filter_and_managed_rails_are_found),
		cmocka_unit_test(test_missing_gpu_peer_memory_module_is_found),
		cmocka_unit_test(test_process_with_a_low_memlock_limit_is_found),
		cmocka_unit_test(test_each_check_reports_a_broken_host_and_not_a_mended_host),
	};

	return T_RUN(tests, NULL, NULL);
}
