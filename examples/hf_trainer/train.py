"""Train a tiny Llama, made here, with the Trainer of transformers: FSDP on GPUs, DDP on CPUs.

Nothing in it is for fsdpctl: a stop saves after the same step on all ranks, and a resume continues there.
"""

import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Sequences(torch.utils.data.Dataset):
    """Sequences that count upwards in steps of 1 to 7: easy to learn, and nothing to download."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = (index + torch.arange(32) * (1 + index % 7)) % 256
        return {"input_ids": tokens, "labels": tokens}


def main():
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            attention_dropout=0.1,  # random numbers continue after a resume, too
        )
    )
    has_gpus = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=int(os.environ.get("STEPS", "200")),
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        logging_steps=1,
        save_steps=50,
        save_total_limit=2,
        bf16=has_gpus,
        fsdp="full_shard auto_wrap" if has_gpus else "",
        fsdp_config={"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]} if has_gpus else None,
        report_to="none",
        disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=Sequences()).train()


if __name__ == "__main__":
    main()
