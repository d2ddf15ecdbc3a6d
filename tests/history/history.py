"""The events of a history, by operation and peer; what contradicts the promises already in their order."""
import json
from collections import defaultdict


class History:
    """The events of one history, by operation and peer."""

    def __init__(self, lives):
        self.lives = lives       # peer -> the group's life, where views say so
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
        self.newest = defaultdict(int)        # peer -> the newest epoch of a success that was reported to it
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
            self.contradicts(f"{name_of(key)}: peer {peer} got {event['code']} and had not submitted it")
        if peer in self.outcomes[key]:
            self.contradicts(f"{name_of(key)}: peer {peer} got {self.outcomes[key][peer]['code']}, "
                             f"then {event['code']}")
            return
        if peer in self.ends and event["code"] == "ok":
            self.contradicts(f"{name_of(key)}: peer {peer} got ok after its membership had ended "
                             f"({self.ends[peer]})")
        if event["code"] == "ok" and len(key) == 3:
            self.newest[peer] = max(self.newest[peer], event["epoch"])
        self.outcomes[key][peer] = event


def name_of(key):
    if len(key) > 3:
        return f"group {key[0]}, message {key[2]} to {key[3]}, channel {key[1]}, tag {key[4]}, {list(key[5])}"
    return f"group {key[0]}, channel {key[1]}, operation {list(key[2])}"


def report_of(event):
    if event["code"] != "ok":
        return event["code"]
    waits = ", a view waits" if event["update_waits"] else ""
    return f"ok of epoch {event['epoch']} from {event['contributors']}{waits}"


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
    if len(paths) > 1:  # of one host's clock; a membership ends after what was reported in the same millisecond
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
