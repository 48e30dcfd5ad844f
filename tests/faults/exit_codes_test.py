#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command line makes of a driver that fails: an exit code that tells memory from the driver, a sentence, and never
the CPU in the driver's place.

    exit_codes_test.py LAYER.so KRAFLA
"""
import os
import pathlib
import subprocess
import sys
import tempfile

layer, krafla = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
MODULE = pathlib.Path(__file__).resolve().parent.parent / "cli/add.hlo"
HOST_MEMORY, DEVICE_MEMORY, INITIALIZATION, LOST, UNKNOWN = -1, -2, -3, -4, -13
CASES = [
    ("vkCreateInstance", HOST_MEMORY, 5), ("vkCreateInstance", INITIALIZATION, 4), ("vkCreateInstance", LOST, 4),
    ("vkEnumeratePhysicalDevices", HOST_MEMORY, 5), ("vkEnumeratePhysicalDevices", UNKNOWN, 4),
    ("vkCreateDevice", DEVICE_MEMORY, 5), ("vkCreateDevice", UNKNOWN, 4),
    ("vkCreateShaderModule", HOST_MEMORY, 0), ("vkQueueSubmit", LOST, 0), ("vkCreateCommandPool", UNKNOWN, 0),
]


def run(fault, *options):
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "VK_ADD_LAYER_PATH": str(layer.parent), "VK_INSTANCE_LAYERS": "VK_LAYER_KRAFLA_fault",
               "KRAFLA_CACHE_DIR": cache, "KRAFLA_FAULT": fault}
        env.pop("KRAFLA_DEVICE", None)
        return subprocess.run([krafla, "run", str(MODULE), "--random", *options], env=env, capture_output=True, text=True, timeout=120)


wrong = 0
if run("none:0:0", "-d", "vulkan").returncode == 4:
    print("skipped: no Vulkan device")
    sys.exit(77)
for function, result, expected in CASES:
    for options in ((), ("-d", "vulkan")):
        out = run(f"{function}:1:{result}", *options)
        said = out.stderr.startswith("krafla: ") and "bug in krafla" not in out.stderr
        on_vulkan = "instructions on vulkan" in out.stderr
        # What the driver did wrong is worth a report.
        said = said and (expected != 4 or "krafla doctor --bundle" in out.stderr)
        if out.returncode != expected or not said or (expected == 0) != on_vulkan:
            wrong += 1
            print(f"{function} gives {result}, {options}: exit {out.returncode}, expected {expected}: {out.stderr}")
# The loader's own words for a machine without a device: the CPU, which says so; and which is not what --strict takes.
fault = f"vkEnumeratePhysicalDevices:1:{INITIALIZATION}"
out = run(fault)
if out.returncode != 0 or "cpu, as there is no Vulkan device (" not in out.stderr:
    wrong += 1
    print(f"no device: exit {out.returncode}: {out.stderr}")
if run(fault, "--strict").returncode != 4:
    wrong += 1
    print("no device: --strict ran on the CPU")
print(f"{wrong} wrong")
sys.exit(1 if wrong else 0)
