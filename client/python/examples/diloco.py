"""The GPT of ddp.py by DiLoCo: each rank trains alone, and all meet every tenth step: diloco.py SOCKET WORLD [TEXT].

Until one of the trainers gets SIGTERM: then all end at the same step, with the same outer state.
"""

import hashlib
import pathlib
import signal
import sys

import ringway.torch
import torch
from ddp import Gpt, loss_of_batch

EVERY = 10


def share_state(session, outer, steps):
    """One who has trained longest gives its outer state to all; returns the group's step. Every rank calls it."""
    all_steps = torch.zeros(session.world_size, dtype=torch.int64)
    session.all_gather(torch.tensor([steps]), out=all_steps)
    root = int(all_steps.argmax())
    outer.settle()
    state = outer.state_dict()
    flat = torch.cat([*state["agreed"], *state["velocity"], state["steps"].float()])
    session.broadcast(flat, root)
    parts = iter(flat.split([len(x) for x in [*state["agreed"], *state["velocity"], state["steps"]]]))
    outer.load_state_dict({
        "agreed": [next(parts) for _ in state["agreed"]],
        "velocity": [next(parts) for _ in state["velocity"]],
        "steps": next(parts),
    })
    return int(all_steps[root])


def main(socket, world, path="/usr/share/common-licenses/GPL-3"):
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    data = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).long()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Gpt(256)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with ringway.join("diloco", socket=socket, wait_world=int(world)) as session:
        outer = ringway.torch.DiLoCo(model.parameters(), session, every=EVERY, codec="int8", error_feedback=True)
        step, is_in_step, is_over = 0, False, torch.zeros(1)
        while not is_over:
            try:
                if not is_in_step:
                    step, is_in_step = share_state(session, outer, step), True
                optimizer.zero_grad()
                loss = loss_of_batch(model, data, step, session.peer_id)
                loss.backward()
                optimizer.step()
                step += 1
                outer.step()
                if step % EVERY != 0:
                    continue
                print(f"step {step} loss {loss.item():.3f} world {outer.result.world_size}", flush=True)
                is_over[0] = len(asked_to_stop)
                session.all_reduce(is_over, "max")  # all know it at the same step
                if outer.take_update():
                    session.update_view()
                    is_in_step = False
            except (ringway.Rejoined, ringway.PeerLost):  # a newcomer again, or whoever gave the state is gone
                is_in_step = False
    agreed = b"".join(x.numpy().tobytes() for x in outer.state_dict()["agreed"])
    print(f"weights {hashlib.sha256(agreed).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
