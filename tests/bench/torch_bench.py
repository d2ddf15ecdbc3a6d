#!/usr/bin/env python3
"""All-reduces of torch.distributed, by any backend, of host or GPU memory: one rank. See --help."""
import argparse
import datetime
import os
import statistics
import time

import torch
import torch.distributed as dist


def arguments():
    parser = argparse.ArgumentParser(
        description="Runs as one rank of --world; rank 0 prints a line a size. The backend ringway takes its daemon's socket from"
        " RINGWAY_SOCKET, gloo its interface from GLOO_SOCKET_IFNAME. On a GPU all ranks may share one.")
    parser.add_argument("--backend", required=True, help="ringway, gloo, ..")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--store", required=True, help="where ranks meet: tcp://HOST:PORT or file://PATH")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--bytes", default="4K,1M,64M", help="of float32, suffixes K and M")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--settle", type=float, default=0, help="seconds before the first measurement")
    return parser.parse_args()


def size_of(text):
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
    return int(text.rstrip("KM")) * unit


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(tensor, device, count):
    """Seconds of each of `count` all-reduces, each from a barrier to the result in memory."""
    times = []
    for _ in range(count):
        dist.barrier()
        finish(device)
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        finish(device)
        times.append(time.perf_counter() - begin)
        tensor.fill_(1.0)
    return times


def main():
    options = arguments()
    if options.backend == "ringway":
        import ringway.torch  # noqa: F401  registers the backend
    dist.init_process_group(options.backend, init_method=options.store, rank=options.rank, world_size=options.world,
                            timeout=datetime.timedelta(seconds=120))
    time.sleep(options.settle)
    if options.rank == 0:
        print(f"# {options.backend}, {options.device}, world {options.world}, torch {torch.__version__}, {os.cpu_count()} cores")
        print(f"# {'bytes':>12} {'min ms':>10} {'median ms':>10} {'max ms':>10}")
    for text in options.bytes.split(","):
        tensor = torch.ones(size_of(text) // 4, device=options.device)
        measure(tensor, options.device, options.warmup)
        dist.all_reduce(tensor)
        finish(options.device)
        assert bool((tensor == options.world).all()), f"a wrong sum of {text}"
        tensor.fill_(1.0)
        times = sorted(measure(tensor, options.device, options.iters))
        if options.rank == 0:
            print(f"  {size_of(text):12} {times[0] * 1e3:10.3f} {statistics.median(times) * 1e3:10.3f} {times[-1] * 1e3:10.3f}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
