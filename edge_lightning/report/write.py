"""A report on disk: report.md, its pictures beside it, and report.html with everything in it."""

from __future__ import annotations

from pathlib import Path

from edge_lightning.errors import UserError
from edge_lightning.report.document import Document
from edge_lightning.report.page import page
from edge_lightning.whole import whole


def write(document: Document, out: Path) -> list[Path]:
    """Each file whole or not at all, pictures first, so that no text names one that is not there; their paths.

    Raises:
        UserError: the folder can't be written.
    """
    files = {picture.file: picture.png for picture in document.pictures}
    files["report.md"] = document.markdown.encode()
    files["report.html"] = page(document.markdown, document.pictures).encode()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with whole(out / name) as part:
                part.write_bytes(content)
    except OSError as error:
        raise UserError(f"out={out}: a folder that can be written expected; {error.strerror}") from None
    return [out / name for name in files]
