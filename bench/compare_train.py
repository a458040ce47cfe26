#!/usr/bin/env python3
"""Training speed of qkv beside PyTorch: the two run alternately, medians are compared, ratios printed.

    python bench/compare_train.py --torch PATH/torch_train.py [--rounds 5] [--mode eager|compile] gpt [--layers …]

Needs a release build of qkv and a Python that has torch. Timings on a shared machine wander by half and more: only the
ratio of alternating runs means anything.
"""
import argparse, json, pathlib, statistics, subprocess, sys

ap = argparse.ArgumentParser()
ap.add_argument("--torch", required=True, help="the PyTorch side of the benchmark")
ap.add_argument("--qkv", default="target/release/qkv")
ap.add_argument("--mode", default="eager")
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("shape", choices=["gpt", "pair"])
ours, sizes = ap.parse_known_args()


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


sides = {
    "qkv": [ours.qkv, "bench", "train", "--json", "--shape", ours.shape, *sizes],
    f"pytorch {ours.mode}": [sys.executable, ours.torch, ours.shape, "--mode", ours.mode, *sizes],
}
seen = {name: [] for name in sides}
for _ in range(ours.rounds):
    for name, command in sides.items():
        seen[name].append(run(command))
        print(f"{name:16} {seen[name][-1]['tokens_per_s']:10.1f} tokens/s  best step {seen[name][-1]['best_step_s']:.4f} s", flush=True)
(a, mine), (b, theirs) = seen.items()
assert mine[0]["params"] == theirs[0]["params"], "the two networks differ"
middle = lambda rows, key: statistics.median(row[key] for row in rows)
print(f"speed   {middle(mine, 'tokens_per_s') / middle(theirs, 'tokens_per_s'):.2f} × {b} (medians of {ours.rounds} runs each)")
print(f"best    {min(r['best_step_s'] for r in theirs) / min(r['best_step_s'] for r in mine):.2f} × {b} (best step of all)")
print(f"memory  {middle(mine, 'peak_rss_mb') / middle(theirs, 'peak_rss_mb'):.2f} × {b}")
