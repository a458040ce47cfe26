//! The built-in corpora as wholes: splits are disjoint, nothing repeats, every English sentence has one translation.

use qkv_data::Example;
use qkv_data::builtin::{Corpus, Split};
use std::collections::{HashMap, HashSet};

/// What a split is about: sources for most, the right sentence for typos.
fn key(corpus: Corpus, example: &Example) -> String {
    let row = example.row();
    match corpus {
        Corpus::Typos | Corpus::Corrections => row[1].clone(),
        Corpus::People | Corpus::Facts | Corpus::Pronouns => row[..2].join("\t"),
        Corpus::Shapes => row.join(" "),
        _ => row[0].clone(),
    }
}

#[test]
fn splits_are_disjoint_across_seeds() {
    for corpus in Corpus::ALL {
        let n = if corpus == Corpus::Shapes { 50 } else { 1500 };
        let of = |seed, split| corpus.examples(seed, split).take(n).map(|e| key(corpus, &e)).collect::<HashSet<_>>();
        let train = of(1, Split::Train);
        let splits = [Split::Valid, Split::Test, Split::Compositional].map(|split| of(2, split));
        for (i, one) in splits.iter().enumerate() {
            assert!(train.is_disjoint(one), "{}", corpus.name());
            assert!(splits[i + 1..].iter().all(|other| other.is_disjoint(one)), "{}", corpus.name());
        }
    }
}

#[test]
fn nothing_repeats_and_every_split_is_full() {
    for corpus in Corpus::ALL {
        for split in Split::ALL {
            let n = corpus.size(split).min(if corpus == Corpus::Shapes { 40 } else { 1000 });
            let source = |example: Example| match corpus {
                Corpus::Typos | Corpus::Corrections => example.row().swap_remove(0),
                _ => key(corpus, &example),
            };
            let sources: HashSet<String> = corpus.examples(3, split).take(n).map(source).collect();
            assert_eq!(sources.len(), n, "{} {}", corpus.name(), split.name());
        }
    }
}

#[test]
fn a_sentence_has_one_translation_and_there_are_many() {
    for corpus in [Corpus::EnIt, Corpus::EnHi] {
        let mut known: HashMap<String, String> = HashMap::new();
        for index in 0..60_000 {
            let Example::Pair { source, target } = corpus.example(1, Split::Train, index) else { panic!() };
            let before = known.entry(source.clone()).or_insert_with(|| target.clone());
            assert_eq!(*before, target, "{source}");
        }
        assert!(known.len() >= 50_000, "{} has {} distinct sentences", corpus.name(), known.len());
    }
}

#[test]
fn sentences_are_of_a_learners_length() {
    for corpus in [Corpus::EnIt, Corpus::EnHi] {
        let lengths: Vec<usize> =
            corpus.examples(1, Split::Train).take(5000).map(|e| e.row()[0].split(' ').count()).collect();
        let usual = lengths.iter().filter(|n| (3..=14).contains(*n)).count();
        assert!(usual > 4750, "{usual} of 5000 have 3 to 14 words");
        assert!(lengths.iter().all(|n| *n <= 22), "{:?}", lengths.iter().max());
    }
}

/// The compositional split may combine words anew, but must not ask for words that training lacks.
#[test]
fn every_word_of_the_compositional_split_is_in_training() {
    let words = |split, n| {
        let rows = Corpus::EnIt.examples(1, split).take(n).map(|e| e.row()[0].to_lowercase());
        rows.flat_map(|text| text.split([' ', '.', ',', '?']).map(str::to_owned).collect::<Vec<_>>())
            .collect::<HashSet<_>>()
    };
    let known = words(Split::Train, 40_000);
    let unseen: Vec<_> = words(Split::Compositional, 2000).difference(&known).cloned().collect();
    assert_eq!(unseen, Vec::<String>::new());
}

#[test]
fn distinct_sentences_are_a_compact_vocabulary() {
    let words: HashSet<String> = Corpus::EnIt
        .examples(1, Split::Train)
        .take(20_000)
        .flat_map(|e| e.row()[0].to_lowercase().split([' ', '.', ',', '?']).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!((500..900).contains(&words.len()), "{} English words", words.len());
}

#[test]
#[ignore = "slow tier: counts the distinct sentences of half a million draws"]
fn half_a_million_draws_hardly_repeat() {
    for corpus in [Corpus::EnIt, Corpus::EnHi] {
        let distinct: HashSet<String> =
            (0..500_000).map(|i| corpus.example(1, Split::Train, i).row().swap_remove(0)).collect();
        assert!(distinct.len() > 400_000, "{} of 500,000 are distinct", distinct.len());
    }
}
