"""Read the user's settings."""

from __future__ import annotations

from fsdpctl.schema.problems import one_line
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import parse_mapping
from fsdpctl.specs.notify import Settings
from fsdpctl.specs.search import settings_file
from fsdpctl.specs.text import read_text


def load_settings() -> Settings:
    """Return the user's settings; the defaults where there is no file. Raise SpecError and UsageError."""
    path = settings_file()
    if not path.exists():
        return Settings()
    source = one_line(str(path))
    return validate(parse_mapping(read_text(path, "settings file"), source, f"settings {source}"), Settings)
