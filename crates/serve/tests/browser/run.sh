#!/usr/bin/env bash
# The page of `qkv serve` in Chromium, over the tiny checkpoints and a run that seems to be under way. Needs node and a Chromium
# (CHROMIUM, or Debian's in /usr/bin); both packages of the test are installed in a folder that is thrown away.
#
#   run.sh PROGRAM [SCREENSHOT-FOLDER]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1")
shots=${2:+$(realpath "$2")}
tiny=$(realpath "$here/../../../../fixtures/tiny")
work=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
cd "$work"
printf '{"private": true}\n' >package.json
npm install --silent --no-audit --no-fund playwright-core@1 axe-core@4

printf '%s\n' 'the quick brown fox jumps over the lazy dog.' 'Ada Lives In Rome? 0123456789' 'user assistant: <>{}[],"-' >lines.txt
models=()
for pair in llama:llama marian:marian bert-classify:bert bert-tag:bert bert-answer:bert bert-mlm:bert vit:none; do
    name=${pair%:*} shape=${pair#*:}
    cp -r "$tiny/$name" "$name"
    if [ "$shape" != none ]; then
        "$program" tokenizer train --kind char --shape "$shape" --vocab 97 --data lines.txt --out "$name" >/dev/null 2>&1
    fi
    models+=("$name=$work/$name")
done
# A run as it stands on disk while it trains.
mkdir -p runs/tale
"$program" train translate --print-recipe >runs/tale/recipe.toml
for step in $(seq 1 40); do
    printf '{"step": %d, "loss": %s}\n' "$((10 * step))" "$(awk "BEGIN {print 1 + 5 / sqrt($step)}")"
    if [ $((step % 5)) = 0 ]; then printf '{"step": %d, "valid_loss": %s, "best": true}\n' "$((10 * step))" "$(awk "BEGIN {print 1.2 + 5 / sqrt($step)}")"; fi
done >runs/tale/metrics.jsonl

"$program" serve "${models[@]}" --port 0 --runs runs 2>log &
server=$!
for _ in $(seq 100); do
    if grep -q 'listening on' log; then break; fi
    sleep 0.1
done
url=$(sed -n 's/^listening on \(http:[^,]*\).*/\1/p' log)
[ -n "$url" ] || { cat log; exit 1; }
node "$here/page.mjs" "$url" "$work/runs/tale/metrics.jsonl" ${shots:+"$shots"}
