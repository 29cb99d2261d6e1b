"""Shell completion: runs, jobs, profiles and keys of `--set`.

The scripts of share/ ask it from bash, zsh and fish; `fsdpctl --install-completion` sets up those of Typer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def words_before_cursor(env: Mapping[str, str]) -> list[str]:
    """Return the complete words after `fsdpctl`, from the variables that Typer's scripts for shells set."""
    if "COMP_CWORD" in env:  # bash
        return env.get("COMP_WORDS", "").split()[1 : int(env["COMP_CWORD"])]
    before, _, _ = env.get("_TYPER_COMPLETE_ARGS", "").rpartition(" ")
    return before.split()[1:]


def _offer(list_words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completer that offers nothing after an error: an unreadable folder must not print into the prompt."""

    def complete(incomplete: str) -> list[str]:
        try:
            return [word for word in list_words() if word.startswith(incomplete)]
        except Exception:
            return []

    return complete


@_offer
def complete_run() -> Iterable[str]:
    from fsdpctl.runs.store import run_ids

    return run_ids()


@_offer
def complete_job() -> Iterable[str]:
    from fsdpctl.specs.search import job_dirs, list_files

    return list_files(job_dirs())


@_offer
def complete_profile() -> Iterable[str]:
    from fsdpctl.specs.search import list_files, profile_dirs

    return list_files(profile_dirs())


@_offer
def complete_key() -> Iterable[str]:
    """Offer `trainer.steps=`, and `env.` if the user chooses the rest of the key."""
    from fsdpctl.schema.keys import walk
    from fsdpctl.specs.job import JobSpec

    return [f"{key.dotted}{'.' if key.is_mapping else '='}" for key in walk(JobSpec) if not key.has_keys]


@_offer
def complete_backend_key() -> Iterable[str]:
    from fsdpctl.backends.profile_keys import SECTIONS
    from fsdpctl.schema.keys import hints_of

    return sorted({f"{key}=" for section in SECTIONS.values() for key in hints_of(section)} - {"kind="})


@_offer
def complete_hold() -> Iterable[str]:
    from fsdpctl.holds.store import list_holds

    return [hold.root.name for hold in list_holds()]


@_offer
def complete_suspect() -> Iterable[str]:
    import time

    from fsdpctl.verbs.nodes import read_evidence

    return sorted({one.suspect.node for one in read_evidence(time.time())})
