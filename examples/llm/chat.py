# SPDX-License-Identifier: Apache-2.0
"""A chat template, which is a program, as the texts that stand around messages, where it is no more than that."""
from __future__ import annotations

import itertools

ROLES = ("system", "user", "assistant")


def _render(template: str, tokens: dict[str, str], messages: list[dict], asks: bool) -> str:
    import jinja2
    import jinja2.sandbox

    def refuse(message: str):
        raise jinja2.TemplateError(message)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: "26 Jul 2024"  # what Llama 3's template has without a clock
    return environment.from_string(template).render(messages=messages, add_generation_prompt=asks, **tokens)


def written(parts: dict, messages: list[tuple[str, str]], asks: bool) -> str:
    """Messages, each (role, content), as text."""
    out = parts["begin"] if messages and messages[0][0] == "system" or "system" not in parts else parts["begin_alone"]
    for role, content in messages:
        before, after = parts[role]
        out += before + content + after
    return out + (parts["ask"] if asks else "")


def parts_of(template: str, tokens: dict[str, str]) -> tuple[dict | None, str]:
    """({"begin", "begin_alone", "system", "user", "assistant", "ask"}, ""), or (None, why not).

    Found by rendering messages whose contents are marks; taken only where the parts, put together again, are what the
    template makes of other conversations.
    """
    try:
        import jinja2
    except ImportError:
        return None, "Python's package jinja2 is not installed"

    def render(messages, asks=False):
        return _render(template, tokens, [{"role": r, "content": c} for r, c in messages], asks)
    try:
        marks = ["\x01a\x02", "\x01b\x02", "\x01c\x02", "\x01d\x02"]
        whole = render([("user", marks[0]), ("assistant", marks[1]), ("user", marks[2]), ("assistant", marks[3])])
        first, rest = whole.split(marks[0])
        middle, rest = rest.split(marks[1])
        again, rest = rest.split(marks[2])
        middle_again, end = rest.split(marks[3])
        asked = render([("user", marks[0])], True).split(marks[0])[1]
        plain = render([("user", marks[0])]).split(marks[0])[1]
        if middle != middle_again or not asked.startswith(plain) or not middle.startswith(plain):
            return None, "it is not made of texts around messages"
        # What stands between an answer and the next question ends with what stands before a question.
        ending = end if again.startswith(end) else ""
        user = again[len(ending):]
        if not first.endswith(user):
            return None, "its first question is written in another way than those after it"
        parts = {"begin_alone": first.removesuffix(user), "begin": first.removesuffix(user), "user": [user, plain],
                 "assistant": [middle[len(plain):], ending], "ask": asked[len(plain):]}
        try:
            before, after = render([("system", marks[0]), ("user", marks[1])]).split(marks[1])[0].split(marks[0])
        except jinja2.TemplateError:
            before = None
        if before is not None and after.endswith(user):
            begin = "".join(a for a, b in itertools.takewhile(lambda p: p[0] == p[1], zip(before, first)))
            begin = begin if before != first else ""
            # As much of the beginning as both have that ends before the system's message does.
            begin = begin if begin in tokens.values() else next((t for t in tokens.values() if before.startswith(t)), "")
            parts["begin"] = begin
            parts["system"] = [before[len(begin):], after.removesuffix(user)]
        tests = [[("user", "Is it?\n"), ("assistant", "It is."), ("user", "So?")], [("user", "1 < 2")]]
        if "system" in parts:
            tests += [[("system", "Be brief.")] + t for t in tests]
        for test in tests:
            if written(parts, [(r, c.strip()) for r, c in test], True) != render([(r, c.strip()) for r, c in test], True):
                return None, "its parts, put together, are not what it makes"
        return parts, ""
    except Exception as error:  # a template is a program: whatever it may raise
        return None, f"it could not be taken apart ({error})"
