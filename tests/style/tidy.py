#!/usr/bin/env python3
"""Runs clang-tidy over all of our sources, one process a core. See --help."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# clang-tidy 14 parses Asio's coroutines only with these three.
EXTRA = ["-D__cpp_impl_coroutine=201902L", "-DASIO_HAS_CO_AWAIT", "-DASIO_HAS_STD_COROUTINE"]
# Sources that another source includes count as ours like headers do: in a unity build all of them are included.
TIDY = ["clang-tidy", "--quiet",
        r"--header-filter=/(proto|master|daemon|client|tests)/[^.]*\.(h|hpp|cc)$"] + [f"--extra-arg={x}" for x in EXTRA]


TESTS_CHECKS = ("-*,bugprone-use-after-move,bugprone-infinite-loop,bugprone-sizeof-expression,bugprone-unused-raii,"
                "bugprone-dangling-handle,bugprone-branch-clone,modernize-use-override,"
                "performance-for-range-copy,performance-inefficient-string-concatenation,readability-duplicate-include")


def arguments():
    parser = argparse.ArgumentParser(
        description="clang-tidy over every source that the build in DIR compiles, each once, however many targets compile it. A"
        " unity build there makes it several times faster: headers are parsed and matched once for many sources. What was"
        " clean stays so until its preprocessed text, .clang-tidy or clang-tidy change (DIR/clean).")
    parser.add_argument("directory", type=pathlib.Path, metavar="DIR", help="a configured build, with generated headers built")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--match", default="", metavar="REGEX", help="only sources whose path matches")
    return parser.parse_args()


def included(unit):
    """The sources that a unity file includes; for any other file, that file."""
    path = pathlib.Path(unit["file"])
    if "/Unity/" not in unit["file"]:
        return [path]
    return [pathlib.Path(x) for x in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)]


def own_sources():
    """What git tracks, or would, and is to be compiled here; benchmarks have their own idioms, and some their own headers."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.cc"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.split()
    return {ROOT / x for x in listed if (ROOT / x).exists() and not x.startswith("tests/bench/")}


def units_of(database, wanted):
    """The fewest units, in the order of the build, that cover what is wanted; and what none covers."""
    units, missing = [], set(wanted)
    for unit in database:
        news = missing.intersection(included(unit))
        if news:
            units.append(unit)
            missing -= news
    return units, missing


def tidy_of(unit):
    """Tests run, under the sanitizers too, which see what most checks try to foresee: the few left are for slips that pass."""
    is_tests = all(path.is_relative_to(ROOT / "tests") for path in included(unit))
    return TIDY + ["--checks=" + (TESTS_CHECKS if is_tests else "-bugprone-suspicious-include")]


def key_of(unit):
    """A digest of all that clang-tidy reads; None where the compiler itself fails, and clang-tidy shall say why."""
    words = shlex.split(unit["command"])
    while words and not re.search(r"(\+\+|cc|gcc|clang)(-[\d.]+)?$", words[0]):
        words.pop(0)
    words = ["clang++"] + words[1:]
    if "-o" in words:
        del words[words.index("-o"):words.index("-o") + 2]
    done = subprocess.run(words + EXTRA + ["-E", "-w", "-o", "-"], cwd=unit["directory"], capture_output=True)
    if done.returncode:
        return None
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    digest = hashlib.sha256(json.dumps([tidy_of(unit), unit["command"]]).encode() + version + (ROOT / ".clang-tidy").read_bytes())
    digest.update(done.stdout)
    return digest.hexdigest()


def tidy(unit, directory):
    """Returns what clang-tidy complains of, and whether it was asked at all."""
    clean = directory / "clean"
    key = key_of(unit)
    if key and (clean / key).exists():
        return "", False
    done = subprocess.run(tidy_of(unit) + ["-p", str(directory), unit["file"]], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0 and not done.stdout.strip():
        if key:
            (clean / key).touch()
        return "", True
    noise = re.compile(r"^\d+ (warnings?|errors?).* generated\.$|^Suppressed |^Use -header-filter", re.MULTILINE)
    return done.stdout + noise.sub("", done.stderr) or f"clang-tidy failed with {done.returncode}", True


def main():
    options = arguments()
    (options.directory / "clean").mkdir(exist_ok=True)
    database = json.loads((options.directory / "compile_commands.json").read_text())
    database = [x for x in database if not x["file"].endswith(".c")]
    sources = {x for x in own_sources() if re.search(options.match, str(x.relative_to(ROOT)))}
    units, missing = units_of(database, sources)
    if not units:
        sys.exit("the build has none of these sources")
    # A source of no target stands alone; its neighbours' headers are found by the path from the top.
    bad = asked = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for text, fresh in pool.map(lambda unit: tidy(unit, options.directory), units):
            asked += fresh
            if text:
                bad += 1
                print(text, flush=True)
    print(f"{len(sources) - len(missing)} sources in {len(units)} units, {asked} of them not known to be clean")
    for source in sorted(missing):
        print(f"in no target, not looked at: {source.relative_to(ROOT)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
