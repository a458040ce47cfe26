#!/usr/bin/env python3
"""Learning beside PyTorch: a network of the family and size of a run of qkv, with its tokenizer, on the same pairs, with the
same number of steps, tokens a batch, rate, warm-up, smoothing, dropout and averaging; then greedy translations of a test
file and their sacreBLEU.

    python bench/compare_translate.py RUN --train train.tsv --test test.tsv --steps 2500 [--threads 2]

Needs torch, transformers and sacrebleu. RUN is a directory that `qkv train` left behind; only its `model/config.json` and
tokenizer are read, the weights start from chance.
"""
import argparse, math, pathlib, random, time

import sacrebleu, torch
from tokenizers import Tokenizer
from transformers import MarianConfig, MarianMTModel

ap = argparse.ArgumentParser()
ap.add_argument("run", type=pathlib.Path)
ap.add_argument("--train", required=True)
ap.add_argument("--test", required=True)
ap.add_argument("--steps", type=int, default=2500)
ap.add_argument("--tokens", type=int, default=1024)
ap.add_argument("--rate", type=float, default=1.5e-3)
ap.add_argument("--warmup", type=int, default=300)
ap.add_argument("--floor", type=float, default=0.02)
ap.add_argument("--smoothing", type=float, default=0.1)
ap.add_argument("--average", type=float, default=0.99)
ap.add_argument("--length", type=int, default=48)
ap.add_argument("--threads", type=int, default=2)
args = ap.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)
random.seed(1)

model_dir = args.run / "model"
tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
config = MarianConfig.from_pretrained(model_dir)
model = MarianMTModel(config)
pad, eos, start = config.pad_token_id, config.eos_token_id, config.decoder_start_token_id
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")


def pairs(path):
    return [line.rstrip("\n").split("\t")[:2] for line in open(path, encoding="utf-8") if "\t" in line]


def ids(text):
    some = [i for i in tokenizer.encode(text, add_special_tokens=False).ids][: args.length - 1]
    return some + [eos]


def batches(rows):
    """Pairs of like length together, as many as fit into the tokens on the longer side, padding counted."""
    rows = sorted(rows, key=lambda r: (max(len(r[0]), len(r[1])), random.random()))
    made, batch, widest = [], [], 0
    for row in rows:
        wide = max(widest, len(row[0]), len(row[1]))
        if batch and wide * (len(batch) + 1) > args.tokens:
            made.append(batch)
            batch, wide = [], max(len(row[0]), len(row[1]))
        batch.append(row)
        widest = wide
    random.shuffle(made)
    return made + [batch]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([r + [pad] * (width - len(r)) for r in rows])


def rate(step):
    if step < args.warmup:
        return (step + 1) / args.warmup
    done = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.floor + (1 - args.floor) * 0.5 * (1 + math.cos(math.pi * done))


data = [(ids(a), ids(b)) for a, b in pairs(args.train)]
plain = [p for p in model.parameters() if p.ndim < 2]
decayed = [p for p in model.parameters() if p.ndim >= 2]
optimizer = torch.optim.AdamW(
    [{"params": plain, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.01}],
    lr=args.rate, betas=(0.9, 0.98), eps=1e-9)
mean = {k: v.clone() for k, v in model.state_dict().items()}
began, step, queue = time.process_time(), 0, []
model.train()
while step < args.steps:
    queue = queue or batches(data)
    batch = queue.pop()
    source, target = padded([a for a, _ in batch]), padded([b for _, b in batch])
    shifted = torch.cat([torch.full((len(batch), 1), start), target[:, :-1]], 1)
    logits = model(input_ids=source, attention_mask=(source != pad).long(), decoder_input_ids=shifted).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=pad, label_smoothing=args.smoothing)
    for group in optimizer.param_groups:
        group["lr"] = args.rate * rate(step)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for k, v in model.state_dict().items():
            mean[k].lerp_(v, 1 - args.average) if v.is_floating_point() else mean[k].copy_(v)
    step += 1
    if step % 100 == 0:
        print(f"step {step}  loss {loss.item():.3f}  {time.process_time() - began:.0f} CPU-s", flush=True)
print(f"trained in {time.process_time() - began:.0f} CPU-seconds")
model.load_state_dict(mean)
model.eval()
test = pairs(args.test)
said = []
with torch.no_grad():
    for at in range(0, len(test), 32):
        source = padded([ids(a) for a, _ in test[at : at + 32]])
        out = model.generate(source, attention_mask=(source != pad).long(), num_beams=1, do_sample=False, max_new_tokens=args.length)
        said += [tokenizer.decode(row.tolist(), skip_special_tokens=True) for row in out]
print(sacrebleu.corpus_bleu(said, [[b for _, b in test]]))
for (a, b), s in list(zip(test, said))[:8]:
    print(f"{a} | {s} | {b}")
