//! Shards hold what the texts say: the rows of the corpus in memory, the same bytes at any thread count and after any
//! interruption; and whatever is broken is named.

use qkv_data::batch::{Loader, Policy, Rows, Turn};
use qkv_data::objective::{Borders, NextToken, Packed};
use qkv_data::readers::{BadRows, Documents};
use qkv_data::shards::{Built, DocumentStart, ShardSides, ShardSpec, Shards, TokenizerChoice, build};
use qkv_data::{Corpus, Error, Format, Objective, Reader, Side, Task};
use qkv_text::{Kind, Shape, Tokenizer, TrainSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn story(i: usize) -> String {
    let words = ["a cat", "the king", "two houses", "nobody", "è vero", "42", "the sea"];
    (0..1 + i % 9).map(|w| words[(i * 7 + w * 3) % words.len()]).collect::<Vec<_>>().join(" ")
}

fn tokenizer(shape: Shape) -> Tokenizer {
    let spec = TrainSpec { shape, vocab_size: 320, ..TrainSpec::new(Kind::Bpe) };
    qkv_text::train((0..200).map(story), &spec, &mut |_| {}).unwrap().tokenizer
}

/// Files of every format, some thousand texts each.
fn sources(dir: &Path, n: usize) -> Vec<PathBuf> {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let text: String = (0..n).map(|i| format!("{}\nsecond line {i}\n\n", story(i))).collect();
    let rows: String = (0..n).map(|i| format!("{}\n", serde_json::json!({"text": story(i + 1), "n": i}))).collect();
    let table: String = (0..n).map(|i| format!("{i},\"{}\nmore, too\"\n", story(i + 2))).collect();
    let files = [
        ("a.txt", text.clone().into_bytes()),
        ("b.txt.gz", gzip(text.as_bytes())),
        ("c.jsonl", rows.clone().into_bytes()),
        ("d.jsonl.gz", gzip(rows.as_bytes())),
        ("e.csv", format!("id,text\n{table}").into_bytes()),
        ("f.tsv", "text\nfirst\n \nthird\n".into()),
    ];
    files.map(|(name, bytes)| (fs::write(dir.join(name), bytes).unwrap(), dir.join(name)).1).into()
}

fn spec(files: &[PathBuf], out: &Path) -> ShardSpec {
    ShardSpec {
        reader: Reader::new(Task::NextToken),
        files: files.to_vec(),
        tokenizer: TokenizerChoice::Given(Box::new(tokenizer(Shape::Gpt2))),
        start: DocumentStart::ByTokenizer,
        shard_tokens: 50_000,
        out: out.to_path_buf(),
    }
}

fn make(spec: &ShardSpec) -> Built {
    build(spec, &mut |_| Ok(())).unwrap_or_else(|e| panic!("{e}"))
}

/// Every file of a directory by name.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().to_string();
        match entry.is_dir() {
            true => all.extend(bytes(&entry).into_iter().map(|(inner, b)| (format!("{name}/{inner}"), b))),
            false => _ = all.insert(name, fs::read(&entry).unwrap()),
        }
    }
    all
}

fn next_token(tokenizer: &Tokenizer, length: usize) -> NextToken {
    NextToken::new(Arc::new(Side::source(tokenizer)), length, Some(Borders::Open)).unwrap()
}

/// The documents of the files, as the corpus in memory reads them.
fn documents(files: &[PathBuf], next: &NextToken) -> Vec<Vec<u32>> {
    let corpus = Reader::new(Task::NextToken).open_all(files).unwrap().corpus;
    let examples = corpus.examples().map(Result::unwrap).filter(|example| !example.is_empty());
    examples.map(|example| next.document(&example).unwrap()).collect()
}

#[test]
fn rows_are_those_of_the_corpus_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 300);
    let out = dir.path().join("one");
    let built = make(&ShardSpec { shard_tokens: 1 << 24, ..spec(&files, &out) });
    assert_eq!((built.index.shards.len(), built.index.empty, built.index.documents), (1, 0, 1502));
    let shards = Arc::new(Shards::open(&out).unwrap());
    let tokenizer = shards.tokenizer().unwrap();
    for length in [7, 64] {
        let next = next_token(&tokenizer, length);
        let packed = Packed::new(documents(&files, &next), length, Borders::Open);
        let rows = ShardSides::new(&shards, &tokenizer, length, [0, 0], 0, 1).unwrap().train;
        assert_eq!(rows.len(), packed.rows());
        let straight = Policy { rows: Rows::Fixed(5), turn: Turn::Straight, ..Policy::default() };
        let loader = Loader::of_shards(rows, Objective::NextToken(next), straight, 1).unwrap();
        let mut seen = 0;
        for counter in 0..loader.batches(0) {
            let batch = loader.batch(counter).unwrap();
            for (r, members) in batch.members.iter().enumerate() {
                let want = packed.row(members[0]).unwrap();
                let n = batch.lengths[r];
                assert_eq!(batch.ids[r * batch.length..][..n], want.input);
                assert_eq!(batch.targets[r * batch.length..][..n], want.target);
                assert_eq!(members[0], seen);
                seen += 1;
            }
        }
        assert_eq!(seen, packed.rows());
    }
}

#[test]
fn sides_share_no_row_and_a_counter_finds_every_batch() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 400);
    let out = dir.path().join("many");
    let built = make(&ShardSpec { shard_tokens: 700, ..spec(&files, &out) });
    assert!(built.index.shards.len() > 20, "{}", built.index.shards.len());
    let shards = Arc::new(Shards::open(&out).unwrap());
    let tokenizer = shards.tokenizer().unwrap();
    let sides = |seed, most| ShardSides::new(&shards, &tokenizer, 16, [50, 30], most, seed).unwrap();
    let all = ShardSides::new(&shards, &tokenizer, 16, [0, 0], 0, 1).unwrap().train;
    let places = |rows: &dyn Corpus| (0..rows.len()).map(|i| rows.place(i)).collect::<BTreeSet<String>>();
    let three = sides(1, 0);
    let (train, valid, test) = (places(&*three.train), places(&*three.valid), places(&*three.test));
    assert_eq!((valid.len(), test.len(), train.len() + 80), (50, 30, all.len()));
    assert!(train.is_disjoint(&valid) && train.is_disjoint(&test) && valid.is_disjoint(&test));
    assert_ne!(valid, places(&*sides(2, 0).valid));
    let few = sides(1, 100).train;
    assert_eq!(few.len(), 100);
    assert!((0..100).all(|i| few.place(i) == three.train.place(i)), "the first ones");
    let objective = Objective::NextToken(next_token(&tokenizer, 16));
    let policy = Policy { rows: Rows::Tokens(100), turn: Turn::Shuffled { window: 1 }, ..Policy::default() };
    let loader = |ahead| {
        let policy = Policy { ahead, ..policy };
        Arc::new(Loader::of_shards(three.train.clone(), objective.clone(), policy, 3).unwrap())
    };
    let one = loader(0);
    let (epoch, end) = (one.batches(0), one.batches(0) * 2);
    assert_eq!(epoch, three.train.len().div_ceil(6) as u64);
    let whole: Vec<_> = one.stream(0, Some(end)).map(|b| b.unwrap().1).collect();
    let members = |epoch: &[qkv_data::Batch]| epoch.iter().flat_map(|b| b.members.concat()).collect::<Vec<usize>>();
    let (first, second) = whole.split_at(epoch as usize);
    let mut sorted = members(first);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..three.train.len()).collect::<Vec<_>>(), "every row once an epoch");
    assert_ne!(members(first), members(second));
    // Nothing but the counter is known to a loader that takes a run up again.
    for from in [end - 1, epoch + 1, 3] {
        let rest: Vec<_> = loader(2).stream(from, Some(end)).map(|b| b.unwrap().1).collect();
        assert!(rest == whole[from as usize..], "from {from}");
    }
}

/// Threads and interruptions leave no trace, wherever the work was broken off.
#[test]
fn the_same_bytes_at_any_thread_count_and_after_any_cut() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 9000);
    let out = dir.path().join("whole");
    let on = |threads: usize, spec: &ShardSpec| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| make(spec))
    };
    let built = on(1, &spec(&files, &out));
    assert!(built.index.shards.len() > 10);
    let whole = bytes(&out);
    assert!(
        !whole.contains_key("progress.json") && !whole.keys().any(|name| name.starts_with('.')),
        "{:?}",
        whole.keys()
    );
    let again = dir.path().join("threads");
    on(3, &spec(&files, &again));
    assert!(bytes(&again) == whole, "three threads");
    // Made before: nothing is done, and what a crash behind the index left is cleaned.
    fs::write(out.join("progress.json"), "{\"format\": \"qkv-shards\"}").unwrap();
    assert!(make(&spec(&files, &out)).before);
    assert!(bytes(&out) == whole);
    for stop in 1..4 {
        let out = dir.path().join(format!("cut{stop}"));
        let spec = spec(&files, &out);
        let mut calls = 0;
        let stopped = build(&spec, &mut |_| {
            calls += 1;
            if calls == stop { Err(Error::new("test", "stop", "")) } else { Ok(()) }
        });
        assert_eq!(stopped.unwrap_err().what, "stop");
        let kept = bytes(&out).keys().filter(|name| name.ends_with(".ids")).count();
        assert!(kept > 0 && kept < built.index.shards.len(), "{kept}");
        // What a crash may leave: half a shard, a whole one that no progress tells of, half an index.
        fs::write(out.join(format!(".{kept:05}.ids.part")), b"half").unwrap();
        fs::write(out.join(format!("{:05}.ids", kept)), b"not told of").unwrap();
        fs::write(out.join(".index.json.part"), b"{").unwrap();
        assert!(Shards::open(&out).err().unwrap().what.contains("not finished"));
        assert_eq!(make(&spec).resumed, kept);
        assert!(bytes(&out) == whole, "cut after {stop} chunks");
    }
    // Before the tokenizer was saved.
    let out = dir.path().join("early");
    let early = spec(&files, &out);
    let _ = build(&early, &mut |_| Err(Error::new("test", "stop", "")));
    for (name, _) in bytes(&out) {
        if name.ends_with(".ids") {
            fs::remove_file(out.join(name)).unwrap();
        }
    }
    fs::rename(out.join("tokenizer"), out.join(".tokenizer.part")).unwrap();
    fs::remove_file(out.join("progress.json")).unwrap();
    make(&early);
    assert!(bytes(&out) == whole, "from the beginning");
}

#[test]
fn what_changed_between_two_parts_of_the_work_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 9000);
    let out = dir.path().join("out");
    let asked = spec(&files, &out);
    let _ = build(&asked, &mut |_| Err(Error::new("test", "stop", "")));
    let refused = |spec: &ShardSpec| build(spec, &mut |_| Ok(())).unwrap_err();
    let other = ShardSpec { shard_tokens: 9_999, ..asked.clone() };
    assert_eq!(refused(&other).place, "--shard-tokens");
    let other = ShardSpec { tokenizer: TokenizerChoice::Given(Box::new(tokenizer(Shape::Llama))), ..asked.clone() };
    assert_eq!(refused(&other).place, "tokenizer");
    let other = ShardSpec { files: files[1..].to_vec(), ..asked.clone() };
    assert!(refused(&other).what.contains("the files have changed"));
    let reader = Reader { bad_rows: BadRows::Skip, ..Reader::new(Task::NextToken) };
    assert_eq!(refused(&ShardSpec { reader, ..asked.clone() }).place, "data");
    let lock = fs::OpenOptions::new().write(true).open(out.join(".lock")).unwrap();
    lock.lock().unwrap();
    assert!(refused(&asked).what.contains("another program"));
    drop(lock);
    fs::OpenOptions::new().append(true).open(&files[2]).unwrap().write_all(b"{\"text\": \"new\"}\n").unwrap();
    let error = refused(&asked);
    assert!(error.place.ends_with("c.jsonl") && error.what.contains("has changed"), "{error}");
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("something"), "").unwrap();
    assert!(refused(&ShardSpec { out: full, ..asked.clone() }).what.contains("is not empty: `something`"));
    let done = dir.path().join("done");
    make(&spec(&files[..1], &done));
    assert!(refused(&spec(&files[1..2], &done)).what.contains("finished shards of other files"));
    let other = ShardSpec { shard_tokens: 9_999, ..spec(&files[..1], &done) };
    assert!(refused(&other).what.contains("asked for differently"));
    // Shards are no texts.
    assert!(
        refused(&spec(std::slice::from_ref(&done), &dir.path().join("again")))
            .what
            .contains("is a directory of shards")
    );
    assert!(qkv_data::read(&done, Task::NextToken).unwrap_err().hint.contains("qkv train"));
}

#[test]
fn texts_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| (fs::write(dir.path().join(name), bytes).unwrap(), dir.path().join(name)).1;
    let refused = |file: &Path| {
        let out = dir.path().join(format!("out-{}", file.file_name().unwrap().to_string_lossy()));
        build(&spec(&[file.to_path_buf()], &out), &mut |_| Ok(())).unwrap_err()
    };
    let latin = put("latin.txt", b"fine\n\ncaf\xe9\n");
    let error = refused(&latin);
    assert!(error.place.ends_with("latin.txt:3") && error.what.contains("not UTF-8"), "{error}");
    // Mended, it is read from the beginning: no shard of it was whole.
    fs::write(&latin, "fine\n\ncafé\n").unwrap();
    assert_eq!(make(&spec(&[latin], &dir.path().join("out-latin.txt"))).index.documents, 2);
    assert!(refused(&put("empty.txt", b"")).what.starts_with("0 documents"));
    assert!(refused(&put("blank.txt", b"\n \n\n")).what.starts_with("0 documents"));
    assert!(refused(&put("half.jsonl", b"{\"text\": \"a\"}\n{\"tex")).place.ends_with("half.jsonl:2, column 5"));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&story(3).repeat(4000).into_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    assert!(refused(&put("cut.txt.gz", &packed[..packed.len() / 2])).hint.contains("cut short"));
    assert_eq!(refused(&dir.path().join("nowhere.txt")).what, "no such file");
    assert!(refused(&dir.path().join("*.nothing")).what.contains("no file has such a name"));
    let skip = put("skip.jsonl", b"{\"text\": \"a\"}\n{\"tex\n{\"text\": \"  \"}\n{\"text\": \"b\"}\n{\n");
    let reader = Reader { bad_rows: BadRows::Skip, ..Reader::new(Task::NextToken) };
    let built = make(&ShardSpec { reader, ..spec(&[skip], &dir.path().join("skipped")) });
    assert_eq!((built.index.documents, built.index.skipped, built.index.empty), (2, 2, 1));
}

#[test]
fn whatever_is_broken_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 50);
    let out = dir.path().join("out");
    make(&ShardSpec { shard_tokens: 500, ..spec(&files, &out) });
    let (index, first) =
        (fs::read_to_string(out.join("index.json")).unwrap(), fs::read(out.join("00000.ids")).unwrap());
    let open = || Shards::open(&out);
    let verify = || open().and_then(|shards| shards.verify(&mut |_| Ok(()))).unwrap_err().what;
    open().unwrap().verify(&mut |_| Ok(())).unwrap();
    let with = |from: &str, to: &str| {
        assert!(index.contains(from), "{from}");
        fs::write(out.join("index.json"), index.replacen(from, to, 1)).unwrap();
        let error = open().err().unwrap_or_else(|| panic!("{from} → {to} is accepted"));
        fs::write(out.join("index.json"), &index).unwrap();
        error.what
    };
    assert!(with("\"version\": 1", "\"version\": 2").contains("version 2 of the layout"));
    assert!(with("\"format\": \"qkv-shards\"", "\"format\": \"shards-qkv\"").contains("the format is"));
    assert!(with("\"tokens\": ", "\"tokens\": 1").contains("sums of its shards"));
    assert!(with("\"end\": 0", "\"end\": 9999").contains("beyond the vocabulary"));
    assert!(with("\"u16\"", "\"u32\"").contains("not written as"));
    assert!(with("00000.ids", "../0.ids").contains("is not the name of a shard"));
    assert!(with("00000.ids", "99999.ids").contains("no such file"));
    assert!(with("\"documents\"", "\"dokuments\"").contains("is not the index of shards"));
    fs::write(out.join("00000.ids"), &first[..first.len() - 2]).unwrap();
    assert!(open().err().unwrap().what.contains("where the index says"));
    let mut other = first.clone();
    other[10] ^= 1;
    fs::write(out.join("00000.ids"), &other).unwrap();
    assert!(verify().starts_with("the checksum is"));
    other[10..12].copy_from_slice(&[0xff, 0xff]);
    fs::write(out.join("00000.ids"), &other).unwrap();
    assert!(verify().starts_with("id 65535 is beyond the vocabulary of "));
    assert!(open().unwrap().ids(0, 0, 20).unwrap_err().what.contains("beyond the vocabulary"));
    fs::write(out.join("00000.ids"), &first).unwrap();
    // Cut under a run: an error, not the end of the process.
    let shards = open().unwrap();
    fs::write(out.join("00000.ids"), &first[..8]).unwrap();
    assert!(shards.ids(0, 0, 20).unwrap_err().what.contains("has become shorter"));
    fs::write(out.join("00000.ids"), &first).unwrap();
    tokenizer(Shape::Llama).save(out.join("tokenizer")).unwrap();
    assert!(open().unwrap().tokenizer().unwrap_err().what.contains("not the tokenizer that made the ids"));
}

#[test]
fn documents_begin_as_their_family_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.txt");
    fs::write(&file, "one\ntwo three\n").unwrap();
    let reader = Reader { format: Some(Format::Text(Documents::Lines)), ..Reader::new(Task::NextToken) };
    let ids = |shape: Shape, start, name: &str| {
        let tokenizer = tokenizer(shape);
        let out = dir.path().join(name);
        let choice = TokenizerChoice::Given(Box::new(tokenizer.clone()));
        let spec =
            ShardSpec { reader: reader.clone(), tokenizer: choice, start, ..spec(std::slice::from_ref(&file), &out) };
        let index = make(&spec).index;
        (index.tokenizer, Shards::open(&out).unwrap().ids(0, 0, 100).unwrap(), tokenizer)
    };
    let (llama, all, tokenizer) = ids(Shape::Llama, DocumentStart::ByTokenizer, "llama");
    assert_eq!(llama.begin, tokenizer.special().bos);
    let next = NextToken { begin: llama.begin, ..next_token(&tokenizer, 8) };
    let want: Vec<u32> = ["one", "two three"]
        .iter()
        .flat_map(|t| next.document(&qkv_data::Example::Text(t.to_string())).unwrap())
        .collect();
    assert_eq!(all, want);
    let (plain, ..) = ids(Shape::Llama, DocumentStart::Nothing, "plain");
    assert_eq!(plain.begin, None);
    let (gpt, _, tokenizer) = ids(Shape::Gpt2, DocumentStart::ByTokenizer, "gpt");
    assert_eq!((gpt.begin, Some(gpt.end)), (None, tokenizer.special().eos));
    // Rows that are framed differently are refused.
    let shards = Arc::new(Shards::open(&dir.path().join("llama")).unwrap());
    let rows = ShardSides::new(&shards, &shards.tokenizer().unwrap(), 3, [0, 0], 0, 1).unwrap().train;
    let few = ShardSides::new(&shards, &shards.tokenizer().unwrap(), 100, [1, 1], 0, 1).err().unwrap();
    assert!(few.what.starts_with("1 rows of 100 tokens are too few"), "{few}");
    let other = Objective::NextToken(next_token(&shards.tokenizer().unwrap(), 3));
    let error = Loader::of_shards(rows, other, Policy::default(), 1).err().unwrap();
    assert!(error.what.contains("but those of this family begin with nothing"), "{error}");
}

#[test]
fn a_tokenizer_is_learnt_from_a_sample() {
    let dir = tempfile::tempdir().unwrap();
    let files = sources(dir.path(), 300);
    let learn = TrainSpec { vocab_size: 300, sample: Some(200), ..TrainSpec::new(Kind::Bpe) };
    let spec = ShardSpec { tokenizer: TokenizerChoice::Learn(learn), ..spec(&files, &dir.path().join("out")) };
    let built = make(&spec);
    let learnt = built.learnt.unwrap();
    assert_eq!((built.index.tokenizer.vocabulary, learnt.kept), (300, 200));
    assert!(learnt.lines > 2000);
    let again = ShardSpec { out: dir.path().join("again"), ..spec.clone() };
    make(&again);
    assert!(bytes(&spec.out) == bytes(&again.out));
}

/// What a batch from disk costs beside one from memory: `cargo test --release -p qkv-data --test shards -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn a_batch_from_disk_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..200_000).map(|i| format!("{} {i}\n\n", story(i))).collect();
    let file = dir.path().join("a.txt");
    fs::write(&file, text).unwrap();
    let out = dir.path().join("out");
    make(&spec(std::slice::from_ref(&file), &out));
    let shards = Arc::new(Shards::open(&out).unwrap());
    let tokenizer = shards.tokenizer().unwrap();
    let objective = Objective::NextToken(next_token(&tokenizer, 128));
    let policy = Policy { rows: Rows::Fixed(16), turn: Turn::Shuffled { window: 1 }, ahead: 0, ..Policy::default() };
    let rows = ShardSides::new(&shards, &tokenizer, 128, [0, 0], 0, 1).unwrap().train;
    let disk = Loader::of_shards(rows, objective.clone(), policy, 1).unwrap();
    let corpus = Reader::new(Task::NextToken).open(&file).unwrap().corpus;
    let memory = Loader::new(corpus, objective, policy, 1).unwrap();
    let n = disk.batches(0).min(1000);
    let micros = |loader: &Loader| {
        let since = std::time::Instant::now();
        (0..n).for_each(|i| assert_eq!(loader.batch(i).unwrap().rows, 16));
        since.elapsed().as_secs_f64() * 1e6 / n as f64
    };
    let (disk, memory) = (micros(&disk), micros(&memory));
    println!("{n} batches of 16 rows of 128 tokens: {disk:.0} µs from disk, {memory:.0} µs from memory");
    assert!(disk < 5000.0, "{disk} µs a batch");
}
