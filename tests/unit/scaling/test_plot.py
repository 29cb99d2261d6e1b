from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from fsdpctl.scaling.plot import HEIGHT, WIDTH, draw
from fsdpctl.scaling.result import Scaling, ScalingPoint, compare
from tests.unit.scaling.results import point

SVG = "{http://www.w3.org/2000/svg}"


def drawn(points: Sequence[ScalingPoint], job: str = "llm300m") -> ElementTree.Element:
    return ElementTree.fromstring(draw(Scaling(job, "local", "cuda", "weak", 20, compare(points))))


def test_every_measured_point_is_on_the_page_and_every_strategy_in_the_legend() -> None:
    rates = {"FULL_SHARD": (95, 92, 90), "DDP": (80, 60, 3)}
    points = [point(1, None, 100)]
    points += [point(2**n, name, rate) for name, all_ in rates.items() for n, rate in enumerate(all_, 1)]
    page = drawn([*points, point(16, "DDP", None)], job="<a> & b")
    circles = page.findall(f"{SVG}circle")
    assert len(circles) == 8, "the single rank begins both lines"
    for circle in circles:
        assert 0 < float(circle.attrib["cx"]) < WIDTH and 0 < float(circle.attrib["cy"]) < HEIGHT
    texts = [text.text for text in page.findall(f"{SVG}text")]
    assert {"<a> & b on local: weak scaling", "FULL_SHARD, 90% on 8", "DDP, 3% on 8", "linear", "GPUs"} <= set(texts)


@pytest.mark.parametrize("points", [[point(4, "DDP", 7.5)], [point(1, None, 123)], [point(2, "DDP", None)], []])
def test_a_chart_of_little_is_still_a_chart(points: list[ScalingPoint]) -> None:
    page = drawn(points)
    numbers = re.findall(r"nan|inf", ElementTree.tostring(page, encoding="unicode"))
    assert not numbers and len(page.findall(f"{SVG}circle")) == sum(found.measured is not None for found in points)
