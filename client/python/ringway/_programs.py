"""Where Ringway's programs are on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

_HELP = (
    "install a wheel of ringway that has the programs, or Ringway's packages (deploy/README.md), or build them in a checkout "
    "(cmake --preset release && cmake --build --preset release) and name their folder by RINGWAY_PROGRAMS"
)


def program(name: str) -> str:
    """Its path: in the folder that RINGWAY_PROGRAMS names, else beside this interpreter, else on PATH; or FileNotFoundError."""
    if named := os.environ.get("RINGWAY_PROGRAMS"):
        if found := shutil.which(name, path=os.path.abspath(named)):
            return found
        raise FileNotFoundError(f"{name} is not in {named}, which RINGWAY_PROGRAMS names: {_HELP}")
    beside = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for path in (os.pathsep.join(beside), os.environ.get("PATH", os.defpath)):
        if found := shutil.which(name, path=path):
            return found
    raise FileNotFoundError(f"{name} is neither beside {sys.executable} nor on PATH: {_HELP}")
