#!/usr/bin/env python3
"""All-reduces and DDP's steps of torch.distributed, by any backend, of host or GPU memory: one rank. See --help."""
import argparse
import datetime
import os
import pathlib
import statistics
import time

import runs
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
    parser.add_argument("--json", type=pathlib.Path, help="append the all-reduces, an object a line, as runs.py has them")
    parser.add_argument("--steps", type=int, default=0, help="of DDP, of a GPT of ten million parameters; with ringway also by"
                        " ddp_hook, without and with overlap")
    return parser.parse_args()


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


class Gpt(torch.nn.Module):
    """Ten million parameters."""

    def __init__(self, vocabulary=256, context=64, width=384, layers=6):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.places = torch.nn.Parameter(torch.zeros(context, width))
        layer = torch.nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.layers(self.tokens(x) + self.places, mask=mask, is_causal=True))


def step_times(options, model, count):
    """Seconds of each of `count` steps of one sequence a rank, each from a barrier to the updated weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randint(256, (1, 65), device=options.device)
    times = []
    for _ in range(count):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimizer.step()
        finish(options.device)
        times.append(time.perf_counter() - begin)
    return times


def measure_steps(options):
    """Step times of a model on its own, then by each way to average its gradients."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    own = dist.new_subgroups(1)[0]

    def report(name, model):
        step_times(options, model, 3)  # the first pass is one bucket
        times = sorted(step_times(options, model, options.steps))
        if options.rank == 0:
            print(f"  {name:24} {times[0] * 1e3:10.1f} {statistics.median(times) * 1e3:10.1f} {times[-1] * 1e3:10.1f}", flush=True)

    def ddp(group=None):
        return torch.nn.parallel.DistributedDataParallel(Gpt().to(options.device), process_group=group)

    if options.rank == 0:
        print(f"# {'a step by':24} {'min ms':>10} {'median ms':>10} {'max ms':>10}")
    report("itself", ddp(own))
    report("ddp", ddp())
    if options.backend != "ringway":
        return
    import ringway

    with ringway.join(group="hooks", socket=os.environ["RINGWAY_SOCKET"], wait_world=options.world) as session:
        for name, settings in (("ddp_hook", {}), ("ddp_hook, overlap 10 MB", {"overlap_mb": 10}),
                               ("ddp_hook, int8", {"codec": "int8"}),
                               ("ddp_hook, int8, overlap", {"codec": "int8", "overlap_mb": 10})):
            model = ddp(own)
            ringway.torch.ddp_hook(model, session, **settings)
            report(name, model)


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
    for text in filter(None, options.bytes.split(",")):
        size = runs.size_of(text)
        tensor = torch.ones(size // 4, device=options.device)
        measure(tensor, options.device, options.warmup)
        dist.all_reduce(tensor)
        finish(options.device)
        assert bool((tensor == options.world).all()), f"a wrong sum of {text}"
        tensor.fill_(1.0)
        times = measure(tensor, options.device, options.iters)
        if options.rank == 0:
            runs.report(f"{options.backend}, torch", options.world, size, times, options.json)
    if options.steps:
        measure_steps(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
