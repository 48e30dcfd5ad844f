#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What documents name exists: files, commands and their flags, presets, tests, variables, identifiers, links.

    docs_test.py KRAFLA

Read are README, CONTRIBUTING, SECURITY, CHANGELOG, docs (results only as targets of links), the READMEs of folders, and
the comments of scripts. Sentences that are wrong are not found.
"""
import fnmatch
import glob
import importlib.util
import pathlib
import re
import shlex
import sys
import tempfile

sys.dont_write_bytecode = True

from repository import (BY_NAME, FILES, FOLDERS, PRESETS, ROOT, TEXTS, Command, cmake_names, code, is_this_test,
                        test_names, variables_read)

# A name that ends so is a file's.
EXTENSIONS = (".h", ".cpp", ".c", ".def", ".py", ".sh", ".md", ".cmake", ".toml", ".comp")
MAX_COLUMNS = 120
# Names of others that documents speak of and the source does not.
FOREIGN = {"JaxRuntimeError"}

errors = []


def fail(path, line, text):
    errors.append(f"{path.relative_to(ROOT)}:{line}: {text}")


# ---- documents ------------------------------------------------------------------------------------------------------

class Document:
    def __init__(self, path):
        self.path = path
        self.lines = path.read_text().splitlines()
        self.spans = []     # (line, text) of `code`
        self.commands = []  # (line, text) of lines in blocks
        fence = None
        for number, line in enumerate(self.lines, 1):
            mark = re.match(r"\s*```(\w*)", line)
            if mark:
                fence = mark[1] if fence is None else None
            elif fence is not None:
                self.commands.append((number, line, fence))
            else:
                self.spans += [(number, text) for text in re.findall(r"`([^`]+)`", line)]
        self.prose = "\n".join("" if m else l for m, l in self.outside())

    def outside(self):
        fence = False
        for line in self.lines:
            if line.lstrip().startswith("```"):
                fence = not fence
                yield True, line
            else:
                yield fence, line


def comments_of_scripts():
    for path in sorted((ROOT / "scripts").glob("*.sh")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("#") and not line.startswith("#!"):
                yield path, number, line.lstrip().lstrip("#").strip()


# ---- checks ---------------------------------------------------------------------------------------------------------

def expand(word):
    found = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if not found:
        return [word]
    return [w for part in found[1].split(",") for w in expand(word[:found.start()] + part + word[found.end():])]


def exists(word, beside=None):
    for one in expand(word.rstrip("/")):
        places = [ROOT, ROOT / "src", ROOT / "include"] + ([beside] if beside else [])
        if any(glob.glob(str(place / one)) for place in places):
            continue
        if any(p == one or p.endswith("/" + one) for p in BY_NAME.get(one.split("/")[-1], [])):
            continue
        if "/" not in one and fnmatch.filter(BY_NAME, one):
            continue
        if (ROOT / (one + ".cpp")).exists():  # a program
            continue
        return False
    return True


def check_paths(path, number, text, is_code):
    for word in re.findall(r"(?<![\w./${-])((?:%s)/[\w{},.*/-]+)" % "|".join(FOLDERS), text):
        word = word.rstrip(".,")
        if re.search(r"\b[A-Z]{4,}\b", word) and not word.endswith(".md"):
            word = word[:re.search(r"\b[A-Z]{4,}\b", word).start()]
        if not exists(word):
            fail(path, number, f"there is no {word}")
    if is_code and " " not in text and text.endswith(EXTENSIONS) and re.fullmatch(r"[\w.{},*/-]+", text):
        if text.startswith("build/") or text.startswith("."):
            return
        if not exists(text, path.parent):
            fail(path, number, f"there is no file {text}")


def split_commands(line):
    """The words of each command of a line of shell."""
    line = re.sub(r"(?:^|\s)#.*$", "", line)
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    out, now = [], []
    for word in words + [";"]:
        if word in ("&&", "||", "|", ";", ">", "<", "do", "then"):
            out.append(now)
            now = []
        else:
            now.append(word)
    for words in out:
        while words and (re.fullmatch(r"[A-Z_]+=.*", words[0]) or words[0] in ("-", "run:", "$", "exec", "RUN")):
            words = words[1:]
        if words:
            yield words


def check_command(command, path, number, text):
    for words in split_commands(text):
        program = words[0].removeprefix("./").removeprefix("$(")
        flags = [w.split("=")[0] for w in words[1:] if re.match(r"--?[a-zA-Z]", w)]
        if program == "krafla" or program.endswith("/krafla"):
            sub = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
            if sub == "help":
                continue
            if sub not in command.flags:
                fail(path, number, f"krafla has no command {sub}")
                continue
            for flag in flags:
                if flag.rstrip(")") not in command.flags[sub]:
                    fail(path, number, f"krafla {sub} has no {flag}")
            for n, word in enumerate(words[:-1]):
                if word in ("--disable", "--enable"):
                    check_features(command, path, number, words[n + 1])
        elif program in ("cmake", "ctest"):
            for n, word in enumerate(words[:-1]):
                if word == "--preset":
                    kind = "test" if program == "ctest" else "build" if "--build" in words else "configure"
                    if words[n + 1] not in PRESETS[kind]:
                        fail(path, number, f"there is no {kind} preset {words[n + 1]}")
            for word in words:
                if option := re.match(r"-D(KRAFLA_\w+)", word):
                    if option[1] not in cmake_names():
                        fail(path, number, f"CMake has no option {option[1]}")
        else:
            source = program_source(program)
            for flag in flags:
                if source and flag.startswith("--") and flag not in TEXTS[source] and not flag.startswith("--gtest_"):
                    fail(path, number, f"{program} has no {flag}")


def program_source(program):
    """The file that reads a program's flags: a script, or the source of what a build leaves."""
    if program in ("python3", "bash", "python"):
        return None
    for one in (program, re.sub(r"^build/\w+/", "", program) + ".cpp"):
        if ROOT / one in TEXTS:
            return ROOT / one
    return None


def check_features(command, path, number, names):
    for name in names.rstrip(")").split(","):
        known = name in command.passes or name in command.features
        if not known and re.fullmatch(r"[a-z_0-9]+", name):
            fail(path, number, f"there is no feature or pass {name}")


def check_flags_alone(command, documents):
    flags = set().union(*command.flags.values())
    for text in code("tests", "bench", "scripts", "tools", "plugins", "examples").values():
        flags |= set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text))
    for d in documents:
        for number, text in d.spans:
            if re.match(r"--[a-z]", text):
                words = text.split()
                if words[0].split("=")[0] not in flags:
                    fail(d.path, number, f"no program has {words[0]}")
                if words[0] in ("--disable", "--enable") and len(words) > 1:
                    check_features(command, d.path, number, words[1])


def check_names_in_prose(documents):
    tests = [re.compile(name) for name in test_names()]
    names = r"((?:`\w+`(?:,? and |,? or |, )?)+)"
    for d in documents:
        text = d.prose
        def line_of(match):
            return text.count("\n", 0, match.start()) + 1
        for found in re.finditer(r"\bctests?\s+" + names, text):
            for name in re.findall(r"`(\w+)`", found[1]):
                if not any(t.fullmatch(name) for t in tests):
                    fail(d.path, line_of(found), f"there is no ctest {name}")
        for found in re.finditer(r"\b[Pp]resets?:?\s+" + names, text):
            for name in re.findall(r"`(\w+)`", found[1]):
                if name not in PRESETS["configure"]:
                    fail(d.path, line_of(found), f"there is no preset {name}")
        header = None
        for number, line in enumerate(d.lines, 1):
            cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else None
            if cells is None:
                header = None
            elif header is None:
                header = cells
            elif "ctest" in header and len(cells) > header.index("ctest"):
                for name in re.findall(r"`(\w+)`", cells[header.index("ctest")]):
                    if not any(t.fullmatch(name) for t in tests):
                        fail(d.path, number, f"there is no ctest {name}")


def check_variables(documents, comments):
    read, cmake = variables_read(), cmake_names()
    page = ROOT / "docs/environment.md"
    listed = set()
    for line in page.read_text().splitlines():
        if line.startswith("| `"):
            listed |= set(re.findall(r"`(KRAFLA_\w+)`", line.split("|")[1]))
    for name in sorted(read - listed):
        fail(page, 1, f"{name} is read by the source and is not in the tables")
    for name in sorted(listed - read):
        fail(page, 1, f"nothing reads {name}")
    macros = set()
    for path, text in TEXTS.items():
        macros |= set(re.findall(r"(?:#define|macro\(|function\()\s*(KRAFLA_\w+)", text))
    known = read | cmake | macros
    lines = [(d.path, n, line) for d in documents for n, line in enumerate(d.lines, 1)] + list(comments)
    for path, number, line in lines:
        for name in re.findall(r"\bKRAFLA_[A-Z_]*[A-Z]\b", line):
            if name not in known:
                fail(path, number, f"nothing reads or defines {name}")


def check_identifiers(documents):
    words = set()
    for path, text in TEXTS.items():
        if not is_this_test(path):
            words |= set(re.findall(r"\w+", text))
    words |= {part for word in words if "_" in word for part in word.split("_")}  # PJRT_Client_Compile
    pattern = re.compile(r"(?:\w+::)*~?(?:[A-Z][a-z0-9]+[A-Z]\w*|k[A-Z]\w+|\w+::\w+)(?:\(.*\))?(?:\.\.\.)?")
    for d in documents:
        for number, text in d.spans:
            if not pattern.fullmatch(text) or text.endswith("..."):
                continue
            for word in re.findall(r"\w+", text.split("(")[0]):
                if word not in words and word not in FOREIGN:
                    fail(d.path, number, f"the source has no {word} ({text})")


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def links_of(path):
    text = re.sub(r"```.*?```", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)
    for found in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        yield text.count("\n", 0, found.start()) + 1, found[1]


def check_links(documents):
    for d in documents:
        for number, target in links_of(d.path):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (d.path.parent / name).resolve() if name else d.path
            if not file.exists():
                fail(d.path, number, f"the link {target} leads nowhere")
            elif anchor and file.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
                if anchor not in map(slug, headings):
                    fail(d.path, number, f"{name or 'this page'} has no heading #{anchor}")
    index = ROOT / "docs/README.md"
    reached, todo = {index}, [index]
    while todo:
        page = todo.pop()
        for _, target in links_of(page):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.exists() and file not in reached:
                reached.add(file)
                todo.append(file)
    for file in sorted((ROOT / "docs").rglob("*.md")):
        if file not in reached:
            fail(file, 1, "docs/README.md does not lead here")


def check_form(d):
    for number, line in enumerate(d.lines, 1):
        if not line.isascii():
            fail(d.path, number, "a character that is not ASCII")
        if len(line) > MAX_COLUMNS and not line.startswith("|"):
            fail(d.path, number, f"{len(line)} columns, more than {MAX_COLUMNS}")


def check_documents_named_by_source():
    for path, text in TEXTS.items():
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if number > 1 and lines[number - 2].endswith("'s"):
                line = re.sub(r"^(//|#)\s*\S+", "", line)
            # "StableHLO's docs/spec.md" is somebody else's.
            for word in re.findall(r"(?<![\w./-])(?<!'s )((?:docs|tests|bench)/[\w./-]+\.md)\b", line):
                if not (ROOT / word).exists():
                    fail(path, number, f"there is no {word}")


def check_examples(command):
    """The plans that docs/fusion.md shows."""
    path = ROOT / "docs/fusion.md"
    text = path.read_text()
    blocks = dict(re.findall(r"```(hlo|text) fusion-example\n(.*?)```", text, re.S))
    if set(blocks) != {"hlo", "text"}:
        return fail(path, 1, "the worked example has no module or no plan")
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "example.hlo"
        module.write_text(blocks["hlo"])
        got = command.run(["opt", str(module), "--stage", "plan"])
    if got != blocks["text"]:
        line = text[:text.index("```text fusion-example")].count("\n") + 1
        fail(path, line, "the plan is not what krafla prints:\n" + got)


def check_rooms():
    """The table of rooms in docs/architecture.md is that of tests/layering_test.py."""
    spec = importlib.util.spec_from_file_location("layering_test", ROOT / "tests/layering_test.py")
    layering = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layering)
    path, seen = ROOT / "docs/architecture.md", {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3 and cells[0].strip("`") in layering.ALLOWED:
            named = set(re.findall(r"`(\w+)`", cells[2]))
            room = cells[0].strip("`")
            seen[room] = set(layering.ALLOWED) - named - {room} if cells[2].startswith("every room but") else named
            if seen[room] != set(layering.ALLOWED[room]):
                fail(path, number, f"{room} may include {', '.join(layering.ALLOWED[room]) or 'nothing'}")
    for room in layering.ALLOWED.keys() - seen.keys():
        fail(path, 1, f"the room {room} is not in the table")


def check_kernels():
    """docs/kernels.md has every family and every variant, and none that there is not."""
    path = ROOT / "docs/kernels.md"
    first_cells = "\n".join(line.split("|")[1] for line in path.read_text().splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`([^`]+)`", first_cells))
    variants = set()
    for source, text in code("src").items():
        if "src/spirv_codegen/kernels/" in source.as_posix():
            variants |= {v.replace("{}", "N") for v in re.findall(r'"((?:[a-z]+\.[a-z_0-9.]+(?:\{\})?)|join)"', text)}
    variants -= {v for v in variants if v.startswith(".")}
    for variant in sorted(variants):
        if not any(fnmatch.fnmatch(variant, name) for name in named):
            fail(path, 1, f"the variant {variant} is not in the tables")
    for name in sorted(named):
        if ("." in name or name == "join") and not name.startswith(".") and not fnmatch.filter(variants, name):
            fail(path, 1, f"there is no variant {name}")
    families = re.search(r"FamilyName\(.*?kNames\[\] = \{(.*?)\}", TEXTS[ROOT / "src/plan/kernel_plan.cpp"], re.S)[1]
    for family in re.findall(r'"(\w+)"', families):
        if family not in named:
            fail(path, 1, f"the family {family} is not in the tables")


def check_codes():
    path = ROOT / "docs/errors.md"
    for code_name in re.findall(r'return "([A-Z_]+)";', TEXTS[ROOT / "src/base/status.cpp"]):
        if code_name not in path.read_text():
            fail(path, 1, f"the code {code_name} is missing")


def check_container():
    """The container of docs/ci.md has what scripts/setup.sh installs for a build without tests."""
    listed = re.search(r"build_packages=\((.*?)\)", TEXTS[ROOT / "scripts/setup.sh"], re.S)[1].split()
    path = ROOT / "docs/ci.md"
    container = re.search(r"```dockerfile\n(.*?)```", path.read_text(), re.S)[1].split()
    for package in set(listed) - {"libgtest-dev", "libbenchmark-dev"} - set(container):
        fail(path, 1, f"the container lacks {package}, which scripts/setup.sh installs")


def main():
    command = Command(sys.argv[1])
    pages = [ROOT / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    pages += sorted((ROOT / "docs").glob("*.md"))
    main_documents = [Document(p) for p in pages]
    decisions = [Document(p) for p in sorted((ROOT / "docs/decisions").glob("*.md"))]
    readmes = [Document(p) for p in FILES
               if p.name == "README.md" and p.relative_to(ROOT).parts[0] in ("bench", "tests", "examples")]
    comments = list(comments_of_scripts())

    for d in main_documents + decisions + readmes:
        for number, line in enumerate(d.lines, 1):
            check_paths(d.path, number, line, is_code=False)
        for number, text in d.spans:
            check_paths(d.path, number, text, is_code=True)
            check_command(command, d.path, number, text)
        for number, text, language in d.commands:
            if language in ("", "sh", "bash", "yaml", "dockerfile"):
                check_command(command, d.path, number, text)
    for path, number, text in comments:
        check_paths(path, number, text, is_code=False)
        check_command(command, path, number, text)
    check_flags_alone(command, main_documents)
    check_names_in_prose(main_documents + decisions + readmes)
    check_variables(main_documents + decisions + readmes, comments)
    check_identifiers(main_documents)
    check_links(main_documents + decisions + readmes)
    for d in main_documents:
        if d.path.name != "ops.md":  # written by krafla ops --md
            check_form(d)
    check_documents_named_by_source()
    check_rooms()
    check_kernels()
    check_codes()
    check_container()
    check_examples(command)
    for error in sorted(set(errors)):
        print(error)
    count = len(main_documents) + len(decisions) + len(readmes)
    print(f"{count} documents, {len(set(errors))} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
