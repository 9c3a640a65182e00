"""Reference pages of the documentation that are made from the code: `python -m scripts.reference`.

`configs`, `commands`, `api_versions`, `metrics`, `compatibility` each make the text of one page;
`pages` has them all by path; `nodes` starts the nodes that some ask; `markdown` writes tables.
Texts that no code has lie in two TOML files.
"""
