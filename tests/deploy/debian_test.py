#!/usr/bin/env python3
"""debian_test.py SOURCE_DIR: what deploy/debian says is what the rest of the source says.

The version, the packages that a build needs, the library's name, and the files that packages take from the source. That the
packages can be built and installed is tested by hand: deploy/package.sh, tests/deploy/package_test.sh."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
DEBIAN = ROOT / "deploy" / "debian"
ONLY_FASTER = {"ccache", "mold"}  # of BUILD_PACKAGES
ONLY_PACKAGING = {"debhelper-compat", "help2man"}


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def main():
    header = text_of("client/include/ringway/version.h")
    version = [re.search(rf"RINGWAY_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    changelog = re.match(r"ringway \(([\d.]+)\)", text_of("deploy/debian/changelog"))[1]
    assert changelog == ".".join(version), f"the changelog's newest version is {changelog}, the header's {'.'.join(version)}"
    control = text_of("deploy/debian/control")
    needs = re.search(r"Build-Depends:(.*?)\n\S", control, re.S)[1]
    needs = {re.sub(r"\(.*\)", "", word).strip() for word in needs.split(",")}
    listed = set(re.search(r"BUILD_PACKAGES=\((.*?)\)", text_of("deploy/lib.sh"), re.S)[1].split())
    assert needs - ONLY_PACKAGING == listed - ONLY_FASTER, f"Build-Depends and BUILD_PACKAGES differ: {needs ^ listed}"
    library = "libringway" + ".".join(version[:2])
    assert f"\nPackage: {library}\n" in control, f"the library's package is to be {library}"
    assert (DEBIAN / f"{library}.install").exists(), f"no {library}.install"
    for install in DEBIAN.glob("*.install"):
        for line in install.read_text(encoding="utf-8").splitlines():
            source = line.split()[0]
            assert not source.startswith("deploy/") or (ROOT / source).exists(), f"{install.name}: there is no {source}"
    for name in re.findall(r"^Package: (\S+)", control, re.M):
        assert (DEBIAN / f"{name}.install").exists(), f"nothing is installed by {name}"


if __name__ == "__main__":
    main()
