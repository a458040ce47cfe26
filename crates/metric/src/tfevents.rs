//! TensorBoard's event files, so that anyone's TensorBoard shows a run.
//!
//! ```text
//! file   = record…
//! record = length: u64 | masked crc of length: u32 | payload | masked crc of payload: u32     (little endian)
//! mask   = rotate_right(crc32c, 15) + 0xa282ead8
//! payload = Event { 1 wall_time: double, 2 step: int64, 3 file_version | 5 Summary { 1 Value { 1 tag, 2 float } } }
//! ```
//!
//! The protobuf is small enough to write by hand. A file is only appended to; a resumed run opens another one beside it,
//! and TensorBoard joins them.

use std::{
    fs::{self, File},
    io::{BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use qkv_base::{Error, Kind, Result};

/// An event file being written.
///
/// ```
/// use qkv_metric::{Event, EventFile, read_events};
/// let dir = tempfile::tempdir().unwrap();
/// let mut file = EventFile::create(dir.path(), 1_700_000_000.5, "host")?;
/// file.scalar(3, 1_700_000_001.0, "train/loss", 2.5)?;
/// file.flush()?;
/// let events = read_events(file.path())?;
/// assert_eq!(events[1].what, Event::Scalar { tag: "train/loss".into(), value: 2.5 });
/// assert_eq!(events[1].step, 3);
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: BufWriter<File>,
}

/// One event and when it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// seconds since 1970
    pub wall_time: f64,
    /// step of the run
    pub step: i64,
    /// what it says
    pub what: Event,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// the first record of every file
    Version(String),
    /// one point of a curve
    Scalar {
        /// the curve
        tag: String,
        /// the point
        value: f32,
    },
    /// a text, shown as Markdown
    Text {
        /// its name
        tag: String,
        /// what it says
        text: String,
    },
}

impl EventFile {
    /// A new file `events.out.tfevents.<seconds>.<host>` in `dir`, which is made if need be. An older file of that name
    /// is kept and the new one numbered.
    pub fn create(dir: &Path, wall_time: f64, host: &str) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| wrong(dir, "cannot make the directory", &e))?;
        let host: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let name = format!("events.out.tfevents.{:010}.{host}", wall_time.max(0.0) as u64);
        let mut number = 0;
        loop {
            let path = dir.join(if number == 0 { name.clone() } else { format!("{name}.{number}") });
            match File::create_new(&path) {
                Ok(file) => {
                    let mut file = Self { path, file: BufWriter::new(file) };
                    let what = Event::Version("brain.Event:2".into());
                    file.write(&Recorded { wall_time, step: 0, what })?;
                    file.flush()?;
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => number += 1,
                Err(error) => return Err(wrong(&path, "cannot make the event file", &error)),
            }
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One point of the curve `tag`.
    pub fn scalar(&mut self, step: i64, wall_time: f64, tag: &str, value: f32) -> Result<()> {
        self.write(&Recorded { wall_time, step, what: Event::Scalar { tag: tag.into(), value } })
    }

    /// A text under `tag`, such as a recipe or samples.
    pub fn text(&mut self, step: i64, wall_time: f64, tag: &str, text: &str) -> Result<()> {
        self.write(&Recorded { wall_time, step, what: Event::Text { tag: tag.into(), text: text.into() } })
    }

    /// Hands everything to the system, so that a TensorBoard that is watching sees it.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|e| wrong(&self.path, "cannot write", &e))
    }

    fn write(&mut self, event: &Recorded) -> Result<()> {
        self.file.write_all(&record(&encode(event))).map_err(|e| wrong(&self.path, "cannot write", &e))
    }
}

fn wrong(path: &Path, what: &str, error: &std::io::Error) -> Error {
    let hint = "check that the disk has room and that the directory may be written";
    Error::new(path.display().to_string(), format!("{what}: {error}"), hint).of_kind(Kind::of_write(error))
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn record(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), payload, &masked_crc(payload).to_le_bytes()].concat()
}

/// A field that is a run of bytes: a string or a message.
fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2], &varint(value.len() as u64)[..], value].concat()
}

fn number(field: u8, value: u64) -> Vec<u8> {
    [&[field << 3], &varint(value)[..]].concat()
}

/// Seven bits to a byte, the lowest first, the high bit where more follow.
fn varint(mut value: u64) -> Vec<u8> {
    let mut out = vec![];
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn encode(event: &Recorded) -> Vec<u8> {
    let mut out = vec![1 << 3 | 1];
    out.extend(event.wall_time.to_le_bytes());
    out.extend(number(2, event.step as u64));
    out.extend(match &event.what {
        Event::Version(version) => bytes(3, version.as_bytes()),
        Event::Scalar { tag, value } => {
            let value = [&[2 << 3 | 5], &value.to_le_bytes()[..]].concat();
            summary(tag, &value)
        }
        // A tensor of one string (dtype 7), which metadata assigns to the text plugin.
        Event::Text { tag, text } => {
            let shape = bytes(2, &bytes(2, &number(1, 1)));
            let tensor = bytes(8, &[number(1, 7), shape, bytes(8, text.as_bytes())].concat());
            let metadata = bytes(9, &bytes(1, &bytes(1, b"text")));
            summary(tag, &[tensor, metadata].concat())
        }
    });
    out
}

fn summary(tag: &str, value: &[u8]) -> Vec<u8> {
    bytes(5, &bytes(1, &[bytes(1, tag.as_bytes()), value.to_vec()].concat()))
}

/// Reads a file back, checking every sum. A record that the writer did not finish ends the list: it may still be at it.
pub fn read_events(path: &Path) -> Result<Vec<Recorded>> {
    let data = fs::read(path).map_err(|e| wrong(path, "cannot read", &e))?;
    let (mut rest, mut events) = (&data[..], vec![]);
    while let Some((length, after)) = rest.split_first_chunk::<8>() {
        let damaged = || {
            let place = format!("{} at byte {}", path.display(), data.len() - rest.len());
            Error::new(place, "the record is damaged", "the file was changed or cut; what stands before is good")
        };
        let Some((sum, after)) = after.split_first_chunk::<4>() else { break };
        if masked_crc(length) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let Some((payload, after)) =
            usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|n| after.split_at_checked(n))
        else {
            break;
        };
        let Some((sum, after)) = after.split_first_chunk::<4>() else { break };
        if masked_crc(payload) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        events.extend(decode(payload).ok_or_else(damaged)?);
        rest = after;
    }
    Ok(events)
}

/// A field's number and value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The next field of a message; `None` where there is none or it is not a protobuf.
fn field<'a>(data: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = read_varint(data)?;
    let value = match key & 7 {
        0 => Field::Number(read_varint(data)?),
        1 => Field::Bytes(take(data, 8)?),
        2 => {
            let length = read_varint(data)?;
            Field::Bytes(take(data, length)?)
        }
        5 => Field::Bytes(take(data, 4)?),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take<'a>(data: &mut &'a [u8], n: u64) -> Option<&'a [u8]> {
    let (head, tail) = data.split_at_checked(usize::try_from(n).ok()?)?;
    *data = tail;
    Some(head)
}

fn read_varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// All fields of a message.
fn fields(mut data: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut out = vec![];
    while !data.is_empty() {
        out.push(field(&mut data)?);
    }
    Some(out)
}

/// The bytes of a field, where the message has it.
fn part(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message)?.into_iter().find_map(|(number, value)| match value {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    })
}

/// The events of a record: one, or none of a kind that we write.
fn decode(payload: &[u8]) -> Option<Vec<Recorded>> {
    let (mut wall_time, mut step, mut found) = (0.0, 0, vec![]);
    for (number, value) in fields(payload)? {
        match (number, value) {
            (1, Field::Bytes(bytes)) => wall_time = f64::from_le_bytes(bytes.try_into().ok()?),
            (2, Field::Number(n)) => step = n as i64,
            (3, Field::Bytes(bytes)) => found.push(Event::Version(String::from_utf8_lossy(bytes).into())),
            (5, Field::Bytes(summary)) => {
                for (_, value) in fields(summary)? {
                    let Field::Bytes(value) = value else { continue };
                    found.extend(decode_value(value));
                }
            }
            _ => {}
        }
    }
    Some(found.into_iter().map(|what| Recorded { wall_time, step, what }).collect())
}

fn decode_value(value: &[u8]) -> Option<Event> {
    let tag = String::from_utf8_lossy(part(value, 1)?).into_owned();
    if let Some(bytes) = part(value, 2) {
        return Some(Event::Scalar { tag, value: f32::from_le_bytes(bytes.try_into().ok()?) });
    }
    let text = part(part(value, 8)?, 8)?;
    Some(Event::Text { tag, text: String::from_utf8_lossy(text).into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value that RFC 3720 gives for 32 zero bytes, masked.
    #[test]
    fn sums_are_masked() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_crc(&[0; 32]), 0x8a91_36aa_u32.rotate_left(17).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn a_point_byte_by_byte() {
        let point = Recorded { wall_time: 1.0, step: 300, what: Event::Scalar { tag: "ab".into(), value: 1.0 } };
        let want = [
            &[0x09][..],
            &1f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],
            &[0x2a, 11, 0x0a, 9],
            &[0x0a, 2, b'a', b'b'],
            &[0x15],
            &1f32.to_le_bytes(),
        ];
        assert_eq!(encode(&point), want.concat());
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(&dir.path().join("runs/a"), 1_700_000_000.0, "my host/1").unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap().to_string();
        assert_eq!(name, "events.out.tfevents.1700000000.my_host_1");
        file.scalar(-1, 0.25, "loss", f32::NAN).unwrap();
        file.text(1 << 40, 0.5, "samples", &"नमस्ते\n".repeat(40)).unwrap();
        file.flush().unwrap();
        let events = read_events(file.path()).unwrap();
        assert_eq!(events.len(), 3);
        assert_eq!(events[0].what, Event::Version("brain.Event:2".into()));
        assert!(matches!(&events[1], Recorded { step: -1, what: Event::Scalar { value, .. }, .. } if value.is_nan()));
        let text = Event::Text { tag: "samples".into(), text: "नमस्ते\n".repeat(40) };
        assert_eq!(events[2], Recorded { wall_time: 0.5, step: 1 << 40, what: text });
    }

    #[test]
    fn a_resumed_run_opens_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let first = EventFile::create(dir.path(), 5.0, "h").unwrap();
        let second = EventFile::create(dir.path(), 5.0, "h").unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(read_events(first.path()).unwrap(), read_events(second.path()).unwrap());
    }

    #[test]
    fn cut_and_changed_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(dir.path(), 5.0, "h").unwrap();
        file.scalar(1, 1.0, "loss", 1.0).unwrap();
        file.flush().unwrap();
        let whole = fs::read(file.path()).unwrap();
        for cut in 0..whole.len() {
            fs::write(file.path(), &whole[..cut]).unwrap();
            assert!(read_events(file.path()).unwrap().len() < 2, "cut at {cut}");
        }
        for i in 0..whole.len() {
            let mut changed = whole.clone();
            changed[i] ^= 0x10;
            fs::write(file.path(), changed).unwrap();
            assert!(read_events(file.path()).is_err(), "byte {i}");
        }
        assert!(EventFile::create(file.path(), 5.0, "h").is_err());
    }
}
