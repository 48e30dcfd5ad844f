# SPDX-License-Identifier: Apache-2.0
"""A chat template, which is a program, as the texts that stand around messages, where it is no more than that."""
from __future__ import annotations

import datetime

# Where a template has the date of the day: the one that Llama 3's has without a clock. Its texts stand in model.json.
DAY = datetime.datetime(2024, 7, 26)
MARKS = ["\x01a\x02", "\x01b\x02", "\x01c\x02", "\x01d\x02"]
TALKS = [[("user", "Is it?\n"), ("assistant", "It is."), ("user", "So?")], [("user", "1 < 2")],
         [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"), ("user", "5")]]


def _renderer(template: str, tokens: dict[str, str]):
    """What renders [(role, content), ..], as the package transformers does it."""
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """Marks what an assistant says, for training."""
        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str):
        raise jinja2.TemplateError(message)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=["jinja2.ext.loopcontrols", Generation])
    environment.globals |= {"raise_exception": refuse, "strftime_now": DAY.strftime}
    compiled = environment.from_string(template)

    def render(messages: list[tuple[str, str]], asks: bool) -> str:
        listed = [{"role": role, "content": content} for role, content in messages]
        return compiled.render(messages=listed, add_generation_prompt=asks, tools=None, documents=None, **tokens)
    return render


def written(parts: dict, messages: list[tuple[str, str]], asks: bool) -> str:
    """Messages, each (role, content), as text."""
    out = parts["begin"] if messages and messages[0][0] == "system" or "system" not in parts else parts["begin_alone"]
    for role, content in messages:
        before, after = parts[role]
        out += before + content + after
    return out + (parts["ask"] if asks else "")


def _common(texts: list[str]) -> str:
    """What all of them begin with."""
    first, last = min(texts), max(texts)
    return first[:next((i for i, c in enumerate(first) if last[i:i + 1] != c), len(first))]


def _cut(text: str, count: int) -> list[str]:
    """What stands around the first marks. An error where one of them is not there once."""
    out = []
    for mark in MARKS[:count]:
        before, text = text.split(mark)
        out.append(before)
    return [*out, text]


def _turns(render) -> dict:
    """All parts but the system's. A conversation that is written ends with a question: templates end those with an answer
    in ways of their own."""
    first, middle, again, asked = _cut(render([("user", MARKS[0]), ("assistant", MARKS[1]), ("user", MARKS[2])], True), 3)
    _, alone = _cut(render([("user", MARKS[0])], True), 1)
    if asked != alone:
        raise ValueError("it asks in another way in the middle of a conversation")
    # Between two messages it matters to nobody which of them a text belongs to; these are where templates have it.
    _, plain = _cut(render([("user", MARKS[0])], False), 1)
    if not asked.startswith(plain) or not middle.startswith(plain):
        plain = _common([asked, middle])
    end = _cut(render([("user", MARKS[0]), ("assistant", MARKS[1])], False), 2)[2]
    user = again.removeprefix(end)
    if not again.startswith(end) or not first.endswith(user):
        user = _common([first[::-1], again[::-1]])[::-1]
    return {"begin_alone": first.removesuffix(user), "begin": first.removesuffix(user), "user": [user, plain],
            "assistant": [middle.removeprefix(plain), again.removesuffix(user)], "ask": asked.removeprefix(plain)}


def _system(render, parts: dict, tokens: dict[str, str]) -> dict:
    """What is other in conversations that begin with the system's message; {} where the template has none, or writes it
    into the first question."""
    try:
        before, after, _ = _cut(render([("system", MARKS[0]), ("user", MARKS[1])], True), 2)
    except Exception:  # templates raise what they like
        return {}
    user = parts["user"][0]
    if not after.endswith(user):
        return {}
    begin = _common([before, parts["begin_alone"] + user]) if before != parts["begin_alone"] + user else ""
    # As much of the beginning as both have that ends before the system's message does.
    begin = begin if begin in tokens.values() else next((t for t in tokens.values() if before.startswith(t)), "")
    return {"begin": begin, "system": [before.removeprefix(begin), after.removesuffix(user)]}


def parts_of(template: str, tokens: dict[str, str]) -> tuple[dict | None, str]:
    """({"begin", "begin_alone", "system", "user", "assistant", "ask"}, ""), or (None, why not).

    Found by rendering messages whose contents are marks; taken only where the parts, put together again, are what the
    template makes of other conversations.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError:
        return None, "Python's package jinja2 is not installed"
    try:
        render = _renderer(template, tokens)
        parts = _turns(render)
        parts |= _system(render, parts, tokens)
        talks = [[(r, c.strip()) for r, c in talk] for talk in TALKS]
        if "system" in parts:
            talks += [[("system", "Be brief."), *talk] for talk in talks]
        if any(written(parts, talk, True) != render(talk, True) for talk in talks):
            return None, "its parts, put together, are not what it makes"
        return parts, ""
    except Exception as error:  # a template is a program: whatever it may raise
        return None, f"it is not made of texts around messages ({error})"
