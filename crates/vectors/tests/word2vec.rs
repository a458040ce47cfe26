//! What Word2Vec promises: the same bits at any number of threads, and vectors that know which words belong together.

use qkv_data::builtin::{Corpus, Split};
use qkv_vectors::{Architecture, Sentences, Word2Vec, WordVectors};

fn text(n: usize) -> Sentences {
    let lines = Corpus::Senses.examples(1, Split::Train).take(n).map(|e| Ok(e.text().into_owned()));
    Sentences::read(lines, 2).unwrap()
}

fn learn(how: &Word2Vec, text: &Sentences, threads: usize) -> WordVectors {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| how.train(text, &mut |_| true)).unwrap()
}

#[test]
fn the_number_of_threads_does_not_show() {
    let text = text(400);
    for architecture in [Architecture::SkipGram, Architecture::Cbow] {
        let how = Word2Vec { architecture, width: 24, epochs: 1, negative: 6, ..Word2Vec::default() };
        let one = learn(&how, &text, 1);
        for threads in [2, 3, 7] {
            assert!(learn(&how, &text, threads) == one, "{architecture:?}, {threads} threads");
        }
        assert!(learn(&Word2Vec { seed: 2, ..how }, &text, 2) != one);
    }
}

#[test]
fn words_of_one_kind_are_near_each_other() {
    let text = text(3000);
    for architecture in [Architecture::SkipGram, Architecture::Cbow] {
        let how = Word2Vec { architecture, width: 32, epochs: 5, rate: 0.05, sample: 0.01, ..Word2Vec::default() };
        let vectors = learn(&how, &text, 2);
        let nearer = |word: &str, friend: &str, stranger: &str| {
            let (near, far) = (vectors.cosine(word, friend).unwrap(), vectors.cosine(word, stranger).unwrap());
            assert!(near > far + 0.1, "{architecture:?}: {word}: {friend} {near:.3}, {stranger} {far:.3}");
        };
        nearer("pear", "plum", "laptop");
        nearer("laptop", "tablet", "plum");
        nearer("loan", "deposit", "reeds");
        nearer("apple", "pear", "laptop"); // nine apples in ten are fruit
    }
}

#[test]
fn a_person_can_stop_it_and_nonsense_is_refused() {
    let text = text(50);
    let stopped = Word2Vec::default().train(&text, &mut |_| false).unwrap_err();
    assert_eq!(stopped.kind, qkv_base::Kind::Interrupted);
    let refused = |how: Word2Vec| how.train(&text, &mut |_| true).unwrap_err().to_string();
    assert_eq!(refused(Word2Vec { width: 0, ..Word2Vec::default() }), "width: 0 is not from 1 to 10000");
    assert_eq!(refused(Word2Vec { window: 17, ..Word2Vec::default() }), "window: 17 is not from 1 to 16");
    assert_eq!(refused(Word2Vec { rate: f32::NAN, ..Word2Vec::default() }), "rate: NaN is not between 0 and 1");
    assert_eq!(refused(Word2Vec { sample: -1.0, ..Word2Vec::default() }), "sample: -1 is not a share");
}
