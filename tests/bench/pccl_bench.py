#!/usr/bin/env python3
"""All-reduces by PCCL, NumPy arrays in place: one rank. See --help; pccl_root.sh makes a Python that runs it."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy
import pccl
import runs

PORT = 48148
PARTS = 16  # of a large array, all at once, each over a connection of its own


def arguments():
    parser = argparse.ArgumentParser(description="Rank 0 runs PCCL's master, too, and prints a line a size.")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--master", required=True, help="IP address of rank 0")
    parser.add_argument("--bytes", default="4K,64M", help="of float32, suffixes K and M")
    parser.add_argument("--iters", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--settle", type=float, default=0, help="seconds before the first measurement")
    parser.add_argument("--json", type=pathlib.Path, help="append what rank 0 measured, an object a line, as runs.py has them")
    return parser.parse_args()


def joined(options):
    communicator = pccl.Communicator(f"{options.master}:{PORT}", 0, PARTS)
    communicator.connect(n_attempts=100)
    while communicator.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < options.world:
        if communicator.are_peers_pending():
            communicator.update_topology()
        time.sleep(0.02)
    communicator.optimize_topology()
    return communicator


def average(communicator, array):
    parts = PARTS if array.size > 100_000 else 1
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
    plain = pccl.QuantizationOptions(pccl.DataType.FLOAT, pccl.QuantizationAlgorithm.NONE)
    reduces = [pccl.ReduceOpDescriptor.from_numpy(a, a, pccl.ReduceDescriptor(a.size, pccl.ReduceOp.AVG, i, operand, plain))
               for i, a in enumerate(numpy.array_split(array, parts))]
    communicator.all_reduce_multiple_with_retry(reduces, max_in_flight=parts)


def measure(options, communicator, size):
    """Seconds of each all-reduce, from a small one that all have ended."""
    array, meet, times = numpy.empty(size // 4, "float32"), numpy.empty(1, "float32"), []
    for _ in range(options.warmup + options.iters):
        array[:] = options.rank
        average(communicator, meet)
        begin = time.perf_counter()
        average(communicator, array)
        times.append(time.perf_counter() - begin)
        assert (array == (options.world - 1) / 2).all(), f"a wrong average of {size} bytes"
    return times[options.warmup:]


def run(options):
    communicator = joined(options)
    time.sleep(options.settle)
    for text in options.bytes.split(","):
        size = runs.size_of(text)
        times = measure(options, communicator, size)
        if options.rank == 0:
            runs.report("pccl, NumPy", options.world, size, times, options.json)


def main():
    if sys.argv[1:] == ["--master-only"]:
        master = pccl.MasterNode(f"0.0.0.0:{PORT}")
        master.run()
        signal.pause()
    options = arguments()
    if options.rank == 0:
        print(f"# pccl 1.0.0, world {options.world}, {os.cpu_count()} cores")
        print(f"# {'bytes':>12} {'min ms':>10} {'median ms':>10} {'max ms':>10}", flush=True)
        subprocess.Popen([os.environ["PCCL_PYTHON"], "-B", sys.argv[0], "--master-only"])
    run(options)
    os._exit(0)  # PCCL's own end waits for the others'


if __name__ == "__main__":
    main()
