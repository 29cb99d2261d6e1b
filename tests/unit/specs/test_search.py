"""Names along the search path, paths, and the files that come with fsdpctl."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.specs import bundled
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.search import find_job, find_profile, job_dirs, list_files, profile_dirs


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("name: other\nentrypoint: {script: a.py}\n")
    return path


@pytest.mark.parametrize(
    ("find", "folder", "shipped", "dirs"),
    [
        (find_job, "jobs", bundled.jobs_dir, job_dirs),
        (find_profile, "cluster_profiles", bundled.profiles_dir, profile_dirs),
    ],
)
def test_the_first_folder_on_the_search_path_wins(
    find: Callable[[str], Path], folder: str, shipped: Callable[[], Path], dirs: Callable[[], list[Path]], home: Path
) -> None:
    name = next(path.stem for path in shipped().glob("*.yaml"))
    assert find(name) == shipped() / f"{name}.yaml"
    mine = put(home / ".config/fsdpctl" / folder / f"{name}.yaml")
    assert find(name) == mine
    put(Path(folder) / f"{name}.yaml")
    assert find(name) == Path(folder) / f"{name}.yaml"
    assert list_files(dirs())[name] == Path(folder) / f"{name}.yaml"


def test_the_configuration_folder_may_be_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "etc"))
    mine = put(home / "etc/fsdpctl/jobs/mine.yml")
    assert find_job("mine") == mine


def test_a_path_is_used_unchanged() -> None:
    put(Path("llm-tiny.yaml"))
    assert find_job("llm-tiny.yaml") == Path("llm-tiny.yaml")
    assert find_job("./llm-tiny") == Path("llm-tiny")
    assert find_job("llm-tiny") == bundled.jobs_dir() / "llm-tiny.yaml"


def test_the_name_inside_may_differ_from_the_file() -> None:
    put(Path("jobs/mine.yaml"))
    assert load_job("mine").name == "other"


def test_an_unknown_name_lists_the_searched_folders() -> None:
    with pytest.raises(UsageError) as error:
        find_job("llm300")
    assert error.value.message == "no job named llm300; did you mean llm300m?"
    assert error.value.hint is not None
    assert re.match(r"searched jobs, \S+/.config/fsdpctl/jobs, \S+/jobs; ", error.value.hint)


@pytest.mark.parametrize("word", ["", "a b", "$(id)", "-x", "..", "a\nb", "x" * 300, "\u0430", "a\udcff"])
def test_an_invalid_name_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name of a profile"):
        find_profile(word)


def test_all_bundled_files_load() -> None:
    jobs = {name: load_job(name) for name in list_files([bundled.jobs_dir()])}
    profiles = {name: load_profile(name) for name in list_files([bundled.profiles_dir()])}
    assert {"llm-tiny", "llm90m", "llm300m"} <= jobs.keys()
    assert {"local", "slurm-h100", "ssh-h100"} <= profiles.keys()
    assert all(name == spec.name for name, spec in {**jobs, **profiles}.items())
    assert jobs["llm300m"].trainer is not None
    assert jobs["llm300m"].trainer.model.num_parameters == 303_080_448
    assert len(profiles["ssh-h100"].nodes) == 4
    assert profiles["slurm-h100"].network.ib_hcas == tuple(f"mlx5_{number}" for number in range(8))


def test_every_key_offered_in_a_comment_exists() -> None:
    """Uncomment the `# key: value` lines in the shipped profiles, as users do."""
    for name in ("slurm-h100", "ssh-h100"):
        text = (bundled.profiles_dir() / f"{name}.yaml").read_text()
        offered = re.sub(r"^( *)# ([a-z_]+: )", r"\1\2", text, flags=re.MULTILINE)
        assert offered != text
        Path("all.yaml").write_text(offered)
        load_profile("all.yaml")


def test_the_bundled_trainer_is_a_folder_named_train() -> None:
    assert bundled.train_dir().name == "train"
    assert bundled.train_dir().is_dir()


def test_an_installed_package_contains_the_bundled_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bundled").mkdir()
    monkeypatch.setattr(bundled, "_PACKAGE", tmp_path)
    assert bundled.jobs_dir() == tmp_path / "bundled/jobs"
