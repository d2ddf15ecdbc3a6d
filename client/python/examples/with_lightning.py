"""Lightning: `ringway run --nproc 2 with_lightning.py`, or torchrun."""

import os

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Linear(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def validation_step(self, batch, _):
        self.log("loss", (self.layer(batch[0]) - batch[1]).square().mean(), sync_dist=True)  # the mean of all ranks

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self):
        ends = [*self.layer.weight[0].tolist(), self.trainer.callback_metrics["loss"].item()]
        print(dist.get_backend(), [round(x, 5) for x in ends])


world = int(os.environ["WORLD_SIZE"])
torch.manual_seed(0)
model, batches = Linear(), DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8 // world)
lightning.Trainer(
    accelerator="cpu",
    devices=world,
    strategy=DDPStrategy(process_group_backend="ringway"),
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
).fit(model, batches, DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8 // world))
