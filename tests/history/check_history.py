#!/usr/bin/env python3
"""Says what contradicts Ringway's promises in recorded histories: what each trainer submitted, and what it got.

Usage: check_history.py [--quiet] FILE_OR_DIRECTORY...

Each file is a history of its own; the files of a directory are one history together. Exit code 1: something contradicts.

The rules are those of README.md, "What is promised", and of the READMEs of daemon, master and client. Nothing here is
shared with the programs, their simulation or the chaos run's checker. README.md has the format; history.py reads the
events, operations.py judges each operation, values.py knows elements.
"""
import pathlib
import sys

from history import History, lives_of, read
from operations import Message, Operation


def check(events):
    """What contradicts the promises, a line each, and how many operations and outcomes there were."""
    history = History(lives_of(events))
    for event in events:
        history.add(event)
    for key in list(history.submissions):
        (Message if len(key) > 3 else Operation)(history, key).check()
    return history.contradictions, len(history.submissions), sum(len(x) for x in history.outcomes.values())


def main(arguments):
    quiet = "--quiet" in arguments
    names = [x for x in arguments if x != "--quiet"]
    if not names:
        print(__doc__)
        return 2
    contradicted = operations = outcomes = 0
    for name in names:
        path = pathlib.Path(name)
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        try:
            contradictions, some, reported = check(read(files))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        operations += some
        outcomes += reported
        contradicted += bool(contradictions)
        for text in contradictions[:20]:
            print(f"{name}: {text}")
        if len(contradictions) > 20:
            print(f"{name}: and {len(contradictions) - 20} more")
    if not quiet:
        print(f"{len(names)} histories, {operations} operations, {outcomes} outcomes: "
              f"{contradicted} contradict the promises")
    return 1 if contradicted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
