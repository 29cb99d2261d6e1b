"""A Llama in plain torch, with the parameter names of Hugging Face's: its state dict is at home in both.

Shapes in names: B sequences, T positions, D model width, H heads, E head width, P half of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from configuration import Config
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.d_model, width, bias=False)
        self.k_proj = nn.Linear(config.d_model, kv_width, bias=False)
        self.v_proj = nn.Linear(config.d_model, kv_width, bias=False)
        self.o_proj = nn.Linear(width, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
        q, k, v = (project(x_BTD).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for project in self.qkv)
        q_BHTE, k_BHTE = rotate(q, cos_TP, sin_TP), rotate(k, cos_TP, sin_TP)
        y_BHTE = F.scaled_dot_product_attention(q_BHTE, k_BHTE, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y_BHTE.transpose(1, 2).flatten(-2))

    @property
    def qkv(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.q_proj, self.k_proj, self.v_proj


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.d_model, config.ffn, bias=False)
        self.up_proj = nn.Linear(config.d_model, config.ffn, bias=False)
        self.down_proj = nn.Linear(config.ffn, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD))


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mlp = MLP(config)

    def forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
        x_BTD = x_BTD + self.self_attn(self.input_layernorm(x_BTD), cos_TP, sin_TP)
        return x_BTD + self.mlp(self.post_attention_layernorm(x_BTD))


class Decoder(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        cos_TP, sin_TP = self.rotations(tokens_BT)
        x_BTD = self.embed_tokens(tokens_BT)
        for layer in self.layers:
            x_BTD = layer(x_BTD, cos_TP, sin_TP)
        return self.norm(x_BTD)

    def rotations(self, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        width, device = self.config.head_dim, tokens_BT.device
        frequencies_P = self.config.rope_theta ** (-torch.arange(0, width, 2, device=device) / width)
        angles_TP = torch.outer(torch.arange(tokens_BT.shape[1], device=device), frequencies_P)
        return angles_TP.cos(), angles_TP.sin()


class Llama(nn.Module):
    """Gives the mean loss over the targets. A tied head has no weight of its own."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.model = Decoder(config)
        self.lm_head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        x_BTD = self.model(tokens_BT)
        logits = F.linear(x_BTD, self.model.embed_tokens.weight) if self.lm_head is None else self.lm_head(x_BTD)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets_BT.flatten())


def rotate(x_BHTE: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
    low, high = x_BHTE.chunk(2, dim=-1)
    return torch.cat((low * cos_TP - high * sin_TP, high * cos_TP + low * sin_TP), dim=-1).type_as(x_BHTE)
