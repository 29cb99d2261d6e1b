"""Whatever ends a run, its metrics writers are closed and no thread of it saves any more."""

from __future__ import annotations

import json
from pathlib import Path

from fsdpctl.contract import NodeExit
from tests.train.ranks import Config, checkpoints, start
from tests.train.ways_out import WAYS, leave_each_way

ENDED = {
    "end": NodeExit.FINISHED,
    "stop": NodeExit.STOPPED,
    "not finite": 1,
    "error in a step": "ZeroDivisionError",
    "interrupt": "KeyboardInterrupt",
    "error in construction": "ZeroDivisionError",
}


def test_nothing_is_left_open_on_any_way_out(tmp_path: Path, config: Config) -> None:
    config["max_skipped_steps"] = 1
    for way in WAYS:
        (tmp_path / way).mkdir()
        (tmp_path / way / "trainer.json").write_text(json.dumps(config))
    ranks = start(tmp_path, config, fault=leave_each_way, fault_args=(tmp_path,))
    assert ranks.wait() == [0], ranks.log()
    left = json.loads((tmp_path / "left.json").read_text())
    assert left == {way: [ended, [], []] for way, ended in ENDED.items()}
    for way in ("error in a step", "interrupt"):
        assert checkpoints(tmp_path / way) == ["step-00000004"], "the save in flight came to its end"
