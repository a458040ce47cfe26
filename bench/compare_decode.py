#!/usr/bin/env python3
"""Decoding speed of qkv beside Hugging Face transformers, on the same random checkpoint: the two run alternately, medians are
compared, ratios printed.

    python bench/compare_decode.py decode|translate|encode [--beam 4] [--rounds 5] [--dir /tmp/checkpoints]

Needs a release build of qkv and a Python that has torch and transformers. Timings on a shared machine wander by half and more:
only the ratio of alternating runs means anything.
"""
import argparse, json, pathlib, statistics, subprocess, sys, time

ap = argparse.ArgumentParser()
ap.add_argument("what", choices=["decode", "translate", "encode"])
ap.add_argument("--qkv", default="target/release/qkv")
ap.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/tmp/qkv-checkpoints"))
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--beam", type=int, default=4)
ap.add_argument("--tokens", type=int, default=0)
ap.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
args = ap.parse_args()
tokens = args.tokens or {"decode": 64, "translate": 32, "encode": 0}[args.what]
folder = args.dir / args.what


def make():
    """The checkpoint, by transformers' own random start."""
    import torch
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

    torch.manual_seed(0)
    if args.what == "decode":
        model = GPT2LMHeadModel(GPT2Config(eos_token_id=None, bos_token_id=None))
    elif args.what == "translate":
        model = MarianMTModel(MarianConfig(
            vocab_size=32000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
            encoder_ffn_dim=2048, decoder_ffn_dim=2048, pad_token_id=0, eos_token_id=None, forced_eos_token_id=None,
            decoder_start_token_id=0, scale_embedding=True, max_position_embeddings=512))
    else:
        model = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536))
    model.save_pretrained(folder)


def side():
    """One measurement of transformers, as one line of JSON."""
    import torch
    from transformers import BertModel, GPT2LMHeadModel, MarianMTModel

    kind = {"decode": GPT2LMHeadModel, "translate": MarianMTModel, "encode": BertModel}[args.what]
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    few = model.config.vocab_size - 3
    ids = lambda rows, n: torch.tensor([[3 + (r * n + t + 1) * 7919 % few for t in range(n)] for r in range(rows)])
    x = {"decode": ids(1, 16), "translate": ids(16, 24), "encode": ids(64, 32)}[args.what]
    if args.what != "encode":
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0
    beams = args.beam if args.what == "translate" else 1

    def once():
        if args.what == "encode":
            return model(input_ids=x).last_hidden_state[0, 0, :4].tolist()
        y = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=tokens, do_sample=False, num_beams=beams)
        return y[0, (16 if args.what == "decode" else 1):].tolist()

    times = []
    with torch.no_grad():
        for i in range(2 if args.what == "encode" else 1):
            answer = once()
        for _ in range(10 if args.what == "encode" else 3):
            start = time.perf_counter()
            answer = once()
            times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(times), "best_seconds": min(times), "answer": answer}))


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


if args.side:
    side()
    sys.exit()
if not (folder / "model.safetensors").exists():
    make()
size = ["--tokens", str(tokens)] if args.what != "encode" else []
beam = ["--beam", str(args.beam)] if args.what == "translate" else []
sides = {
    "qkv": [args.qkv, "bench", args.what, "--model", str(folder), "--json", "--rounds", "10" if args.what == "encode" else "3", *size, *beam],
    "transformers": [sys.executable, __file__, args.what, "--side", "--dir", str(args.dir), "--tokens", str(tokens), "--beam", str(args.beam)],
}
seen = {name: [] for name in sides}
for _ in range(args.rounds):
    for name, command in sides.items():
        row = run(command)
        if "ms_per_token" in row:
            row["seconds"], row["best_seconds"] = (row[k] * tokens / 1e3 for k in ("ms_per_token", "best_ms_per_token"))
        row["answer"] = row.get("answer") or row.get("ids") or row.get("first")
        seen[name].append(row)
        share = f"  {100 * row['share_of_bandwidth']:.0f} % of {row['bandwidth_gb_per_s']:.1f} GB/s" if "share_of_bandwidth" in row else ""
        print(f"{name:14} {row['seconds']:.4f} s  best {row['best_seconds']:.4f} s{share}", flush=True)
mine, theirs = seen["qkv"], seen["transformers"]
middle = lambda rows: statistics.median(r["seconds"] for r in rows)
best = lambda rows: min(r["best_seconds"] for r in rows)
a, b = mine[0]["answer"], theirs[0]["answer"]
same = max(abs(x - y) for x, y in zip(a, b)) < 1e-4 if args.what == "encode" else a == b
print(f"same answer: {same}")
print(f"speed   {middle(theirs) / middle(mine):.2f} × transformers (medians of {args.rounds} runs each)")
print(f"best    {best(theirs) / best(mine):.2f} × transformers (best of all)")
