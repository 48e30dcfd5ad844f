# SPDX-License-Identifier: Apache-2.0
"""What a kernel's hot loop consists of, read from the driver's disassembly.

Every instruction has a class: matrix, fma, float (other arithmetic), special (roots, exponentials), int, address64
(integer arithmetic of 64 bits, or half of it), convert, select, move, scalar (AMD's scalar unit), lds (shared memory),
load.N and store.N (global memory, N bytes per lane), spill, barrier, control, wait.
"""
import collections
import re

Instruction = collections.namedtuple("Instruction", "kind target")  # target: a label that it may jump to, or None
CLASSES = ("matrix", "fma", "float", "special", "int", "address64", "convert", "select", "move", "scalar", "lds",
           "spill", "barrier", "control", "wait")


# ---- AMD: ACO --------------------------------------------------------------------------------------------------------

ACO_RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"v_(wmma|swmmac)", "matrix"), (r"ds_", "lds"), (r"scratch_", "spill"), (r"s_(waitcnt|wait_)", "wait"),
    (r"s_(delay|nop|clause|sleep)", "wait"), (r"s_barrier", "barrier"), (r"s_(cbranch|branch|endpgm|setpc)", "control"),
    (r"s_", "scalar"), (r"v_(dual_)?(fma|fmac|fmaak|fmamk|pk_fma|dot|mad_mix|fma_mix|mac_f|mad_f)", "fma"),
    (r"v_(dual_)?(pk_)?(mul|add|sub|subrev|max|min)\w*_f(16|32|64)", "float"),
    (r"v_(rcp|exp|log|sqrt|rsq|sin|cos|s_rcp|s_exp|s_log)", "special"), (r"v_(dual_)?(mov|swap|perm)", "move"),
    (r"v_cvt", "convert"), (r"v_(dual_)?(cmp|cndmask)", "select"),
    (r"v_\w*(_co_|_ci_|addc|subb|_[bui]64)", "address64"))]


def aco_class(op):
    if op.startswith(("global_", "buffer_", "flat_")):
        way = "store" if "_store" in op else "load"
        width = re.search(r"_[biuf](\d+)", op)
        words = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "ushort": 2, "short": 2, "ubyte": 1, "byte": 1}
        old = next((n for word, n in words.items() if word in op), 4)
        return f"{way}.{int(width[1]) // 8 if width else old}"
    return next((kind for rule, kind in ACO_RULES if rule.match(op)), "int")


def parse_aco(text):
    items, labels = [], {}
    for raw in text.splitlines():
        line = raw.split(";")[0].strip()
        label = re.match(r"(BB\d+):", line)
        if label:
            labels[label[1]] = len(items)
            continue
        if not line or line.startswith("("):
            continue
        for part in line.split("::"):  # two operations that issue together
            op = part.split()[0]
            target = re.search(r"BB\d+", part) if op.startswith(("s_cbranch", "s_branch")) else None
            items.append(Instruction(aco_class(op), target and target[0]))
    return items, labels


# ---- Intel: brw ------------------------------------------------------------------------------------------------------

def brw_message(full):
    """Of a send: what it reads or writes, by the message's description."""
    lsc = re.search(r"(slm|ugm)\s+MsgDesc: \( (\w+), (a\d+), (\w+), (V\d+)?", full)
    if lsc:
        memory, what, address, element, vector = lsc.groups()
        if "fence" in what:
            return "barrier"
        if memory == "slm":
            return "lds"
        if address == "a32" and re.search(r"\bss \)|ex_bso surface_state_index", full):
            return "spill"
        size = int(re.match(r"d(\d+)", element)[1]) // 8 if re.match(r"d\d+", element) else 4
        return f"{'store' if 'store' in what else 'load'}.{size * int((vector or 'V1')[1:])}"
    if "mfence" in full or "barrier" in full:
        return "barrier"
    hdc = re.search(r"MsgDesc: \((.*?)\)", full)
    if hdc and "hdc" in full:
        what = hdc[1]
        if "scratch" in what or "OWORD" in what or "DWORD scattered" in what:
            return "spill"
        if "A64" not in what and "254" in what:
            return "lds"
        mask = re.search(r"Mask = 0x(\w)", what)
        size = 4 * (4 - bin(int(mask[1], 16)).count("1")) if mask else 4
        return f"{'store' if 'write' in what else 'load'}.{size}"
    return "control"


def brw_class(op, full):
    if op.startswith("dpas"):
        return "matrix"
    if op.startswith("send"):
        return brw_message(full)
    if op.startswith(("sync", "nop")):
        return "wait"
    if op.startswith(("if", "else", "endif", "while", "break", "cont", "halt", "do", "jmpi", "brd", "brc")):
        return "control"
    if op.startswith("math"):
        return "special"
    written = re.search(r"<\d+>(\w+)", full)
    kind = written[1] if written else ""
    if kind in ("Q", "UQ") or op.startswith(("addc", "subb")):
        return "address64"
    is_float = kind in ("F", "HF", "DF", "BF")
    if op.startswith("mov"):
        return "convert" if len(set(re.findall(r">(\w+)", full)) - {"UD", "D"}) > 1 else "move"
    if op.startswith("mad") and is_float or op.startswith("dp4a"):
        return "fma"
    if op.startswith(("cmp", "sel", "csel")):
        return "select"
    return "float" if is_float else "int"


def parse_brw(text):
    items, labels = [], {}
    lines = text.splitlines()
    for number, raw in enumerate(lines):
        label = re.match(r"(LABEL\d+):", raw)
        if label:
            labels[label[1]] = len(items)
            continue
        op = re.match(r"(?:\([^)]*\) )?([a-z][a-z0-9.]*)\(", raw)
        if not op:
            continue
        op = op[1]
        full = raw + (" " + lines[number + 1].strip() if op.startswith("send") and number + 1 < len(lines) else "")
        target = re.search(r"JIP:\s+(LABEL\d+)", raw) if op.startswith("while") else None
        items.append(Instruction(brw_class(op, full), target and target[1]))
    return items, labels


# ---- NVIDIA: NAK -----------------------------------------------------------------------------------------------------

NAK_RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"[hibq]mma\b", "matrix"), (r"(ld|st|atom)s?\.shared|ldsm|atoms", "lds"), (r"(ld|st)\.local", "spill"),
    (r"(ffma|hfma2|dfma|idp)", "fma"), (r"(fadd|fmul|hadd2|hmul2|fmnmx|hmnmx2|dadd|dmul|fswzadd)", "float"),
    (r"mufu", "special"), (r"(mov|copy|swap|movm|prmt|r2ur|s2r|ldc)", "move"),
    (r"(f2f|i2f|f2i|f2fp|i2i|frnd)", "convert"),
    (r"(isetp|fsetp|hsetp2|dsetp|sel|imnmx|plop3|psetp)", "select"), (r"(bar|membar|errbar)\b", "barrier"),
    (r"(bra|bssy|bsync|bclear|break|exit|warpsync|bmov|brx|vote)", "control"), (r"nop", "wait"),
    (r"(iadd3\.x|iadd2\.x|lea\.x|imad\.wide|imad64|iadd64|shf\.[lr]\.w\.[ui]64)", "address64"))]


def nak_class(op):
    if op.startswith(("ld.global", "st.global", "atom.global", "red.global")):
        width = re.search(r"\.[biuf](\d+)$|\.[biuf](\d+)\b", op)
        return f"{'load' if op.startswith('ld') else 'store'}.{int(width[1] or width[2]) // 8 if width else 4}"
    return next((kind for rule, kind in NAK_RULES if rule.match(op)), "int")


def nak_blocks(text):
    """{block: its instructions}, {block: its predecessors}, as NAK prints them."""
    blocks, before, current = {}, {}, None
    for raw in text.splitlines():
        head = re.match(r"block(?:\.u)? (\d+) L\d+ \[([^\]]*)\]", raw.strip())
        if head:
            current = int(head[1])
            blocks[current] = []
            before[current] = [int(p) for p in head[2].split(",") if p.strip()]
            continue
        line = raw.split("//")[0].strip()
        if current is None or not line or line.startswith("}"):
            continue
        body = line.split(" = ", 1)[1] if " = " in line else line
        body = re.sub(r"^@!?u?p\d+ ", "", body.strip())
        blocks[current].append(Instruction(nak_class(body.split()[0]), None))
    return blocks, before


def nak_loops(text):
    """Natural loops: NAK names the predecessors of a block, whatever the order that blocks are printed in."""
    blocks, before = nak_blocks(text)
    order = sorted(blocks)
    dominators = {b: set(order) for b in order}
    if order:
        dominators[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            known = [dominators[p] for p in before[b] if p in dominators]
            new = (set.intersection(*known) if known else set()) | {b}
            changed |= new != dominators[b]
            dominators[b] = new
    loops = {}
    for b in order:
        for p in before[b]:
            if b not in dominators.get(p, ()):
                continue
            body, open_ = {b}, [p]
            while open_:
                one = open_.pop()
                if one not in body:
                    body.add(one)
                    open_ += before[one]
            loops.setdefault(b, set()).update(body)
    whole = [i for b in order for i in blocks[b]]
    return whole, [[i for b in sorted(body) for i in blocks[b]] for body in loops.values()]


# ---- Qualcomm: ir3 ---------------------------------------------------------------------------------------------------

IR3_RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"(ldl|stl|ldlw|stlw|atomic\.\w+\.l)", "lds"), (r"(ldp|stp)", "spill"), (r"mad\.f|dp[24]acc|sdot|dp4", "fma"),
    (r"(add|mul|max|min|sign|floor|ceil|rndne|trunc)\.f", "float"),
    (r"(rcp|rsq|log2|exp2|sin|cos|sqrt|hrsq|hlog2|hexp2)", "special"),
    (r"cov\.", "convert"), (r"(cmps|cmpv|sel)\.", "select"), (r"(mov|movmsk|swz|gat|sct|movs)", "move"),
    (r"(bar|fence)", "barrier"), (r"nop", "wait"),
    (r"(br|jump|end|ret|getone|shps|bany|ball|kill|predt|predf|prede)", "control"))]
IR3_BYTES = {"u32": 4, "s32": 4, "f32": 4, "u16": 2, "s16": 2, "f16": 2, "u8": 1, "s8": 1}


def ir3_class(op, line):
    if op.startswith(("ldg", "stg", "ldib", "stib", "isam", "ldc")):
        element = IR3_BYTES.get(op.split(".")[-1], 4)
        count = re.search(r", (\d+)\s*$", line)
        return f"{'store' if op.startswith('st') else 'load'}.{element * (int(count[1]) if count else 1)}"
    return next((kind for rule, kind in IR3_RULES if rule.match(op)), "int")


def parse_ir3(text):
    items, labels = [], {}
    for raw in text.splitlines():
        line = raw.strip()
        label = re.match(r"(l\d+):", line)
        if label:
            labels[label[1]] = len(items)
            continue
        line = re.sub(r"^(\[?[0-9a-f_x]*\]?\s)?", "", line) if line.startswith("[") else line
        flags = re.match(r"((?:\([a-z]+\d*\))*)\s*([a-z][a-z0-9.]*)\b", line)
        if not flags or line.startswith(";") or ":" in line.split(" ")[0]:
            continue
        prefix, op = flags[1], flags[2]
        repeat = re.search(r"\(rpt(\d)\)", prefix)
        wait = re.search(r"\(nop(\d)\)", prefix)
        if wait:
            items += [Instruction("wait", None)] * int(wait[1])
        target = re.search(r"#(l\d+)", line)
        # Carries are made by comparing, so that arithmetic of 64 bits is not told apart here.
        one = Instruction(ir3_class(op, line), target and target[1])
        items += [one] * (1 + (int(repeat[1]) if repeat else 0))
    return items, labels


# ---- Arm: Valhall ----------------------------------------------------------------------------------------------------

VALHALL_RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"FMA", "fma"), (r"(FADD|FMUL|FMAX|FMIN|FROUND|FADD_LSCALE)", "float"),
    (r"(FRCP|FRSQ|FSIN|FCOS|FEXP|FLOG|FSQRT)", "special"), (r"(SHADDX|\w+\.[su]64)", "address64"),
    (r"(\w+_TO_\w+|V2\w+_TO_\w+)", "convert"), (r"(CSEL|ICMP|FCMP|MUX)", "select"), (r"(MOV|MKVEC|SWZ|CLPER)", "move"),
    (r"BARRIER", "barrier"), (r"NOP", "wait"), (r"(BRANCHZ|BRANCH|JUMP|DISCARD|RETURN)", "control"))]


def valhall_class(op):
    # Shared memory has addresses like any other.
    memory = re.match(r"(LOAD|STORE|ATOM\w*|LD_\w+|ST_\w+)\.i(\d+)", op)
    if memory:
        return f"{'load' if memory[1].startswith('L') else 'store'}.{max(int(memory[2]) // 8, 1)}"
    return next((kind for rule, kind in VALHALL_RULES if rule.match(op)), "int")


def parse_valhall(text):
    items, labels = [], {}
    for raw in text.splitlines():
        words = raw.split()
        if not words:
            continue
        op, target = words[0], None
        jump = re.search(r"offset:(-\d+)$", raw.strip()) if op.startswith("BRANCH") else None
        if jump:  # counted from the instruction behind
            target = f"at {len(items) + 1 + int(jump[1])}"
            labels[target] = len(items) + 1 + int(jump[1])
        items.append(Instruction(valhall_class(op), target))
    return items, labels


# ---- Loops -----------------------------------------------------------------------------------------------------------

PARSERS = {"aco": parse_aco, "brw": parse_brw, "ir3": parse_ir3, "valhall": parse_valhall}


def loops(text, dialect):
    """(all instructions, [those of each loop])."""
    if dialect == "nak":
        return nak_loops(text)
    items, labels = PARSERS[dialect](text)
    ends = {}
    for i, item in enumerate(items):
        begin = labels.get(item.target)
        if begin is not None and begin <= i:
            ends[begin] = max(i, ends.get(begin, 0))
    return items, [items[begin:end + 1] for begin, end in sorted(ends.items())]


# So many matrix or FMA instructions make a loop worth judging, of FMAs one among sixteen instructions: others are loops
# over elementary functions, or over anything. A program without such a loop must have four times as many: it is a loop
# unrolled then.
LEAST = 4
SHARE = {"matrix": None, "fma": 16}


def hot(text, dialect):
    """The mix of the loop with the largest share of matrix instructions, else of FMAs: {class: count}, with "of" (matrix
    or fma) and "all". None where there is no such loop, nor such a program."""
    whole, inner = loops(text, dialect)
    for of in ("matrix", "fma"):
        best = None
        for body, least in [(b, LEAST) for b in inner] + [(whole, 4 * LEAST)]:
            mix = collections.Counter(i.kind for i in body)
            if mix[of] < least or (SHARE[of] and mix[of] * SHARE[of] < len(body)) or (best and body is whole):
                continue
            if best and mix[of] * best["all"] <= best[of] * len(body):
                continue
            best = dict(mix, all=len(body), of=of)
        if best:
            return best
    return None
