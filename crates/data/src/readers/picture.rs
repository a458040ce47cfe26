//! One picture: decoded under limits, and brought to the size and the channels that a network reads.
//!
//! A picture from outside may claim 50,000 × 50,000 pixels in a few bytes: that is an error and not the end of the process. One of
//! another size is drawn anew as a whole, each side by its own factor; a grey one becomes colour by being the same in all three
//! channels, one in colour becomes grey by its brightness.

use super::source;
use crate::{Corpus, Error, Example, Result};
use image::{DynamicImage, GrayImage, ImageReader, Limits, RgbImage, imageops::FilterType};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// What every picture is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// columns
    pub width: usize,
    /// rows
    pub height: usize,
    /// 1 for grey, 3 for colour
    pub channels: usize,
}

impl std::fmt::Display for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colours = if self.channels == 1 { "grey" } else { "colour" };
        write!(f, "{} × {} pixels, {colours}", self.width, self.height)
    }
}

/// No side longer than this, and no more than 256 MiB to decode one picture.
const LONGEST_SIDE: u32 = 8192;
/// No more pixels than this: a file of some hundred kilobytes can hold gigabytes of one colour, which take their time.
const MOST_PIXELS: u64 = 48_000_000;

impl Picture {
    /// Refuses a size that no picture can be brought to.
    pub(super) fn check(self) -> Result<Self> {
        let Self { width, height, channels } = self;
        if width.min(height) == 0 || width.max(height) > LONGEST_SIDE as usize || ![1, 3].contains(&channels) {
            let what = format!("{width} × {height} pixels of {channels} channels cannot be made of a picture");
            return Err(Error::new("picture", what, "1 to 8192 pixels a side and 1 or 3 channels can"));
        }
        Ok(self)
    }

    /// What a decoded picture is.
    pub(super) fn of(picture: &DynamicImage) -> Self {
        let channels = if picture.color().has_color() { 3 } else { 1 };
        Self { width: picture.width() as usize, height: picture.height() as usize, channels }
    }

    /// A decoded picture as the bytes of one of this size.
    pub(super) fn pixels(self, mut picture: DynamicImage) -> Vec<u8> {
        let (width, height) = (self.width as u32, self.height as u32);
        if (picture.width(), picture.height()) != (width, height) {
            picture = picture.resize_exact(width, height, FilterType::Triangle);
        }
        match self.channels {
            1 => picture.into_luma8().into_raw(),
            _ => picture.into_rgb8().into_raw(),
        }
    }

    /// An example that is a picture, brought to this size as one from a file is; any other as it is.
    pub fn fit(self, example: Example) -> Result<Example> {
        let Example::Image { width, height, channels, pixels, label } = example else { return Ok(example) };
        let found = Self { width, height, channels };
        if found == self {
            return Ok(Example::Image { width, height, channels, pixels, label });
        }
        let to = self.check()?;
        let picture = match channels {
            1 => GrayImage::from_raw(width as u32, height as u32, pixels).map(DynamicImage::ImageLuma8),
            _ => RgbImage::from_raw(width as u32, height as u32, pixels).map(DynamicImage::ImageRgb8),
        };
        let picture = picture.ok_or_else(|| Error::internal("picture", format!("{found} have other bytes")))?;
        let Self { width, height, channels } = to;
        Ok(Example::Image { width, height, channels, pixels: to.pixels(picture), label })
    }
}

/// Decodes a file, if it keeps to the limits.
pub(super) fn decode(path: &Path) -> Result<DynamicImage> {
    let name = path.display().to_string();
    let damaged = |error: image::ImageError| {
        let hint = "PNG and JPEG up to 8192 × 8192 are read; convert the file, or skip bad rows";
        Error::new(&name, format!("no picture: {error}"), hint)
    };
    let open = || -> Result<_> {
        let reader = ImageReader::new(BufReader::new(source::open_file(path)?)).with_guessed_format();
        let mut reader = reader.map_err(|error| source::unreadable(&name, &error))?;
        let mut limits = Limits::default();
        limits.max_image_width = Some(LONGEST_SIDE);
        limits.max_image_height = Some(LONGEST_SIDE);
        limits.max_alloc = Some(256 << 20);
        reader.limits(limits);
        Ok(reader)
    };
    let (width, height) = open()?.into_dimensions().map_err(damaged)?;
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        let what = format!("no picture: {width} × {height} are more than {} million pixels", MOST_PIXELS / 1_000_000);
        return Err(Error::new(&name, what, "make it smaller; networks read some hundred pixels a side"));
    }
    open()?.decode().map_err(damaged)
}

/// A picture file, brought to `size`; without a label.
pub fn read_picture(path: &Path, size: Picture) -> Result<Example> {
    if ![1, 3].contains(&size.channels) {
        let what = format!("pictures have 1 or 3 channels, not {}", size.channels);
        return Err(Error::new(path.display().to_string(), what, "choose a model for grey or colour pictures"));
    }
    let Picture { width, height, channels } = size;
    Ok(Example::Image { width, height, channels, pixels: size.pixels(decode(path)?), label: String::new() })
}

/// The pictures of a corpus, each brought to a size when it is asked for.
pub struct Fitted {
    /// the pictures
    pub corpus: Arc<dyn Corpus>,
    /// what each is brought to
    pub size: Picture,
}

impl Corpus for Fitted {
    fn len(&self) -> usize {
        self.corpus.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        self.size.fit(self.corpus.get(index)?)
    }

    fn place(&self, index: usize) -> String {
        self.corpus.place(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grey_picture_becomes_colour_and_a_small_one_large() {
        let grey = Example::Image { width: 2, height: 1, channels: 1, pixels: vec![10, 200], label: "a".into() };
        let size = Picture { width: 2, height: 1, channels: 3 };
        let Example::Image { pixels, label, .. } = size.fit(grey.clone()).unwrap() else { panic!("no picture") };
        assert_eq!((pixels, label.as_str()), (vec![10, 10, 10, 200, 200, 200], "a"));
        let size = Picture { width: 4, height: 3, channels: 3 };
        let Example::Image { width, height, channels, pixels, .. } = size.fit(grey.clone()).unwrap() else {
            panic!("no picture")
        };
        assert_eq!((width, height, channels, pixels.len()), (4, 3, 3, 36));
        assert!(pixels[..3] == [10; 3] && pixels[9..12] == [200; 3], "{pixels:?}");
        assert_eq!(Picture { width: 2, height: 1, channels: 1 }.fit(grey.clone()), Ok(grey.clone()));
        assert!(Picture { width: 0, height: 1, channels: 1 }.fit(grey).is_err());
        let text = Example::Text("a text".into());
        assert_eq!(size.fit(text.clone()), Ok(text));
    }
}
