#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of docs/scaling.md: its parts by hand, what the document says of it, and that it still reads what krafla prints.

    scaling_test.py KRAFLA"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "bench/scaling/scaling.py"
KRAFLA = sys.argv.pop(1) if len(sys.argv) > 1 else None
spec = importlib.util.spec_from_file_location("scaling", SCRIPT)
scaling = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scaling)


class Model(unittest.TestCase):
    def test_fit(self):
        alpha, beta = scaling.fit([(x, 5e-6 + 2e-9 * x) for x in (8, 1024, 65536, 1 << 24)])
        self.assertAlmostEqual(alpha, 5e-6, places=9)
        self.assertAlmostEqual(beta, 2e-9, places=13)
        with self.assertRaises(ValueError):
            scaling.fit([(8, 1e-6)])

    def test_rings(self):
        link = scaling.Link(10, 1)
        self.assertEqual(link.all_reduce(1, 1 << 20), 0)
        # Six messages of a quarter of 4 GB.
        self.assertAlmostEqual(link.all_reduce(4, 4e9), 6 * (10e-6 + 1))
        self.assertAlmostEqual(link.reduce_scatter(4, 4e9) + link.all_gather(4, 4e9), link.all_reduce(4, 4e9))

    def test_machines(self):
        cluster = scaling.Cluster(scaling.Link(0, 10), scaling.Link(0, 1), 8)
        self.assertAlmostEqual(cluster.all_reduce(8, 8e9), 2 * 7 / 8 * 0.8)
        # Of two machines each sends its half through one port, and gets the other one's sum.
        self.assertAlmostEqual(cluster.all_reduce(16, 8e9), 2 * 7 / 8 * 0.8 + 8)

    def test_steps(self):
        cluster = scaling.Cluster(scaling.Link(0, 1), scaling.Link(0, 1), 8)
        self.assertAlmostEqual(scaling.data_parallel(3, cluster, 2, 1e9, overlap=False), 4)
        self.assertAlmostEqual(scaling.data_parallel(3, cluster, 2, 1e9), 3)
        self.assertAlmostEqual(scaling.tensor_parallel(3, cluster, 2, 1e9, layers=4, sums_a_layer=1), 1.5 + 4)
        self.assertAlmostEqual(scaling.pipeline_parallel(8, cluster, 4, 0, 8), 11 * 0.25)

    def test_the_document(self):
        """Its table is what `predict` prints."""
        out = subprocess.run([sys.executable, SCRIPT, "predict"], check=True, text=True, stdout=subprocess.PIPE).stdout
        said = re.findall(r"^\| (data|tensor|pipeline) \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|$",
                          (ROOT / "docs/scaling.md").read_text(), re.M)
        self.assertGreater(len(said), 6)
        printed = {(w[0], w[1]): w[2:] for w in map(str.split, out.splitlines()[2:])}
        for kind, gpus, plain, overlapped, efficiency in said:
            row = printed[kind, gpus.replace(",", "")]
            self.assertAlmostEqual(float(row[0]), float(plain), delta=0.051)
            self.assertAlmostEqual(float(row[1]), float(overlapped), delta=0.051)
            self.assertEqual(row[2], efficiency + "%")

    def test_programs(self):
        for n in (1, 4):
            for text in (scaling.data_program(n, 8, 16), scaling.tensor_program(n, 8, 16, 2), scaling.pipeline_program(n, 8, 16, 3)):
                alone = scaling.without_collectives(text)
                self.assertNotIn("all-reduce", alone)
                self.assertNotIn("collective-permute", alone)

    @unittest.skipIf(KRAFLA is None, "no krafla was named")
    def test_with_krafla(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "collectives.jsonl"
            with file.open("w") as out:
                subprocess.run([KRAFLA, "bench", "--collectives", "-d", "cpu*2", "--sizes", "1K:64K", "--ops", "all-reduce",
                                "--iters", "3", "--json"], check=True, stdout=out)
            out = subprocess.run([sys.executable, SCRIPT, "fit", file], check=True, text=True, stdout=subprocess.PIPE).stdout
            self.assertRegex(out, r"all-reduce +2 ")
        out = subprocess.run([sys.executable, SCRIPT, "check", KRAFLA, "--devices", "1,2", "--seconds", "0.01"], check=True,
                             text=True, stdout=subprocess.PIPE).stdout
        for kind in ("data", "tensor", "pipeline"):
            self.assertRegex(out, rf"(?m)^{kind} +2 ")


if __name__ == "__main__":
    unittest.main()
