#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decoder's program, cut for tensor parallelism: writes the module with shardings of its parameters, by their names.

    shard_decoder.py MODULE.hlo DEVICES > sharded.hlo

What makes heads or hidden units (q, k, v, gate, up, the logits) is cut by columns, what takes them (o, down) by rows, the
cache by heads; everything else is whole. `krafla bench sharded.hlo -d 'cpu*2'` partitions it."""
import re
import sys

BY = {"q": 1, "k": 1, "v": 1, "gate": 1, "up": 1, "o": 0, "down": 0, "out": 1}
PARAMETER = re.compile(r"^(\s+(\S+) = \w+\[([\d,]*)\]\S* parameter\(\d+\))(.*)$")


def sharding(name, dims, devices):
    cut = None
    if match := re.search(r"_(q|k|v|gate|up|o|down|out)____w__", name):
        cut = BY[match[1]]
    elif len(dims) == 3 and re.match(r"a_3_", name):
        cut = 1
    if cut is None or dims[cut] % devices:
        return "{replicated}"
    tile = ["1"] * len(dims)
    tile[cut] = str(devices)
    return f"{{devices=[{','.join(tile)}]<=[{devices}]}}"


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    devices = int(sys.argv[2])
    text = open(sys.argv[1]).read()
    head, entry = text[:text.index("ENTRY")], text[text.index("ENTRY"):]
    # Results and their layouts are the partitioner's.
    head = re.sub(r"^(HloModule [^,\n]*).*", rf"\1, num_partitions={devices}", head, count=1)
    lines = []
    for line in entry.splitlines():
        if match := PARAMETER.match(line):
            dims = [int(d) for d in match[3].split(",") if d]
            line = f"{match[1]}, sharding={sharding(match[2], dims, devices)}"
        lines.append(line)
    sys.stdout.write(head + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
