/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/nics.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum { CLASS_NETWORK = 0x02, CLASS_DISPLAY = 0x03 };

bool host_is_gpu(const struct pci_dev *d)
{
	/* class 0x03: VGA and 3D controllers of both vendors; class 0x1200: processing
	 * accelerators of AMD */
	return (d->class >> 16 == CLASS_DISPLAY &&
		(d->vendor == PCI_VENDOR_NVIDIA || d->vendor == PCI_VENDOR_AMD)) ||
	       (d->class >> 8 == 0x1200 && d->vendor == PCI_VENDOR_AMD);
}

static bool makes_rdma(const char *driver)
{
	static const char *const drivers[] = {"mlx5_core", "mlx4_core", "bnxt_en", "ice", "hns3"};

	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (!strcmp(driver, drivers[i]))
			return true;
	return false;
}

static void first_child(const struct root *r, const char *bdf, enum pci_child what, char *ret,
			size_t size)
{
	char **names = NULL;
	size_t n = 0;

	ret[0] = '\0';
	if (pci_children(r, bdf, what, &names, &n, NULL) < 0)
		return;
	if (n)
		str_copy(ret, size, names[0]);
	str_list_free(names, n);
}

static bool is_infiniband(const struct root *r, const struct host_nic *nic)
{
	auto_free char *path = xasprintf("/sys/class/infiniband/%s/ports/1/link_layer", nic->rdma);
	char line[16];

	if (nic->rdma[0] && file_read_line(r, path, line, sizeof(line), NULL) == 0)
		return !strcmp(line, "InfiniBand");
	return nic->pci.class >> 8 == 0x0207;
}

static bool near_gpu(const struct root *r, const char *bdf, const struct pci_path *gpus, size_t n)
{
	struct pci_path path;

	if (pci_path_read(r, bdf, &path, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (pci_path_common(&path, &gpus[i]) >= 1)
			return true;
	return false;
}

static struct pci_path *gpu_paths(const struct root *r, const struct pci_dev *all, size_t n_all,
				  size_t *n)
{
	struct pci_path *list = NULL, path;

	*n = 0;
	for (size_t i = 0; i < n_all; i++)
		if (host_is_gpu(&all[i]) && pci_path_read(r, all[i].bdf, &path, NULL) == 0)
			VEC_PUSH(list, *n) = path;
	return list;
}

static bool is_nic(const struct root *r, const struct pci_dev *d)
{
	char name[PCI_NAME_MAX];

	if (d->class >> 16 != CLASS_NETWORK)
		return false;
	first_child(r, d->bdf, PCI_RDMA, name, sizeof(name));
	return name[0] || makes_rdma(d->driver);
}

int host_nics_read(struct host *h, struct host_nic **ret, size_t *n, struct err *e)
{
	auto_free struct pci_dev *all = NULL;
	auto_free struct pci_path *gpus = NULL;
	size_t n_all = 0, n_gpus;
	int r;

	*ret = NULL;
	*n = 0;
	/* The list is empty: the machine has no PCI, or the root is the file system of a host that
	 * does not run. */
	if (!file_exists(&h->root, "/sys/bus/pci/devices"))
		return 0;
	r = pci_list(&h->root, &all, &n_all, e);
	if (r < 0)
		return r;
	gpus = gpu_paths(&h->root, all, n_all, &n_gpus);
	for (size_t i = 0; i < n_all; i++) {
		struct host_nic nic = {.pci = all[i]};

		if (!is_nic(&h->root, &all[i]))
			continue;
		first_child(&h->root, nic.pci.bdf, PCI_NETDEV, nic.netdev, sizeof(nic.netdev));
		first_child(&h->root, nic.pci.bdf, PCI_RDMA, nic.rdma, sizeof(nic.rdma));
		nic.infiniband = is_infiniband(&h->root, &nic);
		nic.gpu = near_gpu(&h->root, nic.pci.bdf, gpus, n_gpus);
		VEC_PUSH(*ret, *n) = nic;
	}
	return 0;
}

bool host_nic_is_vf(const struct host_nic *nic)
{
	return nic->pci.physfn[0] != '\0';
}

const char *host_nic_name(const struct host_nic *nic)
{
	return nic->netdev[0] ? nic->netdev : nic->rdma[0] ? nic->rdma : nic->pci.bdf;
}

static bool has_name(const struct host_nic *nic, struct span name)
{
	return name.n && (span_eq(name, nic->netdev) || span_eq(name, nic->rdma) ||
			  span_eq(name, nic->pci.bdf));
}

bool host_nic_listed(const struct host_nic *nic, const char *list)
{
	struct span rest = span_of(list), name;

	while (span_cut(&rest, ',', &name))
		if (has_name(nic, span_trim(name)))
			return true;
	return false;
}

static int not_there(const struct host_nic *nics, size_t n, const char *key, struct span name,
		     struct err *e)
{
	auto_free const char **names = xcalloc(2 * n + 1, sizeof(*names));
	auto_free char *word = span_dup(name);
	const char *near;
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (nics[i].netdev[0])
			names[k++] = nics[i].netdev;
		if (nics[i].rdma[0])
			names[k++] = nics[i].rdma;
	}
	near = opt_suggest(word, names, k);
	return err_kind(e, ERR_CONF, -ENODEV, "%s%sthis host has no RDMA NIC '%s'%s%s%s", key,
			*key ? ": " : "", word, near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

int host_nics_check_list(const struct host_nic *nics, size_t n, const char *key, const char *list,
			 struct err *e)
{
	struct span rest = span_of(list), name;

	while (span_cut(&rest, ',', &name)) {
		bool found = false;

		name = span_trim(name);
		for (size_t i = 0; i < n && !found; i++)
			found = has_name(&nics[i], name);
		if (name.n && !found)
			return not_there(nics, n, key, name, e);
	}
	return 0;
}

/* --- programs --- */

static bool find_program(const struct host *h, const char *name, char *path, size_t size)
{
	static const char *const dirs[] = {"/usr/sbin", "/usr/bin", "/sbin", "/bin"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, size, "%s/%s", dirs[i], name);
		if (file_exists(&h->root, path))
			return true;
	}
	return false;
}

bool host_has_program(const struct host *h, const char *name)
{
	char path[128];

	return find_program(h, name, path, sizeof(path));
}

/* Runs in the child, so it makes only async-signal-safe calls. */
static void __attribute__((noreturn))
become(const struct host *h, const char *path, char *const argv[], int out)
{
	static char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	int null = open("/dev/null", O_RDONLY);

	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (h->root.host || (fchdir(h->root.fd) == 0 && chroot(".") == 0))
		execve(path, argv, env);
	_exit(127);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the program has closed its output or timeout_ms have passed (-ETIMEDOUT). Drops
 * output that does not fit into `out`. */
static int collect(int fd, struct buf *out, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - now_ms();
		char text[4096];
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		n = read(fd, text, sizeof(text));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			buf_add(out, text, (size_t)n);
	}
}

int host_run(struct host *h, char *const argv[], struct buf *out, int timeout_ms, struct err *e)
{
	char path[128];
	int fds[2], status = 0, r;
	pid_t pid;

	if (!find_program(h, argv[0], path, sizeof(path)))
		return err_kind(e, ERR_UNAVAILABLE, -ENOENT,
				"run '%s': the host has no such program", argv[0]);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "run '%s'", argv[0]);
	pid = fork();
	if (pid == 0)
		become(h, path, argv, fds[1]);
	close(fds[1]);
	r = pid < 0 ? -errno : collect(fds[0], out, timeout_ms);
	close(fds[0]);
	if (pid > 0 && r < 0)
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_sys(e, r, "run '%s'", argv[0]);
	if (!WIFEXITED(status))
		return err_set(e, -EINTR, "run '%s': killed by signal %d", argv[0],
			       WTERMSIG(status));
	return WEXITSTATUS(status);
}
