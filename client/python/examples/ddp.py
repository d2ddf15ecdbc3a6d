"""A small GPT learns a text, by DistributedDataParallel over hosts that may die and come: ddp.py SOCKET WORLD [TEXT].

Until one of the trainers gets SIGTERM: then all end at the same step, with the same weights.
"""

import hashlib
import pathlib
import signal
import sys

import ringway.torch
import torch
import torch.distributed as dist
from torch import nn

CONTEXT, WIDTH, BATCH = 64, 64, 16


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.layers(self.tokens(x) + self.places(torch.arange(x.shape[1])), mask, is_causal=True))


def loss_of_batch(model, data, step, peer):
    """Of the batch that this peer draws from the text at this step."""
    generator = torch.Generator().manual_seed(step * 65537 + peer)
    at = torch.randint(len(data) - CONTEXT - 1, (BATCH, 1), generator=generator) + torch.arange(CONTEXT + 1)
    logits = model(data[at[:, :-1]])
    return nn.functional.cross_entropy(logits.flatten(0, 1), data[at[:, 1:]].flatten())


def main(socket, world, path="/usr/share/common-licenses/GPL-3"):
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    text = pathlib.Path(path).read_bytes()
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # DDP asks for one
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(Gpt(256))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for p in model.parameters():  # so that there are moments to share
        optimizer.state[p] = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    arrays = [x for p in model.parameters() for x in (p, *optimizer.state[p].values())]
    state = ringway.SharedState.join(arrays, "gpt", socket=socket, wait_world=int(world))  # as the others have it
    with state.session as session:
        hook = ringway.torch.ddp_hook(model, session)
        is_over = torch.zeros(1)
        while not is_over:
            try:
                optimizer.zero_grad()
                loss = loss_of_batch(model, data, state.revision, session.peer_id)
                loss.backward()
                if state.revision % 10 == 0:  # all know it at the same step
                    is_over[0] = len(asked_to_stop)
                    session.all_reduce(is_over, "max")
                optimizer.step()
                print(f"step {state.revision + 1} loss {loss.item():.3f} world {hook.result.world_size}", flush=True)
                state.advance(hook.take_update() and not is_over)  # newcomers take weights and moments
            except ringway.Rejoined:  # as a newcomer, by another daemon
                state.sync()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(f"weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
