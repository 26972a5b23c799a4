# SPDX-License-Identifier: Apache-2.0
"""`unirail rdma` on this kernel, with or without RDMA; with RDMA the output is compared with iproute2's `rdma`."""
import errno
import json
import os
import pathlib
import socket
import subprocess

UNIRAIL = os.environ.get("UNIRAIL") or str(pathlib.Path(__file__).parents[2] / "build" / "unirail")
NETLINK_RDMA = 20


def rdma(*args):
    done = subprocess.run([UNIRAIL, "rdma", *args], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def kernel_has_rdma():
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
    except OSError as e:
        assert e.errno == errno.EPROTONOSUPPORT
        return False
    return True


def peer(*args):
    return json.loads(subprocess.run(["rdma", "-j", *args], capture_output=True, check=True).stdout)


def failed(*args, name=None):
    done = subprocess.run([name or UNIRAIL, *([] if name else ["rdma"]), *args], capture_output=True, text=True, timeout=30)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_rdma_list_has_the_devices_that_iproute2_lists():
    listed = json.loads(rdma("list", "-o", "json"))
    if not kernel_has_rdma():
        assert listed == []
        assert rdma("list").startswith("the kernel has no RDMA")
        return
    assert sorted(d["name"] for d in listed) == sorted(d["ifname"] for d in peer("dev"))
    for d in listed:
        assert d["inVerbs"] or d["notUsableByVerbs"]
    text = rdma("list")
    for d in listed:
        assert d["name"] in text


def test_rdma_mode_prints_the_mode_that_rdma_system_prints():
    mode = json.loads(rdma("mode", "-o", "json"))
    if not kernel_has_rdma():
        assert mode == {"supported": False, "mode": None}
        assert rdma("mode").startswith("the kernel has no RDMA")
        return
    assert rdma("system").startswith(f"netns {mode['mode']} copy-on-fork ")
    assert rdma("mode").startswith(mode["mode"])


def test_rdma_output_equals_that_of_iproute2():
    for arguments in (["dev"], ["link", "show"], ["-jd", "link"], ["sys"], ["stat", "show"], ["-p", "statistic"],
                  ["stat", "qp", "show"], ["-j", "statistic", "qp", "mode"], ["statistic", "mr"]):
        if kernel_has_rdma():
            assert rdma(*arguments) == subprocess.run(["rdma", *arguments], capture_output=True, text=True, check=True).stdout
        else:
            assert failed(*arguments) == (
                1, "unirail rdma: the kernel has no RDMA: module ib_core is not loaded, or the kernel was built without it\n")


def test_unsupported_arguments_are_refused_and_symlink_names_select_the_command(tmp_path):
    for arguments, contains in {
            ("system", "set"): "system: unknown operand 'set', expected 'show'",
            ("link", "add", "rxe0"): "link: unknown operand 'add', expected 'show'",
            ("statistic", "qp", "bind"): "statistic: unknown operand 'bind', expected 'show', 'mode', 'link' or a filter "
                                         "(cntn, lqpn, pid, qp-type)",
            ("statistic", "qp", "show", "cntn"): "statistic: filter 'cntn': no value",
            ("statistic", "qp", "show", "link", "mlx5_0/1", "lqpn", "x"):
                "statistic: filter 'lqpn': 'x' is not a list of numbers like 4,7-9",
            ("statistic", "qp", "mode", "cntn", "4"): "statistic: unknown operand 'cntn', expected only 'link [DEVICE[/PORT]]' after 'mode'",
            ("statistic", "mr", "cntn", "4"): "statistic: unknown operand 'cntn', expected 'show' or the filter mrn",
            ("statistic", "show", "cntn", "4"): "statistic: unknown operand 'cntn', expected 'link', 'qp' or 'mr'",
            ("link", "show", "mlx5_0/x"): "'mlx5_0/x': expected DEVICE or DEVICE/PORT",
            ("dev", "show", "mlx5_0/1"): "'mlx5_0/1': expected a device without a port",
            ("dev", "show", "a", "b"): "unexpected operand 'b'; expected [show [DEVICE]]",
            ("resource",): "unknown command 'resource': expected dev, link, system, statistic, list or mode",
            ("lst",): "unknown command 'lst': expected dev, link, system, statistic, list or mode; did you mean 'list'?",
            ("dev", "-o", "json"): "unknown option '-o': expected --json, --pretty, --details or --help"}.items():
        assert failed(*arguments) == (2, f"unirail rdma: {contains}\n")
    # unirail, called by a symlink named "rdma", is the CNI plugin if CNI_COMMAND is set, and otherwise the command `rdma` of iproute2.
    link = tmp_path / "rdma"
    link.symlink_to(UNIRAIL)
    assert failed("link", "add", name=link) == (2, "unirail rdma: link: unknown operand 'add', expected 'show'\n")
    done = subprocess.run([link], env={"CNI_COMMAND": "VERSION"}, input='{"cniVersion": "1.0.0"}', capture_output=True,
                          text=True, timeout=30)
    assert done.returncode == 0 and "supportedVersions" in done.stdout
    for arguments in (["show_gids"], ["ibdev2netdev"], ["ibstat", "-l"]):
        link = tmp_path / arguments[0]
        link.symlink_to(UNIRAIL)
        done = subprocess.run([link, *arguments[1:]], capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")
