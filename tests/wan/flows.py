#!/usr/bin/env python3
"""Plain TCP connections that send all the time, and how fast: foreign traffic beside what is measured.

flows.py receive ADDRESS PORT FILE [SECONDS]
    Counts what comes over all connections to the port. FILE gets a line "SECONDS BYTES" ten times a second: the machine's
    monotonic clock, and all bytes until then. Ends after SECONDS, or when killed.
flows.py send ADDRESS PORT CONNECTIONS CONGESTION [SECONDS]
    Opens the connections (CONGESTION "-": of the kernel's choice), and sends until SECONDS are over, it is killed, or the
    receiver goes away. Says what each runs; ends with 1 where the kernel does not let them run what they should.
"""

import selectors
import socket
import sys
import time

PIECE = 256 << 10
CONNECT_S = 30
FOREVER_S = 1e9
REPORT_S = 0.1


def receive(address, port, path, seconds=FOREVER_S):
    end = time.monotonic() + float(seconds)
    total, buffer, report_at = 0, bytearray(PIECE), 0.0
    with socket.create_server((address, int(port)), backlog=256) as server, selectors.DefaultSelector() as selector, \
            open(path, "w", encoding="ascii") as file:
        server.setblocking(False)
        selector.register(server, selectors.EVENT_READ)
        while time.monotonic() < end:
            for key, _ in selector.select(REPORT_S):
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ)
                    continue
                try:
                    got = key.fileobj.recv_into(buffer)
                except BlockingIOError:
                    continue
                except OSError:
                    got = 0
                total += got
                if not got:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            now = time.monotonic()
            if now >= report_at:
                report_at = now + REPORT_S
                file.write(f"{now:.3f} {total}\n")
                file.flush()


def connect(address, port, congestion, end):
    """Waits for a receiver that starts later."""
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if congestion != "-":
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            except OSError:
                pass  # the host's own may be it
        try:
            connection.settimeout(CONNECT_S)
            connection.connect((address, int(port)))
            break
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    runs = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    if congestion not in ("-", runs):
        sys.exit(f"flows.py: this host's connections run {runs}, and may not run {congestion}")
    print(f"runs {runs}", flush=True)
    connection.setblocking(False)
    return connection


def send(address, port, connections, congestion, seconds=FOREVER_S):
    end = time.monotonic() + float(seconds)
    piece = bytes(PIECE)
    with selectors.DefaultSelector() as selector:
        for _ in range(int(connections)):
            selector.register(connect(address, port, congestion, time.monotonic() + CONNECT_S), selectors.EVENT_WRITE)
        while time.monotonic() < end:
            for key, _ in selector.select(1):
                try:
                    key.fileobj.send(piece)
                except BlockingIOError:
                    pass


def rate(path, begin, end):
    """Bytes a second between two moments of the clock, by what `receive` wrote; None where it says nothing of them."""
    with open(path, encoding="ascii") as file:
        samples = [tuple(map(float, line.split())) for line in file.read().split("\n")[:-1]]
    inside = [sample for sample in samples if begin <= sample[0] <= end]
    if len(inside) < 2:
        return None
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first)


def main():
    usage = {"receive": (receive, (3, 4)), "send": (send, (4, 5))}
    what, counts = usage.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, ()))
    if what is None or len(sys.argv) - 2 not in counts:
        sys.exit(__doc__)
    try:
        what(*sys.argv[2:])
    except OSError as error:
        sys.exit(f"flows.py: {error}")


if __name__ == "__main__":
    main()
