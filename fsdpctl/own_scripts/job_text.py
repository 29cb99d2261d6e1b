"""A commented job for an own script. Pure."""

from __future__ import annotations

from typing import Any

from fsdpctl.own_scripts.advice import advise, stop_signal
from fsdpctl.own_scripts.facts import Facts
from fsdpctl.schema.dump import dump_tree
from fsdpctl.schema.problems import one_line

_KEYS = """\
# procs_per_node: 8       # ranks of a node; default: one for each GPU, or 2 without GPUs
# time_limit: 12h         # of an attempt; the script is asked to save and stop `grace` before it
# restarts: 3             # after failures, from the newest checkpoint
# env: {NAME: value}      # of all ranks; `pass_env` of the profile passes secrets on
"""


def job_text(name: str, file: str, entry: dict[str, str], args: tuple[str, ...], facts: Facts) -> str:
    """Return the YAML, which loads as it is. `file` was read; `entry` is how ranks start it."""
    signal = stop_signal(facts)
    keys: dict[str, Any] = {
        "name": name,
        "entrypoint": entry,
        **({"args": list(args)} if args else {}),
        "nodes": 1,
        **({"stop_signal": signal} if signal is not None else {}),
        "grace": "1m",
    }
    found = [f"Made of {file} by reading it: what it needs to stop, resume and report. See docs/own-scripts.md."]
    comments = "".join(f"# {one_line(line)}\n" for line in (*found, *advise(facts, args)))
    return f"{comments}{dump_tree(keys)}{_KEYS}"
