//! Pictures: a folder with one subfolder a class (PNG or JPEG), or digits as IDX files and as tables.
//!
//! Files are decoded when asked for; IDX and tables are held in memory as bytes.

use super::picture::{Fitted, Picture, decode};
use super::{Opened, Reader, Tally, files_under, source, table};
use crate::{Corpus, Error, Example, Result, corpus::past_end};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the label of a row of pixel values stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelColumn {
    /// before the pixels, as in the usual tables of MNIST
    First,
    /// after the pixels, as in the UCI digits
    Last,
}

struct Folder {
    /// path and class
    files: Vec<(PathBuf, String)>,
    size: Picture,
}

impl Corpus for Folder {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let (path, label) = self.files.get(index).ok_or_else(|| past_end(index, self.files.len()))?;
        let pixels = self.size.pixels(decode(path)?);
        let Picture { width, height, channels } = self.size;
        Ok(Example::Image { width, height, channels, pixels, label: label.clone() })
    }

    fn place(&self, index: usize) -> String {
        self.files.get(index).map_or_else(String::new, |(path, _)| path.display().to_string())
    }
}

/// Opens a folder of pictures. Without a size, every picture must have that of the first.
pub(crate) fn open_folder(reader: &Reader, path: &Path, want: Option<Picture>) -> Result<Opened> {
    let want = want.map(Picture::check).transpose()?;
    let mut tally = Tally::default();
    let (mut files, mut size, mut changed) = (Vec::new(), want, 0);
    for file in files_under(path)? {
        match one_file(path, &file, want.is_some(), &mut size) {
            Ok((label, found)) => {
                changed += usize::from(want.is_some_and(|want| want != found));
                files.push((file, label));
            }
            Err(error) => tally.bad_row(error, reader.bad_rows)?,
        }
    }
    tally.rows = files.len();
    let size = size.ok_or_else(|| super::nothing(&path.display().to_string()))?;
    let note = match changed {
        0 => format!("pictures of {size}"),
        _ => brought(changed, files.len(), size),
    };
    Opened::new(path, Folder { files, size }, tally, vec![note])
}

/// What is said of pictures that are not as they are wanted.
fn brought(changed: usize, all: usize, size: Picture) -> String {
    format!("{changed} of {all} pictures are of another size or colour: they are brought to {size}")
}

/// Brings pictures that are held as they were to a size, where that is another one.
pub(super) fn fitted(opened: Opened, size: Picture) -> Result<Opened> {
    let found = match opened.corpus.get(0)? {
        Example::Image { width, height, channels, .. } => Picture { width, height, channels },
        _ => return Ok(opened),
    };
    if found == size.check()? {
        return Ok(opened);
    }
    let n = opened.corpus.len();
    let Opened { corpus, tally, mut notes } = opened;
    notes.push(brought(n, n, size));
    Ok(Opened { corpus: Arc::new(Fitted { corpus, size }), tally, notes })
}

/// The class of one file, the first folder under the root, and what the picture is; where `any` is not said, it must be of the
/// size of the first.
fn one_file(root: &Path, file: &Path, any: bool, size: &mut Option<Picture>) -> Result<(String, Picture)> {
    let name = file.display().to_string();
    let inside = file.strip_prefix(root).unwrap_or(file);
    let mut parts = inside.components();
    let (Some(class), Some(_)) = (parts.next(), parts.next()) else {
        return Err(Error::new(
            name,
            "the picture is in no class folder",
            "put it in a subfolder named after its class",
        ));
    };
    let found = Picture::of(&decode(file)?);
    let first = *size.get_or_insert(found);
    if !any && (found.width, found.height) != (first.width, first.height) {
        let what =
            format!("{} × {} pixels where the first has {} × {}", found.width, found.height, first.width, first.height);
        return Err(Error::new(name, what, "say a size, and every picture is brought to it"));
    }
    Ok((class.as_os_str().to_string_lossy().into_owned(), found))
}

/// Pictures of one size, held as bytes.
struct Held {
    size: Picture,
    pixels: Vec<u8>,
    labels: Vec<String>,
    file: String,
}

impl Corpus for Held {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let label = self.labels.get(index).ok_or_else(|| past_end(index, self.labels.len()))?;
        let Picture { width, height, channels } = self.size;
        let each = width * height * channels;
        let pixels = self.pixels.get(index * each..(index + 1) * each);
        let pixels = pixels.ok_or_else(|| past_end(index, self.labels.len()))?.to_vec();
        Ok(Example::Image { width, height, channels, pixels, label: label.clone() })
    }

    fn place(&self, index: usize) -> String {
        format!("{}, picture {}", self.file, index + 1)
    }
}

/// The dimensions and the values of an IDX file of bytes: two zeros, the type, how many dimensions, each as big-endian u32.
fn idx(path: &Path, rank: u8) -> Result<(Vec<usize>, Vec<u8>)> {
    let name = path.display().to_string();
    let bad = |what: String| Error::new(&name, what, "IDX files of bytes are read, as MNIST's; plain or gzip");
    let mut bytes = source::whole(path, source::MOST_UNPACKED)?;
    if bytes.get(..4) != Some(&[0, 0, 8, rank]) {
        return Err(bad(format!("does not begin as an IDX file of bytes with {rank} dimensions")));
    }
    let head = 4 + 4 * rank as usize;
    let sizes = bytes.get(4..head).ok_or_else(|| bad("ends inside its head".into()))?;
    let sizes: Vec<usize> = sizes.as_chunks::<4>().0.iter().map(|four| u32::from_be_bytes(*four) as usize).collect();
    let product = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    if product != Some(bytes.len() - head) {
        return Err(bad(format!("says {sizes:?} but holds {} bytes", bytes.len() - head)));
    }
    bytes.drain(..head);
    Ok((sizes, bytes))
}

/// Opens a pair of IDX files: pictures at `path`, labels at `labels` or at the name MNIST gives them.
pub(crate) fn open_idx(path: &Path, labels: Option<&Path>) -> Result<Opened> {
    let name = path.display().to_string();
    let beside = PathBuf::from(name.replace("images", "labels").replace("idx3", "idx1"));
    let labels = labels.unwrap_or(&beside);
    let (sizes, pixels) = idx(path, 3)?;
    let (_, classes) = idx(labels, 1)?;
    let &[count, height, width] = sizes.as_slice() else { return Err(super::nothing(&name)) };
    if count != classes.len() {
        let what = format!("{count} pictures, but {} has {} labels", labels.display(), classes.len());
        return Err(Error::new(name, what, "name the labels that belong to these pictures"));
    }
    let tally = Tally { rows: count, ..Tally::default() };
    let labels = classes.iter().map(u8::to_string).collect();
    Opened::new(
        path,
        Held { size: Picture { width, height, channels: 1 }, pixels, labels, file: name },
        tally,
        Vec::new(),
    )
}

/// Opens a table of digits: a label and the pixel values of a row, 0 to 255, square unless `size` says otherwise.
pub(crate) fn open_digits(reader: &Reader, path: &Path, label: LabelColumn, size: Option<Picture>) -> Result<Opened> {
    let name = path.display().to_string();
    let mut records = super::records::Records::new(source::stream(path)?, &name, super::records::Cut::Line);
    let mut tally = Tally::default();
    let mut notes = Vec::new();
    let mut held =
        Held { size: Picture { width: 0, height: 0, channels: 1 }, pixels: Vec::new(), labels: Vec::new(), file: name };
    while let Some(record) = records.next()? {
        let row = record.text(&held.file).map(|text| table::split(text, b',', table::Quotes::SameLine));
        match row.and_then(|row| digits(&row, label, &record.place(&held.file))) {
            // A header has words where the pixels are.
            Err(_) if record.line == 1 => notes.push("first row taken as a header".into()),
            Err(error) => tally.bad_row(error, reader.bad_rows)?,
            Ok((class, pixels)) => {
                if held.labels.is_empty() {
                    held.size = shape(pixels.len(), size, &record.place(&held.file))?;
                }
                let each = held.size.width * held.size.height * held.size.channels;
                if pixels.len() != each {
                    let what = format!("{} pixel values where the first row has {each}", pixels.len());
                    let error = Error::new(record.place(&held.file), what, "every row needs as many");
                    tally.bad_row(error, reader.bad_rows)?;
                    continue;
                }
                held.pixels.extend(pixels);
                held.labels.push(class);
            }
        }
    }
    tally.rows = held.labels.len();
    notes.push(format!("pictures of {} × {} pixels", held.size.width, held.size.height));
    Opened::new(path, held, tally, notes)
}

fn shape(values: usize, size: Option<Picture>, place: &str) -> Result<Picture> {
    let side = values.isqrt();
    match size {
        Some(size) if size.width * size.height * size.channels == values => Ok(size),
        None if side * side == values && side > 0 => Ok(Picture { width: side, height: side, channels: 1 }),
        _ => {
            let what = format!("{values} pixel values do not make the picture");
            Err(Error::new(place, what, "say the width, height and channels; is the label first or last?"))
        }
    }
}

fn digits(row: &[String], label: LabelColumn, place: &str) -> Result<(String, Vec<u8>)> {
    let (class, values, first) = match (label, row) {
        (LabelColumn::First, [class, values @ ..]) => (class, values, 2),
        (LabelColumn::Last, [values @ .., class]) => (class, values, 1),
        _ => return Err(Error::new(place, "an empty row", "give a label and pixel values")),
    };
    let pixel = |(i, value): (usize, &String)| {
        value.trim().parse::<u8>().map_err(|_| {
            let place = format!("{place}, column {}", i + first);
            Error::new(place, format!("`{value}` is not a pixel value"), "pixel values are whole numbers from 0 to 255")
        })
    };
    Ok((class.trim().to_string(), values.iter().enumerate().map(pixel).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::{BadRows, Format};
    use crate::{Task, read};
    use std::fs;

    fn png(path: &Path, width: u32, height: u32, level: u8) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::RgbImage::from_pixel(width, height, image::Rgb([level, 0, 0])).save(path).unwrap();
    }

    #[test]
    fn a_folder_gives_its_subfolders_as_classes() {
        let folder = tempfile::tempdir().unwrap();
        png(&folder.path().join("square/1.png"), 4, 4, 200);
        png(&folder.path().join("circle/a.png"), 4, 4, 100);
        let opened = read(folder.path(), Task::Image).unwrap();
        let Example::Image { pixels, label, channels, .. } = opened.corpus.get(0).unwrap() else { panic!() };
        assert_eq!((label.as_str(), channels, &pixels[..4]), ("circle", 3, &[100, 0, 0, 100][..]));
        png(&folder.path().join("square/2.png"), 5, 4, 1);
        let error = read(folder.path(), Task::Image).unwrap_err();
        assert_eq!(error.what, "5 × 4 pixels where the first has 4 × 4");
        let picture = Picture { width: 2, height: 2, channels: 1 };
        let reader = Reader { format: Some(Format::Folder(Some(picture))), ..Reader::new(Task::Image) };
        let Example::Image { pixels, .. } = reader.open(folder.path()).unwrap().corpus.get(1).unwrap() else {
            panic!()
        };
        assert_eq!(pixels.len(), 4);
    }

    #[test]
    fn pictures_are_brought_to_what_the_reader_says() {
        let folder = tempfile::tempdir().unwrap();
        png(&folder.path().join("square/1.png"), 4, 4, 200);
        png(&folder.path().join("square/2.png"), 5, 3, 200);
        let grey = folder.path().join("circle/a.png");
        fs::create_dir_all(grey.parent().unwrap()).unwrap();
        image::GrayImage::from_pixel(4, 4, image::Luma([7])).save(&grey).unwrap();
        let size = Picture { width: 4, height: 4, channels: 3 };
        let reader = Reader { picture: Some(size), ..Reader::new(Task::Image) };
        let opened = reader.open(folder.path()).unwrap();
        let said = "2 of 3 pictures are of another size or colour: they are brought to 4 × 4 pixels, colour";
        assert_eq!(opened.notes, [said]);
        for i in 0..3 {
            let Example::Image { width, height, channels, pixels, .. } = opened.corpus.get(i).unwrap() else {
                panic!()
            };
            assert_eq!((width, height, channels, pixels.len()), (4, 4, 3, 48));
        }
        fs::write(folder.path().join("digits.csv"), "label,a,b,c,d\n7,0,1,2,255\n").unwrap();
        let opened = reader.open(folder.path().join("digits.csv")).unwrap();
        let Example::Image { width, pixels, label, .. } = opened.corpus.get(0).unwrap() else { panic!() };
        assert_eq!((width, pixels.len(), label.as_str()), (4, 48, "7"));
        assert!(opened.notes.iter().any(|note| note.starts_with("1 of 1 pictures")), "{:?}", opened.notes);
        let none = Reader { picture: Some(Picture { width: 0, ..size }), ..Reader::new(Task::Image) };
        assert!(none.open(folder.path()).is_err());
    }

    /// A PNG of a few bytes that claims 50,000 × 50,000 pixels.
    #[test]
    fn fault_43_a_picture_bomb_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        png(&folder.path().join("a/1.png"), 4, 4, 200);
        let mut bytes = fs::read(folder.path().join("a/1.png")).unwrap();
        bytes[16..20].copy_from_slice(&50_000u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&50_000u32.to_be_bytes());
        let crc = flate2_crc(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.to_be_bytes());
        fs::write(folder.path().join("a/2.png"), bytes).unwrap();
        assert!(read(folder.path(), Task::Image).unwrap_err().what.starts_with("no picture"));
        let reader = Reader { bad_rows: BadRows::Skip, ..Reader::new(Task::Image) };
        let opened = reader.open(folder.path()).unwrap();
        assert_eq!((opened.tally.rows, opened.tally.bad), (1, 1));
    }

    fn flate2_crc(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    #[test]
    fn idx_files_are_checked_against_their_heads() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("train-images-idx3-ubyte");
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6];
        fs::write(&images, super::super::source::tests::gzip(&bytes)).unwrap();
        fs::write(folder.path().join("train-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 2, 3, 4]).unwrap();
        let opened = read(&images, Task::Image).unwrap();
        let want = Example::Image { width: 2, height: 1, channels: 1, pixels: vec![7, 6], label: "4".into() };
        assert_eq!(opened.corpus.get(1), Ok(want));
        bytes[4..8].copy_from_slice(&[255; 4]);
        fs::write(&images, &bytes).unwrap();
        assert!(read(&images, Task::Image).unwrap_err().what.contains("but holds 4 bytes"));
        fs::write(&images, &bytes[..9]).unwrap();
        assert!(read(&images, Task::Image).unwrap_err().what.contains("ends inside its head"));
    }

    #[test]
    fn digits_of_a_table_say_where_the_label_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.csv");
        fs::write(&path, "label,a,b,c,d\n7,0,1,2,255\n3,0,1,2,256\n").unwrap();
        let error = read(&path, Task::Image).unwrap_err();
        assert!(error.to_string().ends_with("digits.csv:3, column 5: `256` is not a pixel value"), "{error}");
        let format = Some(Format::Digits { label: LabelColumn::First, size: None });
        let reader = Reader { format, bad_rows: BadRows::Skip, ..Reader::new(Task::Image) };
        let opened = reader.open(&path).unwrap();
        let want = Example::Image { width: 2, height: 2, channels: 1, pixels: vec![0, 1, 2, 255], label: "7".into() };
        assert_eq!((opened.corpus.get(0), opened.tally.bad), (Ok(want), 1));
        fs::write(&path, "0,1,2,255,7\n").unwrap();
        let error = read(&path, Task::Image).unwrap_err();
        assert!(error.what.contains("which column"), "{error}");
    }
}
