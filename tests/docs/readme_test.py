#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's commands run as they are written, from a folder that looks like the repository's.

    readme_test.py KRAFLA

Those that begin with `krafla`, and the demo that scripts/demo.sh ends with; nothing that installs, builds or fetches.
Lines for a Vulkan device are left out, and named, where there is none.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KRAFLA = pathlib.Path(sys.argv[1]).resolve()
SECONDS = 120


def commands():
    """The lines of README's blocks that call krafla."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    for line in "".join(blocks).splitlines():
        line = re.sub(r"\s+#.*$", "", line)
        if line.startswith("krafla "):
            yield line


def main():
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name != "build":
                (here / entry.name).symlink_to(entry)
        (here / "bin").mkdir()
        (here / "bin/krafla").symlink_to(KRAFLA)
        path = f"{here / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "KRAFLA_CACHE_DIR": str(here / "cache")}
        env.pop("KRAFLA_DEVICE", None)

        def run(line):
            return subprocess.run(shlex.split(line), cwd=here, env=env, capture_output=True, text=True, timeout=SECONDS,
                                  check=False)

        has_vulkan = "vulkan:" in run("krafla devices").stdout
        wanted = list(commands())
        failed = 0 if len(wanted) >= 6 else 1
        if failed:
            print(f"README has only {len(wanted)} lines that call krafla")
        # The last line of scripts/demo.sh, on the CPU.
        demo = (ROOT / "scripts/demo.sh").read_text().splitlines()[-1]
        if not re.fullmatch(r'exec build/release/krafla demo "\$@"', demo):
            print(f"scripts/demo.sh does not end with the demo: {demo}")
            failed += 1
        for line in wanted + ["krafla demo -d cpu"]:
            if "vulkan" in line and not has_vulkan:
                print(f"left out, as there is no Vulkan device: {line}")
                continue
            done = run(line)
            if done.returncode != 0:
                print(f"{line}: exit {done.returncode}\n{done.stderr}")
                failed += 1
            elif not done.stdout and "--save" not in line:
                print(f"{line}: nothing on standard output")
                failed += 1
            for file in re.findall(r"--save (\S+)", line):
                if not (here / file).is_file():
                    print(f"{line}: {file} was not written")
                    failed += 1
        print(f"{len(wanted) + 1} commands, {failed} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
