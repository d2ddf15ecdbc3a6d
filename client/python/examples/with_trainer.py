"""Hugging Face's Trainer: `ringway run --nproc 2 with_trainer.py`, or torchrun."""

import tempfile

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

dist.init_process_group("ringway")  # before TrainingArguments makes a group of its own
set_seed(0)
sizes = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(**sizes, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
model = BertForSequenceClassification(config)
data = [{"input_ids": torch.randint(8, (6,)), "labels": i % 2} for i in range(64)]
with tempfile.TemporaryDirectory() as directory:
    arguments = TrainingArguments(
        directory,
        use_cpu=True,
        per_device_train_batch_size=8 // dist.get_world_size(),
        num_train_epochs=1,
        learning_rate=0.01,
        average_tokens_across_devices=False,  # this loss is a mean of rows, not of tokens
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    Trainer(model, arguments, train_dataset=data).train()
print(dist.get_backend(), [round(x, 5) for x in model.classifier.weight[0].tolist()])
dist.destroy_process_group()
