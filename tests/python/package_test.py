"""What the wheel holds: types for every public name, documentation for every call, the programs, the licences of what is linked
in, and of libraries no other than libc and the C++ runtime."""

import ast
import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import ringway
from ringway import _ringway

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(ringway.__file__).parent
BUILD = pathlib.Path(os.environ["RINGWAY_WHEEL_BUILD"])
PROGRAMS = ("ringway-master", "ringwayd", "ringwayctl", "ringway-bench")
RUNTIME = {"libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64", "libpthread"}


def libraries_of(path):
    """The libraries that an ELF file needs, without their versions."""
    needed = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return {x.partition(".so")[0] for x in re.findall(r"NEEDED.*\[(.*?)\]", needed)}


class PackageTest(unittest.TestCase):
    def test_import_leaves_numpy_to_who_uses_it(self):
        command = [sys.executable, "-c", "import sys, ringway; sys.exit('numpy' in sys.modules)"]
        self.assertEqual(subprocess.run(command, check=False).returncode, 0)

    def test_every_public_name_is_typed(self):
        self.assertTrue((PACKAGE / "py.typed").exists())
        stub = ast.parse((PACKAGE / "_ringway.pyi").read_text(encoding="utf-8"))
        typed = {x.name: {y.name for y in x.body if isinstance(y, ast.FunctionDef)} for x in stub.body
                 if isinstance(x, ast.ClassDef)}
        for name in (x for x in vars(_ringway) if not x.startswith("_")):
            self.assertIn(name, typed)
            kind = getattr(_ringway, name)
            if not issubclass(kind, Exception):
                calls = {x for x in vars(kind) if callable(getattr(kind, x)) and not x.startswith("__")}
                self.assertLessEqual(calls, typed[name])

    def test_every_public_name_is_documented(self):
        for name in (x for x in vars(ringway) if not x.startswith("_")):
            value = getattr(ringway, name)
            if inspect.ismodule(value):  # which another test has imported
                continue
            self.assertEqual(value.__module__, "ringway", name)
            self.assertTrue(inspect.getdoc(value), name)
            for member in (x for x in dir(value) if not x.startswith("_") and isinstance(value, type)):
                if not issubclass(value, (Exception, dict)):
                    self.assertTrue(inspect.getdoc(getattr(value, member)), f"{name}.{member}")

    def test_the_version_is_the_librarys(self):
        header = (ROOT / "client/include/ringway/version.h").read_text(encoding="utf-8")
        version = ".".join(re.search(rf"VERSION_{x} (\d+)", header)[1] for x in ("MAJOR", "MINOR", "PATCH"))
        self.assertEqual((ringway.__version__, importlib.metadata.version("ringway")), (version, version))

    def test_the_extension_needs_libc_and_the_cpp_runtime_only(self):
        self.assertLessEqual(libraries_of(_ringway.__file__), RUNTIME)

    def test_the_programs_are_the_wheels_and_need_libc_and_the_cpp_runtime_only(self):
        files = {x.name: x.locate() for x in importlib.metadata.files("ringway")}
        for name in PROGRAMS:
            path = pathlib.Path(files[name]).resolve()
            self.assertEqual(path, pathlib.Path(os.environ["RINGWAY_PROGRAMS"], name).resolve())
            self.assertLessEqual(libraries_of(path), RUNTIME, name)
            said = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
            self.assertIn(ringway.__version__, said)

    def test_the_wheel_is_for_every_system_with_glibc_2_36(self):
        wheel = importlib.metadata.distribution("ringway").read_text("WHEEL")
        abi = "cp312-abi3" if sys.version_info >= (3, 12) else "cp{0}{1}-cp{0}{1}".format(*sys.version_info)
        self.assertEqual(re.findall(r"^Tag: (.*)$", wheel, re.MULTILINE), [f"{abi}-manylinux_2_36_x86_64"])

    def test_the_licences_of_what_is_linked_in_are_there(self):
        licences = {x.stem: pathlib.Path(x.locate()).read_text(encoding="utf-8")
                    for x in importlib.metadata.files("ringway") if "licenses" in x.parts}
        script = (ROOT / "deploy/programs.sh").read_text(encoding="utf-8")
        linked = re.search(r"^LINKED=\((.*?)\)", script, re.MULTILINE | re.DOTALL)[1].split()
        referred = set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", "".join(licences.values())))
        self.assertEqual(set(licences), {*linked, *referred, "nanobind", "robin-map"})
        for name, text in licences.items():
            self.assertRegex(text.lower(), "licen[cs]e|permission|public domain", name)

    def test_the_extension_exports_its_entry_only(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", _ringway.__file__], check=True,
                                capture_output=True, text=True).stdout
        self.assertEqual([x.split()[0] for x in listed.splitlines()], ["PyInit__ringway"])

    def test_a_source_distribution_has_all_that_the_build_reads(self):
        build = BUILD / "module-cp{}{}".format(*sys.version_info)
        read = "".join(subprocess.run(["ninja", "-C", build, "-t", *what], check=True, capture_output=True, text=True).stdout
                       for what in (["deps"], ["inputs", "build.ninja", "_ringway"]))
        paths = {pathlib.Path(os.path.normpath(build / x.strip())) for x in read.splitlines()}
        needed = {x.relative_to(ROOT) for x in paths if x.is_relative_to(ROOT) and not x.is_relative_to(ROOT / "build")}
        self.assertIn(pathlib.Path("client/src/session.cc"), needed)
        self.assertIn(pathlib.Path("proto/local_abi.h"), needed)
        self.assertIn(pathlib.Path("client/README.md"), needed)
        with tempfile.TemporaryDirectory() as directory:
            script = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
            environment = {**os.environ, "PYTHONPATH": str(BUILD / build.name.replace("module", "backend"))}
            done = subprocess.run([sys.executable, "-c", script, directory], check=True, capture_output=True, text=True,
                                  cwd=ROOT / "client/python", env=environment)
            with tarfile.open(pathlib.Path(directory, done.stdout.split()[-1])) as archive:
                has = {pathlib.Path(*pathlib.Path(x.name).parts[1:]) for x in archive if x.isfile()}
        here = pathlib.Path("client/python")
        of_the_archive = {x.relative_to(here) if x.is_relative_to(here) else "sources" / x for x in needed}
        self.assertEqual(of_the_archive - has, set())


if __name__ == "__main__":
    unittest.main()
