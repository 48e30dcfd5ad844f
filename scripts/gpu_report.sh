#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What krafla does on a machine's GPU, as one JSON and one HTML file.
#
#   scripts/gpu_report.sh --make FOLDER [--krafla PROGRAM]   gathers a folder that can be carried to any Linux machine
#   FOLDER/gpu_report.sh [--quick] [-d DEVICE]               there: writes out/report.json and out/report.html
#
# The second form needs bash and a Vulkan driver: no network, no root, no other program, no PATH. docs/gpu-report.md.
set -u
shopt -s nullglob

die() { echo "gpu_report: $1" >&2; exit "${2:-3}"; }

# --- gathering -------------------------------------------------------------------------------------------------------

make_folder() {
  local to=$1 program=$2 root line path
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  [ -x "$program" ] || die "There is no program $program; build it, or name one with --krafla."
  mkdir -p "$to/bin" "$to/lib" "$to/libc" "$to/vulkan" "$to/out" "$to/work" || die "The folder $to cannot be made."
  to=$(cd "$to" && pwd)
  cp "$program" "$to/bin/krafla" && cp "${BASH_SOURCE[0]}" "$to/gpu_report.sh" || die "The folder $to cannot be filled."
  # What belongs to glibc and the compiler goes apart: the drivers of the other machine need its own, if it is newer.
  while read -r line; do
    path=${line#*=> }; path=${path%% (*}; path=${path//[[:space:]]/}
    [ -f "$path" ] || continue
    case ${path##*/} in
      ld-linux*|libc.so*|libm.so*|libdl.so*|libpthread.so*|librt.so*|libstdc++.so*|libgcc_s.so*) cp -L "$path" "$to/libc/" ;;
      *) cp -L "$path" "$to/lib/" ;;
    esac || die "$path cannot be copied."
  done < <(ldd "$program")
  path=$(ldconfig -p 2>/dev/null | sed -n 's/.*libvulkan\.so\.1 .*=> //p' | head -1)
  [ -z "$path" ] || cp -L "$path" "$to/vulkan/"
  cp -r "$root/tests/models" "$to/models" || die "The cases cannot be copied."
  if [ -n "${KRAFLA_CORPUS:-}" ] && [ -d "$KRAFLA_CORPUS/ops" ]; then cp -r "$KRAFLA_CORPUS/ops" "$to/ops"; fi
  echo "gpu_report: $to is ready; carry it, and run $to/gpu_report.sh there"
}

# --- running ---------------------------------------------------------------------------------------------------------

# With the machine's own libraries where they are new enough, else with those that were carried.
choose_libraries() {
  export LD_LIBRARY_PATH=$here/lib
  launcher=("$here/bin/krafla")
  if ! "${launcher[@]}" --version >/dev/null 2>&1; then
    unset LD_LIBRARY_PATH
    local loader=("$here"/libc/ld-linux*)
    [ ${#loader[@]} = 1 ] || die "The program does not start, and the folder has no loader."
    launcher=("${loader[0]}" --library-path "$here/lib:$here/libc" "$here/bin/krafla")
    libraries=carried
    "${launcher[@]}" --version >/dev/null || die "The program does not start on this machine."
  fi
  case $("${launcher[@]}" devices --json 2>/dev/null) in
    *'"vulkan:'*) return ;;
  esac
  # Perhaps the machine has a driver, but no loader.
  if [ $libraries = carried ]; then launcher[2]+=":$here/vulkan"; else LD_LIBRARY_PATH+=:$here/vulkan; fi
}

# Lines of JSON as one array.
array_of() {
  local line out=
  while IFS= read -r line; do
    [ "${line:0:1}" = "{" ] && out+="${out:+,}$line"
  done <<<"$1"
  printf '[%s]' "$out"
}

escaped() {
  local text=$1
  text=${text//\\/\\\\}; text=${text//\"/\\\"}; text=${text//$'\n'/\\n}; text=${text//$'\t'/ }; text=${text//$'\r'/ }
  printf '%s' "${text//[$'\x01'-$'\x1f']/ }"
}

# step NAME ARGUMENTS..: one command of krafla; its lines as an array in $got, and a row of what was done.
step() {
  local name=$1 begin=$SECONDS output code errors="$here/work/errors.txt" talk=
  shift
  if [ $SECONDS -ge $deadline ]; then
    steps+="${steps:+,}{\"step\":\"$name\",\"left_out\":\"The report's $deadline seconds were over.\"}"
    got='[]'
    left_out=$((left_out + 1))
    echo "gpu_report: $name is left out: the time is over" >&2
    return 1
  fi
  printf 'gpu_report: [%3d s] %s\n' "$SECONDS" "$name" >&2
  output=$("${launcher[@]}" "$@" 2>"$errors")
  code=$?
  if [ $code != 0 ]; then
    talk=$(<"$errors")
    failed=$((failed + 1))
    echo "gpu_report: $name ended with $code: ${talk:0:300}" >&2
  fi
  steps+="${steps:+,}{\"step\":\"$name\",\"seconds\":$((SECONDS - begin)),\"code\":$code,\"talk\":\"$(escaped "${talk: -2000}")\"}"
  got=$(array_of "$output")
  return 0
}

# add_case KIND NAME TEXT: a module of a sweep.
add_case() {
  local file="$here/work/$2.hlo"
  printf 'HloModule %s\n%b\n' "$2" "$3" >"$file" || die "$file cannot be written."
  kinds+=("$1"); names+=("$2"); files+=("$file")
}

product() {  # NAME KIND M N K FROM TO RHS-CONTRACTED
  local rhs="$5,$4"
  [ "$8" = 1 ] && rhs="$4,$5"
  add_case "$2" "$1" "ENTRY main {\n  a = $6[$3,$5] parameter(0)\n  b = $6[$rhs] parameter(1)\n  ROOT c = $7[$3,$4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={$8}\n}"
}

convolution() {  # NAME BATCH SIZE IN OUT WINDOW STRIDE PAD RESULT
  add_case convolution "$1" "ENTRY main {\n  a = f32[$2,$3,$3,$4] parameter(0)\n  k = f32[$6,$6,$4,$5] parameter(1)\n  ROOT c = f32[$2,$9,$9,$5] convolution(a, k), window={size=$6x$6 stride=$7x$7 pad=$8_$8x$8_$8}, dim_labels=b01f_01io->b01f\n}"
}

add_sweeps() {
  local n t elements=16777216 chain= i
  local sizes="512 1024 2048 4096" wide=4096
  if [ $quick = 1 ]; then sizes="128 256"; wide=1024; elements=1048576; fi
  for n in $sizes; do
    product "gemm_f32_$n" gemm "$n" "$n" "$n" f32 f32 0
    product "gemm_f16_$n" gemm "$n" "$n" "$n" f16 f16 0
    product "gemm_bf16_$n" gemm "$n" "$n" "$n" bf16 bf16 0
    product "gemm_s8_$n" gemm "$n" "$n" "$n" s8 s32 0
  done
  for t in f32 f16; do
    product "gemv_${t}_rows" gemv 1 $wide $wide $t $t 1
    product "gemv_${t}_columns" gemv 1 $wide $wide $t $t 0
  done
  convolution conv_3x3_56 1 56 64 64 3 1 1 56
  if [ $quick = 0 ]; then
    convolution conv_7x7_224 1 224 3 64 7 2 3 112
    convolution conv_1x1_56 1 56 64 256 1 1 0 56
    convolution conv_3x3_28 1 28 128 128 3 1 1 28
    convolution conv_3x3_14 1 14 256 256 3 1 1 14
    convolution conv_3x3_7 1 7 512 512 3 1 1 7
    convolution conv_3x3_56_batch8 8 56 64 64 3 1 1 56
  fi
  local s=512
  [ $quick = 1 ] && s=64
  add_case attention attention_$s "larger {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = f32[] maximum(x, y)\n}\nplus {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = f32[] add(x, y)\n}\nENTRY main {\n  q = f32[8,$s,64] parameter(0)\n  k = f32[8,$s,64] parameter(1)\n  v = f32[8,$s,64] parameter(2)\n  s = f32[8,$s,$s] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}\n  low = f32[] constant(-inf)\n  m = f32[8,$s] reduce(s, low), dimensions={2}, to_apply=larger\n  mb = f32[8,$s,$s] broadcast(m), dimensions={0,1}\n  d = f32[8,$s,$s] subtract(s, mb)\n  e = f32[8,$s,$s] exponential(d)\n  zero = f32[] constant(0)\n  t = f32[8,$s] reduce(e, zero), dimensions={2}, to_apply=plus\n  tb = f32[8,$s,$s] broadcast(t), dimensions={0,1}\n  p = f32[8,$s,$s] divide(e, tb)\n  ROOT o = f32[8,$s,64] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}"
  add_case bandwidth elementwise_f32 "ENTRY main {\n  a = f32[$elements] parameter(0)\n  b = f32[$elements] parameter(1)\n  m = f32[$elements] multiply(a, b)\n  ROOT s = f32[$elements] add(m, a)\n}"
  add_case bandwidth elementwise_f16 "ENTRY main {\n  a = f16[$elements] parameter(0)\n  ROOT s = f16[$elements] negate(a)\n}"
  local plus="plus {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = f32[] add(x, y)\n}\n"
  add_case bandwidth reduce_rows "${plus}ENTRY main {\n  a = f32[$((elements / 1024)),1024] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[$((elements / 1024))] reduce(a, z), dimensions={1}, to_apply=plus\n}"
  add_case bandwidth reduce_columns "${plus}ENTRY main {\n  a = f32[$((elements / 1024)),1024] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[1024] reduce(a, z), dimensions={0}, to_apply=plus\n}"
  add_case bandwidth reduce_all "${plus}ENTRY main {\n  a = f32[$elements] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=plus\n}"
  add_case transpose transpose_f32 "ENTRY main {\n  a = f32[$((elements / 1024)),1024] parameter(0)\n  ROOT t = f32[1024,$((elements / 1024))] transpose(a), dimensions={1,0}\n}"
  add_case transpose transpose_f16 "ENTRY main {\n  a = f16[$((elements / 1024)),1024] parameter(0)\n  ROOT t = f16[1024,$((elements / 1024))] transpose(a), dimensions={1,0}\n}"
  # Sums of rows and products by turns: what cannot be one kernel.
  chain="${plus}ENTRY main {\n  w = f32[64,64] parameter(0)\n  x0 = f32[64,64] parameter(1)\n"
  for i in {1..32}; do
    chain+="  x$i = f32[64,64] dot(x$((i - 1)), w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
  done
  add_case launches chain_of_32 "${chain}  ROOT r = f32[64,64] add(x32, w)\n}"
}

# sweep WHICH OPTIONS..: profiles every case; rows in $rows.
sweep() {
  local which=$1 i
  shift
  rows=
  for i in "${!names[@]}"; do
    step "sweep ${names[$i]} $which" profile "${files[$i]}" -d "$device" --runs 3 --json "$@" || continue
    rows+="${rows:+,}{\"name\":\"${names[$i]}\",\"kind\":\"${kinds[$i]}\",\"lines\":$got}"
  done
}

write_report() {
  local json page
  json="{\"report\":1,\"krafla\":\"$(escaped "$("${launcher[@]}" --version)")\",\"device\":\"$(escaped "$device")\",\"quick\":$quick,\"libraries\":\"$libraries\""
  json+=",\"unix_time\":$(printf '%(%s)T' -1),\"seconds\":$SECONDS,\"failed_steps\":$failed,\"left_out_steps\":$left_out"
  json+=",\"doctor\":$doctor,\"devices\":$devices,\"probe\":$probe,\"conformance\":$conformance,\"models\":$models"
  json+=",\"bench\":{\"default\":$bench,\"tuned\":$bench_tuned},\"tuning\":$tuning,\"tuned_kernels\":$tuned"
  json+=",\"sweeps\":{\"default\":[$sweeps],\"tuned\":[$sweeps_tuned]},\"steps\":[$steps]}"
  printf '%s\n' "$json" >"$here/out/report.json" || die "out/report.json cannot be written."
  page=$(page_text)
  # No tag may end the script element early.
  printf '%s\n<script type="application/json" id="data">%s</script>\n%s\n' "${page%%@DATA@*}" "${json//<\//<\\/}" \
    "${page#*@DATA@}" >"$here/out/report.html" || die "out/report.html cannot be written."
  echo "gpu_report: out/report.json and out/report.html, after $SECONDS seconds" >&2
}

page_text() {
  local line
  while IFS= read -r line; do printf '%s\n' "$line"; done <<'PAGE'
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>krafla on this GPU</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #1c2733; }
table { border-collapse: collapse; margin: .5em 0 1.5em; } td, th { padding: .15em .8em; text-align: right; border-bottom: 1px solid #dde3ea; }
td:first-child, th:first-child { text-align: left; } h2 { margin-top: 1.6em; } .bad { color: #b3261e; font-weight: 600; } .dim { color: #66727f; }
svg text { font: 12px system-ui, sans-serif; fill: #1c2733; }
</style></head><body>
@DATA@
<main id="page"></main>
<script>
const data = JSON.parse(document.getElementById("data").textContent), page = document.getElementById("page");
const text = (x) => String(x ?? "").replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
const add = (html) => page.insertAdjacentHTML("beforeend", html);
const number = (x) => x === undefined || x === null || !isFinite(x) ? "" : Number(x).toPrecision(4).replace(/e\+?/, "e");
const table = (head, rows) => add("<table><tr>" + head.map((h) => `<th>${text(h)}</th>`).join("") + "</tr>" +
  rows.map((r) => "<tr>" + r.map((c) => `<td>${c}</td>`).join("") + "</tr>").join("") + "</table>");
const probed = data.probe.find((d) => d.device === data.device) ?? data.probe[0] ?? {name: "no Vulkan device"};
const rates = probed.rates ?? {}, rate = (n) => rates[n]?.value ?? 0;
add(`<h1>${text(probed.name)}</h1><p>${text(data.krafla)}, ${data.quick ? "quick, " : ""}${data.seconds} s, ` +
  `${new Date(data.unix_time * 1000).toISOString().slice(0, 16)}Z; <span class="${data.failed_steps ? "bad" : "dim"}">` +
  `${data.failed_steps} steps failed, ${data.left_out_steps} left out</span></p>`);
add("<h2>Rates, by krafla's own kernels</h2>");
table(["rate", "", ""], Object.entries(rates).map(([n, r]) => r.missing ? [text(n), "none", text(r.missing)] :
  [text(n), number(r.unit === "s" ? r.value * 1e6 : r.value * 1e-9), r.unit === "s" ? "µs" : r.unit === "flop/s" ? "GFLOP/s" : "GB/s"]));
const count = (rows) => ["passed", "failed", "skipped", "error"].map((s) => rows.filter((r) => r.status === s).length);
add("<h2>Checks</h2>");
table(["", "passed", "failed", "skipped", "errors"], [["op cases", ...count(data.conformance)], ["models", ...count(data.models)]]);
const wrong = [...data.conformance, ...data.models].filter((r) => r.status === "failed" || r.status === "error");
if (wrong.length) table(["case", "reason"], wrong.slice(0, 50).map((r) => [`<span class="bad">${text(r.case)}</span>`, text(r.reason)]));
// A case's work and time, with the share of the roof of its own type.
const measured = (row) => {
  const steps = row.lines.slice(1), sum = (f) => steps.reduce((s, x) => s + f(x) * (x.times ?? 1), 0);
  const ms = steps.reduce((s, x) => s + x.ms, 0), flops = sum((x) => x.flops), bytes = sum((x) => x.bytes);
  const type = (row.name.match(/_(f16|bf16|s8)/) ?? [0, "f32"])[1];
  const peak = Math.max(rate("matrix_f32"), rate("matrix_" + type));
  const share = Math.max(peak ? flops / (ms * 1e-3) / peak : 0, rate("copy") ? bytes / (ms * 1e-3) / rate("copy") : 0);
  return {name: row.name, kind: row.kind, ms, gflops: flops / ms * 1e-6, gbytes: bytes / ms * 1e-6, share, variants: [...new Set(steps.map((x) => x.variant))].join(", ")};
};
const bars = (rows) => {
  const most = Math.max(1, ...rows.flatMap((r) => [r.share, r.tuned?.share ?? 0])), x = (s) => 480 * s / most;
  return `<svg width="900" height="${rows.length * 34 + 24}" role="img">` + rows.map((r, i) => `<text x="0" y="${i * 34 + 18}">${text(r.name)}</text>` +
    `<rect x="200" y="${i * 34 + 4}" width="${x(r.share)}" height="11" fill="#8aa0b6"/>` +
    (r.tuned ? `<rect x="200" y="${i * 34 + 16}" width="${x(r.tuned.share)}" height="11" fill="#2f6fb3"/>` : "") +
    `<text x="${206 + x(Math.max(r.share, r.tuned?.share ?? 0))}" y="${i * 34 + 19}">${(100 * r.share).toFixed(0)} %${r.tuned ? `, tuned ${(100 * r.tuned.share).toFixed(0)} %` : ""}</text>`).join("") +
    `<line x1="${200 + x(1)}" x2="${200 + x(1)}" y1="0" y2="${rows.length * 34}" stroke="#b3261e" stroke-dasharray="4 3"/>` +
    `<text x="${204 + x(1)}" y="${rows.length * 34 + 16}">the roof</text></svg>`;
};
const tunedRows = Object.fromEntries(data.sweeps.tuned.map((r) => [r.name, measured(r)]));
const rows = data.sweeps.default.map((r) => ({...measured(r), tuned: tunedRows[r.name]}));
add('<h2>Sweeps</h2><p class="dim">Share of the measured roof: grey by default, blue tuned. Caches can go beyond it.</p>');
for (const kind of [...new Set(rows.map((r) => r.kind))]) {
  const those = rows.filter((r) => r.kind === kind);
  add(`<h3>${text(kind)}</h3>` + bars(those));
  table(["case", "ms", "tuned ms", "GFLOP/s", "GB/s", "variants"], those.map((r) => [text(r.name), number(r.ms), number(r.tuned?.ms), number(r.tuned?.gflops ?? r.gflops), number(r.tuned?.gbytes ?? r.gbytes), text(r.tuned?.variants ?? r.variants)]));
}
const benched = Object.fromEntries(data.bench.tuned.map((r) => [r.case, r]));
add("<h2>Models</h2>");
table(["model", "compile ms", "median ms", "tuned ms", "launches"], data.bench.default.map((r) => [text(r.case), number(r.compile_ms), number(r.median_ms), number(benched[r.case]?.median_ms), r.launches]));
add("<h2>Tuned kernels</h2>");
table(["kernel", "default ms", "ms", "variant", "setting"], data.tuned_kernels.filter((k) => k.tuning).map((k) => [text(k.name), number(k.default_ms), number(k.ms), text(k.variant), text(k.tuning)]));
add("<h2>This machine</h2>");
table(["", "", ""], data.doctor.map((d) => Object.values(d).slice(0, 3).map((v) => text(typeof v === "object" ? JSON.stringify(v) : v))));
add("<h2>Steps</h2>");
table(["step", "s", "code", ""], data.steps.map((s) => [text(s.step), s.seconds ?? "", s.code ?? "", text(s.left_out ?? s.talk)]));
</script></body></html>
PAGE
}

run_report() {
  [ -x "$here/bin/krafla" ] || die "This folder was not made by gpu_report.sh --make." 2
  libraries=system
  export KRAFLA_CACHE_DIR=$here/work/cache
  choose_libraries
  steps='' failed=0 left_out=0 kinds=() names=() files=()
  # The last steps end in time: what begins before the deadline takes a minute at the most.
  deadline=400
  local budget=70 iterations=5
  if [ $quick = 1 ]; then deadline=150 budget=15 iterations=3; fi
  step doctor doctor --json; doctor=$got
  step devices devices --json; devices=$got
  case $devices in
    *'"vulkan:'*) ;;
    *) die "krafla finds no Vulkan device; out/ has nothing. Run $here/bin/krafla doctor." 4 ;;
  esac
  step probe devices --probe --json; probe=$got
  # The sweeps are held against one measurement of the roof.
  local of_device=${probe#*\"device\":\"$device\"} roof=()
  if [[ $of_device =~ \"copy\":\{\"unit\":\"bytes/s\",\"value\":([0-9.e+]+) ]]; then
    local copy=${BASH_REMATCH[1]}
    [[ $of_device =~ \"matrix_f32\":\{\"unit\":\"flop/s\",\"value\":([0-9.e+]+) ]] &&
      roof=(--roof "${BASH_REMATCH[1]}" "$copy")
  fi
  conformance='[]'
  if [ ! -d "$here/ops" ]; then
    echo "gpu_report: no recorded operations are checked, as none were carried (KRAFLA_CORPUS)" >&2
  elif [ $quick = 0 ]; then
    step conformance check "$here/ops" -d "$device" --json; conformance=$got
  fi
  local few=("$here/models")
  if [ $quick = 1 ]; then few=("$here/models/mlp-tiny" "$here/models/lenet-tiny" "$here/models/sort-topk-tiny"); fi
  step models check "${few[@]}" -d "$device" --json; models=$got
  add_sweeps
  step "bench models default" bench "${few[@]}" -d "$device" --iters $iterations --disable tuned --json; bench=$got
  sweep default --disable tuned "${roof[@]}"; sweeps=$rows
  step tune tune "${files[@]}" "${few[@]}" --all -d "$device" --budget $budget --json; tuning=$got
  step "tuned kernels" tune --list -d "$device" --json; tuned=$got
  step "bench models tuned" bench "${few[@]}" -d "$device" --iters $iterations --json; bench_tuned=$got
  sweep tuned "${roof[@]}"; sweeps_tuned=$rows
  write_report
  [ $failed = 0 ] || exit 1
}

here=${BASH_SOURCE[0]%/*}
[ "$here" = "${BASH_SOURCE[0]}" ] && here=.
here=$(cd "$here" && pwd)
quick=0 device=vulkan:0 to='' program=$here/../build/release/krafla
while [ $# -gt 0 ]; do
  case $1 in
    --make) [ $# -ge 2 ] || die "--make needs a folder." 2; to=$2; shift ;;
    --krafla) [ $# -ge 2 ] || die "--krafla needs a program." 2; program=$2; shift ;;
    -d|--device) [ $# -ge 2 ] || die "$1 needs a device." 2; device=$2; shift ;;
    --quick) quick=1 ;;
    -h|--help) while IFS= read -r line && [ "${line:0:1}" = "#" ]; do echo "${line:2}"; done <"${BASH_SOURCE[0]}"; exit 0 ;;
    *) die "There is no option $1; see --help." 2 ;;
  esac
  shift
done
if [ -n "$to" ]; then make_folder "$to" "$program"; else run_report; fi
