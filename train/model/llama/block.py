"""A block of a Llama.

QKV and gate/up are fused into one matrix each, since wide matrix products are the fast ones. Rotary positions use
real arithmetic in the half-split form of Hugging Face's Llama.

Shapes in names: B sequences, T positions, D model width, H query heads, K key/value heads, N heads of any kind, E head
width, P half of it, F width of the SwiGLU, G twice that.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from train.model.documents import Mask, attend
from train.model.recompute import Block


class Norm(nn.RMSNorm):
    """RMSNorm in the precision of its input: torch has no fused kernel for bf16 values with fp32 weights."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return F.rms_norm(x_BTD, self.normalized_shape, self.weight.type_as(x_BTD), self.eps)


class Attention(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.qkv = nn.Linear(config.d_model, (config.heads + 2 * config.kv_heads) * config.head_dim, bias=False)
        self.out = nn.Linear(config.heads * config.head_dim, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor, mask: Mask | None) -> Tensor:
        B, T, _ = x_BTD.shape
        qkv_BTNE = self.qkv(x_BTD).view(B, T, self.heads + 2 * self.kv_heads, self.head_dim)
        q_BTHE, k_BTKE, v_BTKE = qkv_BTNE.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        # Rotated before the heads come first: the next product then reads attention's output without a copy.
        y_BHTE = attend(
            rotate(q_BTHE, cos_TP, sin_TP).transpose(1, 2),
            rotate(k_BTKE, cos_TP, sin_TP).transpose(1, 2),
            v_BTKE.contiguous().transpose(1, 2),  # a view would keep q and k as they were before they were rotated
            mask,
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
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.d_model, 2 * config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.d_model, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.down(GatedSiLU.apply(self.gate_up(x_BTD)))  # type: ignore[no-untyped-call]
        return out


class LlamaBlock(Block):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm = Norm(config.d_model, config.norm_eps)
        self.attention = Attention(config)
        self.mlp_norm = Norm(config.d_model, config.norm_eps)
        self.mlp = SwiGLU(config)
        self.dropout = nn.Dropout(config.dropout)

    def compute(self, x_BTD: Tensor, cos_TP: Tensor, sin_TP: Tensor, mask: Mask | None) -> Tensor:
        x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), cos_TP, sin_TP, mask))
        y_BTD: Tensor = self.dropout(self.mlp(self.mlp_norm(x_BTD)))
        return x_BTD + y_BTD


def rotate(x_BTNE: Tensor, cos_TP: Tensor, sin_TP: Tensor) -> Tensor:
    """Apply rotary positions to N heads, in the tables' precision. Tables may differ by sequence: (B, T, P)."""
    low_BTNP, high_BTNP = x_BTNE.chunk(2, dim=-1)
    cos_T1P, sin_T1P = cos_TP.unsqueeze(-2), sin_TP.unsqueeze(-2)
    rotated = (low_BTNP * cos_T1P - high_BTNP * sin_T1P, high_BTNP * cos_T1P + low_BTNP * sin_T1P)
    return torch.cat([half_BTNP.type_as(x_BTNE) for half_BTNP in rotated], dim=-1)
