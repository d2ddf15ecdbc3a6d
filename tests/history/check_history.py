#!/usr/bin/env python3
"""Says what contradicts Ringway's promises in recorded histories: what each trainer submitted, and what it was told.

Usage: check_history.py [--quiet] FILE_OR_DIRECTORY...

Each file is a history of its own; the files of a directory are one history together. Exit code 1: something contradicts.

The rules are those of README.md, "What is promised", and of the READMEs of daemon, master and client. Nothing here is
shared with the programs, their simulation or the chaos run's checker. README.md has the format.
"""
import fractions
import json
import math
import pathlib
import struct
import sys
from collections import defaultdict

# Outcomes of the membership or of this rank alone: they leave the operation's own outcome open.
END_OF_MEMBERSHIP = {"daemon_lost", "daemon_unreachable", "evicted", "left", "shutting_down", "rejoined", "timeout",
                     "buffer_modified", "master_unreachable", "peer_unreachable", "resource_exhausted"}
NOT_AGREED = END_OF_MEMBERSHIP | {"device_failed", "invalid_argument", "interrupted"}
REDUCING = {"all_reduce", "reduce_scatter", "reduce", "reduce_scatter_v"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
# Each rank has a part of its own.
IN_PARTS = {"reduce_scatter", "reduce", "gather", "scatter", "all_to_all", "all_to_all_v", "reduce_scatter_v"}
FOR_ONE_WORLD = {"scatter", "all_to_all", "all_to_all_v", "all_gather_v", "reduce_scatter_v"}
WITHOUT_UPDATE_WAITS = ROOTED | {"all_to_all_v"}
FORMATS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f16": "e",
           "bf16": "bf16", "f32": "f", "f64": "d"}
BITS = {"u8": 8, "i8": 8, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64}
ROUNDING = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 2.0 ** -22, "f64": 2.0 ** -50}


def decode(dtype, text):
    """The elements of a hexadecimal string."""
    raw = bytes.fromhex(text)
    if dtype == "bf16":
        halves = struct.unpack(f"<{len(raw) // 2}H", raw)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    code = FORMATS[dtype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))


def wrap(dtype, value):
    """An integer as the dtype holds it: sums and products wrap."""
    bits = BITS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


def reduce_values(dtype, reduction, values):
    if reduction in ("min", "max"):
        if any(isinstance(x, float) and math.isnan(x) for x in values):
            return math.nan
        return min(values) if reduction == "min" else max(values)
    if reduction == "avg" and all(math.isfinite(x) for x in values):
        return float(sum(fractions.Fraction(x) for x in values) / len(values))  # where a float's sum may overflow
    total = values[0]
    for value in values[1:]:
        total = total * value if reduction == "prod" else total + value
    if reduction == "avg":
        total /= len(values)
    return wrap(dtype, total) if dtype in BITS else total


def samples(dtype, described):
    return dict(zip(described["at"], decode(dtype, described["values"])))


class History:
    """The events of one history, by operation and peer."""

    def __init__(self, lives):
        self.lives = lives       # peer -> the group's life, where views tell
        self.retained_bytes = 0  # the success of a larger operation holds for all
        self.whole = False       # nothing was cut off at the end
        self.joins = {}          # peer -> event
        self.ends = {}           # peer -> code
        self.submissions = defaultdict(dict)  # operation -> peer -> event
        self.outcomes = defaultdict(dict)
        self.cancels = defaultdict(set)
        self.members = {}        # (group, epoch) -> peers in rank order
        self.newest_view = {}    # group -> epoch
        self.views = defaultdict(list)        # peer -> its epochs, in order
        self.newest = defaultdict(int)        # peer -> the newest epoch of a success that it was told
        self.contradictions = []
        self._last = {}          # (peer, channel) -> the newest operation submitted there

    def contradicts(self, text):
        self.contradictions.append(text)

    def stayed(self, peer):
        """Whether it is a member to the end. If the end is cut off, whoever is not in the newest view may be dropped."""
        if peer not in self.joins or peer in self.ends:
            return False
        newest = self.newest_view.get(self.joins[peer]["group"])
        return self.whole or newest is None or peer in self.members[(self.joins[peer]["group"], newest)]

    def key_of(self, event):
        """What all ranks call the operation, or both ends the message. A group that is formed anew counts from one."""
        if "from" in event:
            return (event["group"], event["channel"], event["from"], event["to"], event["tag"], tuple(event["op"]))
        life = (self.lives[event["peer"]],) if event["peer"] in self.lives else ()
        return (event["group"], event["channel"], life + tuple(event["op"]))

    def add(self, event):
        handler = getattr(self, "_on_" + event["event"], None)
        if handler is None:
            raise ValueError(f"unknown event {event['event']}")
        handler(event)

    def _on_run(self, event):
        self.retained_bytes = event["retained_bytes"]

    def _on_over(self, _event):
        self.whole = True

    def _on_join(self, event):
        if event["peer"] in self.joins:
            self.contradicts(f"peer {event['peer']} joined twice: ids never repeat")
        self.joins[event["peer"]] = event

    def _on_end(self, event):
        self.ends.setdefault(event["peer"], event["code"])

    def _on_view(self, event):
        peer, epoch, members = event["peer"], event["epoch"], event["members"]
        where = f"view {epoch} of group {event['group']}"
        if self.members.setdefault((event["group"], epoch), members) != members:
            self.contradicts(f"{where}: two lists of members, one at peer {peer}")
        if peer not in members:
            self.contradicts(f"{where}: peer {peer} is in it without being a member")
        if self.views[peer] and self.views[peer][-1] >= epoch:
            self.contradicts(f"{where}: peer {peer} was in view {self.views[peer][-1]} before; epochs only grow")
        self.views[peer].append(epoch)
        self.newest_view[event["group"]] = max(epoch, self.newest_view.get(event["group"], 0))

    def _on_submit(self, event):
        peer, key = event["peer"], self.key_of(event)
        event["newest"] = self.newest[peer]
        if peer not in self.joins or peer in self.ends:
            self.contradicts(f"{name_of(key)}: peer {peer} submitted it and is no member")
        if peer in self.submissions[key]:
            self.contradicts(f"{name_of(key)}: peer {peer} submitted it twice")
        stream = (peer,) + key[:-1]
        if key[-1] <= self._last.get(stream, ()):
            self.contradicts(f"{name_of(key)}: peer {peer} submitted it after {list(self._last[stream])}")
        self._last[stream] = key[-1]
        self.submissions[key][peer] = event

    def _on_withdraw(self, event):
        """A message that got no number, for its other end was gone."""
        key = self.key_of(event)
        self.submissions[key].pop(event["peer"], None)
        self._last.pop((event["peer"],) + key[:-1], None)

    def _on_cancel(self, event):
        self.cancels[self.key_of(event)].add(event["peer"])

    def _on_outcome(self, event):
        peer, key = event["peer"], self.key_of(event)
        if peer not in self.submissions[key]:
            self.contradicts(f"{name_of(key)}: peer {peer} was told {event['code']} and had not submitted it")
        if peer in self.outcomes[key]:
            self.contradicts(f"{name_of(key)}: peer {peer} was told {self.outcomes[key][peer]['code']}, "
                             f"then {event['code']}")
            return
        if peer in self.ends and event["code"] == "ok":
            self.contradicts(f"{name_of(key)}: peer {peer} was told ok after its membership had ended "
                             f"({self.ends[peer]})")
        if event["code"] == "ok" and len(key) == 3:
            self.newest[peer] = max(self.newest[peer], event["epoch"])
        self.outcomes[key][peer] = event


def name_of(key):
    if len(key) > 3:
        return f"group {key[0]}, message {key[2]} to {key[3]}, channel {key[1]}, tag {key[4]}, {list(key[5])}"
    return f"group {key[0]}, channel {key[1]}, operation {list(key[2])}"


def told(event):
    if event["code"] != "ok":
        return event["code"]
    waits = ", a view waits" if event["update_waits"] else ""
    return f"ok of epoch {event['epoch']} from {event['contributors']}{waits}"


class Operation:
    """A collective: what its ranks submitted and were told."""

    def __init__(self, history, key):
        self.history = history
        self.name = name_of(key)
        self.group = key[0]
        self.submissions = history.submissions[key]
        self.told = history.outcomes.get(key, {})
        self.outcomes = {p: x for p, x in self.told.items() if x["code"] not in NOT_AGREED}
        self.cancelled_by = history.cancels.get(key, set())
        self.views_of = history.members

    def contradicts(self, text):
        self.history.contradicts(f"{self.name}: {text}")

    def check(self):
        for peer, outcome in self.outcomes.items():
            if peer not in self.submissions:
                continue  # said already
            if outcome["code"] == "ok":
                self.check_success(peer, outcome)
            else:
                self.check_cause(peer, outcome)
        self.check_agreement()
        if self.history.whole:
            for peer in self.submissions:
                if self.history.stayed(peer) and peer not in self.told:
                    self.contradicts(f"peer {peer} stayed and was told nothing")

    # ---- one success

    def check_success(self, peer, outcome):
        kind, contributors = self.submissions[peer]["kind"], outcome["contributors"]
        if peer not in contributors:
            self.contradicts(f"peer {peer} was told {told(outcome)}, without its own input")
        if len(set(contributors)) != len(contributors):
            self.contradicts(f"peer {peer} was told {told(outcome)}: an input is in it twice")
        if outcome["world"] != len(contributors):
            self.contradicts(f"peer {peer} was told world size {outcome['world']} and {told(outcome)}")
        if outcome["epoch"] < self.submissions[peer]["newest"]:
            self.contradicts(f"peer {peer} was told {told(outcome)}, and had been told a success of epoch "
                             f"{self.submissions[peer]['newest']} before it submitted this")
        if outcome["update_waits"] and kind in WITHOUT_UPDATE_WAITS:
            self.contradicts(f"peer {peer}: the result of a {kind} says update_waits")
        if not outcome.get("intact", True):
            self.contradicts(f"peer {peer}: its input was written to")
        members = self.views_of.setdefault((self.submissions[peer]["group"], outcome["epoch"]), contributors)
        if members != contributors:
            self.contradicts(f"peer {peer} was told {told(outcome)}, but the members of that view are {members}")
        if kind == "update_view":
            return
        if all(x in self.submissions for x in contributors):
            self.check_descriptors(peer, contributors)
            self.check_result(peer, outcome)
        else:
            missing = [x for x in contributors if x not in self.submissions]
            self.contradicts(f"peer {peer} was told {told(outcome)}, and {missing} had not submitted it")

    def check_descriptors(self, peer, contributors):
        """Ranks that submit different collectives get a mismatch."""
        if difference := self.difference(contributors):
            self.contradicts(f"peer {peer} was told ok, and the contributors differ in {difference}")

    def difference(self, peers):
        fields = ["kind", "dtype", "reduce", "codec", "root", "layout", "algorithm"]
        if any(self.submissions[p]["kind"] == "all_to_all_v" for p in peers):
            fields.remove("layout")  # each rank has its own
        else:
            fields.append("count")
        for field in fields:
            if len({self.submissions[p].get(field) for p in peers}) > 1:
                return f"{field}: {[self.submissions[p].get(field) for p in peers]}"
        return None

    def check_result(self, peer, outcome):
        own, contributors = self.submissions[peer], outcome["contributors"]
        if "output" not in outcome or outcome.get("scribbled") or own.get("feedback"):
            return
        inputs = [self.submissions[p].get("input") for p in contributors]
        if own["kind"] in REDUCING:
            if all(inputs):
                self.check_reduction(peer, outcome, inputs)
        elif own["codec"] == "none":
            self.check_moved(peer, outcome, inputs)

    def check_reduction(self, peer, outcome, inputs):
        own, output = self.submissions[peer], outcome["output"]
        dtype, reduction = own["dtype"], own["reduce"]
        # An exact sum is linear: so is a weighted sum of its elements.
        exact = reduction == "sum" and own["codec"] == "none" and all(x.get("sketch") is not None for x in inputs)
        if exact and output.get("whole"):
            wanted = sum(x["sketch"] for x in inputs)
            if dtype in BITS:
                wanted %= 1 << BITS[dtype]
            if output.get("sketch") != wanted:
                self.contradicts(f"peer {peer} was told {told(outcome)}: it is not the sum of their inputs")
                return
        magnitude = max((x.get("max", 0) for x in inputs), default=0)
        bound = outcome.get("error_bound", 0)
        tolerance = bound * magnitude if math.isfinite(bound) else math.inf
        sampled = [samples(dtype, x) for x in inputs]
        for place, found in samples(dtype, output).items():
            if not all(place in x for x in sampled):
                self.contradicts(f"peer {peer} was told {told(outcome)}: not every input has an element {place}")
                return
            wanted = reduce_values(dtype, reduction, [x[place] for x in sampled])
            if not self.close(own, wanted, found, tolerance, magnitude * len(inputs)):
                self.contradicts(f"peer {peer} was told {told(outcome)}: element {place} is {found} and not {wanted}")
                return

    @staticmethod
    def close(own, wanted, found, tolerance, magnitude):
        if isinstance(wanted, float) and math.isnan(wanted):
            return math.isnan(found)
        if own["dtype"] in BITS or (own["codec"] == "none" and own["reduce"] != "avg"):
            return wanted == found
        rounding = ROUNDING[own["dtype"]] * max(abs(wanted), magnitude if own["codec"] != "none" else 0)
        return abs(wanted - found) <= tolerance + rounding  # also false if what was found is no number

    def check_moved(self, peer, outcome, inputs):
        """Pieces of the inputs arrive unchanged, each from its rank."""
        own, contributors = self.submissions[peer], outcome["contributors"]
        kind, rank, pieces = own["kind"], contributors.index(peer), outcome["output"].get("pieces")
        if pieces is None:
            return
        if kind in ("broadcast", "scatter"):
            place = contributors.index(own["root"]) if own["root"] in contributors else None
            if place is None:
                self.contradicts(f"peer {peer} was told {told(outcome)}, without the root {own['root']}")
                return
            senders = [inputs[place]]
        else:
            senders = inputs
        if kind == "gather" and peer != own["root"]:
            return
        if any(x is None or x.get("pieces") is None for x in senders):
            return
        place = rank if kind in ("scatter", "all_to_all", "all_to_all_v") else 0
        wanted = [x["pieces"][place] if place < len(x["pieces"]) else None for x in senders]
        if pieces != wanted:
            self.contradicts(f"peer {peer} was told {told(outcome)}: its pieces are not what these submitted")

    # ---- one failure

    def check_cause(self, peer, outcome):
        code, submitted = outcome["code"], list(self.submissions.values())
        joins = [x for x in self.history.joins.values() if x["group"] == self.group]  # the options of all count
        fits_one_world = any(x["kind"] in FOR_ONE_WORLD | ROOTED for x in submitted)
        if code == "mismatch" and not fits_one_world and not self.difference(list(self.submissions)):
            self.contradicts(f"peer {peer} was told mismatch, and all submitted the same")
        if code == "cancelled" and not (self.cancelled_by or self.may_have_failed_alone()):
            self.contradicts(f"peer {peer} was told cancelled, and nobody had cancelled it")
        if code == "peer_lost" and not fits_one_world and not any(x.get("fail_on_peer_loss", True) for x in joins):
            self.contradicts(f"peer {peer} was told peer_lost in a group that retries")
        if code == "world_too_small" and all(x.get("min_world", 2) <= 1 for x in joins):
            self.contradicts(f"peer {peer} was told world_too_small in a group without a minimum")
        if code == "internal":
            self.contradicts(f"peer {peer} was told internal: {outcome.get('text', '')}")

    def may_have_failed_alone(self):
        """Whether a rank's device could not read its input, or the rank is gone without having said how it ended there."""
        failed = any(x["code"] == "device_failed" for x in self.told.values())
        return failed or any(p not in self.told and p in self.history.ends for p in self.submissions)

    # ---- all outcomes

    def check_agreement(self):
        """The outcome told to who stays, or the success of a large operation, is everybody's."""
        groups = []  # [outcome, peers] of equal outcomes
        for peer, outcome in self.outcomes.items():
            for group in groups:
                if not self.differ(group[0], outcome):
                    group[1].append(peer)
                    break
            else:
                groups.append([outcome, [peer]])
        for i, one in enumerate(groups):
            if one[0]["code"] == "ok" and self.is_strong(one):
                self.check_told_to_all(one)
            for other in groups[i + 1:]:
                if not (self.excused(one, other) or self.excused(other, one)):
                    self.contradicts(f"peers {one[1]} were told {told(one[0])}, peers {other[1]} "
                                     f"{told(other[0])}: {self.differ(one[0], other[0])}")

    def differ(self, one, other):
        if one["code"] != other["code"]:
            return "another outcome"
        if one["code"] != "ok":
            return None
        for field in ("epoch", "contributors", "update_waits", "next"):
            if one.get(field) != other.get(field):
                return f"another {field}"
        kinds = {self.submissions[x["peer"]]["kind"] for x in (one, other) if x["peer"] in self.submissions}
        if kinds & IN_PARTS or one.get("scribbled") or other.get("scribbled"):
            return None
        return "other bytes" if one.get("digest") != other.get("digest") else None

    def is_large(self, outcome):
        own = self.submissions.get(outcome["peer"])
        if own is None:
            return False
        return own["kind"] in IN_PARTS | ROOTED | {"update_view"} or own["bytes"] > self.history.retained_bytes

    def is_strong(self, group):
        outcome, peers = group
        stays = any(self.history.stayed(p) for p in peers)
        return stays or (outcome["code"] == "ok" and self.is_large(outcome))

    def check_told_to_all(self, group):
        if not self.history.whole:
            return
        outcome, peers = group
        for peer in outcome["contributors"]:
            if self.history.stayed(peer) and peer in self.submissions and peer not in self.told:
                self.contradicts(f"peers {peers} were told {told(outcome)}, peer {peer}, which stayed, nothing")

    def excused(self, gone, stood):
        """Whether those who were told the first were dropped at that very moment, and the others went on without them."""
        if self.is_strong(gone):
            return False
        one, other = gone[0], stood[0]
        if one["code"] == "ok" and other["code"] == "ok" and other["epoch"] < one["epoch"]:
            return False
        return not set(gone[1]) & set(other["contributors"] if other["code"] == "ok" else [])


class Message:
    """A send and the recv that matches it."""

    def __init__(self, history, key):
        self.history = history
        self.name = name_of(key)
        self.ends = key[2:4]
        self.submissions = history.submissions[key]
        outcomes = history.outcomes.get(key, {})
        self.answered = set(outcomes)
        self.outcomes = {p: x for p, x in outcomes.items() if x["code"] not in NOT_AGREED}
        self.cancelled = bool(history.cancels.get(key))

    def contradicts(self, text):
        self.history.contradicts(f"{self.name}: {text}")

    def check(self):
        sent, received = (self.outcomes.get(p) for p in self.ends)
        if sent and received and sent["code"] != received["code"]:
            if sent["code"] == "ok" or all(self.history.stayed(p) for p in self.ends):
                self.contradicts(f"its sender was told {sent['code']}, its receiver {received['code']}")
        if sent and sent["code"] == "ok" and not received and self.history.stayed(self.ends[1]) and self.history.whole:
            self.contradicts("its sender was told ok, its receiver nothing")
        if received and received["code"] == "ok":
            self.check_bytes(received)
        for outcome in filter(None, (sent, received)):
            if outcome["code"] == "cancelled" and not self.cancelled:
                self.contradicts("it was cancelled, and nobody had cancelled it")
        if self.history.whole:
            for peer in self.submissions:
                if all(self.history.stayed(p) for p in self.ends) and len(self.submissions) == 2 \
                        and peer not in self.answered:
                    self.contradicts(f"peer {peer} was told nothing")

    def check_bytes(self, received):
        submitted = self.submissions.get(self.ends[0])
        if submitted is None:
            self.contradicts("it was received, and had not been sent")
        elif submitted["input"]["pieces"] != received["output"]["pieces"]:
            self.contradicts("other bytes were received than sent")


def read(paths):
    """The events of these files in order. A last line that was cut off does not count."""
    events = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    break
                try:
                    events.append(json.loads(line))
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: {error}") from None
    if len(paths) > 1:  # of one host's clock; a membership ends after what was told in the same millisecond
        events.sort(key=lambda x: (x["t"], x["event"] in ("end", "over")))
    return events


def lives_of(events):
    """The epoch of the view that each peer's group was formed in: one of newcomers only."""
    members = {(x["group"], x["epoch"]): x["members"] for x in events if x["event"] == "view"}
    lives, current = {}, {}
    for (group, epoch), peers in sorted(members.items()):
        if not any(peer in lives for peer in peers):
            current[group] = epoch
        for peer in peers:
            lives.setdefault(peer, current[group])
    return lives


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
            contradictions, some, told_of = check(read(files))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        operations += some
        outcomes += told_of
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
