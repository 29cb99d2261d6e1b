"""GPUs by name: memory, speed and links, from their data sheets; memory is what torch reports of a card.

Speed is that of dense bf16 matrix products with fp32 sums, or of fp16 where a card has no bf16. Links are one way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

GIB = 2**30


@dataclass(frozen=True)
class Card:
    """One kind of GPU."""

    name: str
    memory_gib: float  # that a process may use, without what the driver keeps
    tflops: float
    memory_gb_s: float
    link_gb_s: float  # to the other GPUs of its node: NVLink, else PCIe
    network_gbps: float  # of the adapter that a GPU usually has to itself
    has_bf16: bool = True
    has_float8: bool = True
    link: str = "NVLink"

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * GIB)

    @property
    def flops(self) -> float:
        return self.tflops * 1e12


_PCIE4, _PCIE5 = 32, 64
_ROWS = (
    Card("t4", 14.56, 65, 320, 16, 25, has_bf16=False, has_float8=False, link="PCIe"),
    Card("v100-16", 15.77, 125, 900, 150, 100, has_bf16=False, has_float8=False),
    Card("v100-32", 31.73, 125, 900, 150, 100, has_bf16=False, has_float8=False),
    Card("a10", 21.9, 125, 600, _PCIE4, 100, has_float8=False, link="PCIe"),
    Card("l4", 22.0, 121, 300, _PCIE4, 100, link="PCIe"),
    Card("rtx-4090", 23.5, 165, 1008, _PCIE4, 100, link="PCIe"),
    Card("a100-40", 39.38, 312, 1555, 300, 200, has_float8=False),
    Card("l40s", 44.3, 362, 864, _PCIE4, 200, link="PCIe"),
    Card("a6000", 47.4, 155, 768, _PCIE4, 100, has_float8=False, link="PCIe"),
    Card("a100-80", 79.14, 312, 2039, 300, 200, has_float8=False),
    Card("h100-80", 79.1, 989.5, 3350, 450, 400),
    Card("h100-pcie", 79.1, 756, 2000, _PCIE5, 200, link="PCIe"),
    Card("h100-nvl", 93.0, 835, 3900, 300, 400),
    Card("h20", 95.0, 148, 4000, 450, 400),
    Card("h200", 139.8, 989.5, 4800, 450, 400),
    Card("b200", 178.3, 2250, 8000, 900, 400),
    Card("mi300x", 191.9, 1307, 5300, 448, 400, link="xGMI"),
)
CARDS = {card.name: card for card in _ROWS}
_OTHER_NAMES = {
    "v100": "v100-32",
    "a100": "a100-80",
    "h100": "h100-80",
    "h100-sxm": "h100-80",
    "rtx-a6000": "a6000",
    "4090": "rtx-4090",
}
_DRIVER_NAMES = (  # the first that a driver's name contains
    (r"\bH100 PCIe", "h100-pcie"),
    (r"\bH100 NVL", "h100-nvl"),
    (r"\bH100\b", "h100-80"),
    (r"\bH200\b(?! NVL)", "h200"),
    (r"\bH20\b", "h20"),
    (r"\bB200\b", "b200"),
    (r"A100.*40GB", "a100-40"),
    (r"A100.*80GB", "a100-80"),
    (r"V100.*32GB", "v100-32"),
    (r"V100.*16GB", "v100-16"),
    (r"L40S", "l40s"),
    (r"\bL4\b", "l4"),
    (r"RTX A6000", "a6000"),
    (r"RTX 4090", "rtx-4090"),
    (r"\bA10\b", "a10"),
    (r"Tesla T4|\bT4\b", "t4"),
    (r"MI300X", "mi300x"),
)


def find_card(name: str) -> Card | None:
    """Return a card by its name in the table, a shorter one, or the name that its driver reports."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    if (card := CARDS.get(_OTHER_NAMES.get(key, key))) is not None:
        return card
    for pattern, found in _DRIVER_NAMES:
        if re.search(pattern, name):
            return CARDS[found]
    return None


def card_of_memory(gib: float) -> Card:
    """Return the card whose memory is nearest, with this memory."""
    nearest = min(_ROWS, key=lambda card: abs(card.memory_gib - gib))
    return replace(nearest, memory_gib=gib)
