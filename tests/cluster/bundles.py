# SPDX-License-Identifier: Apache-2.0
"""What `make bundle` writes for the binary of the tests, unpacked."""
import os
import pathlib
import subprocess

from cluster import BINARY

TOP = pathlib.Path(__file__).resolve().parents[2]


def bundle(folder, version):
    """Returns the directory of the unpacked bundle. The program of each architecture is the tests' binary with that architecture's number
    in its ELF header."""
    env = {**os.environ, "VERSION": version, "COMMIT": "0123456789ab", "SOURCE_DATE_EPOCH": "86400"}
    images, data = folder / "image", bytearray(BINARY.read_bytes())
    (images / "programs").mkdir(parents=True)

    def run(*args):
        return subprocess.run([str(a) for a in args], check=True, cwd=TOP, env=env, stdout=subprocess.PIPE, text=True).stdout

    for arch, machine in (("amd64", 62), ("arm64", 183)):
        data[18:20] = machine.to_bytes(2, "little")
        (images / "programs" / arch).write_bytes(data)
        (images / f"unirail-{version}-{arch}.spdx.json").write_text(run("tools/sbom", images / "programs" / arch, arch, "12.2.0"))
    run("tools/bundle", images, folder)
    run("tar", "-C", folder, "-xf", folder / f"unirail-{version}-bundle.tar")
    return folder / f"unirail-{version}"
