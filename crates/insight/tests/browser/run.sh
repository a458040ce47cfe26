#!/usr/bin/env bash
# The pages of `qkv see` in Chromium. Needs node and a Chromium (CHROMIUM, or Debian's in /usr/bin); both packages of the
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
for topic in attention norms positions; do
    printf '== explain %s\n' "$topic"
    "$program" explain "$topic" --html page.html --force
    node "$here/check.mjs" page.html -
done
printf '== 12 layers, 12 heads, 64 tokens\n'
"$large" .
size=$(stat --format %s page.html)
[ "$size" -le 1500000 ] || { echo "the large page has $size bytes"; exit 1; }
node "$here/check.mjs" page.html maps.json
