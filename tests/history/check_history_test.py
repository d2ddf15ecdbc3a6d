"""A right history contradicts nothing; each promise that is broken in one is found, by its name."""

import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import check_history
from values import FORMATS

OP = {"group": "g", "channel": 0, "kind": "all_reduce", "dtype": "f32", "reduce": "sum", "codec": "none", "count": 2,
      "bytes": 8, "algorithm": "ring"}


def described(values, dtype="f32", begin=0):
    """As the recorder describes a buffer of few elements; without a sketch."""
    code = FORMATS[dtype]
    return {"sketch": None, "max": max(map(abs, values), default=0), "at": list(range(begin, begin + len(values))),
            "values": struct.pack(f"<{len(values)}{code}", *values).hex(), "whole": begin == 0}


class Recorded:
    """A history by hand. Peers 1, 2 and 3 form group g in view 10."""

    def __init__(self, peers=(1, 2, 3), epoch=10):
        self.events = [{"event": "run", "retained_bytes": 100}]
        for peer in peers:
            self.say("join", peer, min_world=1, fail_on_peer_loss=False)
            self.view(peer, epoch, peers)

    def say(self, event, peer, **fields):
        self.events.append({"event": event, "peer": peer, "group": "g", **fields})

    def view(self, peer, epoch, members):
        self.say("view", peer, epoch=epoch, members=list(members))

    def submit(self, peer, op=1, values=(1, 2), **fields):
        event = dict(OP, op=[op], input=described([x * peer for x in values], fields.get("dtype", "f32")))
        self.say("submit", peer, **{**event, **fields})

    def report(self, peer, op=1, contributors=(1, 2, 3), epoch=10, output=None, **fields):
        output = output or described([sum(contributors), 2 * sum(contributors)])
        event = {"channel": 0, "op": [op], "code": "ok", "epoch": epoch, "contributors": list(contributors),
                 "world": len(contributors), "update_waits": False, "retries": 0, "digest": str(contributors),
                 "output": output}
        self.say("outcome", peer, **{**event, **fields})

    def failed(self, peer, code, op=1):
        self.say("outcome", peer, channel=0, op=[op], code=code)

    def whole_operation(self, op=1, peers=(1, 2, 3), epoch=10, **fields):
        for peer in peers:
            self.submit(peer, op, **{x: y for x, y in fields.items() if x in OP})
        for peer in peers:
            self.report(peer, op, peers, epoch, **{x: y for x, y in fields.items() if x not in OP})

    def judge(self):
        return check_history.check([*self.events, {"event": "over"}])[0]


class CheckHistoryTest(unittest.TestCase):
    def setUp(self):
        self.history = Recorded()

    def assert_right(self):
        self.assertEqual(self.history.judge(), [])

    def assert_found(self, text):
        found = self.history.judge()
        self.assertTrue(any(text in x for x in found), found)

    # ---- right histories

    def test_operations_of_all_and_then_of_survivors_are_right(self):
        self.history.whole_operation(1)
        self.history.submit(3, 2)
        self.history.say("end", 3, code="killed")
        for peer in (1, 2):
            self.history.submit(peer, 2)
            self.history.view(peer, 11, (1, 2))
        for peer in (1, 2):
            self.history.report(peer, 2, (1, 2), 11, retries=1)
        self.assert_right()

    def test_a_failure_that_was_reported_to_all_is_right(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.say("cancel", 2, channel=0, op=[1])
        for peer in (1, 2, 3):
            self.history.failed(peer, "cancelled")
        self.assert_right()

    def small_success_of_a_dropped_peer(self, **fields):
        for peer in (1, 2, 3):
            self.history.submit(peer, **fields)
        self.history.report(3)
        self.history.say("end", 3, code="evicted")
        for peer in (1, 2):
            self.history.view(peer, 11, (1, 2))
            self.history.report(peer, contributors=(1, 2), epoch=11)

    def test_a_small_success_reported_to_a_peer_that_is_then_dropped_need_not_hold(self):
        self.small_success_of_a_dropped_peer()
        self.assert_right()

    def test_a_device_failure_is_of_one_rank_alone(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        for peer in (1, 2):
            self.history.report(peer)
        self.history.failed(3, "device_failed")
        self.assert_right()

    def test_what_one_rank_s_device_could_not_read_is_cancelled_on_the_others(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
            self.history.failed(peer, "cancelled" if peer < 3 else "device_failed")
        self.assert_right()

    def test_a_history_that_is_cut_off_lacks_no_outcome(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.report(1)
        self.assertEqual(check_history.check(self.history.events)[0], [])

    def test_moved_pieces_are_right_where_they_belong(self):
        for peer in (1, 2, 3):
            self.history.submit(peer, kind="all_to_all", input={"pieces": [f"{peer}to{x}" for x in (1, 2, 3)]})
        for peer in (1, 2, 3):
            self.history.report(peer, output={"pieces": [f"{x}to{peer}" for x in (1, 2, 3)]})
        self.assert_right()

    # ---- the promise

    def test_a_success_that_one_of_those_that_stay_did_not_get_is_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.report(1)
        self.history.report(2)
        self.assert_found("peer 3, which stayed, nothing")

    def test_success_at_one_and_failure_at_another_is_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.report(1)
        self.history.report(2)
        self.history.say("cancel", 3, channel=0, op=[1])
        self.history.failed(3, "cancelled")
        self.assert_found("another outcome")

    def test_different_failures_are_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.say("cancel", 3, channel=0, op=[1])
        self.history.failed(1, "cancelled")
        self.history.failed(2, "deadline")
        self.history.failed(3, "cancelled")
        self.assert_found("another outcome")

    def test_other_bytes_are_found(self):
        self.history.whole_operation()
        self.history.events[-1]["digest"] = "other"
        self.assert_found("other bytes")

    def test_other_contributors_are_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.report(1)
        self.history.report(2)
        self.history.report(3, contributors=(1, 3), epoch=11)
        self.assert_found("another epoch")

    def test_ranks_that_differ_in_a_view_that_waits_are_found(self):
        self.history.whole_operation()
        self.history.events[-1]["update_waits"] = True
        self.assert_found("another update_waits")

    def test_a_large_success_reported_to_a_dropped_peer_must_hold(self):
        self.small_success_of_a_dropped_peer(bytes=101)
        self.assert_found("another epoch")

    def test_a_success_in_parts_reported_to_a_dropped_peer_must_hold(self):
        self.small_success_of_a_dropped_peer(kind="all_to_all", input={"pieces": None}, bytes=8)
        self.assert_found("another epoch")

    def test_a_small_success_with_a_peer_that_others_count_in_must_hold(self):
        self.small_success_of_a_dropped_peer()
        for event in self.history.events:
            if event["event"] == "outcome" and event["peer"] != 3:
                event["contributors"] = [1, 2, 3]
        self.assert_found("another epoch")

    def test_members_without_an_outcome_are_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.assert_found("stayed and got nothing")

    # ---- one result

    def test_a_sum_that_is_not_of_the_inputs_is_found(self):
        self.history.whole_operation(output=described([6, 13]))
        self.assert_found("element 1 is 13.0 and not 12")

    def test_a_sum_whose_elements_were_not_sampled_is_found_by_its_sketch(self):
        self.history.whole_operation()
        for event in self.history.events:
            if event["event"] == "submit":
                event["input"]["sketch"] = 5
            if event["event"] == "outcome":
                event["output"]["sketch"] = 16
        self.assert_found("it is not the sum of their inputs")

    def test_integers_wrap(self):
        for peer in (1, 2, 3):
            self.history.submit(peer, values=(60, -60), dtype="i8") if peer < 3 else self.history.submit(
                3, values=(1, -1), dtype="i8")
        for peer in (1, 2, 3):
            self.history.report(peer, output=described([-73, 73], "i8"))
        self.assert_right()
        self.history.events[-1]["output"] = described([127, -127], "i8")
        self.assert_found("element 0 is 127 and not -73")

    def test_an_average_does_not_overflow_with_the_sum(self):
        for peer in (1, 2, 3):
            self.history.submit(peer, values=(2.0 ** 1022, -(2.0 ** 1022)), dtype="f64", reduce="avg")
        for peer in (1, 2, 3):
            self.history.report(peer, output=described([2.0 ** 1023, -(2.0 ** 1023)], "f64"))
        self.assert_right()
        self.history.events[-1]["output"] = described([math.inf, -(2.0 ** 1023)], "f64")
        self.assert_found("element 0 is inf and not 8.98")

    def test_a_result_beyond_the_bound_of_its_codec_is_found(self):
        self.history.whole_operation(codec="int8", output=described([6.5, 12.5]), error_bound=0.1)
        self.assert_right()
        self.history.events[-1]["output"] = described([6.5, 13])
        self.assert_found("element 1 is 13.0 and not 12")

    def test_a_result_without_the_own_input_is_found(self):
        self.history.submit(1)
        self.history.report(1, contributors=(2, 3))
        self.assert_found("without its own input")

    def test_an_input_that_is_in_it_twice_is_found(self):
        self.history.whole_operation()
        self.history.events[-1]["contributors"] = [1, 2, 3, 3]
        self.assert_found("an input is in it twice")

    def test_an_input_of_who_submitted_nothing_is_found(self):
        self.history.submit(1)
        self.history.submit(2)
        self.history.report(1)
        self.history.report(2)
        self.history.say("end", 3, code="killed")
        self.assert_found("[3] had not submitted it")

    def test_contributors_that_are_not_the_view_s_members_are_found(self):
        self.history.whole_operation(peers=(1, 2))
        self.assert_found("the members of that view are [1, 2, 3]")

    def test_late_ranks_whose_places_are_unknown_are_members_all_the_same(self):
        self.history.whole_operation(quorum=2)
        for event in self.history.events:
            if event["event"] == "submit":
                event["quorum"] = 2
            if event["event"] == "outcome":
                event.update(contributors=[1, 3, 2], absent=[2], in_rank_order=False, output=described([4, 8]))
        self.assert_right()
        self.history.events[-1]["absent"] = [3]
        self.assert_found("another absent")
        self.history.events[-1].update(absent=[2], contributors=[1, 4, 2])
        self.assert_found("the members of that view are [1, 2, 3]")

    def test_sums_without_the_newest_inputs_lack_those_and_no_other(self):
        self.history.whole_operation()
        for event in self.history.events:
            if event["event"] == "submit":
                event["without_from"] = 3
            if event["event"] == "outcome":
                event.update(absent=[3], output=described([3, 6]))
        self.assert_right()
        for absent in ([2], []):
            for event in self.history.events:
                if event["event"] == "outcome":
                    event["absent"] = absent
            self.assert_found("not of those from 3 on")

    def test_success_of_different_collectives_is_found(self):
        self.history.whole_operation()
        next(x for x in self.history.events if x["event"] == "submit")["count"] = 3
        self.assert_found("the contributors differ in count")

    def test_a_piece_of_another_rank_is_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer, kind="all_gather", input={"pieces": [str(peer)]})
        for peer in (1, 2, 3):
            self.history.report(peer, output={"pieces": ["1", "3", "2"]})
        self.assert_found("its pieces are not what these submitted")

    def test_a_receiver_may_die_before_it_asks_for_its_part_of_a_broadcast(self):
        for peer in (1, 2):
            self.history.submit(peer, kind="broadcast", root=1, input={"pieces": [str(peer)]})
        for peer in (1, 2):
            self.history.report(peer, output={"pieces": ["1"]})
        self.assert_found("[3] had not submitted it")
        self.history.say("end", 3, code="killed")
        self.assert_right()

    def test_a_root_that_some_do_not_know_is_that_of_the_others(self):
        for peer in (1, 2, 3):
            root = {} if peer == 2 else {"root": 1}
            self.history.submit(peer, kind="broadcast", **root, input={"pieces": [str(peer)]})
        for peer in (1, 2, 3):
            self.history.report(peer, output={"pieces": ["1"]})
        self.assert_right()
        self.history.events[-2]["output"] = {"pieces": ["2"]}
        self.assert_found("not what these submitted")

    def test_a_broadcast_without_the_roots_submission_is_found(self):
        for peer in (1, 2):
            self.history.submit(peer, kind="broadcast", root=3, input={"pieces": []})
        for peer in (1, 2):
            self.history.report(peer, output={"pieces": ["3"]})
        self.history.say("end", 3, code="killed")
        self.assert_found("[3] had not submitted it")

    def test_a_broadcast_from_who_is_not_the_root_is_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer, kind="broadcast", root=2, input={"pieces": [str(peer)]})
        for peer in (1, 2, 3):
            self.history.report(peer, output={"pieces": ["1"]})
        self.assert_found("its pieces are not what these submitted")

    def test_an_input_that_was_written_to_is_found(self):
        self.history.whole_operation(intact=False)
        self.assert_found("its input was written to")

    def test_update_waits_of_a_collective_with_a_root_is_found(self):
        self.history.whole_operation(kind="reduce", update_waits=True)
        self.assert_found("the result of a reduce says update_waits")

    # ---- order, memberships, views

    def test_a_second_outcome_is_found(self):
        self.history.whole_operation()
        self.history.report(3)
        self.assert_found("got ok, then ok")

    def test_an_outcome_of_what_was_not_submitted_is_found(self):
        self.history.report(1)
        self.assert_found("had not submitted it")

    def test_a_sequence_that_goes_back_is_found(self):
        self.history.whole_operation(2)
        self.history.whole_operation(1)
        self.assert_found("submitted it after [10, 2]")

    def test_a_success_of_an_older_view_than_was_known_is_found(self):
        self.history.whole_operation(1, epoch=11)
        self.history.whole_operation(2, epoch=10)
        self.assert_found("had got a success of epoch 11")

    def test_success_after_the_end_of_a_membership_is_found(self):
        for peer in (1, 2, 3):
            self.history.submit(peer)
        self.history.say("end", 3, code="evicted")
        for peer in (1, 2, 3):
            self.history.report(peer)
        self.assert_found("after its membership had ended")

    def test_a_submission_after_the_end_of_a_membership_is_found(self):
        self.history.say("end", 3, code="evicted")
        self.history.submit(3)
        self.assert_found("is no member")

    def test_an_id_that_is_given_twice_is_found(self):
        self.history.say("join", 1)
        self.assert_found("joined twice")

    def test_two_views_of_one_epoch_are_found(self):
        self.history.view(1, 12, (1, 2))
        self.history.view(2, 12, (1, 2, 3))
        self.assert_found("two lists of members")

    def test_a_view_that_goes_back_is_found(self):
        self.history.view(1, 9, (1, 2))
        self.assert_found("epochs only grow")

    def test_a_view_without_its_own_peer_is_found(self):
        self.history.view(1, 12, (2, 3))
        self.assert_found("without being a member")

    def test_an_update_view_that_leaves_ranks_out_of_step_is_found(self):
        self.history.whole_operation(kind="update_view", next=[2, 1])
        self.history.events[-1]["next"] = [2, 2]
        self.assert_found("another next")

    # ---- failures without a cause

    def test_failures_without_a_cause_are_found(self):
        for code, text in (("mismatch", "all submitted the same"), ("cancelled", "nobody had cancelled it"),
                           ("peer_lost", "in a group that retries"), ("world_too_small", "without a minimum"),
                           ("internal", "got internal")):
            self.history = Recorded()
            for peer in (1, 2, 3):
                self.history.submit(peer)
                self.history.failed(peer, code)
            self.assert_found(text)

    # ---- messages

    def message(self, sender, receiver, pieces=("x",)):
        key = {"channel": 0, "from": 1, "to": 2, "tag": 7, "op": [1]}
        self.history.say("submit", 1, kind="send", input={"pieces": ["x"]}, **key)
        self.history.say("submit", 2, kind="recv", **key)
        for peer, code in ((1, sender), (2, receiver)):
            if code:
                self.history.say("outcome", peer, code=code, epoch=10, output={"pieces": list(pieces)}, **key)

    def test_a_message_that_both_ends_have_is_right(self):
        self.message("ok", "ok")
        self.assert_right()

    def test_a_message_that_its_receiver_lacks_is_found(self):
        self.message("ok", None)
        self.assert_found("its receiver nothing")

    def test_ends_of_a_message_that_differ_are_found(self):
        self.message("mismatch", "ok")
        self.assert_found("its sender got mismatch, its receiver ok")

    def test_other_bytes_of_a_message_are_found(self):
        self.message("ok", "ok", ["y"])
        self.assert_found("other bytes were received than sent")


class CommandTest(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "one.jsonl")
            path.write_text(text)
            return subprocess.run([sys.executable, "-B", check_history.__file__, str(path)], capture_output=True,
                                  text=True, check=False)

    def test_a_line_that_was_cut_off_does_not_count(self):
        done = self.run_on('{"event":"run","retained_bytes":1}\n{"event":"jo')
        self.assertEqual((done.returncode, done.stdout),
                         (0, "1 histories, 0 operations, 0 outcomes: 0 contradict the promises\n"))

    def test_a_line_that_is_no_event_is_named(self):
        done = self.run_on('{"event":"run","retained_bytes":1}\nnonsense\n')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("one.jsonl:2: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
