"""What the ranks of one operation, or the two ends of a message, got, against what they submitted."""
import math

from history import name_of, report_of
from values import BITS, close, reduce_values, samples

# Outcomes of the membership or of this rank alone: they leave the operation's own outcome open.
END_OF_MEMBERSHIP = {"daemon_lost", "daemon_unreachable", "evicted", "left", "shutting_down", "rejoined", "timeout",
                     "buffer_modified", "master_unreachable", "peer_unreachable", "resource_exhausted"}
NOT_AGREED = END_OF_MEMBERSHIP | {"device_failed", "invalid_argument", "interrupted"}
REDUCING = {"all_reduce", "reduce_scatter", "reduce", "reduce_scatter_v"}
FROM_ROOT = {"broadcast", "scatter"}  # no other rank has an input
ROOTED = FROM_ROOT | {"reduce", "gather"}
# Each rank has a part of its own.
IN_PARTS = {"reduce_scatter", "reduce", "gather", "scatter", "all_to_all", "all_to_all_v", "reduce_scatter_v"}
FOR_ONE_WORLD = {"scatter", "all_to_all", "all_to_all_v", "all_gather_v", "reduce_scatter_v"}
SHARE = 100  # a quorum beyond is a share in percent
WITHOUT_UPDATE_WAITS = ROOTED | {"all_to_all_v"}


class Operation:
    """A collective: what its ranks submitted and got."""

    def __init__(self, history, key):
        self.history = history
        self.name = name_of(key)
        self.group = key[0]
        self.submissions = history.submissions[key]
        self.reports = history.outcomes.get(key, {})
        self.outcomes = {p: x for p, x in self.reports.items() if x["code"] not in NOT_AGREED}
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
                if self.history.stayed(peer) and peer not in self.reports:
                    self.contradicts(f"peer {peer} stayed and got nothing")

    # ---- one success

    def check_success(self, peer, outcome):
        kind, contributors = self.submissions[peer]["kind"], outcome["contributors"]
        if peer not in contributors:
            self.contradicts(f"peer {peer} got {report_of(outcome)}, without its own input")
        if len(set(contributors)) != len(contributors):
            self.contradicts(f"peer {peer} got {report_of(outcome)}: an input is in it twice")
        if outcome["world"] != len(contributors):
            self.contradicts(f"peer {peer} got world size {outcome['world']} and {report_of(outcome)}")
        if outcome["epoch"] < self.submissions[peer]["newest"]:
            self.contradicts(f"peer {peer} got {report_of(outcome)}, and had got a success of epoch "
                             f"{self.submissions[peer]['newest']} before it submitted this")
        if outcome["update_waits"] and kind in WITHOUT_UPDATE_WAITS:
            self.contradicts(f"peer {peer}: the result of a {kind} says update_waits")
        if not outcome.get("intact", True):
            self.contradicts(f"peer {peer}: its input was written to")
        view = (self.submissions[peer]["group"], outcome["epoch"])
        if not outcome.get("in_rank_order", True):  # a trainer does not know the ranks of those that were late
            members = self.views_of.get(view, contributors)
            contributors = members if set(members) == set(contributors) else contributors
        else:
            members = self.views_of.setdefault(view, contributors)
        if members != contributors:
            self.contradicts(f"peer {peer} got {report_of(outcome)}, but the members of that view are {members}")
        if kind == "update_view":
            return
        absent = outcome.get("absent", [])
        missing = [x for x in contributors if x not in self.submissions and x not in absent]
        if all(self.may_be_absent(x, self.submissions[peer]) for x in missing):
            self.check_descriptors(peer, [x for x in contributors if x in self.submissions])
            self.check_absent(peer, outcome, absent)
            self.check_result(peer, outcome)
        else:
            self.contradicts(f"peer {peer} got {report_of(outcome)}, and {missing} had not submitted it")

    def check_absent(self, peer, outcome, absent):
        """Inputs may be missing where there is a quorum, and no more of them than it allows; or of the newest members, as all said."""
        contributors, quorum = outcome["contributors"], self.submissions[peer].get("quorum", 0)
        if newest := self.submissions[peer].get("without_from"):
            if sorted(absent) != sorted(x for x in contributors if x >= newest):
                self.contradicts(f"peer {peer} got {report_of(outcome)} without the inputs of {absent}, not of those from {newest} on")
            return
        wanted = quorum if quorum <= SHARE else math.ceil((quorum - SHARE) * len(contributors) / 100)
        wanted = min(wanted, len(contributors)) if quorum else len(contributors)
        if not set(absent) <= set(contributors) or len(contributors) - len(absent) < wanted:
            self.contradicts(f"peer {peer} got {report_of(outcome)} without the inputs of {absent}")

    def may_be_absent(self, peer, submission):
        """Whoever has no input may die before it asks for its part, when all others have theirs."""
        return submission["kind"] in FROM_ROOT and peer != self.root() and not self.history.stayed(peer)

    def root(self):
        """A trainer does not say it where it does not know whose rank that is; None if nobody says it."""
        return next((x["root"] for x in self.submissions.values() if "root" in x), None)

    def check_descriptors(self, peer, contributors):
        """Ranks that submit different collectives get a mismatch."""
        if difference := self.difference(contributors):
            self.contradicts(f"peer {peer} got ok, and the contributors differ in {difference}")

    def difference(self, peers):
        fields = ["kind", "dtype", "reduce", "codec", "root", "layout", "algorithm", "quorum", "without_from"]
        if any(self.submissions[p]["kind"] == "all_to_all_v" for p in peers):
            fields.remove("layout")  # each rank has its own
        else:
            fields.append("count")
        for field in fields:
            said = {self.submissions[p].get(field) for p in peers}
            if len(said - {None} if field == "root" else said) > 1:
                return f"{field}: {[self.submissions[p].get(field) for p in peers]}"
        return None

    def check_result(self, peer, outcome):
        own = self.submissions[peer]
        contributors = [x for x in outcome["contributors"] if x not in outcome.get("absent", [])]
        if "output" not in outcome or outcome.get("scribbled") or own.get("feedback"):
            return
        inputs = [self.submissions.get(p, {}).get("input") for p in contributors]
        if own["kind"] in REDUCING:
            if all(inputs):
                weights = [self.submissions[p].get("weight", 1) for p in contributors]
                self.check_reduction(peer, outcome, inputs, weights)
        elif own["codec"] == "none":
            self.check_moved(peer, outcome, inputs)

    def check_reduction(self, peer, outcome, inputs, weights):
        own, output = self.submissions[peer], outcome["output"]
        dtype, reduction = own["dtype"], own["reduce"]
        # An exact sum is linear: so is a weighted sum of its elements.
        exact = reduction == "sum" and own["codec"] == "none" and all(x.get("sketch") is not None for x in inputs)
        if exact and output.get("whole"):
            wanted = sum(x["sketch"] for x in inputs)
            if dtype in BITS:
                wanted %= 1 << BITS[dtype]
            if output.get("sketch") != wanted:
                self.contradicts(f"peer {peer} got {report_of(outcome)}: it is not the sum of their inputs")
                return
        magnitude = max((x.get("max", 0) for x in inputs), default=0)
        bound = outcome.get("error_bound", 0)
        tolerance = bound * magnitude if math.isfinite(bound) else math.inf
        sampled = [samples(dtype, x) for x in inputs]
        for place, found in samples(dtype, output).items():
            if not all(place in x for x in sampled):
                self.contradicts(f"peer {peer} got {report_of(outcome)}: not every input has an element {place}")
                return
            wanted = reduce_values(dtype, reduction, [x[place] for x in sampled], weights)
            if not close(own, wanted, found, tolerance, magnitude * len(inputs)):
                self.contradicts(f"peer {peer} got {report_of(outcome)}: element {place} is {found} and not {wanted}")
                return

    def check_moved(self, peer, outcome, inputs):
        """Pieces of the inputs arrive unchanged, each from its rank."""
        own, contributors, root = self.submissions[peer], outcome["contributors"], self.root()
        kind, rank, pieces = own["kind"], contributors.index(peer), outcome["output"].get("pieces")
        if pieces is None or (kind in FROM_ROOT and root is None):
            return
        if kind in FROM_ROOT and root not in contributors:
            self.contradicts(f"peer {peer} got {report_of(outcome)}, without the root {root}")
            return
        senders = [inputs[contributors.index(root)]] if kind in FROM_ROOT else inputs
        if kind == "gather" and peer != root:
            return
        if any(x is None or x.get("pieces") is None for x in senders):
            return
        place = rank if kind in ("scatter", "all_to_all", "all_to_all_v") else 0
        wanted = [x["pieces"][place] if place < len(x["pieces"]) else None for x in senders]
        if pieces != wanted:
            self.contradicts(f"peer {peer} got {report_of(outcome)}: its pieces are not what these submitted")

    # ---- one failure

    def check_cause(self, peer, outcome):
        code, submitted = outcome["code"], list(self.submissions.values())
        joins = [x for x in self.history.joins.values() if x["group"] == self.group]  # the options of all count
        fits_one_world = any(x["kind"] in FOR_ONE_WORLD | ROOTED for x in submitted)
        if code == "mismatch" and not fits_one_world and not self.difference(list(self.submissions)):
            self.contradicts(f"peer {peer} got mismatch, and all submitted the same")
        if code == "cancelled" and not (self.cancelled_by or self.may_have_failed_alone()):
            self.contradicts(f"peer {peer} got cancelled, and nobody had cancelled it")
        without_inputs = any(x.get("without_from") for x in submitted)  # all that have one may be lost
        if code == "peer_lost" and not (fits_one_world or without_inputs) and not any(x.get("fail_on_peer_loss", True) for x in joins):
            self.contradicts(f"peer {peer} got peer_lost in a group that retries")
        if code == "world_too_small" and all(x.get("min_world", 2) <= 1 for x in joins):
            self.contradicts(f"peer {peer} got world_too_small in a group without a minimum")
        if code == "internal":
            self.contradicts(f"peer {peer} got internal: {outcome.get('text', '')}")

    def may_have_failed_alone(self):
        """Whether a rank's device could not read its input, or the rank is gone without having said how it ended there."""
        failed = any(x["code"] == "device_failed" for x in self.reports.values())
        return failed or any(p not in self.reports and p in self.history.ends for p in self.submissions)

    # ---- all outcomes

    def check_agreement(self):
        """The outcome reported to who stays, or the success of a large operation, is everybody's."""
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
                self.check_reported_to_all(one)
            for other in groups[i + 1:]:
                if not (self.excused(one, other) or self.excused(other, one)):
                    self.contradicts(f"peers {one[1]} got {report_of(one[0])}, peers {other[1]} "
                                     f"{report_of(other[0])}: {self.differ(one[0], other[0])}")

    def differ(self, one, other):
        if one["code"] != other["code"]:
            return "another outcome"
        if one["code"] != "ok":
            return None
        for field in ("epoch", "contributors", "absent", "update_waits", "next"):
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

    def check_reported_to_all(self, group):
        if not self.history.whole:
            return
        outcome, peers = group
        for peer in outcome["contributors"]:
            if self.history.stayed(peer) and peer in self.submissions and peer not in self.reports:
                self.contradicts(f"peers {peers} got {report_of(outcome)}, peer {peer}, which stayed, nothing")

    def excused(self, gone, stood):
        """Whether those who got the first were dropped at that very moment, and the others went on without them."""
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
                self.contradicts(f"its sender got {sent['code']}, its receiver {received['code']}")
        if sent and sent["code"] == "ok" and not received and self.history.stayed(self.ends[1]) and self.history.whole:
            self.contradicts("its sender got ok, its receiver nothing")
        if received and received["code"] == "ok":
            self.check_bytes(received)
        for outcome in filter(None, (sent, received)):
            if outcome["code"] == "cancelled" and not self.cancelled:
                self.contradicts("it was cancelled, and nobody had cancelled it")
        if self.history.whole:
            for peer in self.submissions:
                if all(self.history.stayed(p) for p in self.ends) and len(self.submissions) == 2 \
                        and peer not in self.answered:
                    self.contradicts(f"peer {peer} got nothing")

    def check_bytes(self, received):
        submitted = self.submissions.get(self.ends[0])
        if submitted is None:
            self.contradicts("it was received, and had not been sent")
        elif submitted["input"]["pieces"] != received["output"]["pieces"]:
            self.contradicts("other bytes were received than sent")
