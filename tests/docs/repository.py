# SPDX-License-Identifier: Apache-2.0
"""What there is for documents to name: files, variables, tests, presets, and what the command says of itself."""
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("src", "include", "docs", "tests", "tools", "bench", "examples", "scripts", "python", "plugins", "cmake")
SOURCES = (".cpp", ".h", ".c", ".def", ".py", ".sh", ".txt", ".cmake", ".comp")


def is_this_test(path):
    return path.parent == pathlib.Path(__file__).resolve().parent


def repository():
    out = []
    for folder in FOLDERS:
        out += [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    out += [p for p in ROOT.iterdir() if p.is_file()]
    return out


FILES = repository()
BY_NAME = {}
for file in FILES:
    BY_NAME.setdefault(file.name, []).append(file.relative_to(ROOT).as_posix())
TEXTS = {p: p.read_text(errors="replace") for p in FILES if p.suffix in SOURCES or p.name == "CMakePresets.json"}


def code(*folders):
    return {p: t for p, t in TEXTS.items() if p.relative_to(ROOT).parts[0] in folders}


def cmake_names():
    out = set()
    for path, text in TEXTS.items():
        if path.name == "CMakeLists.txt" or path.suffix == ".cmake":
            out |= set(re.findall(r"option\((KRAFLA_\w+)", text))
            out |= set(re.findall(r"set\((KRAFLA_\w+)[^)]*CACHE", text))
    return out


def variables_read():
    out = set()
    for path, text in TEXTS.items():
        if path.suffix in (".cpp", ".h", ".c"):
            out |= set(re.findall(r'(?:getenv|envname)\("(KRAFLA_\w+)"', text))
        elif path.suffix == ".py" and not is_this_test(path):
            out |= set(re.findall(r'environ(?:\.get|\.setdefault)?[\[(]"(KRAFLA_\w+)"', text))
            out |= set(re.findall(r'_find\("[^"]*", "(KRAFLA_\w+)"', text))
        elif path.suffix == ".sh":
            out |= set(re.findall(r"\$\{?(KRAFLA_\w+)", text))
    return out


def test_names():
    """Patterns of ctest's names: what a variable stands for is `.*`, unless a loop says it."""
    out = []
    for path, text in TEXTS.items():
        if path.name != "CMakeLists.txt":
            continue
        loop = re.compile(r"foreach\((\w+) ([\w\s]+)\)((?:(?!foreach|endforeach).)*)endforeach\(\)", re.S)
        while found := loop.search(text):
            body = "".join(found[3].replace("${%s}" % found[1], value) for value in found[2].split())
            text = text[:found.start()] + body + text[found.end():]
        for prefix, pattern in (("", r"add_test\(NAME ([^\s)]+)"), ("", r"krafla_test\(([^\s)]+)"),
                                ("", r"krafla_check_test\(([^\s)]+)"),
                                ("", r"krafla_package_test\(([^\s)]+)"), ("", r"krafla_swiftshader_test\(([^\s)]+)"),
                                ("jax_", r"krafla_jax_test\(([^\s)]+)"),
                                ("example_", r"krafla_example\(([^\s)]+)")):
            for name in re.findall(pattern, text):
                if not re.fullmatch(r"\$\{\w+\}|name", name):
                    out.append(prefix + re.sub(r"\$\{\w+\}", ".*", name))
    return out


_PRESETS = json.loads(TEXTS[ROOT / "CMakePresets.json"])
PRESETS = {kind: {p["name"] for p in _PRESETS[kind + "Presets"] if not p.get("hidden")}
           for kind in ("configure", "build", "test")}


class Command:
    """What `krafla --help` says."""

    def __init__(self, krafla):
        self.krafla = krafla
        self.flags = {"": self.flags_of(["--help"])}
        listed = self.run(["--help"]).split("Subcommands:")[1].split("\n\n")[0]
        for name in re.findall(r"^  (\w+)", listed, re.M):
            self.flags[name] = self.flags_of([name, "--help"])
        self.passes = set(re.findall(r"^(\w+)", self.run(["opt", "--list-passes"]), re.M))
        unknown = self.run(["run", "-", "--disable", "?"])
        self.features = set(re.findall(r"\w+", unknown.split("the features are ")[1].split(", and the passes")[0]))

    def run(self, words):
        out = subprocess.run([self.krafla, *words], capture_output=True, text=True, timeout=60,
                             stdin=subprocess.DEVNULL, check=False)
        return out.stdout + out.stderr

    def flags_of(self, words):
        return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", self.run(words)))
