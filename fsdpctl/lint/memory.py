"""The rule about the memory of a GPU of a known kind."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.cards import GIB
from fsdpctl.estimate.result import estimate
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId


@rule(
    RuleId.DOES_NOT_FIT,
    "warning",
    what="By the estimate the job needs more memory than its GPUs have.",
    why="The run ends in its first steps, when the memory of a GPU is used up. `submit` refuses a job that cannot fit,"
    " unless it is forced.",
    change="`fsdpctl estimate` lists what takes the memory, and the smallest change that fits.",
    source="docs/estimate.md",
)
def does_not_fit(subject: Subject) -> Iterator[Found]:
    if (planner := subject.planner) is None:
        return
    result = estimate(planner.config, planner.cluster, planner.card)
    if result.left_bytes >= 0:
        return
    needs = f"each GPU needs about {result.memory.total / GIB:.1f} GiB"
    text = f"{needs}, and a {result.card.name} has {result.card.memory_gib:.1f}"
    small = planner.smallest_change()
    if small is None:
        yield Found("trainer", f"{text}; no strategy, micro-batch or recomputing makes it fit")
    else:
        yield Found(small.keys[0].partition("=")[0], f"{text}; it fits with {', '.join(small.keys)}")
