# SPDX-License-Identifier: Apache-2.0
"""A chat template, which is a program, as the texts that stand around messages, where it is no more than that."""
from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator

# Where a template has the date of the day: the one that Llama 3's has without a clock. Its texts stand in model.json.
DAY = datetime.datetime(2024, 7, 26)
THOUGHTS = ["</think>", "</seed:think>", "[/THINK]", "</thought>"]
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
    has_system = bool(messages) and messages[0][0] == "system"
    out = parts["begin"] if has_system or "system" not in parts else parts["begin_alone"]
    inside = parts.get("system_in") if has_system else None
    questions = [i for i, (role, _) in enumerate(messages) if role == "user"]
    holder = questions[0 if inside == "first" else -1] if inside and questions else None
    for i, (role, content) in enumerate(messages):
        if role == "system" and inside:
            continue
        before, after = parts[role]
        if role == "assistant" and "thought" in parts:
            end, dropped = parts["thought"]
            content = content.rpartition(end)[2].lstrip(dropped) if end in content else content
        if i == holder:
            before += parts["system"][0] + messages[0][1] + parts["system"][1]
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


def _systems(render, parts: dict, tokens: dict[str, str]) -> Iterator[dict]:
    """What may be other in conversations that begin with the system's message, the likeliest first. The last is nothing:
    the template has no such message."""
    try:
        before, after, _ = _cut(render([("system", MARKS[0]), ("user", MARKS[1])], True), 2)
    except Exception:  # templates raise what they like
        yield {}
        return
    user = parts["user"][0]
    if after.endswith(user):
        begin = _common([before, parts["begin_alone"] + user]) if before != parts["begin_alone"] + user else ""
        # As much of the beginning as both have that ends before the system's message does.
        begin = begin if begin in tokens.values() else next((t for t in tokens.values() if before.startswith(t)), "")
        yield {"begin": begin, "system": [before.removeprefix(begin), after.removesuffix(user)]}
    begin, found, inner = before.rpartition(user or before)
    if user and found:  # Llama 2 and Gemma 3 write it into the first question, Mistral Nemo into the last
        for place in ("first", "last"):
            yield {"begin": begin, "system": [inner, after], "system_in": place}
    yield {}


def _thoughts(render) -> list[dict]:
    """Where the template may forget what an answer says before a mark, once it is not the last one any more; the last is
    nowhere."""
    for mark in THOUGHTS:
        talk = [("user", "Is it?"), ("assistant", f"Hm.\n{mark}\n\nIt is."), ("user", "So?")]
        try:
            text = render(talk, True)
        except Exception:
            continue
        if mark not in text and "Hm." not in text:
            return [{"thought": [mark, "\n"]}, {"thought": [mark, ""]}, {}]
    return [{}]


def _is_right(parts: dict, render) -> bool:
    """Whether conversations are written as the template does it."""
    talks = [[(role, content.strip()) for role, content in talk] for talk in TALKS]
    if "thought" in parts:
        thought = f"Two?\n{parts['thought'][0]}\n\n2"
        talks.append([("user", "1"), ("assistant", thought), ("user", "3"), ("assistant", "4"), ("user", "5")])
    if "system" in parts:
        talks += [[("system", "Be brief."), *talk] for talk in talks]
    try:
        return all(written(parts, talk, True) == render(talk, True) for talk in talks)
    except Exception:
        return False


def parts_of(template: str, tokens: dict[str, str]) -> tuple[dict | None, str]:
    """({"begin", "begin_alone", "system", "system_in", "user", "assistant", "thought", "ask"}, ""), or (None, why not).

    Each role has the texts before and after a message. With "system_in" the system's stand within a question, "first"
    or "last", before its own words. With "thought", a mark and letters, an answer is written without what goes up to the
    mark and without those letters after it. Found by rendering messages whose contents are marks; taken
    only where the parts, put together again, are what the template makes of other conversations.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError:
        return None, "Python's package jinja2 is not installed"
    try:
        render = _renderer(template, tokens)
        turns, thoughts = _turns(render), _thoughts(render)
        for forgets, system in itertools.product(thoughts, _systems(render, turns, tokens)):
            parts = turns | forgets | system
            if _is_right(parts, render):
                return parts, ""
        return None, "its parts, put together, are not what it makes"
    except Exception as error:  # a template is a program: whatever it may raise
        return None, f"it is not made of texts around messages ({error})"
