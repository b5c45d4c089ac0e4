"""A hook of mkdocs: links from docs/ to files outside of it lead to the repository, because the site has pages only."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\((\.\./[^)#\s]+)((?:#[^)\s]*)?)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Returns the text of the page with such links replaced; links to other pages stay as they are."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replaced(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        if path.startswith("docs/"):
            return found[0]
        return f"]({config['repo_url'].rstrip('/')}/tree/main/{path}{found[2]})"

    return LINK.sub(replaced, markdown)
