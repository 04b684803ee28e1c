"""The search engine of host and server: words, sentences, typing errors, copies."""

from __future__ import annotations

import pytest
from benchmarks.search import run
from hypothesis import given
from hypothesis import strategies as st

from skillwire.catalog import parse_query
from skillwire.catalog.search import BODY_CHARS, Document, SearchIndex, body_terms, typing_errors
from skillwire.catalog.tokenize import stem, terms_of
from skillwire.limits import Limits

SKILLS = {
    "code-review": "Reviews a change for bugs and style. Use before a merge.",
    "terraform-review": "Checks Terraform code and plans for mistakes.",
    "kubernetes-deploy": "Deploys services to Kubernetes with kubectl and Helm.",
    "email-campaign": "Writes e-mail newsletters and sends them.",
    "cpp-style": "Formats C++ sources as the team does.",
    "c-port": "Ports old C programs.",
    "dotnet-upgrade": "Moves a .NET service to a newer release.",
    "refund-policy": "Pays money back to customers.",
    "node-setup": "Sets up a Node.js project.",
    "resume": "Improves a résumé.",
    "退款": "处理客户退款请求",
}


def index(skills: dict[str, str] | None = None) -> SearchIndex[str]:
    return SearchIndex(Document(name, name, text) for name, text in (skills or SKILLS).items())


def find(query: str, *, limit: int = 3) -> list[str]:
    return [match.key for match in index().search(parse_query(query, limits=Limits()), limit=limit)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("how do I review my terraform code", "terraform-review"),
        ("what should I use to deploy a service to kubernetes?", "kubernetes-deploy"),
        ("a customer wants the money back", "refund-policy"),
        ("kuberntes", "kubernetes-deploy"),
        ("kubernetse deployment", "kubernetes-deploy"),
        ("terrafrom", "terraform-review"),
        ("e-mail", "email-campaign"),
        ("email", "email-campaign"),
        ("EMAILS", "email-campaign"),
        ("C++", "cpp-style"),
        ("c++ code style", "cpp-style"),
        (".NET", "dotnet-upgrade"),
        ("upgrade .net", "dotnet-upgrade"),
        ("nodejs", "node-setup"),
        ("node.js", "node-setup"),
        ("refun", "refund-policy"),
        ("reviewing changes", "code-review"),
        ("resume", "resume"),
        ("退款", "退款"),
        ("客户退款", "退款"),
    ],
)
def test_words_and_sentences_find_the_skill_they_are_about(query: str, best: str) -> None:
    assert find(query)[0] == best


def test_exact_names_of_languages_are_not_letters() -> None:
    assert find("c++") == ["cpp-style"]
    assert "cpp-style" not in find("c")
    assert find("c")[0] == "c-port"
    assert terms_of("C# and F# and .NET, c++; asp.net") == [
        "c#",
        "and",
        "f#",
        "and",
        ".net",
        "c++",
        *terms_of("asp.net"),
    ]


def test_what_has_all_the_words_comes_before_what_has_some() -> None:
    matches = index().search(parse_query("review terraform", limits=Limits()), limit=5)
    assert [(match.key, match.partial) for match in matches] == [
        ("terraform-review", False),
        ("code-review", True),
    ]


@pytest.mark.parametrize("query", ["", "  ", "***", '"*"', "(", "NOT", "zebra"])
def test_a_query_that_matches_nothing_finds_nothing(query: str) -> None:
    assert find(query) == []


def test_a_query_of_common_words_alone_is_taken_as_it_is() -> None:
    assert parse_query("how to", limits=Limits()).terms == (("how",), ("to",))
    assert parse_query("how to deploy", limits=Limits()).terms == ((stem("deploy"),),)


def test_identical_skills_are_one_result_with_its_copies() -> None:
    documents = [
        Document(f"{place}/refunds", "refunds", "Pays back.", place, digest="same") for place in "abc"
    ]
    documents.append(Document("d/refunds", "refunds", "Pays back.", "d", digest="other"))
    matches = SearchIndex(documents).search(parse_query("refunds", limits=Limits()), limit=2)
    assert [(match.key, match.copies) for match in matches] == [
        ("a/refunds", ("b/refunds", "c/refunds")),
        ("d/refunds", ()),
    ]


def test_what_changes_is_searched_as_it_is_now() -> None:
    made = index()
    made.update(
        [Document("refund-policy", "refund-policy", "Tells the weather.")], removed=["resume", "unknown"]
    )
    assert [match.key for match in made.search(parse_query("weather", limits=Limits()), limit=5)] == [
        "refund-policy"
    ]
    assert made.search(parse_query("money", limits=Limits()), limit=5) == []
    assert made.search(parse_query("résumé", limits=Limits()), limit=5) == []
    assert len(made) == len(SKILLS) - 1


def test_a_word_in_a_name_weighs_more_than_one_in_a_body() -> None:
    made = SearchIndex(
        [
            Document("orders", "orders", "Looks up orders.", body="refund " * 3 + "other words " * 50),
            Document("refunds", "refunds", "Pays back."),
            Document("weather", "weather", "Forecasts."),
        ]
    )
    found = made.search(parse_query("refund", limits=Limits()), limit=5)
    assert [match.key for match in found] == ["refunds", "orders"]
    assert made.snippet(found[0]) == "Pays back."
    assert made.snippet(found[1]).startswith("refund refund")
    assert len(made.snippet(found[1])) <= 250


@pytest.mark.parametrize(
    ("one", "other", "errors"),
    [("kuberntes", "kubernetes", 1), ("terrafrom", "terraform", 1), ("abc", "abc", 0), ("abcd", "wxyz", 3)],
)
def test_typing_errors_are_counted_up_to_a_limit(one: str, other: str, errors: int) -> None:
    assert typing_errors(one, other, 2) == errors


@pytest.mark.parametrize(
    "forms",
    [
        ("review", "reviews", "reviewed", "reviewing", "reviewer"),
        ("deploy", "deploys", "deployed", "deploying", "deployment", "deployments"),
        ("query", "queries", "querying"),
        ("release", "releases", "released", "releasing"),
        ("plan", "plans", "planned", "planning"),
        ("document", "documents", "documentation"),
        ("test", "tests", "tested", "testing"),
    ],
)
def test_forms_of_a_word_are_one_term(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@given(st.text(max_size=200))
def test_no_text_breaks_a_query_or_an_index(text: str) -> None:
    query = parse_query(text, limits=Limits())
    made = SearchIndex([Document("x", text[:50], text, body=text)])
    for match in made.search(query, limit=3):
        made.snippet(match)


def test_generated_questions_are_answered_by_their_first_result() -> None:
    right = {kind: first for kind, (first, *_) in run.generated().items()}
    assert right["sentence"] >= 72
    assert (right["keywords"], right["spelling"]) == (40, 15)


def test_the_text_of_skills_answers_ten_more_questions_of_a_hundred_than_descriptions_do() -> None:
    def first(text: bool) -> float:
        rows = [(answer, found[:1]) for answer, found in run.ranks("held-out", text=text) if answer]
        return sum(answer in found for answer, found in rows) / len(rows)

    assert first(text=True) >= first(text=False) + 0.1
    names = {document.key for document in run.documents(text=False)}
    labels = [label for half in run.HALVES for label in run.labels(half)]
    assert len(names) >= 60
    assert len({question for question, _ in labels}) == len(labels) >= 300
    assert {answer for _, answer in labels if answer} == names


def test_when_too_little_of_a_question_is_known_no_skill_seems_to_fit() -> None:
    rows = run.ranks("held-out", text=True)
    none = [found for answer, found in rows if answer is None]
    assert sum(not found for found in none) >= len(none) * 0.4
    assert sum(not found for answer, found in rows if answer) <= len(rows) * 0.05
    made = SearchIndex(run.documents(text=True))

    def names(query: str) -> list[str]:
        return [match.key for match in made.search(parse_query(query, limits=Limits()), limit=3)]

    assert names("remind me to call mum") == []
    # One word is enough if it is all that was asked for, and so it is among few skills.
    assert "meeting-notes" in names("transcript")
    assert find("remind me to deploy mum's casserole") == ["kubernetes-deploy"]


def test_an_index_that_changes_often_gives_the_results_of_a_new_one() -> None:
    made = index()
    for turn in range(300):
        made.update(
            (Document(name, name, f"{text} {turn}", body=text) for name, text in SKILLS.items()),
            removed=["resume"] if turn % 2 else (),
        )
    made.update([], removed=["resume"])
    left = {name: f"{text} 299" for name, text in SKILLS.items() if name != "resume"}
    fresh = SearchIndex(Document(name, name, text, body=SKILLS[name]) for name, text in left.items())
    for words in ("review terraform", "customer money", "299", "298", "kuberntes", "résumé"):
        query = parse_query(words, limits=Limits())
        assert made.search(query, limit=5) == fresh.search(query, limit=5)


def test_terms_counted_before_are_worth_the_same_as_the_text() -> None:
    body = "Call kubectl twice: kubectl apply, kubectl get."
    query = parse_query("kubectl apply", limits=Limits())
    [text] = SearchIndex([Document("x", "x", "Ships.", body=body)]).search(query, limit=1)
    [counted] = SearchIndex([Document("x", "x", "Ships.", body=body_terms(body))]).search(query, limit=1)
    assert text == counted
    assert body_terms("kubectl " + "x " * BODY_CHARS + "late").keys() == {"kubectl", "x"}


def test_each_word_of_a_query_has_its_worth() -> None:
    worth = index().worth(parse_query("review terraform zebra", limits=Limits()), "terraform-review")
    assert set(worth) == {"review", "terraform"}
    assert worth["terraform"] > worth["review"] > 0


def fused(query: str, similar: dict[str, float], **options: object) -> list[str]:
    matches = index().search(parse_query(query, limits=Limits()), limit=3, similar=similar, **options)  # type: ignore[arg-type]
    return [match.key for match in matches]


def test_an_order_by_meaning_and_the_order_by_words_become_one() -> None:
    assert find("review") == ["code-review", "terraform-review"]
    # Second by words and first by meaning is better than first by words alone.
    assert fused("review", {"terraform-review": 0.9}) == ["terraform-review", "code-review"]
    close = {"resume": 0.3, "terraform-review": 0.9}
    assert fused("review", close) == ["terraform-review", "code-review", "resume"]
    assert fused("review", {}) == find("review")


def test_a_skill_without_any_of_the_words_is_found_by_meaning_if_it_is_close() -> None:
    assert fused("zzz", {"refund-policy": 0.2, "resume": 0.19}) == ["refund-policy"]
    assert fused("", {"refund-policy": 0.2}) == ["refund-policy"]
    match = index().search(parse_query("zzz", limits=Limits()), limit=1, similar={"resume": 1.0})[0]
    assert (match.partial, match.terms) == (True, frozenset())
    # Where only words decide whether it is a result, meaning still moves it.
    assert fused("review", {"terraform-review": 0.1}) == ["terraform-review", "code-review"]
    assert fused("zzz", {"gone": 0.9}) == []


def test_copies_and_skills_that_are_not_wanted_are_no_results_by_meaning_either() -> None:
    both = SearchIndex(Document(key, key, "Pays money back.", digest="d") for key in ("a", "b"))
    matches = both.search(parse_query("zzz", limits=Limits()), limit=5, similar={"b": 0.9, "a": 0.8})
    assert [(match.key, match.copies) for match in matches] == [("b", ("a",))]
    assert fused("review", {"terraform-review": 0.9}, wanted=lambda key: key != "terraform-review") == [
        "code-review"
    ]
