"""Render the man page, which a wheel installs below share/ of the prefix, beside the completions of three shells."""

from __future__ import annotations

import re
from typing import Any

import typer

from docs.commands_page import commands, default, one_line, spelling
from docs.source import member_comments
from docs.tables import as_sentence
from fsdpctl.cli.app import build_app
from fsdpctl.contract import CliExit

INTRO = r""".\" Written by docs/generate.py from the code. Change the code, then: make docs
.TH FSDPCTL 1
.SH NAME
fsdpctl \- launch, watch, stop and resume multi-node PyTorch FSDP runs
.SH SYNOPSIS
.B fsdpctl
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
A job, a YAML file, is submitted to a cluster that a profile describes: this machine, Slurm, or hosts reached over SSH.
Without
.I RUN
a command takes the newest run. Data goes to stdout, everything else to stderr.
.SH COMMANDS
"""
FILES = r""".SH FILES
.TP
.I ./jobs/, ./cluster_profiles/
Jobs and profiles of a project, looked up first.
.TP
.I ~/.config/fsdpctl/
Jobs, profiles and settings of a user.
.TP
.I ~/.local/state/fsdpctl/
Runs and their registry, unless
.B FSDPCTL_HOME
names another directory or a profile another
.BR runs_root .
.SH ENVIRONMENT
.TP
.B FSDPCTL_HOME
Directory of the registry of runs.
.TP
.B FSDPCTL_PROFILE
Profile that is used without
.BR \-\-profile .
"""


def render() -> str:
    found = commands("fsdpctl", typer.main.get_command(build_app()))
    sections = [section(name, command) for name, command in found]
    return "".join([INTRO, *sections, ".SH EXIT STATUS\n", *exit_codes(), FILES])


def section(name: str, command: Any) -> str:
    lines = [f".SS {escape(name)}", escape(one_line(command.help))]
    for param in command.params:
        lines += [".TP", f".B {escape(spelling(param))}", escape(description(param))]
    return "\n".join(lines) + "\n"


def description(param: Any) -> str:
    value = default(param).strip("`")
    text = one_line(param.help)
    return f"{text} [{value if value == 'required' else f'default: {value}'}]" if value else text


def exit_codes() -> list[str]:
    meanings = {"0": "success", "130": "interrupted by Ctrl-C", **without_empty(member_comments(CliExit))}
    return [f".TP\n.B {int(code)}\n{escape(as_sentence(meanings[str(int(code))]))}\n" for code in CliExit]


def without_empty(texts: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


def escape(text: str) -> str:
    """Return text that roff prints as it is; a line of it may begin with a dot or a quote."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)
