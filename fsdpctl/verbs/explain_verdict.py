"""Explain the end of a run by its newest verdict, for a notice: no backend is asked, and its job may still exist.

    python -m fsdpctl.verbs.explain_verdict RUN_DIR

Print the diagnosis as JSON; null where there is none. `fsdpctl/notify/explain.py` reads it.
"""

from __future__ import annotations

import json
import sys

from fsdpctl.contract import Phase
from fsdpctl.contract.codec import encode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.explain.explanation import Diagnosis
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.verbs.explain import explain_run
from fsdpctl.verbs.state import Situation


def explain_verdict(run: RunPaths) -> Diagnosis | None:
    """Return the diagnosis of a run whose newest attempt has a verdict. Raise CodecError and OSError."""
    facts = RunFacts(run)
    verdict = facts.newest.verdict if facts.newest is not None else None
    if verdict is None:
        return None
    return explain_run(facts, Situation(verdict.state, Phase.ENDED, verdict.reason, verdict.cause)).diagnosis


if __name__ == "__main__":
    print(json.dumps(encode(explain_verdict(RunPaths.of(sys.argv[1])))))
