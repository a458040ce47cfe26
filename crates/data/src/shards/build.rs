//! From texts to shards: one thread reads, all threads tokenise, one writes, in the order of the texts.
//!
//! ```text
//! files ──TextStream──▶ chunks of 4 MB ──all threads──▶ ids in order ──▶ 00000.ids, 00001.ids, …
//! ```
//!
//! Two chunks wait at most, so memory does not grow with the corpus; what is written depends on the texts alone.

use super::index::{Asked, FORMAT, Index, ShardTokenizer, SourceFile, VERSION, tokenizer_crc};
use super::learn::learn;
use super::work::{Begun, Fingerprint, Work, Writing};
use super::{IdWidth, Shard};
use crate::readers::{FilePlace, Meter, Reader, TextStream};
use crate::tokenize::{Role, need};
use crate::{Error, Result, Side};
use qkv_text::{Tokenizer, TrainSpec, WordIds};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// So many bytes of text are tokenised at a time.
const CHUNK: usize = 4 << 20;
/// And not more parts than this.
const PARTS: usize = 1 << 14;

/// Which tokenizer makes the ids.
#[derive(Clone, Debug)]
pub enum TokenizerChoice {
    /// one that is there
    Given(Box<Tokenizer>),
    /// one that is learnt first, from a sample of the lines
    Learn(TrainSpec),
}

/// What a document begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentStart {
    /// the token that the tokenizer itself puts before a text, if it does
    #[default]
    ByTokenizer,
    /// nothing
    Nothing,
    /// the tokenizer's first token (LLaMA)
    Bos,
}

/// What is to be made.
#[derive(Clone, Debug)]
pub struct ShardSpec {
    /// how files are read
    pub reader: Reader,
    /// files, patterns and folders
    pub files: Vec<PathBuf>,
    /// text to ids
    pub tokenizer: TokenizerChoice,
    /// before a document
    pub start: DocumentStart,
    /// a shard is full with so many
    pub shard_tokens: u64,
    /// where to
    pub out: PathBuf,
}

impl ShardSpec {
    /// 16 million tokens a shard.
    pub const SHARD_TOKENS: u64 = 1 << 24;
}

/// How far the making is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Making {
    /// the lines for a tokenizer are being drawn; nothing is written yet
    pub learning: bool,
    /// bytes of the sources read, as they lie on disk
    pub bytes: u64,
    /// of so many
    pub of: u64,
    /// tokens so far
    pub tokens: u64,
    /// documents so far
    pub documents: u64,
    /// whole shards so far
    pub shards: usize,
}

/// What a tokenizer was learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// lines drawn
    pub kept: u64,
    /// of so many
    pub lines: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Built {
    /// what the directory holds
    pub index: Index,
    /// it was all there before
    pub before: bool,
    /// so many shards were there before
    pub resumed: usize,
    /// a tokenizer was learnt
    pub learnt: Option<Learnt>,
    /// what was decided on the way
    pub notes: Vec<String>,
}

/// Makes shards, or goes on making them. `watch` hears how far it is, and stops it with an error.
pub fn build(spec: &ShardSpec, watch: &mut dyn FnMut(&Making) -> Result<()>) -> Result<Built> {
    if spec.shard_tokens < 16 {
        return Err(Error::new("--shard-tokens", "less than 16 tokens a shard", "use some millions"));
    }
    let files = spec.reader.text_files(&spec.files)?;
    let sources: Vec<Fingerprint> = files.iter().map(|path| Fingerprint::of(path)).collect::<Result<_>>()?;
    let of = sources.iter().map(|source| source.bytes).sum();
    let mut work = match Work::open(&spec.out, asked(spec)?, sources)? {
        Begun::Done(index) => {
            return Ok(Built { index, before: true, resumed: 0, learnt: None, notes: vec![] });
        }
        Begun::Work(work) => work,
    };
    let mut making = Making { of, shards: work.progress.shards.len(), ..Making::default() };
    let mut learnt = None;
    let tokenizer = work.tokenizer(|| match &spec.tokenizer {
        TokenizerChoice::Given(tokenizer) => Ok((**tokenizer).clone()),
        TokenizerChoice::Learn(how) => {
            let (tokenizer, from) = learn(&spec.reader, &files, how, making, watch)?;
            learnt = Some(from);
            Ok(tokenizer)
        }
    })?;
    let frame = Frame::new(&tokenizer, spec.start)?;
    making.tokens = work.progress.shards.iter().map(|shard| shard.tokens).sum();
    making.documents = work.progress.shards.iter().map(|shard| shard.documents).sum();
    let resumed = work.progress.shards.len();
    let notes = std::thread::scope(|scope| {
        let (give, take) = sync_channel(2);
        let from = (work.progress.source, work.progress.place);
        let (reader, files) = (&spec.reader, &files);
        let feeder = scope.spawn(move || feed(reader, files, from, give));
        write(&mut work, take, &tokenizer, &frame, spec.shard_tokens, &mut making, watch)?;
        feeder.join().map_err(|_| Error::internal("shards", "the thread that reads has stopped"))
    })?;
    let index = index_of(&work, &tokenizer, &frame)?;
    work.finish(&index)?;
    Ok(Built { index, before: false, resumed, learnt, notes })
}

fn asked(spec: &ShardSpec) -> Result<Asked> {
    let Reader { format, columns, header, quotes, bad_rows, .. } = &spec.reader;
    let tokenizer = match &spec.tokenizer {
        TokenizerChoice::Given(it) => format!("given, {:08x}", tokenizer_crc(&mut it.files()?)),
        TokenizerChoice::Learn(TrainSpec { kind, shape, vocab_size, special, sample, seed, .. }) => {
            format!("learnt, {kind:?}, {shape:?}, {vocab_size} pieces, {special:?}, {sample:?} lines, seed {seed}")
        }
    };
    Ok(Asked {
        reader: format!("{format:?}, {columns:?}, header {header:?}, quotes {quotes:?}, bad rows {bad_rows:?}"),
        tokenizer: format!("{tokenizer}, documents begin {:?}", spec.start),
        shard_tokens: spec.shard_tokens,
    })
}

fn index_of(work: &Work, tokenizer: &Tokenizer, frame: &Frame) -> Result<Index> {
    let progress = &work.progress;
    let sum = |of: fn(&Shard) -> u64| progress.shards.iter().map(of).sum::<u64>();
    if progress.shards.is_empty() {
        let files: Vec<&str> = progress.sources.iter().map(|source| source.path.as_str()).collect();
        let what = format!("0 documents ({} empty, {} skipped)", progress.empty, progress.skipped);
        return Err(Error::new(files.join(", "), what, "name files with text in them"));
    }
    Ok(Index {
        format: FORMAT.into(),
        version: VERSION,
        ids: IdWidth::of(tokenizer.vocab_size()),
        tokenizer: ShardTokenizer {
            vocabulary: tokenizer.vocab_size(),
            end: frame.end,
            begin: frame.begin,
            crc32c: tokenizer_crc(&mut tokenizer.files()?),
        },
        tokens: sum(|s| s.tokens),
        documents: sum(|s| s.documents),
        text_bytes: sum(|s| s.text_bytes),
        empty: progress.empty,
        skipped: progress.skipped,
        asked: progress.asked.clone(),
        sources: progress
            .sources
            .iter()
            .map(|source| SourceFile { path: source.path.clone(), bytes: source.bytes })
            .collect(),
        shards: progress.shards.clone(),
    })
}

/// What stands around a document.
struct Frame {
    begin: Option<u32>,
    end: u32,
}

impl Frame {
    fn new(tokenizer: &Tokenizer, start: DocumentStart) -> Result<Self> {
        let side = Side::source(tokenizer);
        let end = need(&side, Role::Eos, "the end of a document")?;
        let bos = tokenizer.special().bos;
        let begin = match start {
            DocumentStart::Nothing => None,
            DocumentStart::Bos => Some(need(&side, Role::Bos, "the beginning of a document")?),
            DocumentStart::ByTokenizer => {
                let first = tokenizer.encode("a", true)?.ids.first().copied();
                let own = tokenizer.ids("a")?.first().copied();
                bos.filter(|bos| first == Some(*bos) && own != first)
            }
        };
        Ok(Self { begin, end })
    }
}

/// A part of a text on its way to the threads that tokenise.
struct Piece {
    text: String,
    begins: bool,
    ends: bool,
    /// where to go on behind it
    after: Option<(usize, FilePlace)>,
    /// rows skipped before it
    skipped: u64,
}

impl Piece {
    /// A document without a word.
    fn is_empty(&self) -> bool {
        self.begins && self.ends && self.text.trim().is_empty()
    }

    fn ids(&self, words: &WordIds, frame: &Frame) -> Result<Vec<u32>> {
        if self.is_empty() || self.text.is_empty() && !self.begins && !self.ends {
            return Ok(vec![]);
        }
        let mut ids: Vec<u32> = frame.begin.filter(|_| self.begins).into_iter().collect();
        ids.extend(words.ids(&self.text)?);
        ids.extend(Some(frame.end).filter(|_| self.ends));
        Ok(ids)
    }
}

struct Chunk {
    pieces: Vec<Piece>,
    /// bytes of the sources read so far
    read: u64,
}

/// Reads the files from a place on, and gives chunks away until nobody takes them any more. Says what was noted.
fn feed(
    reader: &Reader,
    files: &[PathBuf],
    (from, place): (usize, FilePlace),
    give: SyncSender<Result<Chunk>>,
) -> Vec<String> {
    let mut notes: Vec<String> = vec![];
    let mut before: u64 = files.iter().take(from).map(|path| size(path)).sum();
    let mut chunk = Chunk { pieces: vec![], read: before };
    let mut held = 0;
    for (i, path) in files.iter().enumerate().skip(from) {
        let place = if i == from { place } else { FilePlace::default() };
        let mut stream = match reader.texts(path, place) {
            Ok(stream) => stream,
            Err(error) => {
                // Nobody who took it is no reason to go on.
                let _ = give.send(Err(error));
                return notes;
            }
        };
        notes.extend(stream.notes.drain(..).filter(|note| !notes.contains(note)).collect::<Vec<_>>());
        let meter: Meter = stream.meter.clone();
        let mut skipped = 0;
        while let Some(piece) = next(&mut stream, i, &mut skipped) {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    let _ = give.send(Err(error));
                    return notes;
                }
            };
            held += piece.text.len();
            chunk.pieces.push(piece);
            if held >= CHUNK || chunk.pieces.len() >= PARTS {
                chunk.read = before + meter.bytes();
                held = 0;
                let full = std::mem::replace(&mut chunk, Chunk { pieces: vec![], read: 0 });
                if give.send(Ok(full)).is_err() {
                    return notes;
                }
            }
        }
        before += size(path);
        let (after, skipped) = (Some((i + 1, FilePlace::default())), stream.tally.bad as u64 - skipped);
        chunk.pieces.push(Piece { text: String::new(), begins: false, ends: false, after, skipped });
        chunk.read = before;
    }
    let _ = give.send(Ok(chunk));
    notes
}

pub(super) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

fn next(stream: &mut TextStream, source: usize, skipped: &mut u64) -> Option<Result<Piece>> {
    let part = stream.next()?;
    let bad = stream.tally.bad as u64;
    let since = bad - std::mem::replace(skipped, bad);
    Some(part.map(|part| Piece {
        text: part.text,
        begins: part.begins,
        ends: part.ends,
        after: part.after.map(|place| (source, place)),
        skipped: since,
    }))
}

/// Tokenises chunks on all threads, and writes their ids in order.
fn write(
    work: &mut Work,
    take: Receiver<Result<Chunk>>,
    tokenizer: &Tokenizer,
    frame: &Frame,
    shard_tokens: u64,
    making: &mut Making,
    watch: &mut dyn FnMut(&Making) -> Result<()>,
) -> Result<()> {
    let width = IdWidth::of(tokenizer.vocab_size());
    let words = WordIds::new(tokenizer);
    let mut open: Option<Writing> = None;
    for chunk in take {
        let chunk = chunk?;
        let made: Vec<Vec<u32>> =
            chunk.pieces.par_iter().map(|piece| piece.ids(&words, frame)).collect::<Result<_>>()?;
        for (piece, ids) in chunk.pieces.iter().zip(made) {
            work.progress.skipped += piece.skipped;
            work.progress.empty += u64::from(piece.is_empty());
            if !ids.is_empty() {
                let writing = match &mut open {
                    Some(writing) => writing,
                    None => open.insert(work.begin(width)?),
                };
                writing.add(&ids)?;
                writing.shard.documents += u64::from(piece.ends);
                writing.shard.text_bytes += piece.text.len() as u64;
                making.tokens += ids.len() as u64;
                making.documents += u64::from(piece.ends);
            }
            let Some((source, place)) = piece.after else { continue };
            (work.progress.source, work.progress.place) = (source, place);
            if let Some(full) = open.take_if(|writing| writing.shard.tokens >= shard_tokens) {
                work.progress.shards.push(full.commit()?);
                work.save()?;
                making.shards += 1;
            }
        }
        making.bytes = chunk.read;
        watch(making)?;
    }
    if let Some(last) = open {
        work.progress.shards.push(last.commit()?);
        work.save()?;
        making.shards += 1;
    }
    Ok(())
}
