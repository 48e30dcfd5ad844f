# SPDX-License-Identifier: Apache-2.0
"""The chips whose drivers come up here: which driver, which shim, which variable chooses the chip."""
import dataclasses
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache/vendor"
ARM_ROOT = CACHE / "arm64/root"
QEMU = CACHE / "arm64/usr/bin/qemu-aarch64"
ICD = pathlib.Path("/usr/share/vulkan/icd.d")


@dataclasses.dataclass(frozen=True)
class Driver:
    maker: str
    icd: str       # of the file ICD/<icd>_icd.json
    shim: str      # of lib<shim>_noop_drm_shim.so
    isa: str = ""  # the dialect of its disassembly (isa.py); empty: only its statistics are read
    arm: bool = False
    environment: tuple = ()


RADV = Driver("AMD", "radeon", "amdgpu", "aco")
ANV = Driver("Intel", "intel", "intel", "brw")
NVK = Driver("NVIDIA", "nouveau", "nouveau", "nak", environment=(("NVK_I_WANT_A_BROKEN_VULKAN_DRIVER", "1"),))
TURNIP = Driver("Qualcomm", "freedreno", "freedreno", "ir3")
HONEYKRISP = Driver("Apple", "asahi", "asahi")
PANVK = Driver("Arm", "panfrost", "panfrost", "valhall", arm=True)


@dataclasses.dataclass(frozen=True)
class Chip:
    name: str
    driver: Driver
    environment: tuple = ()

    def shim(self):
        folder = ARM_ROOT / "usr/lib/aarch64-linux-gnu" if self.driver.arm else CACHE / "lib"
        return folder / f"lib{self.driver.shim}_noop_drm_shim.so"

    def icd(self):
        folder = ARM_ROOT / "usr/share/vulkan/icd.d" if self.driver.arm else ICD
        return folder / f"{self.driver.icd}_icd.json"

    def captured(self):
        return ROOT / f"tests/profiles/captured/{self.name}.json"

    def profile(self):
        """Of the repository; of a chip that it does not have, taken here."""
        return self.captured() if self.captured().exists() else CACHE / f"profiles/{self.name}.json"

    def missing(self):
        """What the chip lacks on this machine, or None."""
        needed = [self.shim(), self.icd()] + ([QEMU] if self.driver.arm else [])
        for path in needed:
            if not path.exists():
                return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
        return None

    def command(self, argv, extra=None):
        """(argv, environment) of a program run as if on the chip; of an arm64 program where its driver is one."""
        mine = {"MESA_SHADER_CACHE_DISABLE": "true", "VK_DRIVER_FILES": str(self.icd()), "LD_PRELOAD": str(self.shim()),
                **dict(self.driver.environment), **dict(self.environment), **(extra or {})}
        if not self.driver.arm:
            return list(map(str, argv)), {**os.environ, **mine}
        mine["VK_DRIVER_FILES"] = mine["VK_DRIVER_FILES"].removeprefix(str(ARM_ROOT))
        mine["LD_PRELOAD"] = mine["LD_PRELOAD"].removeprefix(str(ARM_ROOT))
        before = [str(QEMU), "-L", str(ARM_ROOT)]
        for name, value in mine.items():
            before += ["-E", f"{name}={value}"]
        return before + list(map(str, argv)), dict(os.environ)


def _chips():
    def of(driver, variable, **values):
        return [Chip(name, driver, ((variable, value),)) for name, value in values.items()]

    amd = ("polaris10", "vega10", "vega20", "renoir", "navi10", "navi21", "vangogh", "rembrandt", "navi31", "navi33",
           "phoenix", "strix1", "gfx1201")
    intel = ("skl", "tgl", "adl", "dg2", "mtl", "arl", "lnl", "bmg", "ptl")
    adreno = ("618", "630", "660", "730", "740", "750", "810", "830")
    return (of(RADV, "AMDGPU_GPU_ID", **{c: c for c in amd}) +
            of(ANV, "INTEL_STUB_GPU_PLATFORM", **{c: c for c in intel}) +
            of(NVK, "NOUVEAU_CHIPSET", volta="0x140", turing="0x162", ampere="0x172", ada="0x192", hopper="0x180",
               blackwell="0x1b2") +
            of(TURNIP, "FD_GPU_ID", **{"a" + c: c for c in adreno}) +
            [Chip("m1", HONEYKRISP)] +
            of(PANVK, "PAN_GPU_ID", g610="0xa867"))


CHIPS = {chip.name: chip for chip in _chips()}
# What is asked when nothing is said: of every maker the newest, and those that differ most from it.
USUAL = ("navi21", "navi31", "gfx1201", "tgl", "dg2", "bmg", "turing", "ada", "a660", "a750", "m1", "g610")
