"""Hooks of mkdocs: pages in the order of index.md, anchors as GitHub makes them, and files outside of docs/ as pages.

Diagrams are pictures that docs/diagrams.py has drawn: with the theme's own way a page loads Mermaid from another host.

https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from docs import diagrams

ROOT = Path(__file__).parents[1]
OUTSIDE = "files"
"""Folder of the site with the files that are not below docs/."""
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_INLINE_CODE = re.compile(r"(?<!</span>)<code>[^<\n]*</code>")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]{0,23}(?![\w-])")
_FENCES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "bash"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs["toc"] = {"slugify": slugify(case="lower"), "permalink": True}
    config.nav = read_nav((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    return config


def read_nav(index: str) -> list[dict[str, Any]]:
    """Return the pages of the tables of index.md, under their headings."""
    nav: list[dict[str, Any]] = [{"Overview": "index.md"}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, rest = section.partition("\n")
        pages = re.findall(r"^\| \[([^]]+)\]\(([^)]+)\)", rest, re.MULTILINE)
        nav.append({title.strip(): [{name.replace("`", ""): path} for name, path in pages]})
    return nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ to which pages link, and those to which these link."""
    waiting = [PurePosixPath("docs", file.src_uri) for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for target in _outside_links(page):
            uri = _site_uri(target)
            if files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, content=_as_page(target), inclusion=InclusionLevel.NOT_IN_NAV))
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put pictures in the place of diagrams, and point links to files outside of docs/ at their pages."""
    uri = page.file.src_uri
    source = _source_of(uri)

    def draw(match: re.Match[str]) -> str:
        picture = os.path.relpath(f"docs/{diagrams.picture_of(match[1])}", source.parent)
        return f"![Diagram]({picture})\n"

    def rewrite(match: re.Match[str]) -> str:
        target = _normal(source.parent / match[1])
        new = _site_uri(target) if (ROOT / target).is_file() else match[1]
        return f"]({os.path.relpath(new, PurePosixPath(uri).parent)}{match[2] or ''})"

    return _LINK.sub(rewrite, diagrams.BLOCK.sub(draw, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Mark options in the code of a sentence, so that no line ends within one."""
    return _INLINE_CODE.sub(lambda match: _OPTION.sub(r'<span class="option">\g<0></span>', match[0]), html)


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: the pages with what they contain (https://llmstxt.org)."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, rest = section.partition("\n")
        rows = re.findall(r"^\| \[([^]]+)\]\(([^)]+)\.md\) \| (.*) \|$", rest, re.MULTILINE)
        lines += ["", f"## {title}", "", *(f"- [{name}]({page}.html): {content}" for name, page, content in rows)]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _outside_links(page: PurePosixPath) -> list[PurePosixPath]:
    if page.suffix != ".md":
        return []
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {_normal(page.parent / match[1]) for match in _LINK.finditer(text)}
    return sorted(path for path in found if path.parts[0] != "docs" and (ROOT / path).is_file())


def _site_uri(path: PurePosixPath) -> str:
    """Return where a file of the repository is in the site's sources."""
    if path.parts[0] == "docs":
        return str(path.relative_to("docs"))
    return f"{OUTSIDE}/{path}" if path.suffix == ".md" else f"{OUTSIDE}/{path}.md"


def _source_of(uri: str) -> PurePosixPath:
    """Return the file of the repository that a source of the site is."""
    path = PurePosixPath(uri)
    if path.parts[0] != OUTSIDE:
        return PurePosixPath("docs") / path
    inside = path.relative_to(OUTSIDE)
    return inside if (ROOT / inside).is_file() else inside.with_suffix("")


def _as_page(path: PurePosixPath) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path}\n\n````{_FENCES.get(path.suffix, '')}\n{text}\n````\n"


def _normal(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(path))
