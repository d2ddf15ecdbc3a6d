"""Hugging Face accelerate: `ringway run --nproc 2 with_accelerate.py`, or torchrun."""

import torch
import torch.distributed as dist
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("ringway")  # before accelerate makes a group of its own
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(0)
data, model = TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), torch.nn.Linear(4, 1)
model, optimizer, batches = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(data, 8))
for x, y in batches:
    optimizer.zero_grad()
    accelerator.backward((model(x) - y).square().mean())
    optimizer.step()
print(dist.get_backend(), [round(x, 5) for x in model.state_dict()["module.weight"][0].tolist()])
dist.destroy_process_group()
