#!/usr/bin/env python3
"""Baseline: one plain TCP connection from each rank to the next, by which it sends what a ring all-reduce sends.

tcp_bench.py RANK WORLD ADDRESSES BYTES ITERS WARMUP STORE JSON: ADDRESSES of all ranks, with commas; STORE is a directory that
they share, empty at first. Of an all-reduce of BYTES, a rank sends 2 (WORLD - 1) / WORLD of them to the next one. All begin
together; a rank's time is until it has received as much. Nothing is added up: what it takes is what the connections take. JSON
gets what the other baselines write, and when each operation began ("starts_s", of the machine's monotonic clock).
"""

import json
import pathlib
import resource
import socket
import statistics
import sys
import threading
import time

PORT = 7700
DEADLINE_S = 3600  # networks.py ends it sooner
PIECE = 1 << 20


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"tcp_bench: {what} did not come in time")
        time.sleep(0.001)


def connect(address):
    connected = []

    def tried():
        try:
            connected.append(socket.create_connection((address, PORT), timeout=DEADLINE_S))
        except ConnectionRefusedError:
            time.sleep(0.02)
        return bool(connected)

    wait_for(tried, address)
    connected[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected[0]


def start_together(store, rank, world, turn):
    """Returns the moment at which all ranks begin: a little later than the last of them is ready."""
    go = store / f"{turn}.go"
    (store / f"{turn}.{rank}").touch()
    if rank == 0:
        wait_for(lambda: all((store / f"{turn}.{other}").exists() for other in range(world)), "a rank")
        draft = store / f"{turn}.draft"
        draft.write_text(str(time.monotonic() + 0.05))
        draft.rename(go)
    wait_for(go.exists, "rank 0")
    begin = float(go.read_text())
    time.sleep(max(0, begin - time.monotonic()))
    return begin


def send(connection, count):
    piece = bytes(min(PIECE, max(count, 1)))
    while count:
        connection.sendall(piece[:min(count, PIECE)])
        count -= min(count, PIECE)


def exchange(to_next, from_previous, count):
    sender = threading.Thread(target=send, args=(to_next, count), daemon=True)
    sender.start()
    buffer, missing = memoryview(bytearray(PIECE)), count
    while missing:
        got = from_previous.recv_into(buffer[:min(missing, PIECE)])
        if not got:
            sys.exit("tcp_bench: the rank before this one went away")
        missing -= got
    return sender


def main():
    rank, world, addresses, size, iterations, warmup, store, path = sys.argv[1:]
    rank, world, size, addresses, store = int(rank), int(world), int(size), addresses.split(","), pathlib.Path(store)
    count = 2 * (world - 1) * size // world
    times, starts = [], []
    with socket.create_server((addresses[rank], PORT)) as server:
        to_next = connect(addresses[(rank + 1) % world])
        server.settimeout(DEADLINE_S)
        from_previous, _ = server.accept()
        from_previous.settimeout(DEADLINE_S)
        for turn in range(int(warmup) + int(iterations)):
            begin = start_together(store, rank, world, turn)
            sender = exchange(to_next, from_previous, count)
            if turn >= int(warmup):
                starts.append(begin)
                times.append((time.monotonic() - begin) * 1e3)
            sender.join()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result = {"bytes": size, "world_size": world, "iterations": len(times), "algorithm": "tcp",
              "time_ms_min": min(times), "time_ms_median": statistics.median(times), "times_ms": times,
              "starts_s": starts, "trainer_cpu_seconds": usage.ru_utime + usage.ru_stime, "daemon_cpu_seconds": 0}
    pathlib.Path(path).write_text(json.dumps({"results": [result]}))


if __name__ == "__main__":
    main()
