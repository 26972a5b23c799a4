# SPDX-License-Identifier: Apache-2.0
"""Compares the requests of an account of deploy/, from the API server's audit log, with the permissions in its manifest."""
import json
import pathlib

import yaml

import cluster as clusters
from cluster import wait

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class Audited:
    """A cluster whose audit log has the requests of service account `name` of namespace unirail; deploy/`file` is the manifest with the
    account's roles."""

    def __init__(self, name, file):
        self.user, self.manifest = f"system:serviceaccount:unirail:{name}", DEPLOY / file
        self.name = name
        self.cluster = clusters.Cluster()
        self.cluster.stop_apiserver()
        policy = self.cluster.folder / "audit.yaml"
        policy.write_text(yaml.safe_dump({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [self.user]}, {"level": "None"}]}))
        self.log = self.cluster.folder / "audit.log"
        self.cluster.start_apiserver(f"--audit-policy-file={policy}", f"--audit-log-path={self.log}",
                                     "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")

    def close(self):
        self.cluster.close()

    def apply(self):
        """Applies the manifest twice; the second apply must change nothing."""
        self.cluster.kubectl("apply", "-f", DEPLOY / "crds", "-f", DEPLOY / "crd.yaml", "-f", self.manifest)
        again = self.cluster.kubectl("apply", "-f", self.manifest)
        assert all(line.endswith(" unchanged") for line in again.splitlines()), again

    def config(self, path):
        """A kubeconfig of the account."""
        token = path.with_name(path.name + ".token")
        token.write_text(self.cluster.token("unirail", self.name))
        return self.cluster.kubeconfig(path, {"tokenFile": token})

    def permissions(self):
        found = {(g, r, v) for o in yaml.safe_load_all(self.manifest.read_text()) if o["kind"] in ("ClusterRole", "Role")
                 for rule in o["rules"] for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}
        assert found, "the manifest has no role"
        return found

    def requested(self):
        """Returns two sets of (group, resource, verb): of the requests that the API server did not refuse, and of those that it refused
        with 403."""
        done, refused = set(), set()
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            what = event.get("objectRef")
            if event["user"]["username"] == self.user and what and "resource" in what:
                name = "/".join(filter(None, (what["resource"], what.get("subresource"))))
                into = refused if event.get("responseStatus", {}).get("code") == 403 else done
                into.add((what.get("apiGroup", ""), name, event["verb"]))
        return done, refused

    def check(self, but=()):
        """Waits until each permission of the manifest's roles except `but` was used, and asserts that no request needed another
        permission."""
        def all_used():
            unused = self.permissions() - self.requested()[0] - set(but)
            assert not unused, unused
            return True

        wait(all_used, "each permission of the role is used")
        done, refused = self.requested()
        assert not refused, refused
        assert done - self.permissions() == set()
