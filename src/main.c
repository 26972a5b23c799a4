/* SPDX-License-Identifier: Apache-2.0 */
/* The applet table, and which row a call means. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cli/cli.h"
#include "cli/demo/demo.h"
#include "cli/install/install.h"
#include "cli/pool/pool.h"
#include "cli/verify/verify.h"
#include "cni/ipam/whereabouts.h"
#include "cni/protocol/cni.h"
#include "controller/controller.h"

#define CNI(fn)                                                                                    \
	static int run_##fn(int argc, char **argv)                                                 \
	{                                                                                          \
		(void)argc, (void)argv;                                                            \
		return cni_run(&cni_##fn);                                                         \
	}
CNI(macvlan)
CNI(ipvlan)
CNI(vlan)
CNI(host_device)
CNI(sriov)
CNI(ipoib)
CNI(ib_sriov)
CNI(coordinator)
CNI(all_in_one)
CNI(multus)
CNI(multus_shim)
CNI(host_local)
CNI(static)
CNI(spiderpool)
CNI(whereabouts)
CNI(tuning)
CNI(sbr)
CNI(loopback)
CNI(ifacer)

/* One name, two callers: a runtime's words are in the environment, a person's are arguments. */
static int run_rdma(int argc, char **argv)
{
	return getenv("CNI_COMMAND") || argc < 2 ? cni_run(&cni_rdma) : rdma_main(argc, argv);
}

#define PLUGIN (APPLET_CNI | APPLET_LINK)
#define IPAM   (PLUGIN | APPLET_IPAM)

static const struct applet table[] = {
	{"unirail-cni", "attach every network of a pod, in one process", run_all_in_one, PLUGIN,
	 NULL, NULL},
	{"multus", "attach every network that a pod's annotations name", run_multus, PLUGIN, NULL,
	 NULL},
	{"multus-shim", "the same, for nodes on which Multus ran as a daemon", run_multus_shim,
	 PLUGIN, NULL, NULL},
	{"macvlan", "give a pod a macvlan interface on a rail's NIC", run_macvlan, PLUGIN, NULL,
	 NULL},
	{"ipvlan", "give a pod an ipvlan interface on a rail's NIC", run_ipvlan, PLUGIN, NULL,
	 NULL},
	{"vlan", "give a pod a VLAN interface on a rail's NIC", run_vlan, PLUGIN, NULL, NULL},
	{"host-device", "move a NIC of the node into a pod", run_host_device, PLUGIN, NULL, NULL},
	{"sriov", "move a virtual function of a NIC into a pod", run_sriov, PLUGIN, NULL, NULL},
	{"ib-sriov", "move a virtual function of an InfiniBand HCA into a pod", run_ib_sriov,
	 PLUGIN, NULL, NULL},
	{"ipoib", "give a pod an IPoIB interface on a rail's HCA", run_ipoib, PLUGIN, NULL, NULL},
	{"coordinator", "set routes, rules and checks so that a pod's rails work side by side",
	 run_coordinator, PLUGIN, NULL, NULL},
	{"tuning", "set sysctls, MAC, MTU and flags of a pod's interface", run_tuning, PLUGIN, NULL,
	 NULL},
	{"sbr", "route a pod's packets by their source address", run_sbr, PLUGIN, NULL, NULL},
	{"rdma", "move a NIC's RDMA device into the pod; and show RDMA devices", run_rdma, PLUGIN,
	 rdma_cmds,
	 "Two in one: the CNI plugin, when a container runtime calls it, and commands that show "
	 "the RDMA devices of this network namespace."},
	{"loopback", "set a pod's loopback up", run_loopback, PLUGIN, NULL, NULL},
	{"ifacer", "make the node's VLAN interfaces and bonds that rails stand on", run_ifacer,
	 PLUGIN, NULL, NULL},
	{"spiderpool", "addresses from pools", run_spiderpool, IPAM, NULL, NULL},
	{"host-local", "addresses from ranges, stored in a directory of this host", run_host_local,
	 IPAM, NULL, NULL},
	{"static", "the addresses that the configuration names", run_static, IPAM, NULL, NULL},
	{"whereabouts", "addresses from ranges, stored per network on this node", run_whereabouts,
	 IPAM, NULL, NULL},

	{"demo", "show a node, its rails and two pods, all in namespaces of its own", demo_main, 0,
	 demo_cmds, NULL},
	{"pool", "show and change address pools", pool_main, 0, pool_cmds, NULL},
	{"agent", "the node's daemon in a cluster: addresses, networks, status", agent_main, 0,
	 agent_cmds,
	 "A node's agent. Pools, pods and networks come from the Kubernetes API server; addresses are "
	 "given out by Spiderpool's agent API and unirail's own on a UNIX socket, from this node's "
	 "part of each pool, without a request to the API server. Pods come and go while it is away.\n\n"
	 "Each setting is an option, a key of the same name in section [agent] of the file, and mostly "
	 "an environment variable; the first that is given counts. A file that changes is read anew; "
	 "what is not valid stays as it was, and the log says where.\n\n"
	 "Signals: HUP reads the settings anew, TERM answers what has been asked and ends."},
	{"controller", "the cluster's daemon: webhooks, networks, pools, clean-up", controller_main,
	 0, controller_cmds,
	 "A Deployment of a replica or more. What users write becomes NetworkAttachmentDefinitions and "
	 "checked objects; one replica, which holds the Lease unirail-controller, changes the "
	 "cluster, and another takes over when it is gone.\n\n"
	 "Each setting is an option, a key of the same name in section [controller] of the file, and "
	 "mostly an environment variable; the first that is given counts. A file that changes is read "
	 "anew; what is not valid stays as it was, and the log says where.\n\n"
	 "Signals: HUP reads the settings anew, TERM lets another replica lead and ends."},
	{"ipam", "allocate addresses to clients of a UNIX socket", ipam_main, 0, ipam_cmds,
	 "A node's IPAM server: Spiderpool's agent API on the socket its plugins expect, over the "
	 "pools and the journal that unirail's own plugins use without it. Both may run side by "
	 "side.\n\n"
	 "Signals: HUP reads pools and settings anew (what is not valid stays as it was, and the log "
	 "says so), TERM answers what has been asked and ends."},
	{"device", "show this node's devices and the pod that owns each", device_main, 0,
	 device_cmds, NULL},
	{"status", "state of this node's agent and its pools", status_main, 0, status_cmds,
	 "Asks this node's agent: whether it can give out addresses and what it waits for, which kinds "
	 "of objects it does not follow now and why, the pools that it has addresses of. Exit status: 0 "
	 "ready, 1 not ready or no agent, 2 a usage error."},
	{"kube", "read objects of the API server with the agent's credentials", kube_main, 0,
	 kube_cmds, NULL},
	{"verify", "test RDMA between two pods or hosts: data, latency, bandwidth", verify_main, 0,
	 verify_cmds,
	 "'unirail verify --listen' on one side, 'unirail verify HOST' on the other. The two talk "
	 "over TCP and then, by a reliable connection of the RDMA device behind the address: write "
	 "(send, read) a pattern and look at every byte of it on the receiving side; send messages "
	 "to and fro, half of whose round trip is the latency; and measure the bandwidth, whose data "
	 "are looked at as well.\n\n"
	 "HOST is the peer's address on the rail to test: both sides then find device, port and GID "
	 "by their own address of the connection. With --all any address of the peer will do.\n\n"
	 "Who can reach the listening port can have tests run, and write into the memory made for "
	 "them; let it listen only as long as it is needed. Exit status: 0 all well, 1 something is "
	 "wrong, 2 a usage error."},
	{"doctor", "diagnose problems of this host, and write a snapshot for a bug report",
	 doctor_main, 0, doctor_cmds,
	 "Looks at RDMA devices, links, PFs and VFs, CNI's folders, pools and what is left of pods, "
	 "and says in a line each what is wrong, where, and what to do. Changes nothing. Exit status: "
	 "0 no problem (notes do not count), 1 problems, 2 a usage error.\n\n"
	 "--snapshot writes the parts of /sys, /proc, /etc, /dev and /var/lib that unirail reads and "
	 "the kernel's answers to its questions into one text file. Tokens, keys, passwords and "
	 "kubeconfigs are left out; host names, interface names and addresses are not. --root FILE "
	 "looks at such a file as if it were this host."},
	{"install", "install the binary and its CNI links into a directory, or remove them",
	 install_main, 0, install_cmds,
	 "Copies this program into the CNI folder under its own name and makes a symbolic link for "
	 "each plugin. Each file appears in one step: a container runtime that calls a plugin at "
	 "that moment gets the old one or the new one.\n\n"
	 "A file that is there and was not made by an earlier install is not touched, unless "
	 "--replace says so; then it is kept as NAME.before-unirail. --keep installs around it. What "
	 "was done is recorded, with digests, in .unirail-install.json in that folder; --uninstall undoes it, puts back what "
	 "was kept, and names what somebody changed since instead of removing it (exit status 1)."},
	{"version", "version, applets and libraries of this binary", version_main, 0, version_cmds,
	 NULL},
	{"help", "help on an applet or a command", help_main, 0, help_cmds, NULL},
	{"man", "man pages, made from the same tables as --help", man_main, 0, man_cmds, NULL},
	{"completion", "completion script for a shell", completion_main, 0, completion_cmds,
	 "bash: source <(unirail completion bash)\n\n"
	 "zsh: unirail completion zsh >DIR/_unirail, where DIR is in $fpath\n\n"
	 "fish: unirail completion fish >~/.config/fish/completions/unirail.fish"},
	{0},
};

static bool is_word(const char *arg, const char *word, const char *letter)
{
	return arg && (strcmp(arg, word) == 0 || strcmp(arg, letter) == 0);
}

static int print_help(const struct applet *a)
{
	struct buf b;
	int status;

	buf_init(&b, HELP_MAX);
	if (a)
		help_applet(a, &b);
	else
		help_list(&b);
	status = opt_print(&b);
	buf_done(&b);
	return status;
}

static int run(const struct applet *a, int argc, char **argv)
{
	/* A runtime's call is in the environment; its arguments mean nothing. */
	bool by_person = !(a->flags & APPLET_CNI) || !getenv("CNI_COMMAND");

	if (by_person && is_word(argv[1], "--help", "-h"))
		return print_help(a);
	if (by_person && (a->flags & APPLET_CNI) && is_word(argv[1], "--version", "-V")) {
		printf("%s: unirail %s\n", a->name, unirail_version());
		return 0;
	}
	return a->run(argc, argv);
}

static int unknown(const char *name)
{
	struct err e = ERR_INIT;

	help_unknown(name, &e);
	fprintf(stderr, "unirail: %s\n", e.text);
	return 127;
}

/* unirail WORD ... */
static int by_word(int argc, char **argv)
{
	static char version[] = "version";
	const struct applet *a;

	if (argc < 2) {
		struct buf b;

		buf_init(&b, HELP_MAX);
		help_list(&b);
		fputs(buf_span(&b).p, stderr);
		buf_done(&b);
		return 2;
	}
	if (is_word(argv[1], "--help", "-h"))
		return print_help(NULL);
	if (is_word(argv[1], "--version", "-V"))
		argv[1] = version;
	a = applet_find(argv[1]);
	return a ? run(a, argc - 1, argv + 1) : unknown(argv[1]);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The reader of a pipe, such as `head`, has had enough: the pipe reports an error or a hang-up. */
static bool reader_is_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

/* A full disk: what people asked for did not arrive, whatever the applet thinks. A closed pipe ends a
 * program silently by SIGPIPE; an applet that ignores SIGPIPE to clean up first has that exit status. */
static int end(int status)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || status != 0)
		return status;
	if (reader_is_gone())
		return 128 + SIGPIPE;
	fputs("unirail: write to stdout: not everything arrived\n", stderr);
	return 1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 0 ? base_name(argv[0]) : "unirail";
	const struct applet *a;

	applets = table;
	a = applet_find(name);
	if (a)
		return end(run(a, argc, argv));
	/* Any copy of the binary, "unirail-1.2" too. */
	if (strncmp(name, "unirail", strlen("unirail")) == 0)
		return end(by_word(argc, argv));
	return unknown(name);
}
