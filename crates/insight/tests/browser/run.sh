#!/usr/bin/env bash
# Every kind of page that qkv writes, in Chromium: see, explain, the report of a run, a comparison, the trace of a chain, the tree
# of a search. Needs node and a Chromium (CHROMIUM, or Debian's in /usr/bin); both packages of the
# test are installed beside the pages, in a folder that is thrown away.
#
#   run.sh PROGRAM LARGE-PAGE [SCREENSHOT-FOLDER]      LARGE-PAGE is the example of that name
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1")
large=$(realpath "$2")
shots=${3:+$(realpath "$3")}
models=$(realpath "$here/../../../../fixtures/tiny")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf '{"private": true}\n' >package.json
npm install --silent --no-audit --no-fund playwright-core@1 axe-core@4
look() {
    "$program" see "$models/$1" "${@:2}" -o page.html --force 2>/dev/null
    "$program" see "$models/$1" "${@:2}" --view maps -o maps.json --force 2>/dev/null
    printf '== %s\n' "$1"
    if [ -n "$shots" ]; then mkdir -p "$shots/$1"; fi
    node "$here/check.mjs" page.html maps.json ${shots:+"$shots/$1"}
}
look gpt2 --ids 5,17,23,42,9,61
look bert-mlm --ids 5,17,23,42,9,61
look marian --ids 5,17,23,42,9,61 --target-ids 31,8,77,12
page() {
    printf '== %s\n' "$1"
    if [ -n "$shots" ]; then mkdir -p "$shots/$1"; fi
    node "$here/check.mjs" "$2" - ${shots:+"$shots/$1"}
}
for topic in attention norms positions gradients; do
    "$program" explain "$topic" --html page.html --force
    page "explain-$topic" page.html
done
small=(--set model.width=16 --set model.layers=1 --set data.examples=80 --set data.valid=8 --set data.test=6 --set data.length=32
    --set schedule.warmup=2 --set eval.batches=1 --set eval.goal=0)
"$program" train char-gpt "${small[@]}" --set train.steps=30 --quiet --out run >/dev/null 2>&1
page report run/report.html
"$program" compare char-gpt --over model.position=none,rope --budget '6 steps' "${small[@]}" --out both >/dev/null 2>&1
page compare both/compare.html
"$program" generate "$models/gpt2" --ids 5,6,7 --max-tokens 4 --temperature 0.8 --top-k 8 --top-p 0.9 --trace=trace.html >/dev/null 2>&1
page trace trace.html
"$program" generate "$models/gpt2" --ids 5,6,7 --max-tokens 12 --beam 3 --trace=tree.html >/dev/null 2>&1
page tree tree.html
printf '== 12 layers, 12 heads, 64 tokens\n'
"$large" .
size=$(stat --format %s page.html)
[ "$size" -le 1500000 ] || { echo "the large page has $size bytes"; exit 1; }
node "$here/check.mjs" page.html maps.json
