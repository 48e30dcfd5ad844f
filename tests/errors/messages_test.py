#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The style of error messages: whole sentences, and context lines that follow them (docs/errors.md).

Read are the literals given to the makers of a Status in src, tools, plugins and include. A message begins with a capital
letter, a quoted or inserted value, or a name as it is written in a module, and ends with a full stop. A context line is
a phrase that begins small and has no full stop, or a whole sentence.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CODES = re.findall(r"^  k(\w+) = \d+,", (ROOT / "include/krafla/status.h").read_text(), re.M)
MAKERS = [*CODES, "MakeError", "Status"]
# The parsers of text put a place before a message; these pass it on.
PARSER_MAKERS = ["Error", "ErrorAt", "error", "bad"]
PARSERS = ("src/hlo_io/hlo_text", "src/hlo_io/stablehlo_text")
LITERAL = r'"((?:[^"\\]|\\.)*)"'
BEGINS = re.compile(r"[A-Z'{(%]|[a-z0-9]+(?:[-_.][a-z0-9]+)+\b|[a-z]+=")
# Messages in others' words, which clients compare, and frames around a text that is no literal.
FOREIGN = {
    "topology not implemented: devices that are not here cannot be described.": "JAX looks for its beginning",
    "No such compile option: '{}'": "XLA's words",
    "Python callback error: {}": "ends with Python's traceback",
    "{}:{}:{}: {}\\n  {}\\n  {}^": "a message with its place and the line of the text",
    "{}: {}\\n    {}": "a message with its place and the line of the text",
}


def call(text, begin):
    """From behind an opening bracket to the one that closes it, strings skipped."""
    depth, at = 1, begin
    while at < len(text) and depth > 0:
        if text[at] == '"':
            at = re.compile(LITERAL).match(text, at).end()
            continue
        depth += (text[at] in "({[") - (text[at] in ")}]")
        at += 1
    return text[begin:at - 1]


def literal(arguments):
    """The first string among a call's arguments, its pieces joined, and what follows it."""
    found = re.search(r"(?:%s\s*)+" % LITERAL, arguments)
    if not found or re.search(r"[?;]|==", arguments[:found.start()]):
        return None, ""
    return "".join(re.findall(LITERAL, found[0])), arguments[found.end():]


def fault(message, rest):
    """What is wrong with a message, or nothing."""
    if message in FOREIGN:
        return None
    if not BEGINS.match(message):
        return "begins small"
    # The sentence of another error, at the end.
    if message.endswith("{}") and re.search(r"message\(\)\)*$", rest.strip()):
        return None
    if not message.endswith("."):
        return "does not end with a full stop"
    if re.search(r"\}'? is no \w", message):
        return "says 'is no' for 'is not a'"
    return None


def context_fault(line):
    sentence = line.endswith(".")
    if line[:1].isupper() != sentence:
        return "is neither a phrase that begins small nor a whole sentence"
    return None


def check(path, text, faults):
    parser = path.as_posix().startswith(PARSERS)
    names = MAKERS + (PARSER_MAKERS if parser else [])
    count = 0
    for found in re.finditer(r"\b(%s|WithContext)\(" % "|".join(names), text):
        message, rest = literal(call(text, found.end()))
        if not message:
            continue
        count += 1
        why = context_fault(message) if found[1] == "WithContext" else fault(message, rest)
        if why:
            faults.append(f"{path}:{text.count(chr(10), 0, found.start()) + 1}: \"{message}\" {why}")
    return count


def self_check():
    """The rules find what they are for."""
    wrong, right = [], []
    for text in ('InvalidArgument("argument {} is missing.", a)', 'Unimplemented("Argument {} is missing", a)',
                 'Status(StatusCode::kInternal, Format("it is {}.", Shown(")")))', 'NotFound("\'{}\' is no file.", a)',
                 'Internal("Two " "pieces", a)', 'e.WithContext("While reading {}")', 'Internal("It: {}", f(a))'):
        check(pathlib.Path("example"), text, wrong)
    for text in ('InvalidArgument("Argument {} is missing.", a)', 'Internal("\'{}\' failed: {}", a, e.error().message())',
                 'DataLoss("Two " "pieces.")', 'e.WithContext(Format("while reading {}", file))', "Internal(what)"):
        check(pathlib.Path("example"), text, right)
    assert len(wrong) == 7 and not right, (wrong, right)


def main():
    self_check()
    faults, count = [], 0
    for folder in ("include", "src", "tools", "plugins"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                count += check(path.relative_to(ROOT), path.read_text(), faults)
    print("\n".join(faults) or f"{count} messages")
    return 1 if faults or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
