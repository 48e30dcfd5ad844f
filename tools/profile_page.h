// SPDX-License-Identifier: Apache-2.0
// The page that `krafla profile --html` writes, but for its data: the mark is replaced by the JSON lines as an array.
#pragma once

#include <string_view>

namespace krafla::cli {

inline constexpr std::string_view kProfileDataMark = "PROFILE_DATA";

inline constexpr std::string_view kProfilePage = R"PAGE(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>krafla profile</title>
<style>
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px; color: #1b2230; background: #fff; max-width: 1280px; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 15px; margin: 28px 0 8px; }
.facts { color: #56607a; } .facts b { color: #1b2230; }
table { border-collapse: collapse; width: 100%; } th, td { padding: 3px 8px; text-align: right; white-space: nowrap; }
th { cursor: pointer; border-bottom: 2px solid #c9d0de; position: sticky; top: 0; background: #fff; }
td { border-bottom: 1px solid #eceff5; } th.t, td.t { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.t small { color: #56607a; display: block; } tr:hover td { background: #f4f6fb; }
svg { display: block; background: #f8f9fc; border: 1px solid #dfe4ee; } svg text { font: 11px system-ui, sans-serif; fill: #56607a; }
select { font: inherit; } .key span { display: inline-block; margin-right: 14px; } .key i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
@media (prefers-color-scheme: dark) {
  body, th { background: #14181f; color: #dde3ee; } .facts, td.t small, svg text { color: #97a3b8; fill: #97a3b8; } .facts b { color: #dde3ee; }
  svg { background: #1a2029; border-color: #2c3544; } td { border-color: #232b38; } tr:hover td { background: #1d2430; } th { border-color: #3a4557; }
}
</style></head><body>
<h1 id="title"></h1><div class="facts" id="facts"></div>
<h2>The run, step by step</h2><svg id="run" width="100%" height="64"></svg><div class="key" id="key"></div>
<h2>Roofline</h2><svg id="roof" width="100%" height="320"></svg>
<h2>Time by <select id="by"><option>kernel<option>variant<option>instruction<option>op_name<option>source<option>family</select></h2>
<table><thead><tr id="head"></tr></thead><tbody id="rows"></tbody></table>
<script>
const data = PROFILE_DATA;
const run = data[0], steps = data.slice(1), total = steps.reduce((s, x) => s + x.ms, 0);
const colors = { dot: '#3d7edb', convolution: '#7a5bd0', reduce: '#e08a2e', loop: '#3aa876', copy: '#a0a8b8', sort: '#c94f7c',
  scan: '#b0862a', scatter: '#d2574a', fft: '#4aa3b5', linalg: '#8a6a4f', host: '#d03c3c', while: '#5f7d3a' };
const color = f => colors[f] || '#888';
const number = (x, digits) => x.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
const make = (name, attributes, text) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
};
document.title = 'krafla profile: ' + run.module;
document.getElementById('title').textContent = run.module;
const facts = document.getElementById('facts');
const fact = (label, value) => { const b = document.createElement('b'); b.textContent = value; facts.append(label + ' ', b, '   '); };
fact('on', run.device);
facts.append(document.createElement('br'));
fact('a run', number(run.run_ms, 3) + ' ms');
fact('its steps, measured one by one', number(total, 3) + ' ms (' + number(100 * total / run.run_ms, 0) + ' %)');
if (run.roof_flops_per_s) fact('roof', number(run.roof_flops_per_s / 1e9, 0) + ' GFLOP/s in f32, ' + number(run.roof_bytes_per_s / 1e9, 1) + ' GB/s');
const rate = s => ({ flops: s.flops * s.times / s.ms / 1e6, bytes: s.bytes * s.times / s.ms / 1e6 });
const describe = s => s.kernel + ' (' + (s.variant || s.family) + ' on ' + s.place + ')\n' + number(s.ms, 3) + ' ms, ' + s.times + ' times\n' +
  number(rate(s).flops, 1) + ' GFLOP/s, ' + number(rate(s).bytes, 1) + ' GB/s' + (s.op_name ? '\n' + s.op_name : '') + (s.source ? '\n' + s.source : '');

const bar = document.getElementById('run'), width = () => bar.getBoundingClientRect().width || 1200;
function drawRun() {
  bar.replaceChildren();
  let at = 0;
  for (const s of steps) {
    const w = s.ms / total * width();
    const r = make('rect', { x: at, y: 8, width: Math.max(w, 0.2), height: 36, fill: color(s.family), 'fill-opacity': s.place === 'cpu' && run.device !== 'cpu' ? 0.5 : 0.9 });
    r.append(make('title', {}, describe(s)));
    bar.append(r);
    at += w;
  }
  for (let i = 0; i <= 10; ++i) bar.append(make('text', { x: i / 10 * width(), y: 58, 'text-anchor': i === 0 ? 'start' : i === 10 ? 'end' : 'middle' }, number(total * i / 10, total < 10 ? 2 : 0) + ' ms'));
}
const key = document.getElementById('key');
for (const f of new Set(steps.map(s => s.family))) {
  const span = document.createElement('span'), i = document.createElement('i');
  i.style.background = color(f);
  span.append(i, f + ' ' + number(100 * steps.filter(s => s.family === f).reduce((a, s) => a + s.ms, 0) / total, 1) + ' %');
  key.append(span);
}
function drawRoof() {
  const svg = document.getElementById('roof'), w = svg.getBoundingClientRect().width || 1200, h = 320, left = 56, bottom = 28;
  svg.replaceChildren();
  const points = steps.filter(s => s.flops > 0 && s.bytes > 0 && s.ms > 0).map(s => ({ s, x: s.flops / s.bytes, y: rate(s).flops }));
  const peak = run.roof_flops_per_s ? run.roof_flops_per_s / 1e9 : Math.max(1, ...points.map(p => p.y));
  const band = run.roof_bytes_per_s ? run.roof_bytes_per_s / 1e9 : 0;
  const xs = points.map(p => p.x).concat([0.05, 100]), ys = points.map(p => p.y).concat([peak * 1.5, peak / 1000]);
  const x0 = Math.log10(Math.min(...xs)) - 0.1, x1 = Math.log10(Math.max(...xs)) + 0.1, y0 = Math.log10(Math.min(...ys)), y1 = Math.log10(Math.max(...ys)) + 0.1;
  const X = v => left + (Math.log10(v) - x0) / (x1 - x0) * (w - left - 10), Y = v => (h - bottom) - (Math.log10(v) - y0) / (y1 - y0) * (h - bottom - 10);
  for (let e = Math.ceil(x0); e <= x1; ++e) { svg.append(make('line', { x1: X(10 ** e), x2: X(10 ** e), y1: 10, y2: h - bottom, stroke: '#8884' })); svg.append(make('text', { x: X(10 ** e) - 8, y: h - 10 }, String(10 ** e))); }
  for (let e = Math.ceil(y0); e <= y1; ++e) { svg.append(make('line', { x1: left, x2: w - 10, y1: Y(10 ** e), y2: Y(10 ** e), stroke: '#8884' })); svg.append(make('text', { x: 6, y: Y(10 ** e) + 4 }, String(+(10 ** e).toPrecision(2)))); }
  svg.append(make('text', { x: w - 14, y: h - bottom - 6, 'text-anchor': 'end' }, 'operations for each byte'), make('text', { x: 6, y: 10 }, 'GFLOP/s'));
  if (band) {
    const knee = peak / band, from = Math.max(10 ** x0, 10 ** y0 / band);
    svg.append(make('polyline', { points: [[X(from), Y(from * band)], [X(knee), Y(peak)], [X(10 ** x1), Y(peak)]].map(p => p.join(',')).join(' '), fill: 'none', stroke: '#c03', 'stroke-width': 1.5 }));
  }
  for (const p of points) {
    const c = make('circle', { cx: X(p.x), cy: Y(p.y), r: 3 + 22 * Math.sqrt(p.s.ms / total), fill: color(p.s.family), 'fill-opacity': 0.55 });
    c.append(make('title', {}, describe(p.s)));
    svg.append(c);
  }
}
const columns = [['ms', 'ms', g => g.ms, 3], ['share', '%', g => 100 * g.ms / total, 1], ['times', 'times', g => g.times, 0], ['gflops', 'GFLOP/s', g => g.flops / g.ms / 1e6, 1],
  ['gbs', 'GB/s', g => g.bytes / g.ms / 1e6, 1], ['roof', 'roof %', g => run.roof_flops_per_s ? 100 * Math.max(g.flops / g.ms * 1e3 / run.roof_flops_per_s, g.bytes / g.ms * 1e3 / run.roof_bytes_per_s) : 0, 0]];
let sorted = 'ms';
function drawTable() {
  const by = document.getElementById('by').value, groups = new Map();
  for (const s of steps) {
    const name = s[by] || '(' + s.kernel + ')', id = by === 'kernel' ? name + s.variant + s.place : name;
    const g = groups.get(id) || { name, ms: 0, times: 0, flops: 0, bytes: 0, first: s };
    g.ms += s.ms; g.times += s.times; g.flops += s.flops * s.times; g.bytes += s.bytes * s.times;
    groups.set(id, g);
  }
  const head = document.getElementById('head'), rows = document.getElementById('rows');
  head.replaceChildren(); rows.replaceChildren();
  for (const [id, label] of columns) { const th = document.createElement('th'); th.textContent = label; th.onclick = () => { sorted = id; drawTable(); }; head.append(th); }
  const th = document.createElement('th'); th.className = 't'; th.textContent = by; head.append(th);
  const value = columns.find(c => c[0] === sorted)[2];
  for (const g of [...groups.values()].sort((a, b) => value(b) - value(a))) {
    const tr = document.createElement('tr');
    for (const [, , f, digits] of columns) { const td = document.createElement('td'); td.textContent = number(f(g), digits); tr.append(td); }
    const td = document.createElement('td'), small = document.createElement('small');
    td.className = 't'; td.textContent = g.name;
    small.textContent = [g.first.variant || g.first.family, 'on ' + g.first.place, g.first.grid ? 'grid ' + g.first.grid.join('x') + ' of ' + g.first.local_size.join('x') : '', g.first.reason, g.first.op_name, g.first.source].filter(x => x).join(' \u00b7 ');
    td.append(small); tr.append(td); rows.append(tr);
  }
}
document.getElementById('by').onchange = drawTable;
const draw = () => { drawRun(); drawRoof(); drawTable(); };
window.onresize = draw; draw();
</script></body></html>
)PAGE";

}  // namespace krafla::cli
