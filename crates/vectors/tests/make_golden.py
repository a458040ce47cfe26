#!/usr/bin/env python3
"""What scikit-learn says about a few texts: TF-IDF rows and the weights of logistic regression, for tests/golden.rs.

    pip install scikit-learn
    python make_golden.py > data/golden.json
"""
import json
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

TRAIN = [
    ("The film was GOOD, really good: I'd see it again!", "good"),
    ("a dull plot & wooden acting; 2/10", "bad"),
    ("La città è bellissima, l'hotel no.", "mixed"),
    ("It's not good... it is bad_taste in 35mm", "bad"),
    ("", "bad"),
    ("x y z", "mixed"),
    ("Good food, good wine, good company", "good"),
    ("ÜBER-groß, naïve café: straße ΟΔΟΣ", "mixed"),
    ("the plot the plot the plot", "bad"),
    ("again and again the acting convinces", "good"),
]
TEST = ["the good plot", "nothing known here qq", "città naïve 10", "GOOD good Bad acting ΟΔΟΣ"]
texts, labels = [t for t, _ in TRAIN], [l for _, l in TRAIN]
tfidf = TfidfVectorizer()
rows = tfidf.fit_transform(texts)
sparse = lambda m: [[[int(j), float(v)] for j, v in sorted(zip(r.indices, r.data))] for r in m]
two = ["good" if l == "good" else "other" for l in labels]
fit = lambda y: LogisticRegression(tol=1e-10, max_iter=10000).fit(rows, y)
model = lambda m: {"classes": list(m.classes_), "coef": m.coef_.tolist(), "intercept": m.intercept_.tolist(),
                   "test": m.predict_proba(tfidf.transform(TEST)).tolist()}
print(json.dumps({
    "train": TRAIN, "test": TEST, "words": sorted(tfidf.vocabulary_), "idf": tfidf.idf_.tolist(), "rows": sparse(rows),
    "test_rows": sparse(tfidf.transform(TEST)), "binary_labels": two, "binary": model(fit(two)), "three": model(fit(labels)),
}, ensure_ascii=False, indent=None))
