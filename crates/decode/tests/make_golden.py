"""Goldens of transformers' logits processors, on rows that both sides draw from the same little generator.

Every case is a step of a chain (or a whole preset) with its parameters in the text form of the chain, run on ROWS rows. A
row's logits, ids and lengths come from splitmix64 at (case, row, index), so nothing but the answers is stored: for each row
three hex digits of its set of tokens left and, over all rows, 64 bits of it; for each ten rows the sum of i times the i-th
logit left; for the first rows all logits.

    python make_golden.py > golden.json      (torch and transformers; the tests themselves need no Python)
"""

import json

import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel
from transformers.generation import logits_process as lp

ROWS, FULL, MASK = 1000, 2, (1 << 64) - 1


def word(case, row, index):
    """splitmix64 of a counter."""
    z = (case * 0x9E3779B97F4A7C15 + row * 0xD1B54A32D192ED03 + index * 0x8CB92BA72F3D8DD7 + 1) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def draw(case, row):
    """Vocabulary of 17 to 64; logits between -8 and 8, some of them -inf; ids that often repeat.

    24 random bits a logit keep two equal ones from meeting at a cut: whom torch's sort then puts first is not promised.
    """
    v = 17 + word(case, row, 0) % 48
    spread = [2.0, 8.0][word(case, row, 1) % 2]
    logits = [((word(case, row, 100 + i) >> 40) / 16777216.0 - 0.5) * 2 * spread for i in range(v)]
    if word(case, row, 2) % 4 == 0:
        logits = [float("-inf") if word(case, row, 200 + i) % 5 == 0 and i > 0 else x for i, x in enumerate(logits)]
    few = 2 + word(case, row, 3) % 6
    ids = lambda base, n: [word(case, row, base + i) % few for i in range(n)]
    prompt = ids(300, 1 + word(case, row, 4) % 4)
    generated = ids(400, word(case, row, 5) % 12)
    encoder = ids(500, 1 + word(case, row, 6) % 9)
    return logits, prompt, generated, encoder


T = torch.tensor
ENDS = [0, 3]
LIMIT = 8
CASES = [
    ("temperature 0.7", lambda c: lp.TemperatureLogitsWarper(0.7)),
    ("temperature 1.9", lambda c: lp.TemperatureLogitsWarper(1.9)),
    ("top_k 5", lambda c: lp.TopKLogitsWarper(5)),
    ("top_k 60 keep=2", lambda c: lp.TopKLogitsWarper(60, min_tokens_to_keep=2)),
    ("top_p 0.9", lambda c: lp.TopPLogitsWarper(0.9)),
    ("top_p 0.3 keep=3", lambda c: lp.TopPLogitsWarper(0.3, min_tokens_to_keep=3)),
    ("min_p 0.1", lambda c: lp.MinPLogitsWarper(0.1)),
    ("min_p 0.6 keep=3", lambda c: lp.MinPLogitsWarper(0.6, min_tokens_to_keep=3)),
    ("typical 0.9", lambda c: lp.TypicalLogitsWarper(0.9)),
    ("typical 0.2 keep=2", lambda c: lp.TypicalLogitsWarper(0.2, min_tokens_to_keep=2)),
    ("epsilon_cutoff 0.03", lambda c: lp.EpsilonLogitsWarper(0.03)),
    ("epsilon_cutoff 0.5 keep=3", lambda c: lp.EpsilonLogitsWarper(0.5, min_tokens_to_keep=3)),
    ("eta_cutoff 0.03", lambda c: lp.EtaLogitsWarper(0.03)),
    ("eta_cutoff 0.3 keep=2", lambda c: lp.EtaLogitsWarper(0.3, min_tokens_to_keep=2)),
    ("repetition_penalty 1.3", lambda c: lp.RepetitionPenaltyLogitsProcessor(1.3)),
    ("repetition_penalty 0.8", lambda c: lp.RepetitionPenaltyLogitsProcessor(0.8)),
    ("encoder_repetition_penalty 1.3", lambda c: lp.EncoderRepetitionPenaltyLogitsProcessor(1.3, c.encoder)),
    ("no_repeat_ngram 1", lambda c: lp.NoRepeatNGramLogitsProcessor(1)),
    ("no_repeat_ngram 2", lambda c: lp.NoRepeatNGramLogitsProcessor(2)),
    ("no_repeat_ngram 3", lambda c: lp.NoRepeatNGramLogitsProcessor(3)),
    ("encoder_no_repeat_ngram 1", lambda c: lp.EncoderNoRepeatNGramLogitsProcessor(1, c.encoder)),
    ("encoder_no_repeat_ngram 3", lambda c: lp.EncoderNoRepeatNGramLogitsProcessor(3, c.encoder)),
    ("bad_words 5|0|1+2|2+1+0|3+4", lambda c: lp.NoBadWordsLogitsProcessor([[5], [0], [1, 2], [2, 1, 0], [3, 4]], ENDS)),
    ("logit_bias 5:-1.5|1+2:2.5|2+1+0:-inf", lambda c: lp.SequenceBiasLogitsProcessor(
        {(5,): -1.5, (1, 2): 2.5, (2, 1, 0): float("-inf")})),
    ("forced_bos 7", lambda c: lp.ForcedBOSTokenLogitsProcessor(7)),
    ("forced_eos 0|3", lambda c: lp.ForcedEOSTokenLogitsProcessor(LIMIT, ENDS)),
    ("suppress 1|4|16", lambda c: lp.SuppressTokensLogitsProcessor([1, 4, 16])),
    ("suppress_begin 1|4 after=1", lambda c: lp.SuppressTokensAtBeginLogitsProcessor(
        [1, 4], c.prompt + (c.prompt == 1))),
    ("min_length 6", lambda c: lp.MinLengthLogitsProcessor(6, ENDS)),
    ("min_new_tokens 4", lambda c: lp.MinNewTokensLengthLogitsProcessor(c.prompt, 4, ENDS)),
    ("length_decay 3 factor=1.2", lambda c: lp.ExponentialDecayLengthPenalty((3, 1.2), ENDS, c.prompt)),
    # Whole presets: what transformers itself builds, in its order. A flag list after the colon.
    ("hf:", lambda c: c.built()),
    ("hf:temperature 0.7; top_k 12; top_p 0.8", lambda c: c.built(temperature=0.7, top_k=12, top_p=0.8)),
    ("hf:top_k 0; min_p 0.05; typical 0.8; eta_cutoff 0.02; epsilon_cutoff 0.01; temperature 1.3", lambda c: c.built(
        top_k=0, min_p=0.05, typical_p=0.8, eta_cutoff=0.02, epsilon_cutoff=0.01, temperature=1.3)),
    ("hf:temperature 0.9; repetition_penalty 1.2; no_repeat_ngram 2; min_length 6; suppress 9|10; bad_words 1+2|11; "
     "length_decay 2 factor=1.1; encoder_repetition_penalty 1.1", lambda c: c.built(
        temperature=0.9, repetition_penalty=1.2, no_repeat_ngram_size=2, min_length=6, suppress_tokens=[9, 10],
        bad_words_ids=[[1, 2], [11]], exponential_decay_length_penalty=(2, 1.1), encoder_repetition_penalty=1.1)),
    ("hf:forced_eos 0|3; forced_bos 7; suppress_begin 2|5; encoder_no_repeat_ngram 2; top_k 3", lambda c: c.built(
        forced_eos_token_id=ENDS, forced_bos_token_id=7, begin_suppress_tokens=[2, 5], encoder_no_repeat_ngram_size=2, top_k=3)),
]


class Context:
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=8, n_positions=8))

    def __init__(self, prompt, encoder):
        self.prompt, self.encoder = len(prompt), T([encoder])

    def built(self, **options):
        config = GenerationConfig(do_sample=True, max_length=LIMIT, **{"top_k": 50, **options})
        config._eos_token_tensor = T(ENDS)
        config.eos_token_id = ENDS
        return self.model._get_logits_processor(config, self.prompt, self.encoder, device="cpu", model_kwargs={})


def run(case, make):
    kept, digest, full, sums = "", 0, [], [0.0] * (ROWS // 10)
    for row in range(ROWS):
        logits, prompt, generated, encoder = draw(case, row)
        out = make(Context(prompt, encoder))(T([prompt + generated]), T([logits]))[0].tolist()
        left = [(i, x) for i, x in enumerate(out) if x > float("-inf")]
        digest = ((digest ^ sum(1 << i for i, _ in left)) * 0x9E3779B97F4A7C15) & MASK
        digest ^= digest >> 29
        kept += "%03x" % (digest >> 52)
        sums[row // 10] += sum((i + 1) * x for i, x in left)
        if row < FULL:
            full.append([None if x == float("-inf") else round(x, 6) for x in out])
    return {"kept": kept, "digest": str(digest), "sums": [float("%.7g" % x) for x in sums], "full": full}


cases = [{"step": text, **run(i, make)} for i, (text, make) in enumerate(CASES)]
print(json.dumps({"rows": ROWS, "ends": ENDS, "limit": LIMIT, "cases": cases}, indent=0, separators=(",", ":")).replace(",\n", ","))
