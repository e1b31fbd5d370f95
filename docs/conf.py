"""The documentation site: ``make docs``.

The source folder is the repository itself, so that a link between two Markdown pages works alike
on a code host and on the site. Pages stay plain Markdown: what only a site can do (the tree of
pages, the reference made of docstrings, the reference made of ``--help``) is added here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402  # beside this file

from fedwqcp import __version__  # noqa: E402

project = "fedwqcp"
author = "The fedwqcp developers"
copyright = author
version = release = __version__

root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "deploy/*.md", "examples/*/*.md", "results/**.md"]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "out",
    "runs",
    "src",
    "tests",
    "benchmarks",
    "docs/gallery",
    "docs/auto_gallery/*.ipynb",
    "docs/auto_gallery/*.py",
    "docs/auto_gallery/sg_execution_times.rst",
    "docs/_templates",
]
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
]
templates_path = [str(HERE / "_templates")]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_update_mathjax = False
html_math_renderer = "mathml"  # browsers draw it themselves: no script, nothing from a network
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_mode = "off"  # the tests run every block; the gallery runs its own files

autosummary_generate = True
autodoc_typehints = "none"  # types and shapes stand in the docstrings
autodoc_mock_imports = ["torch", "flwr", "nvflare"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
nitpicky = True

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE / "gallery")],
    "gallery_dirs": [str(HERE / "auto_gallery")],
    "filename_pattern": r"[/\\]\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10**9,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "fedwqcp"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_extra_path = [str(HERE / "_site")]
html_static_path = [str(HERE / "_static")]
html_css_files = ["site.css"]
html_logo = str(HERE / "_static/logo.svg")
html_theme_options = {
    "logo": {"alt_text": "fedwqcp"},
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navigation_depth": 1,  # the buttons that would unfold more have no name
    "secondary_sidebar_items": {"**": ["page-toc"], root_doc: []},
}
html_context = {"default_mode": "auto"}

generate.write(HERE / "reference/generated")  # before Sphinx looks which pages there are

GUIDE = ("which-method", "methods", "faq")
STUDIES = ("four-hospitals", "own-distribution", "scale")
CONCEPTS = sorted(
    page.stem
    for page in (HERE / "explanation").glob("*.md")
    if page.stem not in ("index", *GUIDE, *STUDIES)
)
SECTIONS = {
    "docs/index": (
        "tutorial/index",
        "how-to/index",
        "reference/index",
        "explanation/index",
        "evidence",
        "auto_gallery/index",
        "project",
    ),
    "docs/tutorial/index": ("installation", "quick-start", "first-hour", "*"),
    "docs/how-to/index": ("*",),
    "docs/reference/index": ("api", "generated/python", "cli", "generated/commands", "*"),
    "docs/explanation/index": (*GUIDE, *CONCEPTS),
    "docs/evidence": (
        *(f"explanation/{name}" for name in STUDIES),
        "reproduction",
        "beyond",
        "performance",
        "many-agents",
    ),
    "docs/project": ("/SECURITY", "/CONTRIBUTING", "/RELEASING", "/CODE_OF_CONDUCT", "/CHANGELOG"),
}
"""The pages below each page; a star takes whatever else lies in the folder."""

BOXES = {"hero": "::::", **dict.fromkeys(("pitch", "proof", "example", "result", "cards"), ":::")}
"""Parts of the first page that ``site.css`` lays out, and the fence of each."""

ALONE = ("README", "deploy/", "examples/", "results/")
"""Pages that are reached by links, and stand in no tree."""


def complete(app: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what only the site needs."""
    del app
    source[0] = re.sub("<!-- made: (.+?) -->", lambda part: generate.MADE[part[1]](), source[0])
    source[0] = _folders_to_readmes(name, source[0])
    source[0] = source[0].replace("gallery/README.md", "auto_gallery/index.rst")
    for box, fence in BOXES.items():
        source[0] = source[0].replace(f"<!-- {box} -->", f"{fence}{{container}} {box}")
        source[0] = source[0].replace(f"<!-- end of {box} -->", fence)
    for words in (words for words, page in generate.SEARCHED.items() if page == name):
        source[0] = source[0].replace("\n", f"\n\n```{{index}} ! {words.lower()}\n```\n", 1)
    if name.startswith(ALONE):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    if name in SECTIONS:
        hidden = ":hidden:\n" if name == root_doc else ""
        pages = "\n".join(SECTIONS[name])
        source[0] += f"\n\n```{{toctree}}\n:maxdepth: 1\n:glob:\n{hidden}\n{pages}\n```\n"


def _folders_to_readmes(name: str, text: str) -> str:
    """Let a link to a folder lead to the page in it, as code hosts do."""
    here = (ROOT / name).parent

    def lead(link: re.Match[str]) -> str:
        folder = here / link[1]
        page = folder / "README.md"
        return f"]({link[1].rstrip('/')}/README.md)" if page.exists() else link[0]

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)\)", lead, text)


def skip(*hook: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", str(hook[2])) else None


def inline_formula(translator: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write a formula within a line as MathML."""
    translator.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def displayed_formula(translator: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """Write a formula on a line of its own as MathML; it may wrap at every wide space."""
    parts = (_mathml(part, "block") for part in re.split(r"\\qquad", node.astext()))
    translator.body.append(
        f"<div class='formula' tabindex='0'>{''.join(parts)}</div>"
    )  # it scrolls
    raise nodes.SkipNode


def _mathml(formula: str, display: str) -> str:
    """Return MathML; a command that the converter does not know stays in its text, and fails."""
    made = convert(formula, display=display)
    if "\\" in made:
        raise ValueError(f"cannot be typeset: {formula}")
    return made


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", skip)
