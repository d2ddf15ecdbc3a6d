"""oci_image.py CONTAINERFILE ROOT ARCHITECTURE LAYOUT: an OCI image layout of one layer, the directory ROOT.

What a container of it runs as, and with what, is what the Containerfile says after its COPY and RUN. The same root gives the same
image, byte by byte: its files have the time of SOURCE_DATE_EPOCH (0 without).
"""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shlex
import sys
import tarfile
import tempfile

_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}


class ImageError(Exception):
    """What is wrong, and where."""


def nanoseconds(text):
    match = re.fullmatch(r"(\d{1,6})(ms|s|m)", text)
    if match is None:
        raise ImageError(f"{text} is not a time as 500ms, 10s or 2m")
    return int(match[1]) * _UNITS[match[2]]


def words(rest):
    """An instruction's command, which has to be in the exec form: images of ours need no shell."""
    try:
        command = json.loads(rest)
    except ValueError:
        command = None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ImageError(f'{rest} is not a command as ["program", "argument"]')
    return command


def healthcheck(rest):
    options, is_command, command = rest.partition("CMD ")
    if not is_command:
        raise ImageError("HEALTHCHECK without CMD")
    check = {"Test": ["CMD", *words(command)]}
    for option in options.split():
        name, _, value = option.removeprefix("--").partition("=")
        if name == "retries" and value.isdecimal():
            check["Retries"] = int(value)
        elif name in ("interval", "timeout", "start-period"):
            check["".join(part.capitalize() for part in name.split("-"))] = nanoseconds(value)
        else:
            raise ImageError(f"HEALTHCHECK {option}")
    return check


def config_of(containerfile):
    """The config of an image as Docker has it, which is OCI's and Healthcheck."""
    config = {}
    for line in containerfile.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "ENV":
            config["Env"] = [*config.get("Env", []), *shlex.split(rest)]
        elif instruction == "USER":
            config["User"] = rest
        elif instruction == "EXPOSE":
            config["ExposedPorts"] = {port: {} for port in rest.split()}
        elif instruction == "STOPSIGNAL":
            config["StopSignal"] = rest
        elif instruction == "CMD":
            config["Cmd"] = words(rest)
        elif instruction == "HEALTHCHECK":
            config["Healthcheck"] = healthcheck(rest)
        elif instruction not in ("FROM", "COPY", "RUN"):  # the root's
            raise ImageError(f"{instruction} is not an instruction that is known here")
    return config


class Layout:
    """A directory with blobs by their SHA-256, as the OCI image layout says."""

    def __init__(self, path):
        self.path = path
        self.blobs = path / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def add(self, content, media_type):
        """The descriptor of bytes."""
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, value, media_type):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media_type)

    def finish(self, manifest):
        (self.path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="ascii")
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}
        (self.path / "index.json").write_text(json.dumps(index, sort_keys=True), encoding="ascii")


def layer_of(root, epoch):
    """A tar archive of a directory, whatever the order of its entries and who made it."""

    def plain(entry):
        if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
            raise ImageError(f"{entry.name} is neither a file, a directory nor a link")
        entry.uname = entry.gname = ""
        entry.mtime = epoch
        return entry

    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(root.rglob("*")):
                tar.add(path, path.relative_to(root), recursive=False, filter=plain)
        file.seek(0)
        return file.read()


def build(containerfile, root, architecture, layout_path, epoch):
    config = config_of(containerfile.read_text(encoding="utf-8"))
    tar = layer_of(root, epoch)
    created = {"architecture": architecture, "os": "linux", "config": config,
               "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]}}
    layout = Layout(layout_path)
    image = "application/vnd.oci.image"
    manifest = {"schemaVersion": 2, "mediaType": f"{image}.manifest.v1+json",
                "config": layout.add_json(created, f"{image}.config.v1+json"),
                "layers": [layout.add(gzip.compress(tar, 6, mtime=0), f"{image}.layer.v1.tar+gzip")]}
    described = layout.add_json(manifest, manifest["mediaType"])
    layout.finish({**described, "platform": {"architecture": architecture, "os": "linux"},
                   "annotations": {"org.opencontainers.image.ref.name": "ringway"}})


def main(arguments):
    containerfile, root, architecture, layout = arguments
    try:
        build(pathlib.Path(containerfile), pathlib.Path(root), architecture, pathlib.Path(layout),
              int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    except (ImageError, OSError, ValueError) as error:
        print(f"oci_image.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
