# SPDX-License-Identifier: Apache-2.0
"""Simulates what Multus does for a pod: calls its delegates, by default Debian's plugins, and stores the files that Multus stores about
the delegates."""
import base64
import json

from lab import REFERENCE


def generic(conf):
    """The content of Multus' field Conf, and of each plugin in its field ConfList: the keys that all plugins have."""
    return {**{k: conf[k] for k in ("cniVersion", "name", "type") if k in conf},
            "ipam": {"type": conf["ipam"]["type"]} if conf.get("ipam") else {}, "dns": {}}


def delegate(conf, head=False, **requests):
    """A delegate in Multus' scratch file; `requests` has the keys ifnameRequest, deviceID... Without `head`, it has the
    object CNINetworkConfigList, which version 4.3.0 of Multus writes and its HEAD does not."""
    is_list = "plugins" in conf
    lists = {k: conf[k] for k in ("cniVersion", "name") if is_list and k in conf}
    lists["plugins"] = [generic(p) for p in conf["plugins"]] if is_list else None
    more = {} if head else {"CNINetworkConfigList": {"Name": "", "CNIVersion": "", "Plugins": None, "Bytes": None}}
    return {"Conf": {"ipam": {}, "dns": {}} if is_list else generic(conf), "ConfList": lists, **more,
            "Name": conf["name"], **requests, "IsFilterV4Gateway": False, "IsFilterV6Gateway": False,
            "Bytes": base64.b64encode(json.dumps(conf).encode()).decode()}


def chain(verb, lab, confs, pod, by, name="net", version="1.0.0", prev=None, **kw):
    """Runs a plugin list as libcni does, with the plugins in the directory `by`. ADD returns the last result."""
    for p in reversed(confs) if verb == "DEL" else confs:
        conf = {**p, "cniVersion": version, "name": name, **({"prevResult": prev} if prev is not None else {})}
        if verb == "ADD":
            prev = lab.add(conf, pod, plugins=by, **kw)
        else:
            lab.ok(verb, conf, pod, plugins=by, **kw)
    return prev


class Multus:
    """Multus with `folder` as its cniDir. It adds pods with the plugins in the directory `by`."""

    def __init__(self, lab, folder, head=False, by=REFERENCE):
        self.lab, self.folder, self.head, self.by = lab, folder, head, by
        (folder / "results").mkdir(parents=True, exist_ok=True)

    def scratch(self, pod):
        return self.folder / pod.id

    def cached(self, pod, name, ifname):
        return self.folder / "results" / f"{name}-{pod.id}-{ifname}"

    def files(self, pod):
        return sorted(p.name for p in self.folder.rglob("*") if pod.id in p.name)

    def add(self, pod, *confs, master="eth0", requests=None, run=True):
        """Writes the files that Multus writes at ADD, and calls ADD of every delegate; with run=False it writes only the scratch file
        and calls no plugin. requests: {index of the delegate: {...}}."""
        requests = requests or {}
        delegates = [delegate(c, self.head, **requests.get(i, {})) for i, c in enumerate(confs)]
        self.scratch(pod).write_text(json.dumps(delegates, separators=(",", ":")))
        for i, conf in enumerate(confs):
            ifname = requests.get(i, {}).get("ifnameRequest") or (f"net{i}" if i else master)
            if run:
                self.add_one(pod, conf, ifname)

    def add_one(self, pod, conf, ifname):
        result = chain("ADD", self.lab, conf.get("plugins", [conf]), pod, self.by, conf["name"],
                       conf.get("cniVersion", "1.0.0"), ifname=ifname)
        entry = {"kind": "cniCacheV1", "containerId": pod.id,
                 "config": base64.b64encode(json.dumps(conf).encode()).decode(), "ifName": ifname,
                 "networkName": conf["name"], "netns": pod.netns,
                 "cniArgs": [["IgnoreUnknown", "true"], ["K8S_POD_NAME", pod.name]], "result": result}
        self.cached(pod, conf["name"], ifname).write_text(json.dumps(entry, separators=(",", ":")))

    def delete(self, pod, by, master="eth0", **kw):
        """DEL as Multus does it when it has a scratch file: runs the configuration in each delegate's Bytes, the last delegate first, as
        a plugin list if the delegate's ConfList has plugins, with libcni's cached result as prevResult; then removes the files. A DEL
        without scratch file succeeds and does nothing."""
        if not self.scratch(pod).exists():
            return []
        delegates = json.loads(self.scratch(pod).read_text())
        names = []
        for i, d in reversed(list(enumerate(delegates))):
            conf = json.loads(base64.b64decode(d["Bytes"], validate=True))
            ifname = d.get("ifnameRequest") or (f"net{i}" if i else master)
            is_list = bool((d["ConfList"] or {}).get("plugins"))
            assert not is_list or d["ConfList"]["cniVersion"], "Multus rewrites a list without cniVersion and drops most of its keys"
            version = conf.get("cniVersion", "0.1.0")
            names.append((conf["name"], ifname, [p["type"] for p in conf["plugins"]] if is_list else [conf["type"]]))
            chain("DEL", self.lab, conf["plugins"] if is_list else [conf], pod, by, conf["name"], version,
                  prev=self.prev(pod, conf["name"], ifname, version), ifname=ifname, **kw)
            self.cached(pod, conf["name"], ifname).unlink(missing_ok=True)
        self.scratch(pod).unlink()
        return names

    def prev(self, pod, name, ifname, version):
        """The prevResult that libcni passes to DEL, from its cache file; None: the file is missing, or the version has no prevResult for
        DEL."""
        path = self.cached(pod, name, ifname)
        if version < "0.4.0" or not path.exists():
            return None
        entry = json.loads(path.read_text())
        assert entry["kind"] == "cniCacheV1" and entry["containerId"] == pod.id and entry["networkName"] == name
        return {**entry["result"], "cniVersion": version}
