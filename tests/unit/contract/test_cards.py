from __future__ import annotations

import pytest

from fsdpctl.contract.cards import CARDS, card_of_memory, find_card


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA A100-PCIE-40GB", "a100-40"),
        ("Tesla V100-SXM2-32GB", "v100-32"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("AMD Instinct MI300X", "mi300x"),
        ("h100", "h100-80"),
        ("A100", "a100-80"),
        ("H100_SXM", "h100-80"),
        *((name, name) for name in CARDS),
    ],
)
def test_a_card_is_found_by_any_of_its_names(name: str, card: str) -> None:
    found = find_card(name)
    assert found is not None
    assert found.name == card


@pytest.mark.parametrize(
    "name", ["", "h1000", "GeForce GTX 1080", "A10G", "L40", "NVIDIA H200 NVL", "NVIDIA GH200 480GB"]
)
def test_a_card_that_is_not_in_the_table_is_not_guessed(name: str) -> None:
    assert find_card(name) is None


def test_a_card_of_a_size_has_that_size() -> None:
    found = card_of_memory(79.15)
    assert (found.memory_gib, round(found.memory_bytes / 2**30, 2)) == (79.15, 79.15)
