# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration that an agent generates, and keeps up to date in a directory that other programs also write to."""
import json
import os
import subprocess

import pytest

from cluster import BINARY, wait

NAME = "0-unirail.conflist"
CALICO = {"cniVersion": "0.3.1", "name": "k8s-pod-network", "plugins": [
    {"type": "calico"}, {"type": "portmap", "capabilities": {"portMappings": True}}]}


@pytest.fixture
def net_d(tmp_path):
    folder = tmp_path / "net.d"
    folder.mkdir()
    (folder / "10-calico.conflist").write_text(json.dumps(CALICO))
    return folder


@pytest.fixture
def writer(agent, net_d):
    """An agent that generates the CNI configuration in the directory net_d."""
    return lambda *args, **kw: agent(args=("--cni-conf-name", NAME, "--cni-conf-dir", net_d, *args), **kw)


def candidate(net_d):
    return json.loads((net_d / NAME).read_text())


def wraps(net_d, name):
    def does():
        written = (net_d / NAME).exists()
        return written and candidate(net_d)["plugins"][0]["clusterNetwork"] == str(net_d / name)
    wait(does, f"the generated configuration contains the network of {name}")


def event_messages(mine, reason):
    """Messages of the events of node n1 with this reason."""
    return [e["message"] for e in mine.ok("GET", "/api/v1/namespaces/default/events")["items"]
            if e["reason"] == reason and e["involvedObject"]["kind"] == "Node" and e["involvedObject"]["name"] == "n1"]


def status(a):
    p = subprocess.run([BINARY, "status", "--socket", a.socket], capture_output=True, text=True)
    return p.returncode, p.stdout


def others(net_d):
    return {p.name: p.read_bytes() for p in net_d.iterdir() if p.name != NAME and p.is_file()}


def test_generated_configuration_wraps_the_cluster_network(writer, net_d):
    before = others(net_d)
    a = writer()
    assert candidate(net_d) == {
        "cniVersion": "0.3.1", "name": "unirail", "unirail.io/generated": True, "plugins": [{
            "type": "unirail-cni", "capabilities": {"portMappings": True}, "agent": str(a.socket),
            "clusterNetwork": str(net_d / "10-calico.conflist"), "confDir": str(net_d)}]}
    code, text = status(a)
    assert code == 0 and f"the container runtime uses CNI configuration {NAME}, which wraps 10-calico.conflist" in text
    assert a.metrics()["unirail_cni_config_used"] == 1
    assert others(net_d) == before


def test_generated_configuration_follows_a_changed_cluster_network(writer, net_d):
    a = writer()
    (net_d / "tmp").write_text(json.dumps({"cniVersion": "1.0.0", "name": "cilium", "plugins": [{"type": "cilium-cni"}]}))
    os.rename(net_d / "tmp", net_d / "05-cilium.conflist")
    wraps(net_d, "05-cilium.conflist")
    assert candidate(net_d)["cniVersion"] == "1.0.0" and "capabilities" not in candidate(net_d)["plugins"][0]
    (net_d / "05-cilium.conflist").unlink()
    wraps(net_d, "10-calico.conflist")
    (net_d / NAME).unlink()  # as a user may do by mistake
    wraps(net_d, "10-calico.conflist")
    # Neither a file of another program nor a restart of the agent causes a write.
    before = os.stat(net_d / NAME)
    (net_d / "calico-kubeconfig").write_text("x")
    a.stop()
    writer()
    assert os.stat(net_d / NAME).st_ino == before.st_ino


def test_configuration_is_written_when_a_network_is_added(writer, net_d):
    (net_d / "10-calico.conflist").unlink()
    a = writer()  # the agent is ready without a cluster network: the Node's condition Ready reports the missing network
    assert not (net_d / NAME).exists()
    assert "is written as soon as there is one" in status(a)[1]
    (net_d / "10-calico.conflist").write_text(json.dumps(CALICO))
    wraps(net_d, "10-calico.conflist")
    wait(lambda: status(a)[1].count("as soon as") == 0, "unirail status no longer reports a missing configuration")


def test_configuration_of_another_program_that_sorts_first_is_reported(writer, net_d, mine):
    """The agent reports the file in its log, an event and its readiness; once the file is removed, the event CNIConfigUsed is created."""
    (net_d / "0-aa.conf").write_text('{"cniVersion": "1.0.0", "name": "aa", "type": "bridge"}')
    a = writer(ready=False)
    reason = f"the container runtime uses '{net_d}/0-aa.conf', not '{NAME}': pods get no rails"
    wait(lambda: reason in a.get(a.health, "/readyz")[1], f"the agent's readiness reports '{reason}'")
    assert a.get(a.health, "/readyz")[0] == 503
    code, text = status(a)
    assert code == 1 and reason in text
    wait(lambda: any(reason in m for m in event_messages(mine, "CNIConfigNotUsed")), f"an event CNIConfigNotUsed reports '{reason}'")
    assert a.logged("CNI configuration")[0]["reason"].startswith(reason)
    assert a.metrics()["unirail_cni_config_used"] == 0
    (net_d / "0-aa.conf").unlink()
    a.ready()
    wait(lambda: event_messages(mine, "CNIConfigUsed"), "an event CNIConfigUsed is created")
    assert a.metrics()["unirail_cni_config_used"] == 1


def test_repeatedly_removed_configuration_is_reported(writer, net_d, mine):
    """Another program removes the file, as Cilium does with cni.exclusive=true: the agent writes it again at growing intervals, and an
    event names the remedy."""
    a = writer()
    for _ in range(4):
        wait(lambda: (net_d / NAME).exists(), "the agent writes its configuration again", 20)
        os.rename(net_d / NAME, net_d / (NAME + ".cilium_bak"))
    wait(lambda: any("cni.exclusive=false" in m for m in event_messages(mine, "CNIConfigNotUsed")),
         "an event names the setting cni.exclusive=false", 20)
    assert "cni.exclusive=false" in status(a)[1]
    wraps(net_d, "10-calico.conflist")


def test_configuration_written_by_hand_stays(writer, net_d):
    """The agent also leaves a file written by hand that is not the first of the directory; its readiness then reports that the runtime
    uses another file."""
    hand = net_d / "05-hand.conflist"
    hand.write_text(json.dumps({"cniVersion": "1.0.0", "name": "h", "plugins": [{"type": "unirail-cni", "agent": "/x"}]}))
    before = others(net_d)
    a = writer()
    assert not (net_d / NAME).exists() and others(net_d) == before
    os.rename(hand, net_d / "50-hand.conflist")
    wait(lambda: a.get(a.health, "/readyz")[0] == 503, "the agent is not ready")
    assert "written by hand" in a.get(a.health, "/readyz")[1] and not (net_d / NAME).exists()


def test_unwritable_directory_is_reported(writer, net_d, mine, closing, tmp_path):
    """The error names the mount as the remedy; the file is written once the directory is writable."""
    subprocess.run(["chattr", "+i", net_d], check=True)
    try:
        a = writer(ready=False)
        wait(lambda: "writable into the agent's pod" in a.get(a.health, "/readyz")[1],
             "the agent's readiness reports that the directory is not writable")
        assert not (net_d / NAME).exists()
    finally:
        subprocess.run(["chattr", "-i", net_d], check=True)
    (net_d / "touch").write_text("")
    a.ready()
    wraps(net_d, "10-calico.conflist")


def test_uninstall_removes_the_configuration(writer, net_d, tmp_path):
    """`unirail install --uninstall` refuses while the agent runs, since the agent would write the file again; when the agent is stopped,
    the command removes only unirail's file."""
    before = others(net_d)
    a = writer()
    uninstall = [BINARY, "install", "--uninstall", "--socket", a.socket, "--cni-conf-dir", net_d, tmp_path / "bin"]
    p = subprocess.run(uninstall, capture_output=True, text=True)
    assert p.returncode == 1 and "stop it first" in p.stderr and (net_d / NAME).exists()
    a.stop()
    p = subprocess.run(uninstall, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert not (net_d / NAME).exists() and others(net_d) == before


def test_empty_configuration_name_removes_the_generated_configuration(net_d, tmp_path):
    """If UNIRAIL_CNI_CONF_NAME, which agent.yaml sets for both containers, is empty, `unirail install` removes the file that it wrote
    earlier."""
    before = others(net_d)
    for name in (NAME, ""):
        p = subprocess.run([BINARY, "install", "--cni-conf-dir", net_d, tmp_path / "bin"], capture_output=True, text=True,
                           env={**os.environ, "UNIRAIL_CNI_CONF_NAME": name})
        assert p.returncode == 0 and p.stderr == "", p
        assert (net_d / NAME).exists() == bool(name) and others(net_d) == before
