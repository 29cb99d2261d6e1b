"""What the text of a script shows of how it saves, resumes, stops and reports. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_OUTPUT = re.compile(
    r"((^|_)(out|output|save|saving|ckpt|checkpoint|log|logging|work|exp|result|artifact|run)s?_?(dir|path|folder|root)$)"
    r"|^(output|default_root_dir|ckpts?|checkpoints?)$"
)
_RESUME = re.compile(r"resume|restore|(^|_)load_(from|ckpt|checkpoint)|from_checkpoint|^ckpt_path$")


class Framework(StrEnum):
    """What runs the steps of a script. The first that is found decides what its user has to do."""

    TRAINER = "the Trainer of transformers"
    LIGHTNING = "Lightning"
    ACCELERATE = "Accelerate"
    DEEPSPEED = "DeepSpeed"
    FSDP = "FSDP"
    DDP = "DistributedDataParallel"


@dataclass(frozen=True)
class Place:
    """A line of a file of the project."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Facts:
    """What was found, each with its first place."""

    frameworks: dict[Framework, Place] = field(default_factory=dict)
    outputs: dict[str, Place] = field(default_factory=dict)  # options of the command line: directories to write
    resumes: dict[str, Place] = field(default_factory=dict)  # options by which it continues
    variables: dict[str, Place] = field(default_factory=dict)  # FSDPCTL_* that it reads
    signals: dict[str, Place] = field(default_factory=dict)  # that it handles, without SIG
    local_rank: Place | None = None  # an option --local_rank
    reports: Place | None = None  # it imports fsdpctl.report
    stops: Place | None = None  # by `stop_requested`
    reads_training_arguments: Place | None = None  # all fields of TrainingArguments are options

    @property
    def framework(self) -> Framework | None:
        """The outermost one: a Trainer uses Accelerate, which uses FSDP."""
        return next((framework for framework in Framework if framework in self.frameworks), None)


def read_facts(sources: Mapping[str, str | bytes]) -> Facts:
    """Return what the files of a script show. Those that do not compile show nothing."""
    facts = Facts()
    for file, source in sources.items():
        try:
            tree = ast.parse(source, file)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            _look(facts, node, file)
    return facts


def _look(facts: Facts, node: ast.AST, file: str) -> None:
    match node:
        case ast.Import():
            for alias in node.names:
                _look_at_import(facts, alias.name, (), Place(file, node.lineno))
        case ast.ImportFrom(module=str(module), level=0):
            _look_at_import(facts, module, [alias.name for alias in node.names], Place(file, node.lineno))
        case ast.Call():
            _look_at_call(facts, node, Place(file, node.lineno))
        case ast.Constant(value=str(text)) if re.fullmatch(r"FSDPCTL_[A-Z_]+", text):
            facts.variables.setdefault(text, Place(file, node.lineno))


def _look_at_import(facts: Facts, module: str, names: list[str] | tuple[()], place: Place) -> None:
    for framework in _frameworks(module, names):
        facts.frameworks.setdefault(framework, place)
    if module == "fsdpctl.report" or (module == "fsdpctl" and "report" in names):
        facts.reports = facts.reports or place
    if module.startswith("fsdpctl.integrations") and "stop_requested" in names:
        facts.stops = facts.stops or place


def _frameworks(module: str, names: list[str] | tuple[()]) -> Iterator[Framework]:
    top = module.partition(".")[0]
    if top == "trl" or (
        top == "transformers" and any(name.endswith(("Trainer", "TrainingArguments")) for name in names)
    ):
        yield Framework.TRAINER
    if top in ("lightning", "pytorch_lightning"):
        yield Framework.LIGHTNING
    if top == "accelerate":
        yield Framework.ACCELERATE
    if top == "deepspeed":
        yield Framework.DEEPSPEED
    if ".fsdp" in module or "fully_shard" in names or (module.startswith("torch") and "fsdp" in names):
        yield Framework.FSDP
    if "DistributedDataParallel" in names:
        yield Framework.DDP


def _look_at_call(facts: Facts, call: ast.Call, place: Place) -> None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    if name == "add_argument":
        flags = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        _look_at_option(facts, [flag for flag in flags if flag.startswith("--")], place)
    elif name == "signal" and isinstance(first, ast.Attribute) and first.attr.startswith("SIG"):
        facts.signals.setdefault(first.attr.removeprefix("SIG"), place)
    elif name == "DistributedDataParallel":
        facts.frameworks.setdefault(Framework.DDP, place)
    elif name in ("Trainer", "Seq2SeqTrainer") and _is_of(call.func, "transformers"):
        facts.frameworks.setdefault(Framework.TRAINER, place)
    elif name == "HfArgumentParser":
        facts.reads_training_arguments = facts.reads_training_arguments or place


def _look_at_option(facts: Facts, flags: list[str], place: Place) -> None:
    for flag in flags:
        plain = flag.lstrip("-").replace("-", "_").lower()
        if plain == "local_rank":
            facts.local_rank = facts.local_rank or place
        elif _RESUME.search(plain):
            facts.resumes.setdefault(flag, place)
        elif _OUTPUT.search(plain):
            facts.outputs.setdefault(flag, place)


def _is_of(function: ast.expr, module: str) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == module
