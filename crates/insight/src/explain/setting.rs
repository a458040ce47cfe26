//! What a person can set of a topic: names, kinds and ranges, and `key=value` read against them.
//!
//! `3` is one number, `3,1,0` a row, `1,0/0,1` rows: a setting says which of these it is, and what is given is checked against
//! that before any topic computes with it.

use qkv_base::{Error, Result, nearest};

/// One thing that can be set.
pub struct Setting {
    /// its name
    pub name: &'static str,
    /// what it is
    pub about: &'static str,
    /// the value where nothing is set, as it would be written
    pub usual: &'static str,
    /// what it holds
    pub kind: SettingKind,
}

/// What a setting holds, with the least and the most that makes sense for each number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingKind {
    /// one whole number
    Whole(f64, f64),
    /// one number
    Real(f64, f64),
    /// a row of numbers
    List(f64, f64),
    /// rows of numbers
    Rows(f64, f64),
}

/// What is wrong with a value, and a hint.
type Complaint = (String, String);

impl SettingKind {
    /// The numbers of `text`, if they are of this kind.
    fn read(self, setting: &Setting, text: &str) -> std::result::Result<Vec<Vec<f64>>, Complaint> {
        let (Self::Whole(least, most) | Self::Real(least, most) | Self::List(least, most) | Self::Rows(least, most)) =
            self;
        let whole = matches!(self, Self::Whole(..));
        let in_range = |v: &f64| (least..=most).contains(v) && (!whole || v.fract() == 0.0);
        let rows = parse(text).filter(|rows| rows.iter().flatten().all(in_range)).ok_or_else(|| {
            let words = if whole { "whole numbers" } else { "numbers" };
            (format!("`{text}` does not fit"), format!("{words} from {least} to {most}, as in {}", setting.usual))
        })?;
        match (self, rows.as_slice()) {
            (Self::Rows(..), _) | (Self::List(..), [_]) => Ok(rows),
            (Self::Whole(..) | Self::Real(..), [row]) if row.len() == 1 => Ok(rows),
            (Self::List(..), _) => Err((format!("{} is one row", setting.name), "take the `/` out".into())),
            _ => Err((format!("{} is one number", setting.name), format!("as in {}={}", setting.name, setting.usual))),
        }
    }
}

/// `1,2/3,4`; at most 16 rows of 64 numbers, which a page can show.
fn parse(text: &str) -> Option<Vec<Vec<f64>>> {
    let row = |row: &str| row.split(',').map(|n| n.trim().parse::<f64>().ok()).collect::<Option<Vec<_>>>();
    let rows = text.split('/').map(row).collect::<Option<Vec<_>>>()?;
    (rows.len() <= 16 && rows.iter().all(|r| r.len() <= 64)).then_some(rows)
}

/// The settings with their values; every name that a topic asks for is there, and every value is of its kind.
pub(super) struct Values(Vec<(&'static str, Vec<Vec<f64>>)>);

impl Values {
    /// Reads `key=value` over the usual values.
    pub(super) fn read(settings: &'static [Setting], set: &[String]) -> Result<Self> {
        let mut given = vec![];
        for line in set {
            let wrong = |(what, hint): Complaint| Error::new(format!("--set {line}"), what, hint);
            let (key, value) = line.split_once('=').ok_or_else(|| {
                wrong(("is not key=value".into(), format!("as in --set {}={}", settings[0].name, settings[0].usual)))
            })?;
            let setting = settings.iter().find(|s| s.name == key.trim()).ok_or_else(|| {
                let names: Vec<&str> = settings.iter().map(|s| s.name).collect();
                let near = nearest(key, names.iter().copied()).unwrap_or(names[0]);
                let hint = format!("did you mean `{near}`? There are: {}", names.join(", "));
                wrong((format!("there is no `{key}` here"), hint))
            })?;
            if given.iter().any(|(name, _)| *name == setting.name) {
                return Err(wrong((format!("`{}` is set twice", setting.name), "give it once".into())));
            }
            given.push((setting.name, setting.kind.read(setting, value).map_err(wrong)?));
        }
        let value = |s: &'static Setting| {
            let given = given.iter().find(|(name, _)| *name == s.name).map(|(_, rows)| rows.clone());
            (s.name, given.or_else(|| parse(s.usual)).unwrap_or_default())
        };
        Ok(Self(settings.iter().map(value).collect()))
    }

    /// Every name with its value, as a sentence.
    pub(super) fn in_words(&self) -> String {
        let row = |row: &Vec<f64>| row.iter().map(|v| format!("{v}")).collect::<Vec<_>>().join(", ");
        let written = |rows: &[Vec<f64>]| rows.iter().map(row).collect::<Vec<_>>().join(" / ");
        let said: Vec<String> = self.0.iter().map(|(name, rows)| format!("{name} = {}", written(rows))).collect();
        format!("{}.", said.join("; "))
    }

    pub(super) fn rows(&self, name: &str) -> &[Vec<f64>] {
        self.0.iter().find(|(n, _)| *n == name).map_or(&[], |(_, rows)| rows)
    }

    pub(super) fn list(&self, name: &str) -> &[f64] {
        self.rows(name).first().map_or(&[], Vec::as_slice)
    }

    pub(super) fn one(&self, name: &str) -> f64 {
        self.list(name).first().copied().unwrap_or(0.0)
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.one(name) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_of_its_kind_or_refused() {
        use SettingKind::*;
        let kinds = [Whole(1.0, 9.0), Real(1.0, 9.0), List(1.0, 9.0), Rows(1.0, 9.0)];
        let taken =
            |text: &str| kinds.map(|kind| kind.read(&Setting { name: "x", about: "", usual: "2", kind }, text).is_ok());
        assert_eq!(taken("2"), [true; 4]);
        assert_eq!(taken("2.5"), [false, true, true, true]);
        assert_eq!(taken("2,3"), [false, false, true, true]);
        assert_eq!(taken("2,3/4"), [false, false, false, true]);
        for wrong in ["", "x", "10", "0", "nan", "inf", "1,,2", "2/"] {
            assert_eq!(taken(wrong), [false; 4], "{wrong}");
        }
    }
}
