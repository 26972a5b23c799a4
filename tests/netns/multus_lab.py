# SPDX-License-Identifier: Apache-2.0
"""Multus' side of a pod: its delegates run with Debian's plugins, and the files it keeps of them."""
import base64
import json

from lab import THEIRS


def generic(conf):
    """What Conf and ConfList hold: the keys that all plugins have."""
    return {**{k: conf[k] for k in ("cniVersion", "name", "type") if k in conf},
            "ipam": {"type": conf["ipam"]["type"]} if conf.get("ipam") else {}, "dns": {}}


def delegate(conf, head=False, **requests):
    """An element of the scratch file; requests are ifnameRequest, deviceID... 4.3.0 has one object
    more than HEAD."""
    is_list = "plugins" in conf
    lists = {k: conf[k] for k in ("cniVersion", "name") if is_list and k in conf}
    lists["plugins"] = [generic(p) for p in conf["plugins"]] if is_list else None
    more = {} if head else {"CNINetworkConfigList": {"Name": "", "CNIVersion": "", "Plugins": None, "Bytes": None}}
    return {"Conf": {"ipam": {}, "dns": {}} if is_list else generic(conf), "ConfList": lists, **more,
            "Name": conf["name"], **requests, "IsFilterV4Gateway": False, "IsFilterV6Gateway": False,
            "Bytes": base64.b64encode(json.dumps(conf).encode()).decode()}


def chain(verb, lab, confs, pod, by, name="net", version="1.0.0", prev=None, **kw):
    """A plugin list as libcni runs it, by the plugins of a folder. ADD returns the last result."""
    for p in reversed(confs) if verb == "DEL" else confs:
        conf = {**p, "cniVersion": version, "name": name, **({"prevResult": prev} if prev is not None else {})}
        if verb == "ADD":
            prev = lab.add(conf, pod, plugins=by, **kw)
        else:
            lab.ok(verb, conf, pod, plugins=by, **kw)
    return prev


class Multus:
    """The state in `folder`, as its cniDir."""

    def __init__(self, lab, folder, head=False):
        self.lab, self.folder, self.head = lab, folder, head
        (folder / "results").mkdir(parents=True)

    def scratch(self, pod):
        return self.folder / pod.id

    def cached(self, pod, name, ifname):
        return self.folder / "results" / f"{name}-{pod.id}-{ifname}"

    def files(self, pod):
        return sorted(p.name for p in self.folder.rglob("*") if pod.id in p.name)

    def add(self, pod, *confs, master="eth0", requests=None, run=True):
        """ADD of every delegate, and its files. requests: {index: {...}}."""
        requests = requests or {}
        delegates = [delegate(c, self.head, **requests.get(i, {})) for i, c in enumerate(confs)]
        self.scratch(pod).write_text(json.dumps(delegates, separators=(",", ":")))
        for i, conf in enumerate(confs):
            ifname = requests.get(i, {}).get("ifnameRequest") or (f"net{i}" if i else master)
            if run:
                self.add_one(pod, conf, ifname)

    def add_one(self, pod, conf, ifname):
        result = chain("ADD", self.lab, conf.get("plugins", [conf]), pod, THEIRS, conf["name"],
                       conf.get("cniVersion", "1.0.0"), ifname=ifname)
        entry = {"kind": "cniCacheV1", "containerId": pod.id,
                 "config": base64.b64encode(json.dumps(conf).encode()).decode(), "ifName": ifname,
                 "networkName": conf["name"], "netns": pod.netns,
                 "cniArgs": [["IgnoreUnknown", "true"], ["K8S_POD_NAME", pod.name]], "result": result}
        self.cached(pod, conf["name"], ifname).write_text(json.dumps(entry, separators=(",", ":")))
