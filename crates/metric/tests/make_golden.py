"""Makes tests/golden/*.json with the reference tools. The tests themselves need no Python.

    pip install sacrebleu==2.6.0 rouge-score==0.1.2 nltk seqeval==1.2.2 scikit-learn torchmetrics
    python make_golden.py translation paired summaries labels answers1
    # SQuAD 2's script lives on in transformers 4.x only:
    pip install --target OLD transformers==4.46.3 && PYTHONPATH=OLD python make_golden.py answers
"""

import itertools
import json
import pathlib
import random
import sys
import warnings

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent / "golden"


def save(name, value):
    text = json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"))
    (HERE / f"{name}.json").write_text(text.replace("},{", "},\n{") + "\n", encoding="utf-8")
    print(name, len(text))


# (hypothesis, references): written to be awkward.
SEGMENTS = [
    ("The cat sat on the mat.", ["The cat sat on the mat."]),
    ("The cat sits on a mat!", ["The cat sat on the mat.", "A cat was sitting on the mat."]),
    ("", ["Nobody said a word."]),
    ("Something was said.", [""]),
    ("", [""]),
    ("It costs $1,299.99 (plus 7.5% tax), i.e. €1.397,49.", ["It costs $1,299.99 (plus 7.5% VAT), i.e. €1,397.49."]),
    ("\"Who's there?\" - 'Nay, answer me'...", ["“Who’s there?” — ‘Nay, answer me’…", "'Who's there?' -- \"Nay answer me.\""]),
    ("state-of-the-art 2-3-year-old models: 10-20%", ["State-of-the-art, 2- to 3-year-old models; 10–20 %"]),
    ("I 💖 pizza 🍕🍕!! 👩‍🚀 #yum @you", ["I ❤️ pizza 🍕! 👩‍🚀 #yummy @you"]),
    ("मैं घर जा रहा हूँ। आप कैसे हैं?", ["मैं घर जा रही हूँ। तुम कैसे हो?", "मैं घर जाता हूँ।"]),
    ("A &quot;quoted&quot; &amp;lt;tag&amp;gt; &amp;amp; more <skipped> text", ["A \"quoted\" <tag> & more text"]),
    ("on the mat the small black cat sat quietly today", ["today the small black cat sat quietly on the mat"]),
    ("b a d c f e h g j i l k", ["a b c d e f g h i j k l"]),
    ("the the the the the the the", ["the cat is on the mat", "there is a cat on the mat"]),
    ("Naïve café, ÎLE de İstanbul — ΣΊΣΥΦΟΣ Straße ǅ", ["naïve CAFÉ, île de Istanbul – σίσυφος STRASSE ǆ"]),
    ("one", ["one two three four five six seven eight nine ten"]),
    ("one two three four five six seven eight nine ten eleven twelve", ["one"]),
    ("Tabs\tand\u00a0odd\u2003spaces\u3000here\u001fnow  ", ["Tabs and odd spaces here now", "Tabs and odd spaces"]),
    ("漢字とカナ、混じり文。Full-width：（はい）！", ["漢字かな混じり文。Full-width：（いいえ）？"]),
    ("Dr. Smith's dog's 3.14-ish U.S.A. ratings, 5.", ["Dr Smith's dogs' 3.14ish USA rating, 5.", "Dr. Smith's 3,14 rating 5"]),
    ("x = y_1 + z^2 / {a|b} ~ [c] ` \\ @ \"", ["x=y_1+z^2/{a|b}~[c]`\\@\""]),
    ("He said: yes, of course, and then he left the room without a word.",
     ["Of course, he said, and without a word he then left the room.", "He said yes and left the room.", "He said: of course."]),
    ("ab", ["abc"]),
    (".", ["."]),
    ("New-\nline hyphen and\nline end", ["Newline hyphen and line end"]),
    ("&amp;amp;quot; it's 's", ["&amp;amp;quot; it's 's a's"]),
]


def long_segments():
    """Long ones, so that TER's beam, its distance and its candidate limit all bite."""
    rng = random.Random(5)
    out = []
    for n, m, vocabulary in [(70, 60, 12), (8, 130, 30), (130, 9, 30), (60, 60, 5), (75, 75, 60), (30, 30, 8)]:
        words = [f"w{i}" for i in range(vocabulary)]
        ref = [rng.choice(words) for _ in range(m)]
        hyp = list(ref)
        for _ in range(6):
            a, b = sorted(rng.randrange(len(hyp) + 1) for _ in range(2))
            piece, rest = hyp[a:b], hyp[:a] + hyp[b:]
            at = rng.randrange(len(rest) + 1)
            hyp = rest[:at] + piece + rest[at:]
        hyp = [rng.choice(words) if rng.random() < 0.15 else w for w in hyp]
        hyp = (hyp * (n // len(hyp) + 1))[:n]
        out.append((" ".join(hyp), [" ".join(ref)]))
    return out


def translation():
    from sacrebleu.metrics import BLEU, CHRF, TER

    segments = SEGMENTS + long_segments()

    def scores(make, extra=lambda s: {}, full=lambda options: True):
        rows = []
        for options in make:
            kind = options.pop("_")
            # TER in Python is slow: the long segments under the default options only.
            chosen = segments if full(options) else SEGMENTS
            hyps = [h for h, _ in chosen]
            width = max(len(r) for _, r in chosen)
            streams = [[r[k] if k < len(r) else None for _, r in chosen] for k in range(width)]
            for refs, name in [(streams, "all"), (streams[:1], "first")]:
                metric = kind(**options)
                stats = metric._extract_corpus_statistics(hyps, refs)
                score = metric._aggregate_and_compute(stats)
                each = [metric._aggregate_and_compute([row]).score for row in stats]
                rows.append({"options": options, "references": name, "corpus": score.score, "line": str(score),
                             "signature": metric.get_signature().format(), "each": each, **extra(score)})
        return rows

    bleu = [dict(_=BLEU, tokenize=t, smooth_method=s) for t in ["13a", "none", "char", "intl"] for s in ["exp", "floor", "add-k", "none"]]
    bleu += [dict(_=BLEU, tokenize="13a", effective_order=True), dict(_=BLEU, tokenize="intl", lowercase=True, effective_order=True),
             dict(_=BLEU, smooth_method="floor", smooth_value=0.5, max_ngram_order=2), dict(_=BLEU, smooth_method="add-k", smooth_value=0.25, max_ngram_order=6)]
    chrf = [dict(_=CHRF, word_order=w, lowercase=l) for w in [0, 2] for l in [False, True]]
    chrf += [dict(_=CHRF, word_order=1, beta=3), dict(_=CHRF, word_order=2, eps_smoothing=True), dict(_=CHRF, whitespace=True, char_order=4)]
    ter = [dict(_=TER, normalized=n, no_punct=p, asian_support=a, case_sensitive=c)
           for n, p, a, c in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 0), (0, 0, 0, 1)]]
    for options in ter:
        for key in ["normalized", "no_punct", "asian_support", "case_sensitive"]:
            options[key] = bool(options[key])
    save("translation", {
        "segments": [{"said": h, "references": r} for h, r in segments],
        "bleu": scores(bleu, lambda s: {"precisions": s.precisions, "bp": s.bp, "lengths": [s.sys_len, s.ref_len]}),
        "chrf": scores(chrf),
        "ter": scores(ter, full=lambda options: not any(options.values())),
    })


def paired():
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest

    # Two systems that differ a little: p-values and intervals to meet within the error of drawing.
    rng = random.Random(11)
    words = "the a small big red cat dog man sees likes finds near house tree river and or not".split()
    refs = [" ".join(rng.choice(words) for _ in range(rng.randint(4, 14))) for _ in range(120)]
    noisy = lambda rate: [" ".join(rng.choice(words) if rng.random() < rate else w for w in r.split()) for r in refs]
    base, other = noisy(0.33), noisy(0.28)
    found = {}
    for kind in ["bs", "ar"]:
        test = PairedTest([("base", base), ("other", other)], {"BLEU": BLEU(), "chrF": CHRF()}, [refs], test_type=kind, n_samples=2000)
        _, result = test()
        for name in ["BLEU", "chrF2"]:
            a, b = result[name]
            found[f"{kind} {name}"] = {k: v if v is None else float(v) for k, v in dict(base=a.score, other=b.score, p=b.p_value, mean=b.mean, ci=b.ci).items()}
    save("paired", {"references": refs, "base": base, "other": other, "found": found})


def summaries():
    from nltk.stem.porter import PorterStemmer
    from rouge_score.rouge_scorer import RougeScorer

    pairs = [
        (["The police killed the gunman.\nHe was armed."], "Police kill the gunman\nthe gunman was armed and dangerous"),
        (["the gunman kill police", "police killed the gunman"], "police kill the gunman"),
        ([""], "something"), (["something"], ""), ([""], ""),
        (["Relational databases' conditional rationalization, 1,299.99!"], "relation DATABASE condition's rationalize 1 299 99"),
        (["w1 w2 w3 w4 w5\nw1 w3 w8 w9 w5"], "w1 w2 w6 w7 w8\n\nw1 w3 w8 w9 w5\n"),
        (["naïve café — मैं घर 123"], "Naive cafe 123 घर"),
        (["a b c d e f g", "g f e d c b a", "a c e g b d f"], "a c e g b d f a c e g"),
        (["the the the\nthe the"], "the the\nthe the the the"),
        (["ΣΊΣΥΦΟΣ K İx snake_case don't"], "k ix snake case don t i x"),
    ]
    kinds = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
    rows = []
    for stem in [False, True]:
        scorer = RougeScorer(kinds, use_stemmer=stem)
        for refs, said in pairs:
            best = scorer.score_multi(refs, said)
            rows.append({"stemmer": stem, "references": refs, "said": said, "scores": {k: list(best[k]) for k in kinds}})
    stems = ["ational", "tional", "enci", "anci", "izer", "abli", "alli", "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness",
             "fulness", "ousness", "aliti", "iviti", "biliti", "fulli", "logi", "logy", "icate", "ative", "alize", "iciti", "ical", "ful", "ness",
             "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ion", "ou", "ism", "ate", "iti", "ous",
             "ive", "ize", "e", "ll", "s", "ss", "sses", "ies", "ied", "ed", "eed", "ing", "y", "ly", "ally", "ying", "tted", "lling", "zzed", "ating", "bled", "ized"]
    heads = ["", "a", "t", "y", "tr", "oa", "geo", "hop", "fal", "control", "happ", "rel", "sensi", "yy", "troubl", "pre3", "xylo", "wax"]
    words = sorted({h + s for h, s in itertools.product(heads, stems)}
                   | set("sky skies dying lying tying news innings inning outings outing cannings canning howe proceed exceed succeed proceeds flies dies died spied "
                         "enjoy enjoyment spy say by happy generalizations oscillators university universe organization probate rate cease roll controlling".split()))
    stemmer = PorterStemmer()
    save("rouge", rows)
    save("porter", {word: stemmer.stem(word) for word in words})


def labels():
    from seqeval.metrics import f1_score, precision_score, recall_score, classification_report
    from seqeval.scheme import IOB2
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    rng = random.Random(3)
    sets = [("conll", ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG", "B-ORG-X"]), ("conll", ["O", "B", "I", "E-PER", "S-LOC", "B-PER", "I-PER", "S", "E"]),
            ("strict", ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG", "B-ORG-X", "B", "I"])]
    rows = []
    for scheme, tags in sets:
        for rate in [0.1, 0.5]:
            truth = [[rng.choice(tags) for _ in range(rng.randint(0, 14))] for _ in range(25)] + [[], ["O"], [tags[1]]]
            said = [[rng.choice(tags) if rng.random() < rate else t for t in s] for s in truth]
            mode = dict(mode="strict", scheme=IOB2) if scheme == "strict" else {}
            report = classification_report(truth, said, output_dict=True, **mode)
            rows.append({"scheme": scheme, "truth": [" ".join(s) for s in truth], "said": [" ".join(s) for s in said],
                         "report": {k: [float(v[x]) for x in ["precision", "recall", "f1-score", "support"]] for k, v in report.items()},
                         "f1": float(f1_score(truth, said, **mode))})
    save("entities", rows)

    rows = []
    for names in [["neg", "pos"], ["a", "b", "c", "never said"], ["ä", "Z", "a", "👍"]]:
        truth = [rng.choice(names) for _ in range(40)] + names
        said = [t if rng.random() < 0.6 else rng.choice(names[:3]) for t in truth[:40]] + [names[0]] * len(names)
        labels = sorted(set(truth) | set(said))
        each = precision_recall_fscore_support(truth, said, labels=labels, zero_division=0)
        rows.append({"truth": truth, "said": said, "labels": labels, "accuracy": accuracy_score(truth, said),
                     "each": [[float(x) for x in part] for part in each], "confusion": confusion_matrix(truth, said, labels=labels).tolist(),
                     **{average: [float(x) for x in precision_recall_fscore_support(truth, said, average=average, zero_division=0)[:3]]
                        for average in ["micro", "macro", "weighted"]}})
    save("classify", rows)


QUESTIONS = [
    ("the Eiffel Tower", ["Eiffel Tower", "The Eiffel-Tower!"]), ("in 1912, April", ["April 1912"]), ("", []), ("something", []), ("", ["an answer"]),
    ("A an THE", ["the"]), ("...", ["answer"]), ("la dame d'or", ["dame d’or"]), ("a\u0301 theatre", ["theatre"]), ("मैं घर", ["मैं  घर जा"]),
    ("the-the the_the", ["thethe thethe"]), ("one two two three", ["two two", "two three two one"]), ("$1,000", ["1000 dollars", "1000"]),
    ("a² a½ aⅫ", ["a² a½"]), ("x\u00a0y\u001fz", ["x y z"]), ("", ["the", "..."]), ("an", [""]),
]


def answers():
    from transformers.data.metrics.squad_metrics import compute_exact, compute_f1, normalize_answer

    each = []
    for said, right in QUESTIONS:
        gold = [r for r in right if normalize_answer(r)] or [""]
        each.append([max(compute_exact(g, said) for g in gold), max(compute_f1(g, said) for g in gold)])
    part = lambda keep: [[100.0 * sum(e[i] for e, q in zip(each, QUESTIONS) if keep(q)) / sum(map(keep, QUESTIONS)) for i in (0, 1)], sum(map(keep, QUESTIONS))]
    v2 = {"each": each, "all": part(lambda q: True), "has": part(lambda q: bool(q[1])), "no": part(lambda q: not q[1])}
    save("squad2", {"questions": QUESTIONS, "normalised": [normalize_answer(q) for q, _ in QUESTIONS], "v2": v2})


def answers1():
    import torch
    from torchmetrics.functional.text import squad

    from torchmetrics.functional.text.squad import _normalize_text

    torch.set_default_dtype(torch.float64)
    # Where nothing is left to compare, torchmetrics follows the second script, the first gives F1 = 0: left out.
    full = lambda text: bool(_normalize_text(text))
    score = lambda said, right: squad([{"prediction_text": said, "id": "0"}], [{"answers": {"answer_start": [0] * len(right), "text": right}, "id": "0"}])
    rows = [[said, right, *(float(score(said, right)[k]) for k in ["exact_match", "f1"])] for said, right in QUESTIONS if right and full(said) and all(map(full, right))]
    save("squad1", rows)


for part in sys.argv[1:]:
    globals()[part]()
