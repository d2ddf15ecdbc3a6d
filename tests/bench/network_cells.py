"""The pure part of networks.py: its cells, what a network allows at best, and the table of what was measured.

A record is what one round of one contender in one cell gave: "cell", "contender", "bytes", "round", "limit_ms", and either
"times_ms", an operation each, or "failed", why there are none. What only some cells have: "share" (of the foreign connections,
of their uplink), "recovery_s" (after the rate has returned, until operations are at 90% of their former rate), "jain" (of two
jobs behind one uplink). "late" of "deliveries" came later than the emulated network says, as the machine was busy.
"""

import collections
import dataclasses
import fnmatch
import math
import statistics

import runs

CONGESTIONS = ("bbr", "cubic")
QUEUES_MS = (20, 100, 500)
# A cell's network, besides congestion control and queue, is a scenario of tests/wan/scenarios, with overrides: us with another
# rate and round trip is MBIT-rttMS.
GRID = {f"{mbit}-rtt{rtt_ms}": f"us:uplink_mbit={mbit},delay_ms={rtt_ms // 2}" for mbit in (200, 800) for rtt_ms in (20, 100, 300)
        if (mbit, rtt_ms) != (800, 100)}  # which is clean
KINDS = {"clean": "us", **GRID, "jitter": "jitter", "policed": "policed", "dip": "dip", "foreign": "foreign",
         "shared-uplink": "shared-uplink", "incast": "incast"}
WHOLE = ("us", "us-eu", "lossy", "globe", "lan")  # with the queues that they come with
DROPS = ("packets", "super-packets", "device")  # tests/wan/scenario.h
# A device's queue has one rate, and each host has one: dip has a schedule, hosts of shared-uplink have no limit of their own.
NOT_AT_DEVICE = ("dip", "shared-uplink")
CONTENDERS = ("ringway", "gloo", "tcp")
# An MTU of 1500 carries 1448 bytes: the rest is IP, TCP and a timestamp.
WIRE = 1500 / 1448
RECOVERED = 0.9
LATE_MAX = 0.02  # more is worth a remark


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    scenario: str  # for tests/wan/run
    congestion: str
    kind: str


def overridden(scenario, overrides):
    return f"{scenario}{',' if ':' in scenario else ':'}{overrides}"


def cells_without_drops():
    cells = [Cell(f"{congestion}/q{queue}/{kind}", overridden(scenario, f"congestion={congestion},queue_ms={queue}"), congestion, kind)
             for congestion in CONGESTIONS for queue in QUEUES_MS for kind, scenario in KINDS.items()]
    return cells + [Cell(f"{congestion}/{name}", overridden(name, f"congestion={congestion}"), congestion, name)
                    for congestion in CONGESTIONS for name in WHOLE]


def dropping(cell, drops):
    """The cell where queues drop so: its name ends with +DROPS, but for packets."""
    if drops == DROPS[0]:
        return cell
    return dataclasses.replace(cell, name=f"{cell.name}+{drops}", scenario=overridden(cell.scenario, f"drops={drops}"))


def all_cells(ways=DROPS):
    return [dropping(cell, drops) for cell in cells_without_drops() for drops in ways
            if drops != "device" or cell.kind not in NOT_AT_DEVICE]


def chosen(patterns, ways=DROPS[:1]):
    """The cells that any of the patterns, which commas separate and which name no drops, matches. ValueError: one matches none."""
    found = []
    for drops in ways:
        cells, names = all_cells([drops]), set()
        for pattern in patterns.split(","):
            fitting = {cell.name for cell in cells if fnmatch.fnmatchcase(cell.name.partition("+")[0], pattern)}
            if not fitting:
                raise ValueError(f"no cell is called {pattern} where queues drop {drops}; --list shows them all")
            names |= fitting
        found += [cell for cell in cells if cell.name in names]
    return found


def some(mbit):
    """A rate of 0 is none: no limit."""
    return mbit if mbit > 0 else math.inf


def host_rates(network, outwards):
    """Of each host, the Mbit/s at which it can send (or receive) what is new, at best."""
    hosts, rates = network["hosts"], []
    for i, host in enumerate(hosts):
        paths = [network["paths"][i][j] if outwards else network["paths"][j][i] for j in range(len(hosts)) if j != i]
        own = min(some(host["uplink_mbit"]), some(host["police_mbit"])) if outwards else some(host["downlink_mbit"])
        rate = min(own, sum(some(path["mbit"]) for path in paths))
        rates.append(rate * (1 - min(path["loss"] for path in paths)))
    return rates


def site_rates(network):
    """Of each site, the Mbit/s at which its hosts can send to other sites together."""
    sites = collections.defaultdict(list)
    for host, rate in zip(network["hosts"], host_rates(network, outwards=True)):
        sites[host["site"]].append((rate, some(host["shared_mbit"])))
    return [min(sum(rate for rate, _ in hosts), hosts[0][1]) for hosts in sites.values()]


def shortest_delays_ms(network):
    """From each host to each, by way of others where that is quicker."""
    count = len(network["hosts"])
    delays = [[0 if i == j else network["paths"][i][j]["delay_ms"] for j in range(count)] for i in range(count)]
    for middle in range(count):
        for i in range(count):
            for j in range(count):
                delays[i][j] = min(delays[i][j], delays[i][middle] + delays[middle][j])
    return delays


def limit_ms(network, size):
    """No all-reduce of `size` bytes takes less, whatever it sends by which path.

    Of N that take part, all together send at least 2 (N - 1) buffers and receive as many, and each of them one; so do sites.
    What is last to arrive needs the longest delay on top. `network` is what wan_emulator --list json prints.
    """
    longest = 0.0
    for rates in (host_rates(network, True), host_rates(network, False), site_rates(network)):
        if len(rates) > 1:
            longest = max(longest, 1 / min(rates), 2 * (len(rates) - 1) / sum(rates))
    return size * WIRE * 8 / 1e3 * longest + max(max(row) for row in shortest_delays_ms(network))


def times_of_ranks(results):
    """Each operation's time, the median of the ranks', and when it began, by the machine's clock."""
    times = [statistics.median(each) for each in zip(*(result["times_ms"] for result in results))]
    first = results[0]
    if "starts_s" in first:
        return times, first["starts_s"]
    starts, at = [], first["began_s"]
    for time_ms in first["times_ms"]:
        starts.append(at)
        at += time_ms / 1e3
    return times, starts


def outside(times, starts, begin, end):
    """The times of operations that were under way at no moment between the two."""
    return [time_ms for time_ms, start in zip(times, starts) if start + time_ms / 1e3 <= begin or start >= end]


def recovery_s(times, starts, dip_begin, dip_end):
    """Seconds from the dip's end until an operation begins that is at RECOVERED of the rate before the dip.

    None: there was none before it, or no such one after it.
    """
    before = [time_ms for time_ms, start in zip(times, starts) if start + time_ms / 1e3 <= dip_begin]
    if not before:
        return None
    enough_ms = statistics.median(before) / RECOVERED
    after = [start for time_ms, start in zip(times, starts) if start >= dip_end and time_ms <= enough_ms]
    return min(after) - dip_end if after else None


def operations_between(times, starts, begin, end):
    """How many operations, and parts of one, lie between the two moments."""
    parts = ((min(end, start + time_ms / 1e3) - max(begin, start)) / (time_ms / 1e3) for time_ms, start in zip(times, starts))
    return sum(max(0.0, part) for part in parts)


def jain_of_jobs(jobs):
    """Of (times, starts) of each job: by what each did while all were at it."""
    begin = max(starts[0] for _, starts in jobs)
    end = min(starts[-1] + times[-1] / 1e3 for times, starts in jobs)
    return jain([operations_between(times, starts, begin, end) for times, starts in jobs]) if begin < end else None


def jain(values):
    """1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def summary(records):
    """Of the rounds of one contender, size and cell: what its place in the table says."""
    times = [time_ms for record in records for time_ms in record.get("times_ms", [])]
    out = {"median_ms": statistics.median(times) if times else None, "limit_ms": max(record["limit_ms"] for record in records),
           "failed": [record["failed"] for record in records if record.get("failed")], "rounds": len(records)}
    deliveries = sum(record.get("deliveries", 0) for record in records)
    out["late"] = sum(record.get("late", 0) for record in records) / deliveries if deliveries else 0
    for name in ("share", "recovery_s", "jain"):
        values = [record[name] for record in records if record.get(name) is not None]
        out[name] = statistics.median(values) if values else None
    return out


def latest(records):
    """Without what a later run of the same round replaced."""
    kept = {}
    for record in records:
        kept[record["cell"], record["bytes"], record["contender"], record["round"]] = record
    return list(kept.values())


def milliseconds(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def shown(found):
    """(time, times the limit) as the table has them."""
    if found is None:
        return "", ""
    if found["median_ms"] is None:
        return "failed", ""
    return milliseconds(found["median_ms"]), f"{found['median_ms'] / found['limit_ms']:.2f}"


def remarks(systems):
    texts = []
    for name, found in systems.items():
        said = []
        if found["share"] is not None:
            said.append(f"foreign share {found['share']:.0%}")
        if found["recovery_s"] is not None:
            said.append(f"recovers in {found['recovery_s']:.1f} s")
        if found["jain"] is not None:
            said.append(f"Jain {found['jain']:.2f}")
        if found["late"] > LATE_MAX:
            said.append(f"{found['late']:.0%} of deliveries late")
        if found["failed"]:
            said.append(f"{len(found['failed'])} of {found['rounds']} rounds failed: {found['failed'][-1]}")
        if said:
            texts.append(f"{name}: " + ", ".join(said))
    return "; ".join(texts).replace("|", "/").replace("\n", " ")


def table(records):
    """Markdown: a row for each cell and size, in the cells' order."""
    order = {cell.name: i for i, cell in enumerate(all_cells())}
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in latest(records):
        groups[order.get(record["cell"], len(order)), record["cell"], record["bytes"]][record["contender"]].append(record)
    head = "".join(f" {name} | x limit |" for name in CONTENDERS)
    lines = [f"| network | size | limit |{head} |", "|---|---|---|" + "---|" * (2 * len(CONTENDERS) + 1)]
    for (_, cell, size), contenders in sorted(groups.items()):
        systems = {name: summary(contenders[name]) for name in CONTENDERS if name in contenders}
        values = [value for name in CONTENDERS for value in shown(systems.get(name))]
        limit = max(found["limit_ms"] for found in systems.values())
        lines.append(f"| {cell} | {runs.size_name(size)} | {milliseconds(limit)} | " + " | ".join([*values, remarks(systems)]) + " |")
    return "\n".join(lines) + "\n"
