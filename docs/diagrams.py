"""Draw the Mermaid diagrams of the pages as pictures, so that the site loads no program from another host.

    python -m docs.diagrams MERMAID.js      with dist/mermaid.min.js of npm's package mermaid, and Chromium

A picture is named by its diagram's text: a diagram that was changed has none, and the site is not built.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
PICTURES = DOCS / "diagrams"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PAGE = """<meta charset="utf-8"><body><script src="{program}"></script><script>
mermaid.initialize({{startOnLoad: false, theme: "neutral", htmlLabels: false, fontFamily: "sans-serif",
                    sequence: {{wrap: true, width: 190, messageAlign: "left"}}}});
mermaid.render("diagram", {text}).then(({{svg}}) => {{
  const picture = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
  picture.style.background = "white";  // also on a dark page
  const bytes = new TextEncoder().encode(new XMLSerializer().serializeToString(picture));
  document.body.textContent = "<" + btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) + ">";
}}).catch((error) => {{ document.body.textContent = error; }});
</script>"""


def picture_of(text: str) -> str:
    """Return the path of a diagram's picture below docs/."""
    return f"diagrams/{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg"


def draw(program: Path, text: str) -> str:
    """Return a diagram as SVG."""
    with tempfile.TemporaryDirectory(prefix="fsdpctl-") as temporary:
        page = Path(temporary, "page.html")
        page.write_text(PAGE.format(program=program.resolve().as_uri(), text=json.dumps(text)), encoding="utf-8")
        browser = ["chromium", "--headless", "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
        done = subprocess.run(browser, capture_output=True, text=True, check=True)
    found = re.search(r"&lt;([\w+/=]+)&gt;</body>", done.stdout)
    if found is None:
        raise SystemExit(f"{text}\nis no diagram: {done.stdout.rpartition('<body>')[2]}")
    return base64.b64decode(found[1]).decode()


def main(program: Path) -> None:
    """Draw what has no picture, and remove pictures of diagrams that are gone."""
    texts = [text for page in DOCS.rglob("*.md") for text in BLOCK.findall(page.read_text(encoding="utf-8"))]
    PICTURES.mkdir(exist_ok=True)
    for text in texts:
        if not (picture := DOCS / picture_of(text)).exists():
            picture.write_text(draw(program, text), encoding="utf-8")
    for picture in PICTURES.glob("*.svg"):
        if picture not in {DOCS / picture_of(text) for text in texts}:
            picture.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
