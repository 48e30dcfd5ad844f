# SPDX-License-Identifier: Apache-2.0
"""What GPU vendors' compilers make of krafla's kernels, on a machine without a GPU (docs/vendors.md).

Run as scripts/vendor.sh, which sets up what this needs.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import judge
import report
from chips import CACHE, CHIPS, ROOT, USUAL
from compiler import LIMIT, Compiler, Module, Unavailable, built, mesa_of
from kernels import KERNELS

BASELINE = pathlib.Path(__file__).resolve().parent / "baseline.json"
MODELS = ROOT / "tests/models"
# Of each driver that krafla itself runs on here, one chip.
RECORDED = ("navi31", "bmg", "ada", "a750", "m1")


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" + text)
        sys.stderr.flush()


def chosen(names):
    """Chips by name, by maker, or 'all'."""
    out = []
    for name in names:
        more = [c for c in CHIPS.values() if name in ("all", c.name) or name.lower() == c.driver.maker.lower()]
        if not more:
            sys.exit(f"vendor: There is no chip '{name}'. There are: {', '.join(CHIPS)}; or a maker, or 'all'.")
        out += [c for c in more if c not in out]
    return out


def module_of(file):
    """Of a model folder with how many devices it was recorded for."""
    meta = file.parent / "meta.json"
    devices = []
    if meta.exists():
        said = json.loads(meta.read_text())
        for count in ("replicas", "partitions"):
            if said.get(f"num_{count}", 1) > 1:
                devices += [f"--{count}", str(said[f"num_{count}"])]
    return Module(file, file.read_bytes(), tuple(devices))


def modules_of(paths, few):
    """{name: Module}. `few`: the representative kernels only, if no path is given."""
    out = {}
    if not paths:
        out = {name: Module(None, text.encode()) for name, text in KERNELS.items()}
        paths = [] if few else [MODELS]
    for given in map(pathlib.Path, paths):
        # A model's folder has module.hlo, and module.spmd.hlo where it was recorded on several devices.
        files = [given] if given.is_file() else sorted(given.rglob("module.hlo")) or sorted(given.glob("*.hlo"))
        files = [f.with_suffix(".spmd.hlo") if f.with_suffix(".spmd.hlo").exists() else f for f in files]
        if not files:
            sys.exit(f"vendor: There is no module in '{given}'.")
        for f in files:
            name = f.parent.name if f.stem.startswith("module") else f.stem
            out[str(f) if name in out else name] = module_of(f)
    return out


def usable(chips, must):
    """Those whose driver is here; the others are named. `must`: it is an error if one is not."""
    out = []
    for chip in chips:
        missing = chip.missing()
        if missing is None:
            out.append(chip)
        elif must:
            sys.exit(f"vendor: {chip.name}: '{missing}' is missing; scripts/vendor.sh setup makes it.")
        else:
            print(f"vendor: skipped: {chip.name}: '{missing}' is missing.", file=sys.stderr)
    return out


def check(args):
    start = time.time()
    if args.write_baseline and (args.modules or args.kernels or args.disable):
        sys.exit("vendor: --write-baseline stores the default modules, as they are.")
    asked = chosen(args.chip.split(",")) if args.chip else [CHIPS[name] for name in USUAL]
    chips = usable(asked, must=not args.skip)
    left_out = len(asked) - len(chips)
    if not chips:
        print(f"vendor: none of {left_out} chips' drivers is here; scripts/vendor.sh setup sets them up.")
        return 77
    for chip in chips:
        if not chip.profile().exists():
            capture(chip, args.krafla, chip.profile())
    # A network's kernels take minutes under qemu.
    modules = {few: modules_of(args.modules, few) for few in (False, True)}
    wanted = {chip: modules[args.kernels or chip.driver.arm] for chip in chips}
    compiler = Compiler(args.krafla, args.disable, args.dump,
                        lambda done, of: progress(f"{done} of {of}"))
    try:
        table = judge.rows(compiler.check(wanted))
    except Unavailable as error:
        progress("")
        sys.exit(f"vendor: {error}")
    progress("")
    versions = {chip.name: mesa_of(chip) for chip in chips}
    if args.grid:
        report.print_grid(table, args.md)
        print()
    elif not args.quiet:
        report.print_rows(table, args.worst, args.limit, args.md)
        report.print_peers(table, args.md)
        print()
    report.print_summary(table, versions, args.md)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"mesa": versions, "chips": table}, indent=1) + "\n")
    if args.write_baseline:
        judge.write_baseline(BASELINE, judge.baseline_of(table, versions))
    code = 0
    if args.baseline:
        failures, changes = judge.compare(table, versions, json.loads(pathlib.Path(args.baseline).read_text()))
        print()
        for text in changes:
            print(f"changed: {text}")
        for text in failures:
            print(f"FAILED: {text}")
        print(f"{len(failures)} failures, {len(changes)} changes against {args.baseline}.")
        code = 1 if failures else 0
    elif any(r["refused"] for rows in table.values() for r in rows.values()):
        code = 1
    count = sum(map(len, wanted.values()))
    print(f"{len(chips)} chips, {left_out} left out; {count} modules, {time.time() - start:.1f} s.")
    return code


def pass_self_test(chip, krafla, arguments, cache, extra):
    """A shim executes nothing, so that the self-test finds every feature wrong. Its remembered outcome is rewritten as
    one without failures: after the 128 bytes that name the device follow the length of the text and its XXH3-128."""
    cache.mkdir(parents=True, exist_ok=True)
    argv, environment = chip.command([krafla, *arguments], extra)
    if not list(cache.glob("self-test-*")):
        subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    for path in cache.glob("self-test-*"):
        head = path.read_bytes()[:128]
        path.write_bytes(head + bytes(8) + bytes.fromhex("7f498d4624c30160d8984701d306aa99"))


def run_as_if(chip, command, arguments, extra, **how):
    """The command krafla on a chip's shim, with every feature that the driver reports."""
    cache = CACHE / "as-if" / chip.name
    extra = {"KRAFLA_CACHE_DIR": str(cache), **extra}
    pass_self_test(chip, command, arguments, cache, extra)
    argv, environment = chip.command([command, *arguments], extra)
    return subprocess.run(argv, env=environment, **how)


def krafla(args):
    chip, = chosen([args.chip])
    if chip.driver.arm:
        sys.exit(f"vendor: {chip.name}: its driver is one for arm64, for which krafla is not built here.")
    usable([chip], must=True)
    return run_as_if(chip, args.krafla, args.arguments, {}).returncode


def record(args):
    """Networks are compiled, recorded and submitted as if on chips, watched by the validation layer."""
    asked = chosen(args.chip or RECORDED)
    here = usable([chip for chip in asked if not chip.driver.arm], must=not args.skip)
    if not here:
        print(f"vendor: none of {len(asked)} chips' drivers is here; scripts/vendor.sh setup sets them up.")
        return 77
    models = sorted(path.parent for path in MODELS.glob("*/module.hlo"))
    bad = 0
    for chip in here:
        outcomes, other = [], ""
        for model in models:
            # check, as it tells what the validation layer says; that answers are wrong is a matter of course. The layer
            # of Debian 13 (1.4.309) does not know the extensions that are left out. A process each, whose memory is
            # zeros: a loop ends by what its condition, which nothing computes, left there.
            arguments = ["check", str(model), "-d", "vulkan", "--json", "--disable", "bf16,fp8"]
            try:
                r = run_as_if(chip, args.krafla, arguments, {"KRAFLA_VALIDATE": "1"}, capture_output=True, text=True,
                              errors="replace", timeout=LIMIT[False])
            except subprocess.TimeoutExpired:
                other += f"{model.name} does not end within {LIMIT[False]} s.\n"
                continue
            outcomes += [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
            other += r.stderr
        outcomes = [o for o in outcomes if "case" in o]
        whole = [o for o in outcomes if "elements of" in o.get("reason", "") or o["status"] == "passed"]
        said = [o for o in outcomes if "validation: " in o.get("reason", "")]
        fine = len(whole) == len(models) and not said
        bad += not fine
        print(f"{chip.name:10} {len(whole)} of {len(models)} networks, validation speaks of {len(said)}")
        if not fine:
            print("\n".join(f"{o['case']}: {o.get('reason')}" for o in outcomes if o not in whole or o in said)
                  or other.strip()[-1000:])
    print(f"{len(here)} chips, {len(asked) - len(here)} left out, {bad} failed.")
    return 1 if bad else 0


def chips(args):
    """Which chips' drivers come up on this machine."""
    bad = 0
    for chip in chosen(args.chip or USUAL):
        missing, state = chip.missing(), "comes up"
        if missing:
            state = f"'{missing}' is missing"
        else:
            try:
                argv, environment = chip.command([built(chip.driver.arm), os.devnull, "."])
                r = subprocess.run(argv, env=environment, capture_output=True, text=True, errors="replace", timeout=120)
                if r.returncode:
                    state = f"does not come up: {(r.stdout + r.stderr).strip()[-200:]}"
            except Unavailable as error:
                state = str(error)
        bad += state != "comes up"
        print(f"{chip.name:10} {chip.driver.maker:9} {state}, Mesa {mesa_of(chip)}")
    return 1 if bad else 0


def capture(chip, command, path):
    """What the driver says of itself, in the form of tests/profiles."""
    argv, environment = chip.command([command, "devices", "--json"])
    r = subprocess.run(argv, env=environment, capture_output=True, text=True, errors="replace", timeout=120)
    found = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
    found = [d["profile"] for d in found if d["device"].startswith("vulkan")]
    if not found:
        sys.exit(f"vendor: {chip.name}: krafla sees no Vulkan device: {r.stderr.strip()[-300:]}")
    text = json.dumps(found[0], indent=1)
    text = re.sub(r"\[\s+([0-9, \n]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def profile(args):
    """Take profiles into tests/profiles/captured."""
    for chip in usable(chosen(args.chip or USUAL), must=not args.skip):
        if chip.driver.arm:
            print(f"vendor: {chip.name}: kept as it is: krafla is not built for arm64 here.", file=sys.stderr)
            continue
        capture(chip, args.krafla, chip.captured())
        print(chip.captured().relative_to(ROOT))
    return 0


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as `... | head` expects
    parser = argparse.ArgumentParser(prog="vendor.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--krafla", default=ROOT / "build/release/krafla", help="the command (default: build/release)")
    commands = parser.add_subparsers(required=True)
    p = commands.add_parser("check", help="compile kernels for many chips and judge them")
    p.add_argument("modules", nargs="*", metavar="MODULE|FOLDER",
                   help="default: representative kernels and tests/models")
    p.add_argument("--chip", help=f"chips, makers or 'all', with commas between; default: {','.join(USUAL)}")
    p.add_argument("--kernels", action="store_true", help="of the default modules the representative kernels only")
    p.add_argument("--disable", default="", help="features to leave out, as krafla opt does")
    p.add_argument("--worst", choices=report.FIGURES, default="ratio", help="the figure that the table is sorted by")
    p.add_argument("--limit", type=int, default=60, help="rows of the table")
    p.add_argument("--grid", action="store_true", help="instead of the table modules down and chips across: "
                   "instructions of the hot loop per FMA, or with m per matrix instruction; with s the spills")
    p.add_argument("--md", action="store_true", help="tables in Markdown")
    p.add_argument("--quiet", action="store_true", help="the line per chip and the comparison only")
    p.add_argument("--json", help="write every figure here")
    p.add_argument("--dump", help="write the disassembly into this folder (compiles again)")
    p.add_argument("--skip", action="store_true", help="leave out chips whose driver is not here, and say so")
    p.add_argument("--krafla", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    either = p.add_mutually_exclusive_group()
    either.add_argument("--baseline", nargs="?", const=str(BASELINE), 
                        help="compare with this file (bench/vendor/baseline.json)")
    either.add_argument("--write-baseline", action="store_true", help="store what is found as the baseline")
    p.set_defaults(run=check)
    p = commands.add_parser("krafla", help="the command krafla as if on a chip: nothing executes")
    p.add_argument("chip")
    p.add_argument("arguments", nargs=argparse.REMAINDER)
    p.set_defaults(run=krafla)
    for name, run in (("chips", chips), ("profile", profile), ("record", record)):
        p = commands.add_parser(name, help=run.__doc__)
        p.add_argument("chip", nargs="*", help=f"default: {','.join(RECORDED if run is record else USUAL)}")
        p.add_argument("--skip", action="store_true", help="leave out chips whose driver is not here, and say so")
        p.set_defaults(run=run)
    args = parser.parse_args()
    sys.exit(args.run(args))


if __name__ == "__main__":
    main()
