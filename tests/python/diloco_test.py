"""DiLoCo's outer steps are those of its definition, the same on all ranks, whoever dies or comes."""
import unittest
from unittest import mock

import numpy
import ringway
from cluster import ClusterTest, eventually, of_trainers, together

try:
    import torch
except ImportError:
    torch = None

DEVICE = "cuda" if torch and torch.cuda.is_available() else "cpu"
WORLD, SIZES = 3, [(7, 5), (5,), (30,), (2, 2, 2)]
FORMS = [  # every, fragments, delay, keep
    (1, 1, 0, None),
    (4, 1, 0, None),
    (6, 2, 0, 0.25),
    (8, 4, 1, None),
    (9, 3, 2, 0.0),
]


def start():
    """The parameters that all begin with."""
    generator = torch.Generator().manual_seed(5)
    return [torch.nn.Parameter(torch.randn(size, generator=generator).to(DEVICE)) for size in SIZES]


def inner(parameters, peer, step):
    """A step that a rank's own data make."""
    generator = torch.Generator().manual_seed(1000 * peer + step)
    with torch.no_grad():
        for p in parameters:
            p.add_(torch.randn(p.shape, generator=generator).to(DEVICE), alpha=0.1)


def poison(parameters):
    with torch.no_grad():
        parameters[-1].view(-1)[0] = float("nan")


def defined(ranks, steps, every, parts, delay, keep, lr=0.7, momentum=0.9):
    """All ranks' parameters by the words of the paper, one parameter after the other, in double precision."""
    keep = (0.5 if delay else 0.0) if keep is None else keep
    local = {r: [p.detach().cpu().double() for p in start()] for r in ranks}
    agreed = [p.detach().cpu().double() for p in start()]
    velocity = [torch.zeros_like(p) for p in agreed]
    on_way = []
    for step in range(1, steps + 1):
        for r in ranks:
            generator = torch.Generator().manual_seed(1000 * r + step)
            for p in local[r]:
                p += 0.1 * torch.randn(p.shape, generator=generator).double()
        for number, part in enumerate(parts):
            if (step - number * every // len(parts)) % every == 0:
                on_way.append((step + delay, part, [sum(agreed[i] - local[r][i] for r in ranks) / len(ranks) for i in part]))
        while on_way and on_way[0][0] <= step:
            _, part, gradients = on_way.pop(0)
            for i, gradient in zip(part, gradients):
                velocity[i] = momentum * velocity[i] + gradient
                agreed[i] = agreed[i] - lr * (gradient + momentum * velocity[i])
                for r in ranks:
                    local[r][i] = keep * local[r][i] + (1 - keep) * agreed[i]
    return local


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DiLoCoTest(ClusterTest):
    def outer(self, parameters, session, form, **options):
        import ringway.torch

        every, fragments, delay, keep = form
        return ringway.torch.DiLoCo(
            parameters, session, every=every, fragments=fragments, delay=delay, keep=keep, **options)

    def test_outer_steps_are_those_of_the_definition(self):
        sessions = self.join(WORLD)
        for form in FORMS:
            def rank(session, form=form):
                parameters = start()
                outer = self.outer(parameters, session, form)
                for step in range(1, 21):
                    inner(parameters, session.rank, step)
                    outer.step()
                parts = [[next(i for i, p in enumerate(parameters) if p is mine) for mine in fragment.parameters]
                         for fragment in outer._fragments]
                outer.settle()
                return parts, parameters, outer.state_dict()

            with self.subTest(form=form):
                results = together(*[lambda s=s: rank(s) for s in sessions])
                parts = results[0][0]
                self.assertEqual(sorted(sum(parts, [])), list(range(len(SIZES))))
                self.assertEqual(len(parts), form[1])
                if form[2] == 0:  # else settle() has taken what the definition has on its way
                    expected = defined(range(WORLD), 20, form[0], parts, *form[2:])
                    for (_, parameters, _), mine in zip(results, expected.values()):
                        for p, want in zip(parameters, mine):
                            numpy.testing.assert_allclose(p.detach().cpu(), want, rtol=2e-5, atol=2e-5)
                for _, _, state in results[1:]:
                    for name in ("agreed", "velocity"):
                        for a, b in zip(state[name], results[0][2][name]):
                            self.assertTrue(torch.equal(a, b), name)

    def test_steps_go_on_while_a_fragment_is_on_its_way(self):
        sessions = self.join(2)

        def rank(session):
            parameters = start()
            outer = self.outer(parameters, session, (5, 1, 3, 0.5))
            history = []
            for step in range(1, 14):
                inner(parameters, session.rank, step)
                outer.step()
                history.append([p.detach().clone() for p in parameters])
            self.assertFalse(outer._on_way)
            return history

        histories = together(*[lambda s=s: rank(s) for s in sessions])
        for step in (4, 7, 8, 13):  # sent after the 5th and 10th, there after the 8th and 13th
            expected = defined(range(2), step, 5, [[0, 1, 2, 3]], 3, 0.5)
            for r, history in enumerate(histories):
                for p, want in zip(history[step - 1], expected[r]):
                    numpy.testing.assert_allclose(p.cpu(), want, rtol=2e-5, atol=2e-5, err_msg=f"step {step} rank {r}")

    def test_newcomer_with_the_state_goes_on_as_the_others(self):
        first, second = self.join(2)

        def train(parameters, outer, session, steps):
            for step in steps:
                inner(parameters, session.peer_id % 7, step)
                outer.step()

        def member(session):
            parameters = start()
            outer = self.outer(parameters, session, (3, 2, 0, None))
            train(parameters, outer, session, range(1, 8))
            return parameters, outer

        (parameters, outer), _ = together(lambda: member(first), lambda: member(second))
        second.abort()
        third = together(lambda: ringway.join(**self.options(2, 1)), lambda: self.let_in(first))[0]
        self.addCleanup(third.abort)
        fresh = start()
        newcomer = self.outer(fresh, third, (3, 2, 0, None))
        newcomer.load_state_dict(outer.state_dict())
        outer.load_state_dict(outer.state_dict())
        together(lambda: train(parameters, outer, first, range(8, 15)), lambda: train(fresh, newcomer, third, range(8, 15)))
        self.assertEqual(outer.result.world_size, 2)
        for a, b in zip(outer.state_dict()["agreed"], newcomer.state_dict()["agreed"]):
            self.assertTrue(torch.equal(a, b))

    def let_in(self, session):
        x = numpy.zeros(1)
        while not session.all_reduce(x).update_waits:
            pass
        self.assertEqual(session.update_view().world_size, 2)

    def test_arguments_that_fit_nothing_are_refused(self):
        session, = self.join(1)
        for form in ((2, 3, 0, None), (100, 5, 0, None), (4, 2, 2, None), (0, 1, 0, None)):
            with self.subTest(form=form), self.assertRaises(ValueError):
                self.outer(start(), session, form)
        for own_every in (0, 1, 3):
            with self.subTest(own_every=own_every), self.assertRaises(ValueError):
                self.outer(start(), session, (8, 2, 1, None), own_every=own_every)

    def test_codecs_with_feedback_end_at_the_same_bytes(self):
        sessions = self.join(WORLD)

        def rank(session):
            parameters = start()
            outer = self.outer(parameters, session, (2, 2, 0, None), codec="int4", error_feedback=True)
            for step in range(1, 13):
                inner(parameters, session.rank, step)
                outer.step()
            return outer.state_dict()

        states = together(*[lambda s=s: rank(s) for s in sessions])
        for state in states[1:]:
            for a, b in zip(state["agreed"], states[0]["agreed"]):
                self.assertTrue(torch.equal(a, b))

    def test_moves_of_a_late_rank_are_in_its_next_outer_step(self):
        sessions = self.join(WORLD)
        options = {"quorum": 2, "grace": 3, "skip_nonfinite": False, "late": "next", "lr": 1.0, "momentum": 0.0}
        ranks = [(start(), session) for session in sessions]
        ranks = [(parameters, self.outer(parameters, session, (1, 1, 0, None), **options)) for parameters, session in ranks]
        moved, late = 0.0, 0

        def step(place):
            parameters, outer = ranks[place]
            with torch.no_grad():
                for p in parameters:
                    p.add_(place + 1.0)
            outer.step()
            return outer.result

        def all_are_in():
            nonlocal moved, late
            absent = {result.absent for result in together(*[lambda place=place: step(place) for place in range(WORLD)])}
            moved, late = (moved + 1.5, late + 3) if absent != {()} else (moved + (1 + 2 + 3 + late) / 3, 0)
            return late == 0

        eventually(all_are_in)
        for _ in range(3):  # the first one waits for the grace
            for result in together(lambda: step(0), lambda: step(1)):
                self.assertEqual(result.absent, (sessions[2].peer_id,))
            moved, late = moved + 1.5, late + 3
        for behind in (2, 1, 0):
            result = step(2)
            self.assertEqual((result.is_late, result.behind), (True, behind))
        eventually(all_are_in)
        for parameters, _ in ranks:
            for p, begun in zip(parameters, start()):
                torch.testing.assert_close(p.detach(), begun.detach() + moved, rtol=0, atol=1e-4)

    def test_ranks_may_take_different_numbers_of_inner_steps_and_weigh_as_much(self):
        sessions = self.join(WORLD)
        every, outer_steps = (2, 3, 5), 4
        options = {"skip_nonfinite": False, "weight": 1, "lr": 1.0, "momentum": 0.0}

        def rank(place):
            parameters = start()
            outer = self.outer(parameters, sessions[place], (4, 2, 0, None), own_every=every[place], **options)
            for number in range(1, outer_steps * every[place] + 1):
                outer.weight = every[place]
                with torch.no_grad():
                    for p in parameters:
                        p.add_(1.0)
                outer.step()
            return parameters, outer

        results = together(*[lambda place=place: rank(place) for place in range(WORLD)])
        # Each fragment has had as many outer steps, of what each rank has moved it by since the last one.
        moved = outer_steps * sum(n * n for n in every) / sum(every)
        first = sum(n * (n // 2) for n in every) / sum(every)  # of the second fragment, whose turn is first
        for parameters, outer in results:
            for a, b in zip(outer.state_dict()["agreed"], results[0][1].state_dict()["agreed"]):
                self.assertTrue(torch.equal(a, b))
            self.assertEqual(outer.result.weight, sum(every))
            begun = [p.detach().reshape(-1) for p in start()]
            agreed = torch.cat(outer.state_dict()["agreed"]) - torch.cat(begun)
            self.assertAlmostEqual(float(agreed[0]), moved, places=4)
            self.assertAlmostEqual(float(agreed[-1]), moved - moved / outer_steps + first, places=4)

    def test_a_newcomer_with_other_turns_goes_on_with_the_others_fragment(self):
        parameters = start()
        session, = self.join(1)
        outer = self.outer(parameters, session, (4, 2, 0, None))
        for _ in range(11):
            outer.step()
        other = self.outer(start(), session, (4, 2, 0, None), own_every=10)
        other.load_state_dict(outer.state_dict())
        self.assertEqual((other._turns, other._steps), (5, 26))
        other._steps += 3  # further than the others' turns go
        self.assertEqual(int(other.state_dict()["steps"]), 11)
        outer.load_state_dict(other.state_dict())
        self.assertEqual((outer._turns, outer._steps), (5, 11))

    def test_what_is_compared_and_shared_has_the_form_of_release_0_9_0(self):
        first, second = self.join(2)
        for form in FORMS:
            every, fragments, delay, _ = form

            def rank(session, form=form):
                outer = self.outer(start(), session, form)
                for step in range(1, 2 * form[0] + 1):
                    outer.step()
                    self.assertEqual(outer._shared_steps().tolist(), [step])
                outer.settle()
                return outer.state_dict()

            with self.subTest(form=form), mock.patch("ringway._diloco.verify_equal") as verify_equal:
                states = together(lambda: rank(first), lambda: rank(second))
                for call in verify_equal.call_args_list:  # one of each rank
                    (_, steps), *rest = named = call.args[2]
                    parts = [f"{what} {number}" for number in range(fragments) for what in ("agreed", "velocity")]
                    self.assertEqual([name for name, _ in named], ["steps", *parts])
                    self.assertEqual((steps.dtype, steps.tolist()), (torch.int64, [every // fragments + delay]))
                self.assertEqual(len(verify_equal.call_args_list), 2)
                for state in states:
                    self.assertEqual(list(state), ["steps", "agreed", "velocity"])
                    self.assertEqual((state["steps"].dtype, state["steps"].tolist()), (torch.int64, [2 * every]))

    def test_a_state_of_release_0_9_0_is_loaded(self):
        session, = self.join(1)
        for form in FORMS:
            with self.subTest(form=form):
                outer, loaded = self.outer(start(), session, form), self.outer(start(), session, form)
                for step in range(1, 3 * form[0] + 1):
                    outer.step()
                    loaded.load_state_dict({
                        "steps": torch.tensor([step]),
                        "agreed": [fragment.agreed + 1 for fragment in outer._fragments],
                        "velocity": [fragment.velocity + 2 for fragment in outer._fragments],
                    })
                    self.assertEqual((loaded._turns, loaded._steps), (outer._turns, outer._steps))
                    for fragment, given in zip(loaded._fragments, outer._fragments):
                        self.assertTrue(torch.equal(fragment.agreed, given.agreed + 1))
                        self.assertTrue(torch.equal(fragment.velocity, given.velocity + 2))

    def test_an_outer_step_begins_though_the_inner_step_of_its_turn_raised(self):
        session, = self.join(1)
        outer = self.outer(start(), session, (4, 1, 3, None))
        for _ in range(6):
            outer.step()
        with mock.patch.object(outer._on_way[0][1], "wait", side_effect=KeyboardInterrupt):
            for _ in range(2):  # when it should have arrived, and when the next one should begin
                with self.assertRaises(KeyboardInterrupt):
                    outer.step()
        self.assertEqual(outer._turns, 1)
        outer.step()
        self.assertEqual((outer._turns, len(outer._on_way)), (2, 1))
        for _ in range(3):
            outer.step()
        self.assertEqual((outer._turns, len(outer._on_way)), (3, 1))

    def test_what_interrupts_a_submission_ends_the_ranks_part(self):
        session, = self.join(1)
        outer = self.outer(start(), session, (1, 1, 0, None))
        with mock.patch("ringway._diloco._OuterGradient", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            outer.step()
        with self.assertRaisesRegex(RuntimeError, "leave the session"):
            outer.step()

    def train(self, sessions, form, steps, poisoned, **options):
        """Each rank's parameters, outer state and contributors by step; `poisoned` has the steps in which a rank's become NaN."""
        def rank(session):
            parameters, contributors = start(), {}
            outer = self.outer(parameters, session, form, **options)
            for step in range(1, steps + 1):
                inner(parameters, session.rank, step)
                if step in poisoned.get(session.rank, ()):
                    poison(parameters)
                outer.step()
                contributors[step] = outer.contributors
            outer.settle()
            return parameters, outer, contributors

        results = together(*[lambda s=s: rank(s) for s in sessions])
        for _, outer, contributors in results[1:]:
            self.assertEqual(contributors, results[0][2])
            for name in ("agreed", "velocity"):
                for a, b in zip(outer.state_dict()[name], results[0][1].state_dict()[name]):
                    numpy.testing.assert_array_equal(a.cpu(), b.cpu())
        return results

    def test_outer_step_is_the_average_over_those_whose_parameters_are_finite(self):
        sessions = self.join(WORLD)
        with self.assertLogs("ringway", "WARNING") as logs:
            results = self.train(sessions, (1, 1, 0, None), 4, {1: [2]})
        self.assertEqual([outer.left_out for _, outer, _ in results], [0, 1, 0])
        said, = of_trainers(logs)
        self.assertIn("left out of outer step 2", said)
        all_peers = tuple(session.peer_id for session in sessions)
        self.assertEqual(results[0][2], {1: all_peers, 2: (all_peers[0], all_peers[2]), 3: all_peers, 4: all_peers})

        agreed = [p.detach().cpu().double() for p in start()]
        velocity = [torch.zeros_like(p) for p in agreed]
        for step in range(1, 5):
            ranks = (0, 2) if step == 2 else range(WORLD)
            generators = [torch.Generator().manual_seed(1000 * rank + step) for rank in ranks]
            for p, v in zip(agreed, velocity):
                gradient = -sum(0.1 * torch.randn(p.shape, generator=each).double() for each in generators) / len(ranks)
                v.mul_(0.9).add_(gradient)
                p.sub_(0.7 * (gradient + 0.9 * v))
        for parameters, _, _ in results:
            for p, want in zip(parameters, agreed):
                numpy.testing.assert_allclose(p.detach().cpu(), want, rtol=2e-5, atol=2e-5)

    def test_rank_that_was_left_out_goes_on_with_all_its_parameters_finite(self):
        sessions = self.join(WORLD)
        for form in FORMS:
            for codec in ("none", "int8"):
                with self.subTest(form=form, codec=codec), self.assertLogs("ringway", "WARNING"):
                    results = self.train(sessions, form, 20, {1: [3, 11], 2: [11]}, codec=codec)
                    self.assertGreater(results[1][1].left_out, 0)
                    for parameters, _, _ in results:
                        self.assertTrue(all(p.isfinite().all() for p in parameters))

    def test_step_in_which_nobody_is_finite_leaves_the_outer_state_as_it_is(self):
        sessions = self.join(2)
        with self.assertLogs("ringway", "WARNING"):
            results = self.train(sessions, (1, 1, 0, None), 1, {0: [1], 1: [1]})
        for parameters, outer, contributors in results:
            self.assertEqual(contributors, {1: ()})
            self.assertFalse(any(each.any() for each in outer.state_dict()["velocity"]))
            for p, want in zip(parameters, start()):
                self.assertTrue(torch.equal(p, want))

    def test_without_skip_nonfinite_one_rank_makes_all_nan(self):
        results = self.train(self.join(2), (1, 1, 0, None), 1, {1: [1]}, skip_nonfinite=False)
        for parameters, outer, _ in results:
            self.assertTrue(parameters[-1].isnan().any())
            self.assertEqual(outer.left_out, 0)

    def test_complex_parameters_travel_whole(self):
        def rank(session):
            parameters = [torch.nn.Parameter(torch.zeros(2, 2, dtype=torch.complex64)), torch.nn.Parameter(torch.zeros(2))]
            outer = self.outer(parameters, session, (1, 1, 0, None), lr=1.0, momentum=0.0)
            with torch.no_grad():
                parameters[0].add_(1 + 2j * session.rank)
                parameters[1].add_(session.rank)
            outer.step()
            return parameters

        for p, q in together(*[lambda s=s: rank(s) for s in self.join(WORLD)]):
            torch.testing.assert_close(p.detach(), torch.full((2, 2), 1 + 2j, dtype=torch.complex64))
            torch.testing.assert_close(q.detach(), torch.ones(2))

    def test_ranks_that_begin_with_other_parameters_are_refused_on_all(self):
        def rank(session):
            parameters = start()
            with torch.no_grad():
                parameters[2].add_(session.rank)
            outer = self.outer(parameters, session, (1, 1, 0, None))
            for _ in range(2):
                with self.refused(ringway.Mismatch, "another agreed 0"):
                    outer.step()
            outer.load_state_dict({"steps": torch.tensor([2]), "agreed": [torch.ones(78)], "velocity": [torch.zeros(78)]})
            outer.step()
            return outer.result

        for result in together(*[lambda s=s: rank(s) for s in self.join(WORLD)]):
            self.assertEqual(result.world_size, WORLD)

    def test_survivors_agree_on_who_was_left_out_when_one_dies(self):
        script = """
import torch, ringway.torch
torch.set_num_threads(1)
torch.manual_seed(1)
session = join()
p = torch.nn.Parameter(torch.ones(50_000))
outer = ringway.torch.DiLoCo([p], session, every=2, delay=1, skip_nonfinite=True)
generator, step = torch.Generator().manual_seed(session.peer_id), 0
while True:
    step += 1
    with torch.no_grad():
        p.add_(torch.randn(p.shape, generator=generator))
        if step % (4 + session.rank) == 0:
            p[0] = float("nan")
    outer.step()
    if step % 2 == 1 and outer.result:
        agreed = outer._fragments[0].agreed
        say(f"step {step} world {outer.result.world_size} of {len(outer.contributors)} sum {agreed.double().sum():.17g}")
"""
        trainers = [self.trainer(i, 3, script) for i in range(3)]
        for trainer in trainers:
            trainer.said(" world 3 of 2", times=3)
        trainers[2].kill()
        for trainer in trainers[:2]:
            trainer.said(" world 2 of ", times=20)
        for trainer in trainers:
            trainer.kill()
        steps = [{line.split()[1]: line for line in trainer.text().splitlines(keepends=True)
                  if line.startswith("step ") and line.endswith("\n")} for trainer in trainers]
        for one, other in ((0, 1), (0, 2)):
            both = steps[one].keys() & steps[other].keys()
            self.assertGreater(len(both), 3)
            self.assertEqual([steps[one][step] for step in both], [steps[other][step] for step in both])
        self.assertNotIn("nan", "".join(steps[0].values()))
