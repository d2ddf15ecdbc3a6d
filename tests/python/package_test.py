"""What the wheel holds: types for every public name, documentation for every call, no library but libc and the C++ runtime."""

import ast
import importlib.metadata
import inspect
import pathlib
import re
import subprocess
import sys
import unittest

import ringway
from ringway import _ringway

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(ringway.__file__).parent


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
        needed = subprocess.run(["readelf", "-d", _ringway.__file__], check=True, capture_output=True, text=True).stdout
        libraries = set(re.findall(r"NEEDED.*\[(.*?)\]", needed))
        self.assertLessEqual({x.partition(".so")[0] for x in libraries}, {"libc", "libm", "libstdc++", "libgcc_s",
                                                                          "ld-linux-x86-64", "libpthread"})

    def test_the_extension_exports_its_entry_only(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", _ringway.__file__], check=True,
                                capture_output=True, text=True).stdout
        self.assertEqual([x.split()[0] for x in listed.splitlines()], ["PyInit__ringway"])


if __name__ == "__main__":
    unittest.main()
