# SPDX-License-Identifier: Apache-2.0
"""The statistics of the drivers under the same names: each driver has its own (VK_KHR_pipeline_executable_properties).

registers   that a lane has of each thread (Intel: live at once, of a subgroup)
spills      registers kept in memory (Intel, NVIDIA, Adreno: the instructions that do so)
occupancy   subgroups at once: AMD on a SIMD, NVIDIA on a multiprocessor, Adreno and Apple on a core; Mali 2 or 1
estimate    the driver's own estimate of cycles: AMD inverse throughput, Intel and NVIDIA static cycles, Adreno cycles
            stalled, Apple cycles of the arithmetic pipe, Mali those of the busiest pipe
"""
import collections

Names = collections.namedtuple("Names", "registers spills instructions occupancy estimate")
NAMES = {
    "radeon": Names(["VGPRs"], ["Spilled VGPRs", "Spilled SGPRs"], "Instructions", "Subgroups per SIMD",
                    ["Inverse Throughput"]),
    "intel": Names(["Max live registers"], ["Spills"], "Instructions", None, ["Cycles"]),
    "nouveau": Names(["Number of GPRs"], ["Spills to memory"], "Instruction count", "Max warps/SM",
                     ["Static cycle count"]),
    "freedreno": Names(["Registers used"], ["STP Count"], "Instruction Count", "Max Waves Per Core",
                       ["Estimated cycles stalled on SS", "Estimated cycles stalled on SY"]),
    "asahi": Names(["GPRs"], ["Spills"], "Instructions", "Threads", ["ALU"]),
    # Threads: 1 with all registers, 2 with half of them.
    "panfrost": Names(["Registers used"], ["Spills"], "Instructions", "Threads", ["Cycles"]),
}


def of(stats, icd):
    names = NAMES[icd]

    def total(which):
        return sum(stats.get(n, 0) for n in which)

    occupancy = stats.get(names.occupancy) if names.occupancy else None
    if icd == "asahi" and occupancy:
        occupancy //= 32  # lanes of a subgroup
    return {"registers": total(names.registers), "spills": total(names.spills),
            "instructions": stats.get(names.instructions, 0), "occupancy": occupancy, "estimate": total(names.estimate)}
