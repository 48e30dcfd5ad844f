#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of vendors' compilers (bench/vendor) without any of them: disassemblies as they print them, and what a
comparison with the baseline fails on."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench/vendor"))

import figures
import isa
import judge
import kernels
import report
from chips import CHIPS, USUAL
from compiler import Kernel, Program

ACO = """BB0:
	s_branch BB1                                                ; bfa00063
BB2:
	v_lshlrev_b64 v[22:23], 4, v[22:23]                         ; d73c0016
	v_add_co_u32 v24, vcc, v4, v22                              ; d7006a18
	v_add_nc_u32_e32 v2, 0x100, v2                              ; 4a0404ff
	global_load_b128 v[24:27], v[24:25], off                    ; dc5e0000
	s_waitcnt vmcnt(3)                                          ; bf890ff7
	ds_load_u16_d16 v1, v2                                      ; d8000000
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]   ; cc404000
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]   ; cc404000
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]   ; cc404000
	v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5         ; c9000000
BB1:
	v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]   ; cc404000
	s_cbranch_scc0 BB2                                          ; bfa10000
	s_endpgm                                                    ; bf810000
"""
NAK = """block.u 0 L2 [] -> {
      r0      = mov 0x1                                         // delay=1
} -> [1]
block 1 L1 [0, 2] -> {
      r42 p0  = lea r40 4 ur3                                   // delay=4
      r43     = lea.x.hi r40 4 ur4 r41 p0                       // delay=5
      r48..52 = ld.global.a64.strong.gpu.b128 [r42..44], pT     // delay=1 rd:0 wr:2
      r24     = ffma.ftz r44 r48 r24                            // delay=1
      r25     = ffma.ftz r45 r49 r25                            // delay=1
      r26     = ffma.ftz r46 r50 r26                            // delay=1
      r27     = ffma.ftz r47 r51 r27                            // delay=2
                bra p0 L9                                       // delay=1
} -> [2, 3]
block 2 L6 [1] -> {
                st.local.b32 [r1], r2                           // delay=1
                bra pT L1                                       // delay=1
} -> [1]
block 3 L9 [1] -> {
                exit                                            // delay=1
} -> []
"""
BRW = """START B1 (100 cycles)
LABEL1:
cmp.ge.f0.0(32) null<1>UD       g97<8,8,1>UD    0x00001000UD    { align1 I@2 };
(+f0.0) break(32) JIP:  LABEL0        UIP:  LABEL0              { align1 };
mov(16)         g25<2>UD        g29<1,1,0>UD                    { align1 1H I@5 compacted };
add(16)         g19<1>Q         g13<1,1,0>Q     g29<1,1,0>Q     { align1 2H compacted };
send(32)        g1UD            g17UD           nullUD          0x08803580                0x00000000
                ugm MsgDesc: ( load, a64, d32, V4, L1STATE_L3MOCS dst_len = 8, src0_len = 4, src1_len = 0 flat )  base_offset 0  { align1 $2 };
send(32)        g1UD            g17UD           nullUD          0x08803580                0x00000000
                ugm MsgDesc: ( load, a32, d32, V32, transpose, L1STATE_L3MOCS dst_len = 2, src0_len = 1, ss )  surface_state_index 0  { align1 $2 };
send(32)        g1UD            g17UD           nullUD          0x08803580                0x00000000
                slm MsgDesc: ( load, a32, d16u32, V1, L1STATE_L3MOCS flat )  base_offset 0  { align1 $2 };
mad(32)         g57<1>F         g57<8,8,1>F     g17<8,8,1>F     g1<1,1,1>F { align1 $4.dst };
dpas.8x8(8)     g28<1>F         g43<1,1,0>F     g16<1,1,0>HF    g8<1,1,0>HF { align1 WE_all 1Q $5 };
dpas.8x8(8)     g28<1>F         g43<1,1,0>F     g16<1,1,0>HF    g8<1,1,0>HF { align1 WE_all 1Q $5 };
dpas.8x8(8)     g28<1>F         g43<1,1,0>F     g16<1,1,0>HF    g8<1,1,0>HF { align1 WE_all 1Q $5 };
dpas.8x8(8)     g28<1>F         g43<1,1,0>F     g16<1,1,0>HF    g8<1,1,0>HF { align1 WE_all 1Q $5 };
LABEL0:
while(32)       JIP:  LABEL1                                    { align1 };
END B1
"""
IR3 = """; offsets:
l95:
(ss)add.u r15.x, r49.z, (last)r15.x
(rpt1)shl.b r17.x, (last)(r)r17.x, 4
(nop2) sad.s32 r22.z, r2.x, r16.z, (last)r13.w
ldg.u32 r19.x, g[r18.x], 4
ldl.u32 r17.z, l[r15.z], 4
(ss)(rpt1)mad.f32 r4.z, r21.x, (r)r17.z, (r)(last)r4.z
(rpt1)mad.f32 r5.x, (last)r21.x, (r)r18.x, (r)(last)r5.x
jump #l95
end
"""
VALHALL = """
   MOV.i32 r4, u4
   IADD_IMM.i32.reconverge r44, 0x0, #0x0

   SHADDX.s64.wait0 r6, r4, r6^, shift:0x0
   LOAD.i128.unsigned.slot0.wait0 @r0:r1:r2:r3, r6^, offset:0
   FMA.f32 r40, r53, r46^, r40^
   FMA.f32 r41, r53, r47^, r41^
   FMA.f32 r42, r53, r48^, r42^
   FMA.f32 r43, r53^, r49^, r43^
   IADD_IMM.i32 r44, r44^, #0x4
   ICMP_OR.u32.ge.m1 r45, r44, 0x13121110.b0, 0x0
   BRANCHZ.reconverge r45^.h0, offset:1

   BRANCHZ.eq.reconverge 0x0, offset:-10

   NOP.end
"""


class IsaTest(unittest.TestCase):
    def expect(self, dialect, text, **mix):
        self.assertEqual(isa.hot(text, dialect), mix)

    def test_aco(self):
        # From the branch's target on; the loop is entered in its middle.
        self.expect("aco", ACO, address64=2, int=1, **{"load.16": 1}, wait=1, lds=1, matrix=4, fma=1, move=1, control=1,
                    all=13, of="matrix")

    def test_nak(self):
        self.expect("nak", NAK, int=1, address64=1, **{"load.16": 1}, fma=4, control=2, spill=1, all=10, of="fma")

    def test_brw(self):
        self.expect("brw", BRW, select=1, control=2, move=1, address64=1, **{"load.16": 1}, spill=1, lds=1, fma=1,
                    matrix=4, all=13, of="matrix")

    def test_ir3(self):
        self.expect("ir3", IR3, int=4, wait=2, **{"load.16": 1}, lds=1, fma=4, control=1, all=13, of="fma")

    def test_valhall(self):
        self.expect("valhall", VALHALL, address64=1, **{"load.16": 1}, fma=4, int=1, select=1, control=2, all=10, of="fma")

    def test_programs_without_a_loop_worth_judging(self):
        self.assertIsNone(isa.hot("BB0:\n\tv_fmac_f32_e32 v1, v2, v3\n\ts_endpgm\n", "aco"))
        unrolled = "BB0:\n" + "\tv_fmac_f32_e32 v1, v2, v3\n" * 16 + "\ts_endpgm\n"
        self.assertEqual(isa.hot(unrolled, "aco"), {"fma": 16, "control": 1, "all": 17, "of": "fma"})


class JudgeTest(unittest.TestCase):
    VERSIONS = {"navi31": "26.1.6"}

    def table(self, spills=0, error=None, **hot):
        hot = {"of": "matrix", "matrix": 16, "all": 160, **hot}
        result = {"error": error} if error else {
            "spills": spills, "registers": 96, "occupancy": 8, "instructions": 500, "estimate": 1000, "subgroup": 64,
            "ms": 1.0, "hot": hot}
        kernel = Kernel("r", "dot.coop", 64, True, 256, 1024, "code", result)
        small = Kernel("s", "loop", 0, False, 64, 1, "code", {**result, "hot": None})
        return judge.rows({"navi31": {"gemm": Program([small, kernel], [])}})

    def failures(self, table, versions=None):
        baseline = judge.baseline_of(self.table(spills=10), self.VERSIONS)
        return judge.compare(table, versions or self.VERSIONS, json.loads(json.dumps(baseline)))

    def test_the_same_is_fine(self):
        self.assertEqual(self.failures(self.table(spills=10)), ([], []))

    def test_more_spills(self):
        self.assertIn("spills 24, were 20", self.failures(self.table(spills=12))[0][0])
        # From none on, one is too many.
        baseline = judge.baseline_of(self.table(), self.VERSIONS)
        self.assertEqual(len(judge.compare(self.table(spills=1), self.VERSIONS, baseline)[0]), 1)

    def test_refusals(self):
        self.assertIn("the driver ends", self.failures(self.table(error="the driver ends (code -6)"))[0][0])
        refused = judge.rows({"navi31": {"gemm": Program([], [], "The module has no entry.")}})
        self.assertIn("no entry", self.failures(refused)[0][0])

    def test_more_left_to_the_cpu(self):
        table = self.table(spills=10)
        table["navi31"]["gemm"]["on_cpu"] = ["exp.1: The kernel needs float64."]
        self.assertIn("1 kernels are left to the CPU, were 0: exp.1", self.failures(table)[0][0])

    def test_more_instructions_in_the_loop(self):
        self.assertEqual(self.failures(self.table(spills=10, all=175))[0], [])
        self.assertIn("11.25 instructions per matrix instruction, were 10.0",
                      self.failures(self.table(spills=10, all=180))[0][0])
        self.assertIn("8.0 instructions", self.failures(self.table(spills=10, all=128))[1][0])

    def test_matrix_instructions_lost(self):
        self.assertIn("no longer used", self.failures(self.table(spills=10, of="fma", fma=512, all=800))[0][0])

    def test_other_drivers_are_not_judged(self):
        failures, changes = self.failures(self.table(spills=99), {"navi31": "27.0.0"})
        self.assertEqual(failures, [])
        self.assertIn("26.1.6", changes[0])
        self.assertEqual(len(self.failures(self.table(error="no"), {"navi31": "27.0.0"})[0]), 2)

    def test_a_baseline_keeps_chips_that_were_not_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "baseline.json"
            judge.write_baseline(path, judge.baseline_of({"ada": {"gemm": {"refused": [], "spills": 3, "on_cpu": []}}},
                                                         {"ada": "26.1.6"}))
            judge.write_baseline(path, judge.baseline_of(self.table(spills=1), self.VERSIONS))
            stored = json.loads(path.read_text())
        self.assertEqual(stored["mesa"], {"ada": "26.1.6", "navi31": "26.1.6"})
        self.assertEqual(stored["chips"], {"ada": {"gemm": {"spills": 3, "on_cpu": 0}},
                                           "navi31": {"gemm": {"spills": 2, "on_cpu": 0, "of": "matrix", "ratio": 10.0}}})

    def test_what_the_baseline_lacks_is_told(self):
        table = self.table(spills=10)
        table["navi31"]["new"] = table["navi31"]["gemm"]
        self.assertEqual(self.failures(table), ([], ["navi31 new: is not in the baseline."]))


class DataTest(unittest.TestCase):
    def test_chips(self):
        self.assertGreaterEqual(len(USUAL), 12)
        self.assertEqual(len({CHIPS[name].driver.maker for name in USUAL}), 6)
        for name in USUAL:
            profile = json.loads(CHIPS[name].profile().read_text())
            self.assertFalse(profile["is_cpu"], name)
        for chip in CHIPS.values():
            self.assertIn(chip.driver.icd, figures.NAMES)

    def test_peers_name_kernels_and_chips(self):
        for (chip, module), p in report.peers().items():
            self.assertIn(chip, CHIPS)
            self.assertIn(module, kernels.KERNELS)

    def test_the_baseline_has_the_usual_chips(self):
        path = ROOT / "bench/vendor/baseline.json"
        self.assertEqual(set(json.loads(path.read_text())["chips"]), set(USUAL))


if __name__ == "__main__":
    unittest.main()
