//! scikit-learn's `TfidfVectorizer` and `LogisticRegression` with their defaults say the same (make_golden.py).

use qkv_vectors::{Bag, Logistic, LogisticOptions, SparseRow, Weighting};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    train: Vec<(String, String)>,
    test: Vec<String>,
    words: Vec<String>,
    idf: Vec<f64>,
    rows: Vec<SparseRow>,
    test_rows: Vec<SparseRow>,
    binary_labels: Vec<String>,
    binary: Model,
    three: Model,
}

#[derive(Deserialize)]
struct Model {
    classes: Vec<String>,
    coef: Vec<Vec<f64>>,
    intercept: Vec<f64>,
    test: Vec<Vec<f64>>,
}

fn golden() -> (Golden, Bag) {
    let golden: Golden = serde_json::from_str(include_str!("data/golden.json")).unwrap();
    let texts: Vec<&String> = golden.train.iter().map(|(text, _)| text).collect();
    let bag = Bag::learn(&texts, Weighting::TfIdf).unwrap();
    (golden, bag)
}

fn close(got: &[SparseRow], want: &[SparseRow]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.iter().map(|(i, _)| i).collect::<Vec<_>>(), want.iter().map(|(i, _)| i).collect::<Vec<_>>());
        assert!(got.iter().zip(want).all(|((_, a), (_, b))| (a - b).abs() < 1e-6), "{got:?} is not {want:?}");
    }
}

#[test]
fn tfidf_is_scikit_learns() {
    let (golden, bag) = golden();
    assert_eq!(bag.words(), golden.words);
    assert!(bag.idf().iter().zip(&golden.idf).all(|(a, b)| (a - b).abs() < 1e-6));
    let texts: Vec<&String> = golden.train.iter().map(|(text, _)| text).collect();
    close(&bag.rows(&texts), &golden.rows);
    close(&bag.rows(&golden.test), &golden.test_rows);
}

#[test]
fn logistic_regression_is_scikit_learns() {
    let (golden, bag) = golden();
    let three: Vec<String> = golden.train.iter().map(|(_, label)| label.clone()).collect();
    let how = LogisticOptions { tolerance: 1e-8, ..LogisticOptions::default() };
    for (labels, want) in [(&golden.binary_labels, &golden.binary), (&three, &golden.three)] {
        let model = Logistic::learn(&golden.rows, labels, bag.words().len(), how).unwrap();
        assert!(model.converged);
        assert_eq!(model.labels(), want.classes);
        for (row, coef) in want.coef.iter().enumerate() {
            let class = if want.coef.len() == 1 { 1 } else { row };
            assert!(coef.iter().enumerate().all(|(i, w)| (model.weight(i, class) - w).abs() < 1e-5));
            assert!(want.coef.len() > 1 || (model.bias(class) - want.intercept[row]).abs() < 1e-5);
        }
        for (text, want) in golden.test_rows.iter().zip(&want.test) {
            let got = model.probabilities(text);
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} is not {want:?}");
        }
    }
}
