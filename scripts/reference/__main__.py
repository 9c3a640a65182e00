"""`python -m scripts.reference`: writes the generated pages of docs/."""

from scripts.reference.pages import DOCS, pages

for path, text in pages().items():
    (DOCS / path).parent.mkdir(exist_ok=True)
    (DOCS / path).write_text(text, encoding="utf-8")
