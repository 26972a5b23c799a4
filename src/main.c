/* SPDX-License-Identifier: Apache-2.0 */
/* The table of applets, and the choice of the applet that a call of the program runs. */
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/nri/nri.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/demo/demo.h"
#include "cli/host.h"
#include "cli/install/install.h"
#include "cli/manifests/manifests.h"
#include "cli/migrate/main.h"
#include "cli/pool/pool.h"
#include "cli/reference.h"
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
CNI(multi)
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

/* Runs the CNI plugin if a container runtime calls (CNI_COMMAND is set) or there are no arguments,
 * otherwise the tool that shows RDMA devices. */
static int run_rdma(int argc, char **argv)
{
	return getenv("CNI_COMMAND") || argc < 2 ? cni_run(&cni_rdma) : rdma_main(argc, argv);
}

#define PLUGIN (APPLET_CNI | APPLET_LINK)
#define IPAM   (PLUGIN | APPLET_IPAM)

static const struct applet table[] = {
	{"unirail-cni", "attach every network of a pod, in one process", run_multi, PLUGIN, NULL,
	 NULL},
	{"multus", "attach every network that a pod's annotations name", run_multus, PLUGIN, NULL,
	 NULL},
	{"multus-shim",
	 "attach every network that a pod's annotations name; replaces the shim of Multus' daemon",
	 run_multus_shim, PLUGIN, NULL, NULL},
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
	{"rdma", "move a NIC's RDMA device into the pod, or show RDMA devices", run_rdma, PLUGIN,
	 rdma_cmds,
	 "Both a CNI plugin, when a container runtime calls it, and a tool that shows the RDMA "
	 "devices of this network namespace."},
	{"loopback", "set the loopback interface of a pod up", run_loopback, PLUGIN, NULL, NULL},
	{"ifacer", "create the node's VLAN interfaces and bonds that rails use", run_ifacer, PLUGIN,
	 NULL, NULL},
	{"spiderpool", "addresses from pools", run_spiderpool, IPAM, NULL, NULL},
	{"host-local", "addresses from ranges, stored in a directory of this host", run_host_local,
	 IPAM, NULL, NULL},
	{"static", "addresses listed in the network configuration", run_static, IPAM, NULL, NULL},
	{"whereabouts", "addresses from ranges, stored per network on this node", run_whereabouts,
	 IPAM, NULL, NULL},

	{"demo", "demonstrate a node, its rails and two pods in network namespaces", demo_main, 0,
	 demo_cmds, NULL},
	{"pool", "show and change address pools", pool_main, 0, pool_cmds, NULL},
	{"agent", "daemon of a node: addresses, networks and status in a cluster", agent_main, 0,
	 agent_cmds,
	 "The agent of a node. It reads pools, pods and networks from the Kubernetes API server, "
	 "and answers requests for addresses on a UNIX socket, through Spiderpool's agent API "
	 "and unirail's own API. The addresses are from this node's part of each pool, so pods "
	 "can be created and deleted while the API server is unavailable.\n\nEach setting is an "
	 "option, usually an environment variable, and a key of the same name in section [agent] "
	 "of the settings file; the first of these that is given applies. A file that changes is "
	 "read again; an invalid value is not applied, and the log has its location.\n\nSignals: "
	 "HUP reads the settings again; TERM answers pending requests and exits."},
	{"controller", "daemon of a cluster: webhooks, networks, pools, garbage collection",
	 controller_main, 0, controller_cmds,
	 "Runs as a Deployment with one or more replicas. It validates the objects that users "
	 "write and creates NetworkAttachmentDefinitions from them. One replica, the leader by the "
	 "Lease unirail-controller, changes the cluster; another replica takes over if it fails.\n\n"
	 "Each setting is an option, usually an environment variable, and a key of the same name "
	 "in section [controller] of the settings file; the first of these that is given "
	 "applies. A file that changes is read again; an invalid value is not applied, and the log "
	 "has its location.\n\n"
	 "Signals: HUP reads the settings again; TERM releases the Lease and exits."},
	{"ipam", "allocate addresses to clients of a UNIX socket", ipam_main, 0, ipam_cmds,
	 "The IPAM server of a node: Spiderpool's agent API on the socket that its plugins "
	 "expect, with the pools and the journal that unirail's own plugins use without a "
	 "server. Plugins that use the server can run on the same node as plugins without "
	 "it.\n\nSignals: HUP reads the pool files and the coordinator's settings again (if they "
	 "are invalid, the log has the error and the previous ones stay in use); TERM answers "
	 "pending requests and exits."},
	{"nri", "NRI plugin of the container runtime: memlock limit and variables for RDMA",
	 nri_main, 0, nri_cmds,
	 "A plugin for the NRI of the container runtime, for nodes without the agent: the agent "
	 "includes it. A container with /dev/infiniband/uverbsN, whether it runs as root or not, "
	 "gets unlimited locked memory (default of --rdma-memlock) and the variables of NCCL, "
	 "UCX, NVSHMEM and Gloo for the RDMA devices of its pod's rails. Variables that the "
	 "container sets itself are not changed.\n\ncontainerd (with NRI enabled; 2.0 and later: "
	 "by default) and CRI-O start it from /opt/nri/plugins/10-unirail."},
	{"memlock-hook", "hook of CDI: memlock limit of a container with RDMA devices",
	 memlock_hook_main, 0, memlock_hook_cmds,
	 "A createRuntime hook of the OCI runtime specification. 'unirail device-plugin --use-cdi "
	 "--memlock-hook PATH' writes it into the CDI specification of RDMA resources, for container "
	 "runtimes without NRI."},
	{"device-plugin", "advertise RDMA devices and VFs to the kubelet", device_plugin_main, 0,
	 device_plugin_cmds,
	 "The device plugins, for nodes without the agent: the agent includes them. Reads one or "
	 "more configurations of the RDMA shared device plugin (configList) and of the SR-IOV "
	 "network device plugin (resourceList); a change of the files applies at once. Without a "
	 "configuration, resources are named by rail: 'unirail device plan' prints them.\n\n"
	 "Called as k8s-rdma-shared-dp or sriovdp it accepts the flags of those programs.\n\n"
	 "Signals: HUP reads configurations and devices again; TERM removes the sockets and exits."},
	{"k8s-rdma-shared-dp", "device-plugin with the flags of the RDMA shared device plugin",
	 shared_dp_main, 0, NULL, NULL},
	{"sriovdp", "device-plugin with the flags of the SR-IOV network device plugin",
	 sriovdp_main, 0, NULL, NULL},
	{"device", "show this node's devices and the pod that owns each", device_main, 0,
	 device_cmds, NULL},
	{"status", "state of this node's agent and its pools", status_main, 0, status_cmds,
	 "Shows the state that this node's agent reports: whether it can allocate addresses and "
	 "what it waits for, which kinds of objects it cannot watch and the reason, and the pools "
	 "of which it has addresses. Exit status: 0 ready, 1 not ready or no agent, 2 a usage "
	 "error."},
	{"ibdev2netdev", "interfaces of RDMA devices, as mlnx-tools prints them", ibdev2netdev_main,
	 0, ibdev2netdev_cmds, NULL},
	{"ibstat", "state of RDMA devices and ports, as infiniband-diags prints it", ibstat_main, 0,
	 ibstat_cmds, NULL},
	{"show_gids", "GIDs of RDMA devices, as mlnx-tools prints them", show_gids_main, 0,
	 show_gids_cmds, NULL},
	{"kube", "read objects of the API server with the agent's credentials", kube_main, 0,
	 kube_cmds, NULL},
	{"verify", "test RDMA between two pods or hosts: data, latency, bandwidth", verify_main, 0,
	 verify_cmds,
	 "Run 'unirail verify --listen' on one side and 'unirail verify HOST' on the other. The "
	 "two sides connect over TCP and test a reliable connection (RC) between their RDMA "
	 "devices: they write (send, read) a pattern and verify every byte on the receiving side; "
	 "send messages back and forth, with half of the round trip as latency; and measure the "
	 "bandwidth, whose data are verified as well.\n\nHOST is the peer's address on the rail to "
	 "test: each side finds device, port and GID by its own address of the connection. With "
	 "--all HOST may be any address of the peer.\n\nEvery host that can reach the listening "
	 "port can run tests and write into the memory that is allocated for them: listen only as "
	 "long as needed. Exit status: 0 success, 1 a test failed, 2 a usage error."},
	{"doctor", "diagnose problems of this host, and write a snapshot for a bug report",
	 doctor_main, 0, doctor_cmds,
	 "Checks RDMA devices, links, PFs, VFs, pools, the directories of CNI, and resources that "
	 "deleted pods left behind. Each problem is one line: what is wrong, where, and the "
	 "remedy. Only --fix changes anything. Exit status: 0 no problem (notes are not problems), "
	 "1 problems, 2 a usage error.\n\n--snapshot writes the parts of /sys, /proc, /etc, /dev "
	 "and /var/lib that unirail reads, and the kernel's answers to netlink requests, into one "
	 "text file. Tokens, keys, passwords and kubeconfigs are left out; host names, interface "
	 "names and addresses are not. --root FILE checks such a file instead of this host."},
	{"lint", "validate pools, networks and workloads in manifests, without a cluster",
	 lint_main, 0, lint_cmds,
	 "Reads manifests (YAML or JSON; several documents and Lists; '-': standard input) and "
	 "validates them with the same code as the controller's webhooks, each object against "
	 "the others. It reports pools, subnets and reserved addresses that overlap, networks "
	 "that name pools that are missing, pods and templates of pods that name networks, pools "
	 "or groups that are missing, or request too few devices. Exit status: 0 no errors "
	 "(warnings are not errors), 1 errors or a file that cannot be read, 2 a usage error."},
	{"host", "prepare this host for RDMA: show, plan, apply and undo each step", host_main, 0,
	 host_cmds,
	 "The requested state (/etc/unirail/host.conf, the files of /etc/unirail/host.d, or the "
	 "options of one command) is compared with the present one: each difference is a step. A "
	 "step is shown with the present value, the requested value and the equivalent command. "
	 "'apply' executes the steps and records each in a journal; 'undo' restores the values "
	 "found before, also after a crash. A second apply changes nothing.\n\n'unirail host "
	 "KIND' applies the steps of one kind that its options request and writes the options to "
	 "/etc/unirail/host.d; without options, or with 'q', it shows the present values. Exit "
	 "status: 0 nothing to do or everything done, 1 a failure, 2 a usage error, 3 a plan has "
	 "steps or steps are blocked."},
	{"install", "install the binary and its CNI links into a directory, or remove them",
	 install_main, 0, install_cmds,
	 "Copies this program into the directory of CNI plugins under its own name and creates a "
	 "symbolic link for each plugin. Each file is replaced in one step: a container runtime "
	 "that calls a plugin at that moment gets the old or the new one.\n\nAn existing file "
	 "that was not installed by unirail is not changed, unless --replace is given: then it "
	 "is renamed to NAME.before-unirail. With --skip-existing such a file stays, and the "
	 "other names are installed. The installation is recorded, with digests, in "
	 ".unirail-install.json in that directory. --uninstall removes what was installed and "
	 "restores the replaced files; a file that was changed since is reported and not removed "
	 "(exit status 1)."},
	{"manifests", "print the manifests that install unirail", manifests_main, 0, manifests_cmds,
	 "Prints what 'kubectl apply' needs to install this version in a cluster: definitions, "
	 "agent and controller, as the Helm chart renders them with the same values. "
	 "deploy/chart/README.md lists the values. For each value without an effect it prints a "
	 "note on standard error. Exit status: 0 success, 1 a failure, 2 a usage error or an "
	 "invalid value."},
	{"migrate", "move a cluster from Spiderpool and Multus to unirail", migrate_main, 0,
	 migrate_cmds,
	 "Reads the objects of Spiderpool, Multus and their device plugins in a cluster and shows "
	 "the steps to unirail, each with the present state, the state afterwards, the equivalent "
	 "command and the one that reverses it. 'apply' carries them out, node by node: running "
	 "pods keep their interfaces and addresses. 'undo' returns the cluster to Spiderpool and "
	 "Multus. State that cannot be migrated unchanged is refused, with the remedy. "
	 "deploy/README.md describes the steps.\n\nThe state of the migration is stored in the "
	 "cluster: after a command was killed, run it again, from any machine. Exit status: 0 "
	 "nothing to do or all done, 1 a failure or refused, 2 a usage error, 3 a plan has steps."},
	{"version", "version, applets and libraries of this binary", version_main, 0, version_cmds,
	 NULL},
	{"help", "help on an applet or a command", help_main, 0, help_cmds, NULL},
	{"man", "man pages, generated from the tables of --help", man_main, 0, man_cmds, NULL},
	{"completion", "completion script for a shell", completion_main, 0, completion_cmds,
	 "bash: source <(unirail completion bash)\n\n"
	 "zsh: unirail completion zsh >DIR/_unirail, where DIR is in $fpath\n\n"
	 "fish: unirail completion fish >~/.config/fish/completions/unirail.fish"},
	{0},
};

/* the plugins whose netconf keys are listed by help and man pages */
static const struct cni_plugin *const plugins[] = {
	&cni_macvlan, &cni_ipvlan,     &cni_vlan,	 &cni_host_device,
	&cni_sriov,   &cni_ipoib,      &cni_ib_sriov,	 &cni_coordinator,
	&cni_multi,   &cni_multus,     &cni_multus_shim, &cni_host_local,
	&cni_static,  &cni_spiderpool, &cni_whereabouts, &cni_tuning,
	&cni_sbr,     &cni_loopback,   &cni_ifacer,	 &cni_rdma,
	NULL};

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
	/*
	 * Ignores the arguments if a container runtime calls, because a runtime passes everything
	 * in the environment and on stdin.
	 */
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

/* Runs `unirail APPLET ...`. */
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

/* Returns whether the reader of stdout, such as `head`, has closed the pipe: POLLERR or POLLHUP. */
static bool reader_has_closed(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

/*
 * Returns 1 instead of 0 if output was lost, for instance on a full disk. If the reader has closed
 * the pipe, returns 128 + SIGPIPE without a message: the exit status that a shell reports for an
 * applet that does not ignore SIGPIPE.
 */
static int end(int status)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || status != 0)
		return status;
	if (reader_has_closed())
		return 128 + SIGPIPE;
	fputs("unirail: write to stdout: the output is incomplete\n", stderr);
	return 1;
}

/* Returns whether the container runtime has started this program as an NRI plugin: NRI_FD_VARIABLE
 * is set, and the name is like "10-unirail". */
static bool is_nri_name(const char *name)
{
	return getenv(NRI_FD_VARIABLE) && isdigit((unsigned char)name[0]) &&
	       isdigit((unsigned char)name[1]) && name[2] == '-';
}

int main(int argc, char **argv)
{
	const char *name = argc > 0 ? path_base(argv[0]) : "unirail";
	const struct applet *a;

	applets = table;
	reference_plugins = plugins;
	a = applet_find(name);
	if (!a || !(a->flags & APPLET_CNI))
		host_cmds_init();
	if (!a && is_nri_name(name))
		a = applet_find("nri");
	if (a)
		return end(run(a, argc, argv));
	/* the binary's own name, which may have a suffix: "unirail-1.2" */
	if (strncmp(name, "unirail", strlen("unirail")) == 0)
		return end(by_word(argc, argv));
	return unknown(name);
}
