/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed PCI configuration spaces of a switch port with ACS: valid, truncated, and with
 * invalid content. */
#include "host_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/pci/config.h"

#define PORT "0000:3c:04.0"

static struct err e;

static void poke(unsigned char *p, size_t at, unsigned int v)
{
	p[at] = (unsigned char)v;
	p[at + 1] = (unsigned char)(v >> 8);
}

/* Capabilities: PM at 0x40, PCI Express at 0x60; extended: AER at 0x100, ACS at 0x148. */
static void space(unsigned char *p)
{
	memset(p, 0, 4096);
	poke(p, 0x06, 0x10);
	p[0x34] = 0x40;
	poke(p, 0x40, 0x6001);
	poke(p, 0x60, 0x0010);
	/* relaxed ordering, MaxPayload 256 bytes, MaxReadReq 512 bytes */
	poke(p, 0x68, 0x2930);
	poke(p, 0x100, 0x0001);
	poke(p, 0x102, 0x1481);
	poke(p, 0x148, 0x000d);
	poke(p, 0x14a, 0x0001);
	poke(p, 0x14c, 0x005f);
	poke(p, 0x14e, 0x001d);
}

static void put(struct host_lab *h, const unsigned char *p, size_t n)
{
	char path[256];
	auto_fd int fd = -1;

	host_write(h, "/sys/bus/pci/devices/" PORT "/config", "");
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/" PORT "/config", h->dir);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	ASSERT_EQ(write(fd, p, n), (ssize_t)n);
}

/* A host with a switch port whose configuration space is that of space(). */
static void port_open(struct host_lab *h)
{
	unsigned char p[4096];

	host_empty(h);
	space(p);
	put(h, p, sizeof(p));
}

static void test_acs_is_read_and_disabled(void **state)
{
	struct host_lab h;
	struct pci_acs a;

	(void)state;
	port_open(&h);
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), 1);
	ASSERT_EQ(a.capable, 0x5f);
	ASSERT_EQ(a.control, 0x1d);
	ASSERT_EQ(pci_acs_set(&h.root, PORT, 0, &e), 0);
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), 1);
	ASSERT_EQ(a.control, 0);
	ASSERT_EQ(pci_acs_set(&h.root, PORT, 0x1d, &e), 0);
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), 1);
	ASSERT_EQ(a.control, 0x1d);
	host_remove(&h);
}

static void test_read_request_size_and_relaxed_ordering_are_read_and_set(void **state)
{
	struct pci_devctl d;
	struct host_lab h;

	(void)state;
	port_open(&h);
	ASSERT_EQ(pci_devctl_read(&h.root, PORT, &d, &e), 1);
	ASSERT_EQ(d.max_read, 512);
	ASSERT_EQ(d.max_payload, 256);
	assert_true(d.relaxed);
	ASSERT_EQ(pci_max_read_set(&h.root, PORT, 4096, &e), 0);
	ASSERT_EQ(pci_relaxed_set(&h.root, PORT, false, &e), 0);
	ASSERT_EQ(pci_devctl_read(&h.root, PORT, &d, &e), 1);
	ASSERT_EQ(d.max_read, 4096);
	ASSERT_EQ(d.max_payload, 256);
	assert_false(d.relaxed);
	ASSERT_EQ(pci_max_read_set(&h.root, PORT, 4000, &e), -EINVAL);
	assert_non_null(strstr(e.text, "expected 128, 256, 512, 1024, 2048 or 4096"));
	host_remove(&h);
}

static void test_missing_and_circular_capabilities_are_reported(void **state)
{
	unsigned char p[4096];
	struct pci_devctl d;
	struct host_lab h;
	struct pci_acs a;

	(void)state;
	host_empty(&h);
	space(p);
	put(&h, p, 64); /* only the first 64 bytes, as users other than root read them */
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), -EACCES);
	put(&h, p, 256); /* conventional PCI: no extended configuration space */
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), 0);
	ASSERT_EQ(pci_acs_set(&h.root, PORT, 0, &e), -EOPNOTSUPP);
	put(&h, p, 20);
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), -EBADMSG);
	space(p);
	p[0x41] = 0x40; /* a capability that is its own successor */
	poke(p, 0x14a, 0x1001);
	poke(p, 0x148, 0x0002);
	put(&h, p, sizeof(p));
	ASSERT_EQ(pci_devctl_read(&h.root, PORT, &d, &e), -EBADMSG);
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), -EBADMSG);
	memset(p, 0xff, sizeof(p)); /* a function that is no longer on the bus reads as 0xff */
	put(&h, p, sizeof(p));
	ASSERT_EQ(pci_acs_read(&h.root, PORT, &a, &e), 0);
	ASSERT_EQ(pci_acs_read(&h.root, "0000:ff:00.0", &a, &e), -ENOENT);
	host_remove(&h);
}

/*
 * Sets each byte of the capability lists to several values: the parser ends, and reads nothing
 * outside of the configuration space.
 */
static void test_invalid_capability_lists_do_not_crash(void **state)
{
	static const unsigned char values[] = {0, 1, 0x0d, 0x10, 0x40, 0xfc, 0xff};
	static const size_t at[] = {0x06,  0x34,  0x40,	 0x41,	0x60,  0x61,  0x100,
				    0x101, 0x102, 0x103, 0x148, 0x149, 0x14a, 0x14b};
	unsigned char p[4096];
	struct pci_devctl d;
	struct host_lab h;
	struct pci_acs a;

	(void)state;
	host_empty(&h);
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			space(p);
			p[at[i]] = values[k];
			put(&h, p, 0x14e);
			pci_acs_read(&h.root, PORT, &a, NULL);
			pci_devctl_read(&h.root, PORT, &d, NULL);
		}
	}
	host_remove(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acs_is_read_and_disabled),
		cmocka_unit_test(test_read_request_size_and_relaxed_ordering_are_read_and_set),
		cmocka_unit_test(test_missing_and_circular_capabilities_are_reported),
		cmocka_unit_test(test_invalid_capability_lists_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
