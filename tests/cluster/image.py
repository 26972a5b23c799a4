# SPDX-License-Identifier: Apache-2.0
"""Images of one layer as archives that containerd imports; nothing is pulled."""
import hashlib
import io
import json
import pathlib
import tarfile

OCI = "application/vnd.oci.image"
SHELL = ("sh", "sleep", "ip", "ping", "cat", "ls")


def add(tar, name, data=None, link=None, mode=0o755):
    info = tarfile.TarInfo(name)
    info.mode = mode
    if link:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif data is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(data)
    tar.addfile(info, io.BytesIO(data) if data is not None else None)


def archive(fill):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        fill(tar)
    return out.getvalue()


def image(name, fill, **config):
    """An archive of the image NAME (with its registry and tag); `fill` puts its files in."""
    layer = archive(fill)
    blobs = {}

    def blob(kind, data):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layers = [blob("layer.v1.tar", layer)]
    about = blob("config.v1+json", {"architecture": "amd64", "os": "linux", "config": config,
                                    "rootfs": {"type": "layers", "diff_ids": [layers[0]["digest"]]}})
    manifest = blob("manifest.v1+json", {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": about,
                                         "layers": layers})
    index = {"schemaVersion": 2, "manifests": [
        {**manifest, "platform": {"architecture": "amd64", "os": "linux"}, "annotations": {"io.containerd.image.name": name}}]}

    def whole(tar):
        add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', mode=0o644)
        add(tar, "index.json", json.dumps(index).encode(), mode=0o644)
        for path, data in blobs.items():
            add(tar, path, data, mode=0o644)
    return archive(whole)


def unirail(binary):
    """As images/Dockerfile makes it; manifests call it unirail:latest."""
    return image("docker.io/library/unirail:latest",
                 lambda tar: add(tar, "unirail", pathlib.Path(binary).read_bytes()), Entrypoint=["/unirail"], Cmd=["help"])


def busybox(program):
    """A shell for pods, and what holds a pod's namespaces."""
    def fill(tar):
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            add(tar, folder)
        add(tar, "bin/busybox", pathlib.Path(program).read_bytes())
        for name in SHELL:
            add(tar, f"bin/{name}", link="busybox")
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
    return image("registry.local/busybox:1", fill, Env=["PATH=/bin"], Cmd=["sleep", "1000000"])
