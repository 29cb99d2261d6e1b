"""The output of `fsdpctl metrics`: charts, pictures, CSV and JSON."""

from __future__ import annotations

import csv
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.backends.harness import COMMAND
from tests.processor_time import command_done_within
from tests.unit.ended_runs import make_run

UTF8 = {"PYTHONIOENCODING": "utf-8"}


def metrics(*words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "metrics", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **UTF8, **env})
    assert done.returncode == code, done
    return done


def test_a_pipe_gets_charts_of_80_columns_without_colour() -> None:
    make_run("mine-aaaa", steps=40, starts=(1, 21))
    shown = metrics().stdout
    assert [title for title in ("loss", "tokens/s", "gradient norm") if f"{title:^{len(title) + 2}}" in shown]
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert shown.splitlines()[-1] == "mine-aaaa  | attempt 2 from step 21  s 4 saves"


def test_several_runs_are_in_one_chart_and_differ_without_colour() -> None:
    make_run("mine-aaaa", steps=40)
    make_run("other-bbbb", steps=20)
    shown = metrics("mine", "other", "--key", "loss").stdout
    assert shown.count("loss") == 1
    assert "aaa" in shown and "bb" in shown
    assert shown.splitlines()[-2:] == ["a mine-aaaa  s 4 saves", "b other-bbbb  s 2 saves"]


def test_a_locale_without_braille_gets_plain_signs() -> None:
    make_run("mine-aaaa")
    shown = metrics("-k", "loss", PYTHONIOENCODING="ascii").stdout
    assert shown.isascii()
    assert "\\u" not in shown


@pytest.mark.slow
def test_csv_has_every_step_and_json_the_thinned_curves() -> None:
    make_run("mine-aaaa", steps=2000, starts=(1, 1001), save_every=1000)
    rows = list(csv.DictReader(metrics("--csv", "-k", "loss", "-k", "grad_norm").stdout.splitlines()))
    assert [(rows[at]["run"], rows[at]["attempt"], rows[at]["step"]) for at in (0, -1)] == [
        ("mine-aaaa", "1", "1"),
        ("mine-aaaa", "2", "2000"),
    ]
    assert float(rows[0]["grad_norm"]) == 2.0
    [shown] = json.loads(metrics("--json", "-k", "loss").stdout)
    assert 100 < len(shown["curves"][0]["steps"]) < 2000
    assert shown["marks"][0] == {"kind": "restart", "step": 1001, "attempt": 2}


@pytest.mark.slow  # matplotlib looks for all fonts in a new home
def test_pictures_are_written_as_their_name_asks(tmp_path: Path) -> None:
    make_run("mine-aaaa", values={"$memory^{": 1.5})
    assert "written to" in metrics("-o", str(tmp_path / "a.svg")).stderr
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    metrics("-o", str(tmp_path / "a.png"))
    content = (tmp_path / "a.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert content.startswith(b"\x89PNG") and width > height / 2 > 100
    assert zlib.crc32(content)
    assert "must end in .png, .svg, .pdf" in metrics("-o", "a.txt", code=2).stderr


@pytest.mark.parametrize(("words", "package"), [(["-o", "a.png"], "matplotlib"), ([], "plotext")])
def test_a_missing_package_is_named_with_its_extra(words: list[str], package: str, tmp_path: Path) -> None:
    make_run("mine-aaaa")
    program = f"import sys; sys.modules[{package!r}] = None; from fsdpctl.cli.app import main; main()"
    command = [sys.executable, "-c", program, "metrics", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1, done
    assert package in done.stderr and "[plots]" in done.stderr


@pytest.mark.slow
def test_wrong_words_are_answered_with_what_there_is() -> None:
    make_run("mine-aaaa")
    found = metrics("--key", "los", code=2).stderr
    assert "no run has 'los'" in found and "they have: loss, grad_norm, tokens_per_s" in found
    assert "give one of them" in metrics("--csv", "--json", code=2).stderr


def test_a_run_without_steps_is_no_empty_picture() -> None:
    make_run("mine-aaaa", steps=0)
    assert "no step with a number yet: mine-aaaa" in metrics(code=2).stderr


@pytest.mark.slow
def test_a_hundred_thousand_steps_take_a_second() -> None:
    run = make_run("mine-aaaa", steps=1)
    line = run.metrics.read_text().partition('"loss"')[2]
    run.metrics.write_text("".join(f'{{"step": {step}, "loss"{line}' for step in range(100_000)))
    command_done_within(2.0, [COMMAND, "metrics"], {**os.environ, **UTF8})  # 0.9 s on an idle machine
