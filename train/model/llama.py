"""A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases.

QKV and gate/up are fused into one matrix each, since wide matrix products are the fast ones. Rotary positions use
real arithmetic in the half-split form of Hugging Face's Llama. A tied head has no weight of its own: it multiplies
with the embedding's, so that nothing can untie the two.

Shapes in names: B sequences, T positions, D model width, V vocabulary, H query heads, K key/value heads, N heads of
any kind, E head width, P half of it, F width of the SwiGLU, G twice that.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import Recompute
from train.model import recompute

IGNORED = -100  # a target that does not count


class Norm(nn.RMSNorm):
    """RMSNorm in the precision of its input: torch has no fused kernel for bf16 values with fp32 weights."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return F.rms_norm(x_BTD, self.normalized_shape, self.weight.type_as(x_BTD), self.eps)


class Attention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.qkv = nn.Linear(config.d_model, (config.heads + 2 * config.kv_heads) * config.head_dim, bias=False)
        self.out = nn.Linear(config.heads * config.head_dim, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
        B, T, _ = x_BTD.shape
        qkv_BTNE = self.qkv(x_BTD).view(B, T, self.heads + 2 * self.kv_heads, self.head_dim)
        q_BTHE, k_BTKE, v_BTKE = qkv_BTNE.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        # Rotated before the heads come first: attention's output then lies as the next product reads it, uncopied.
        y_BHTE = F.scaled_dot_product_attention(
            rotate(q_BTHE, cos_TP, sin_TP).transpose(1, 2),
            rotate(k_BTKE, cos_TP, sin_TP).transpose(1, 2),
            v_BTKE.transpose(1, 2),
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        )
        out: Tensor = self.out(y_BHTE.transpose(1, 2).reshape(B, T, -1))
        return out


class GatedSiLU(torch.autograd.Function):
    """silu(gate) * up, with both gradients as one expression over the pair.

    What autograd derives ends in a concatenation, in which torch's compiler computes every element twice, as if it were
    of either half: 1.75 times the time on a GPU.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, gate_up_BTG: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up_BTG)
        gate_BTF, up_BTF = gate_up_BTG.chunk(2, dim=-1)
        return F.silu(gate_BTF) * up_BTF

    @staticmethod
    def backward(ctx: Any, grad_BTF: Tensor) -> Tensor:
        (gate_up_BTG,) = ctx.saved_tensors
        precise = torch.promote_types(gate_up_BTG.dtype, torch.float32)
        pair_BT2F = gate_up_BTG.unflatten(-1, (2, -1)).to(precise)
        gate_BT1F, up_BT1F = pair_BT2F.split(1, dim=-2)
        sigmoid_BT1F = gate_BT1F.sigmoid()
        slope_BT1F = sigmoid_BT1F * (1 + gate_BT1F * (1 - sigmoid_BT1F))
        is_gate_21 = torch.arange(2, device=grad_BTF.device)[:, None] == 0
        slopes_BT2F = torch.where(is_gate_21, up_BT1F * slope_BT1F, gate_BT1F * sigmoid_BT1F)
        return (grad_BTF.unsqueeze(-2) * slopes_BT2F).type_as(gate_up_BTG).flatten(-2)


class SwiGLU(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.d_model, 2 * config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.down(GatedSiLU.apply(self.gate_up(x_BTD)))  # type: ignore[no-untyped-call]
        return out


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = Norm(config.d_model, config.norm_eps)
        self.attention = Attention(config)
        self.mlp_norm = Norm(config.d_model, config.norm_eps)
        self.mlp = SwiGLU(config)
        self.dropout = nn.Dropout(config.dropout)
        self.recompute: Recompute = "none"

    def forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
        return recompute.call(self._forward, self.recompute, x_BTD, cos_TP, sin_TP)

    def _forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
        x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), cos_TP, sin_TP))
        y_BTD: Tensor = self.dropout(self.mlp(self.mlp_norm(x_BTD)))
        return x_BTD + y_BTD


class TokenLoss(nn.Module):
    """Cross-entropy summed over tokens, in fp32. A module, so that it can be compiled on its own."""

    def forward(self, logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        logits = logits_BTV.flatten(0, 1).float()
        loss: Tensor = F.cross_entropy(logits, targets_BT.flatten(), ignore_index=IGNORED, reduction="sum")
        return loss


class Decoder(nn.Module):
    """The whole model; calling it gives the loss summed over the tokens of the batch."""

    cos_TP: Tensor
    sin_TP: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.autocast_dtype: torch.dtype | None = None  # set where no FSDP casts the parameters
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config.d_model, config.norm_eps)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.loss = TokenLoss()
        self.body = self.summed_loss  # compiled as one, or with compiled parts
        for name in ("cos_TP", "sin_TP"):
            self.register_buffer(name, torch.empty(config.seq_len, config.head_dim // 2), persistent=False)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        casts = self.autocast_dtype is not None
        with torch.autocast(tokens_BT.device.type, self.autocast_dtype, enabled=casts):
            return self.body(tokens_BT, targets_BT)

    def summed_loss(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """Methods within methods, each of which may be the part that `pace` times: that depends on the units."""
        return self.head_loss(self.hidden(tokens_BT), targets_BT)

    def head_loss(self, x_BTD: Tensor, targets_BT: Tensor) -> Tensor:
        return self.token_loss(self.head_logits(x_BTD), targets_BT)

    def token_loss(self, logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        loss: Tensor = self.loss(logits_BTV, targets_BT)
        return loss

    def logits(self, tokens_BT: Tensor) -> Tensor:
        return self.head_logits(self.hidden(tokens_BT))

    def hidden(self, tokens_BT: Tensor) -> Tensor:
        T = tokens_BT.shape[1]
        x_BTD: Tensor = self.dropout(self.embed(tokens_BT))
        x_BTD = x_BTD.to(self.autocast_dtype or x_BTD.dtype)
        for block in self.blocks:
            x_BTD = block(x_BTD, self.cos_TP[:T], self.sin_TP[:T])
        return x_BTD

    def head_logits(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self.norm(x_BTD)
        logits_BTV: Tensor = F.linear(x_BTD, self.embed.weight) if self.head is None else self.head(x_BTD)
        return logits_BTV

    @torch.no_grad()
    def fill_rotary_tables(self, device: torch.device | str = "cpu") -> None:
        """Compute the rotary tables on the CPU, so that every device gets the same bits, and bring them there."""
        half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float64) / self.config.head_dim
        positions = torch.arange(self.config.seq_len, dtype=torch.float64)
        angles_TP = torch.outer(positions, self.config.rope_theta**-half)
        self.cos_TP, self.sin_TP = (table.float().to(device) for table in (angles_TP.cos(), angles_TP.sin()))


def rotate(x_BTNE: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
    """Apply rotary positions to N heads, in the tables' precision."""
    low_BTNP, high_BTNP = x_BTNE.chunk(2, dim=-1)
    cos_T1P, sin_T1P = cos_TP[:, None], sin_TP[:, None]
    rotated = (low_BTNP * cos_T1P - high_BTNP * sin_T1P, high_BTNP * cos_T1P + low_BTNP * sin_T1P)
    return torch.cat([half_BTNP.type_as(x_BTNE) for half_BTNP in rotated], dim=-1)


def initial_value(name: str, shape: torch.Size, config: ModelConfig, seed: int) -> Tensor:
    """The first value of one whole parameter: a function of seed and name, so the same in every world.

    Norms start at one; projections into the residual stream are scaled down by the number of additions to it.
    """
    if len(shape) == 1:
        return torch.ones(shape)
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    into_residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
    std = config.init_std / math.sqrt(2 * config.layers) if into_residual else config.init_std
    return torch.randn(shape, generator=generator) * std
