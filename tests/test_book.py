"""What holds for the sources of the book, and for the HTML without opening a browser."""

import ast
import html
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
HTML = ROOT / "_build" / "html"
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
FILES = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
CHAPTERS = [chapter["file"] for chapter in TOC["parts"][0]["chapters"]]
BIBLIOGRAPHY = (BOOK / "references.bib").read_text()
# Every chapter: the claims of the notes that it settles.
CLAIMS = {"book/qkv": ["S15", "S16", "S17", "S18", "S19", "S20", "S21"]}
# The sections that the messages of the checks point to.
SECTIONS = {
    "book/qkv": [
        "qkv-attend",
        "qkv-context",
        "qkv-empty-rows",
        "qkv-importance",
        "qkv-linear",
        "qkv-mask",
        "qkv-other-scores",
        "qkv-other-weights",
        "qkv-scale",
        "qkv-scores",
        "qkv-softmax",
    ]
}


def source(file):
    return (ROOT / f"{file}.md").read_text()


def cells(file):
    """The code cells of a chapter, with their options."""
    return re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", source(file), flags=re.M | re.S)


def outside_code(file):
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", source(file), flags=re.M | re.S))


class Page(HTMLParser):
    """The ids, images and internal links of a page."""

    def __init__(self, path):
        super().__init__()
        self.path, self.ids, self.images, self.links = path, set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids |= {attributes["id"]} if attributes.get("id") else set()
        if tag == "img":
            self.images.append(attributes)
        elif tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])


@pytest.fixture(scope="session")
def pages():
    if not (HTML / "index.html").exists():
        pytest.fail(f"there is no book in {HTML}; run `make book` first", pytrace=False)
    paths = [path for path in HTML.rglob("*.html") if "_static" not in path.parts]
    return {path.relative_to(HTML).as_posix(): Page(path) for path in paths}


def test_every_page_of_the_table_of_contents_exists_and_every_page_is_in_it():
    found = [path.relative_to(ROOT).with_suffix("").as_posix() for path in BOOK.rglob("*.md")]
    assert sorted(FILES) == sorted(found)


@pytest.mark.parametrize("file", CHAPTERS)
def test_every_claim_of_a_chapter_has_its_verdict(file):
    verdicts = re.findall(
        r"^> \*\*(S\d+) (holds|is corrected)(?:, with a condition)?\.\*\*", source(file), re.M
    )
    assert sorted(claim for claim, _ in verdicts) == CLAIMS[file]


@pytest.mark.parametrize("file", CHAPTERS)
def test_a_chapter_is_short_asserts_its_claims_and_runs_on_one_thread(file):
    assert len(source(file).splitlines()) <= 400
    hidden = [cell for cell in cells(file) if cell.startswith(":tags: [remove-cell]")]
    asserted = "\n".join(hidden)
    assert all(re.search(rf"# .*\b{claim}\b", asserted) for claim in CLAIMS[file])
    assert all("assert" in cell for cell in hidden)
    assert any("torch.set_num_threads(1)" in cell for cell in cells(file))


@pytest.mark.parametrize("file", CHAPTERS)
def test_random_numbers_of_a_chapter_come_from_seeded_generators(file):
    for cell in cells(file):
        for call in re.findall(r"torch\.rand\w*\(.*", cell):
            assert "generator=" in call, call


@pytest.mark.parametrize("file", CHAPTERS)
def test_every_figure_of_a_chapter_has_a_caption_and_says_what_is_seen(file):
    drawing = [cell for cell in cells(file) if re.search(r"heatmap\(|subplots\(", cell)]
    assert drawing
    for cell in drawing:
        options = yaml.safe_load(cell.splitlines()[0].removeprefix(":"))["mystnb"]
        assert len(options["figure"]["caption"]) > 40 and len(options["image"]["alt"]) > 40
        assert options["figure"]["caption"] != options["image"]["alt"]


@pytest.mark.parametrize("file", CHAPTERS)
def test_library_code_is_shown_from_the_library_and_not_typed_again(file):
    shown = re.findall(r"\{literalinclude\} (\S+)\n:pyobject: (\w+)\n:without-docstring:", source(file))
    assert shown
    for path, name in shown:
        assert re.search(rf"^(def|class) {name}\b", (BOOK / path).read_text(), re.M)
        assert not any(f"def {name}(" in cell for cell in cells(file))


@pytest.mark.parametrize("file", FILES)
def test_pages_hold_no_html_of_their_own_and_load_nothing_from_elsewhere(file):
    text = outside_code(file)
    assert not re.search(r"</?[a-zA-Z][^>]*>", text)
    assert not re.search(r"!\[[^\]]*\]\(https?:", text) and "{raw}" not in source(file)


def test_the_configuration_loads_nothing_from_elsewhere():
    assert CONFIG["launch_buttons"] == {"thebe": False}
    assert "sphinx-mathjax-offline" in CONFIG["sphinx"]["config"]["extensions"]
    assert "http" not in (ROOT / "_config.yml").read_text()


def test_an_error_in_a_cell_stops_the_build():
    assert CONFIG["execute"]["raise_on_error"] is True and not CONFIG["execute"].get("allow_errors")


def test_every_source_is_listed_once_can_be_found_and_is_cited():
    entries = re.findall(r"^@\w+\{(\S+),\n(.*?)^\}", BIBLIOGRAPHY, flags=re.M | re.S)
    assert entries and all(count == 1 for count in Counter(key for key, _ in entries).values())
    for key, fields in entries:
        assert re.search(r"^  (doi|eprint|url) = \{\S+\}", fields, re.M), f"{key} has no DOI, arXiv id or URL"
    cited = re.findall(r"\{cite:[pt]\}`([^`]+)`", "".join(map(source, FILES)))
    keys = {key.strip() for group in cited for key in group.split(",")}
    assert keys == {key for key, _ in entries}


def test_every_term_of_the_glossary_has_its_chinese_name():
    body = re.search(r"```\{glossary\}\n(.*?)```", source("book/glossary"), re.S)[1]
    definitions = re.findall(r"^  (.*)", body, re.M)
    assert definitions
    for definition in definitions:
        assert re.match(r"[\u4e00-\u9fff]", definition), definition


def test_the_map_shows_the_ten_topics_and_marks_as_written_those_that_are():
    namespace = "{http://www.w3.org/2000/svg}"
    svg = ET.parse(BOOK / "_static" / "map.svg").getroot()
    texts = [text.text for text in svg.iter(f"{namespace}text")]
    topics = ["origins", "seq2seq", "alignment", "taxonomy", "qkv", "multihead", "selfattention", "position"]
    topics += ["restricted", "transformer"]
    assert [topic for topic in topics if topic not in texts] == []
    boxes = [child for child in svg if child.tag in (f"{namespace}rect", f"{namespace}text")]
    solid = {
        text.text
        for box, text in pairwise(boxes)
        if box.tag == f"{namespace}rect" and text.text in topics and "stroke-dasharray" not in box.attrib
    }
    assert {f"book/{topic}" for topic in solid} == set(CHAPTERS)


def test_built_pages_are_those_of_the_table_of_contents(pages):
    assert set(pages) == {f"{file}.html" for file in FILES} | {"index.html", "genindex.html", "search.html"}


@pytest.mark.parametrize("file", SECTIONS)
def test_the_sections_that_messages_point_to_exist(pages, file):
    assert set(SECTIONS[file]) <= pages[f"{file}.html"].ids


def test_every_image_says_what_is_seen(pages):
    images = [(name, image) for name, page in pages.items() for image in page.images]
    assert images
    assert [(name, image["src"]) for name, image in images if not (image.get("alt") or "").strip()] == []
    figures = [image["alt"] for name, image in images if "/_images/" in image["src"]]
    assert figures and all(len(alt) > 40 for alt in figures)


@pytest.mark.parametrize("file", CHAPTERS)
def test_library_code_is_shown_whole_but_for_its_docstring(pages, file):
    text = html.unescape(re.sub(r"<[^>]+>", "", pages[f"{file}.html"].path.read_text()))
    for path, name in re.findall(r"\{literalinclude\} (\S+)\n:pyobject: (\w+)", source(file)):
        code = (BOOK / path).read_text()
        [function] = [node for node in ast.parse(code).body if getattr(node, "name", None) == name]
        signature, documentation, body = ast.get_source_segment(code, function).split('"""')
        assert signature.rstrip() + "\n" + body.strip("\n").rstrip() in text
        assert documentation.strip().splitlines()[0] not in text


def test_references_are_labelled_as_the_text_cites_them(pages):
    page = pages["book/references.html"].path.read_text()
    labels = re.findall(r'class="fn-bracket">\[</span>([^<]+)<', page)
    entries = re.findall(r"^@\w+\{", BIBLIOGRAPHY, re.M)
    assert len(labels) == len(entries) and {"Vaswani et al., 2017", "Jain and Wallace, 2019"} <= set(labels)
    assert [label for label in labels if not re.search(r"^\D+, \d{4}$", label)] == []


def test_links_between_pages_lead_somewhere(pages):
    by_path = {page.path.resolve(): page for page in pages.values()}
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.path.parent / path).resolve() if path else page.path.resolve()
            if not target.exists() or (anchor and target in by_path and anchor not in by_path[target].ids):
                broken.append((name, link))
    assert broken == []


def test_pages_load_no_script_style_or_picture_from_elsewhere(pages):
    loading = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"'](?:https?:)?//[^\"']+", re.I)
    found = {name: loading.findall(page.path.read_text()) for name, page in pages.items()}
    assert {name: loads for name, loads in found.items() if loads} == {}


def test_the_reference_describes_every_public_name_of_the_library(pages):
    modules = {path.stem for path in (ROOT / "attncourse").glob("*.py")}
    modules -= {"__init__", "cli", "learner", "validation"}  # commands, and checks that modules share
    assert {f"book/api/{module}" for module in modules} == {file for file in FILES if "/api/" in file}
    for module in modules:
        tree = ast.parse((ROOT / "attncourse" / f"{module}.py").read_text())
        names = []
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                names.append(node.name)
                methods = node.body if isinstance(node, ast.ClassDef) else []
                names += [
                    f"{node.name}.{method.name}"
                    for method in methods
                    if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
                ]
        assert names
        missing = {f"attncourse.{module}.{name}" for name in names} - pages[f"book/api/{module}.html"].ids
        assert not missing, "public names have docstrings, and those without an underscore are public"
