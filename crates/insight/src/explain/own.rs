//! The same arithmetic with a person's own numbers: `qkv explain softmax --set scores=3,1,0 --set temperature=0.5`.
//!
//! A topic that has settings names them here with what they are where nothing is set, and what it computes from them. The slide's part of
//! the page stays as it is: what is compared with a slide is the slide's.

use super::Topic;
use super::own_pages::*;
use crate::page::Page;
use qkv_base::{Error, Result, nearest};

/// One thing that can be set.
pub struct Setting {
    /// its name
    pub name: &'static str,
    /// what it is
    pub about: &'static str,
    /// the value where nothing is set: a number, or several with commas between them
    pub usual: &'static str,
    /// the least and the most that makes sense
    pub range: (f64, f64),
    /// whether only whole numbers make sense
    pub whole: bool,
}

const fn whole(name: &'static str, about: &'static str, usual: &'static str, most: f64) -> Setting {
    Setting { name, about, usual, range: (1.0, most), whole: true }
}

const fn real(name: &'static str, about: &'static str, usual: &'static str, range: (f64, f64)) -> Setting {
    Setting { name, about, usual, range, whole: false }
}

/// What a topic computes from its settings.
pub(super) struct Own {
    topic: &'static str,
    settings: &'static [Setting],
    make: fn(Page, &Values) -> Result<Page>,
}

const ANY: (f64, f64) = (-1e6, 1e6);

const OWN: &[Own] = &[
    Own {
        topic: "softmax",
        settings: &[
            real("scores", "the scores, with commas", "2,1,0.1", ANY),
            real("temperature", "what they are divided by", "1", (1e-3, 1e3)),
        ],
        make: own_softmax,
    },
    Own {
        topic: "attention",
        settings: &[
            real("q", "queries, rows with / between them", "1,0/0,1/1,1", ANY),
            real("k", "keys", "1,0/0,1/1,1", ANY),
            real("v", "values", "1,2/3,4/5,6", ANY),
        ],
        make: own_attention,
    },
    Own {
        topic: "scale",
        settings: &[
            whole("width", "numbers in a query", "64", 1e9),
            real("variance", "of each number", "1", (0.0, 1e6)),
        ],
        make: own_scale,
    },
    Own {
        topic: "heads",
        settings: &[whole("width", "D", "512", 1e6), whole("heads", "H", "8", 1e6)],
        make: own_heads,
    },
    Own {
        topic: "positions",
        settings: &[whole("width", "numbers of a position", "6", 64.0), whole("count", "positions", "4", 64.0)],
        make: own_positions,
    },
    Own {
        topic: "norms",
        settings: &[
            real("x", "one row of features", "2,3,7,5,4", ANY),
            real("epsilon", "added to the variance", "0", (0.0, 1.0)),
        ],
        make: own_norms,
    },
    Own {
        topic: "feed-forward",
        settings: &[whole("width", "D", "512", 1e6), whole("factor", "how much wider it is inside", "4", 1e3)],
        make: own_feed_forward,
    },
    Own {
        topic: "loss",
        settings: &[
            real("scores", "what the model says for each class", "2,1,0.1", ANY),
            real("truth", "the right class, from 0", "0", (0.0, 1e6)),
            real("smoothing", "of the label", "0", (0.0, 0.999)),
        ],
        make: own_loss,
    },
    Own {
        topic: "sampling",
        settings: &[
            real("scores", "what the model says for each token", "3,2,1,0", ANY),
            real("temperature", "what they are divided by", "1", (1e-3, 1e3)),
            whole("top_k", "tokens that stay", "1000000", 1e6),
            real("top_p", "probability that stays", "1", (1e-9, 1.0)),
        ],
        make: own_sampling,
    },
    Own {
        topic: "cost",
        settings: &[
            whole("width", "D", "1024", 1e6),
            whole("length", "T, tokens of the text", "37", 1e9),
            whole("layers", "L", "12", 1e5),
            whole("vocabulary", "V", "30000", 1e8),
        ],
        make: own_cost,
    },
    Own {
        topic: "lora",
        settings: &[
            whole("width", "D of the square matrix", "512", 1e6),
            whole("rank", "r", "8", 1e6),
            real("alpha", "α: the change is scaled by α/r", "16", (0.0, 1e6)),
        ],
        make: own_lora,
    },
    Own {
        topic: "patches",
        settings: &[
            whole("image", "pixels of a side", "224", 1e5),
            whole("patch", "pixels of a patch's side", "16", 1e5),
            whole("channels", "colours", "3", 1e3),
            whole("width", "D", "768", 1e6),
        ],
        make: own_patches,
    },
];

/// The settings with their values; every name that a topic asks for is there, and every value is in its range.
pub(super) struct Values(Vec<(&'static str, Vec<Vec<f64>>)>);

impl Values {
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

impl Topic {
    /// What can be set.
    pub fn settings(&self) -> &'static [Setting] {
        OWN.iter().find(|own| own.topic == self.name).map_or(&[], |own| own.settings)
    }

    /// Its page with a part that is computed from `key=value` settings; what is not set is as usual.
    pub fn page_with(&self, set: &[String]) -> Result<Page> {
        let page = self.page()?;
        if set.is_empty() {
            return Ok(page);
        }
        let Some(own) = OWN.iter().find(|own| own.topic == self.name) else {
            let topics: Vec<&str> = OWN.iter().map(|own| own.topic).collect();
            let hint = format!("these have: {}", topics.join(", "));
            return Err(Error::new("--set", format!("`{}` has nothing to set", self.name), hint));
        };
        let values = read(own.settings, set)?;
        let said: Vec<String> = values.0.iter().map(|(name, rows)| format!("{name} = {}", written(rows))).collect();
        check(own.topic, &values)?;
        (own.make)(page.section("With your numbers").text(format!("{}.", said.join("; "))), &values)
    }
}

fn written(rows: &[Vec<f64>]) -> String {
    let row = |row: &Vec<f64>| row.iter().map(|v| format!("{v}")).collect::<Vec<_>>().join(", ");
    rows.iter().map(row).collect::<Vec<_>>().join(" / ")
}

/// Reads `key=value` over the usual values.
fn read(settings: &'static [Setting], set: &[String]) -> Result<Values> {
    let mut given = vec![];
    for line in set {
        let wrong = |what: String, hint: String| Error::new(format!("--set {line}"), what, hint);
        let (key, value) = line.split_once('=').ok_or_else(|| {
            wrong("is not key=value".into(), format!("as in --set {}={}", settings[0].name, settings[0].usual))
        })?;
        let setting = settings.iter().find(|s| s.name == key.trim()).ok_or_else(|| {
            let names: Vec<&str> = settings.iter().map(|s| s.name).collect();
            let near = nearest(key, names.iter().copied()).unwrap_or(names[0]);
            wrong(
                format!("there is no `{key}` here"),
                format!("did you mean `{near}`? There are: {}", names.join(", ")),
            )
        })?;
        if given.iter().any(|(name, _)| *name == setting.name) {
            return Err(wrong(format!("`{}` is set twice", setting.name), "give it once".into()));
        }
        let rows = parse(value).filter(|rows| rows.iter().flatten().all(|v| fits(setting, *v)));
        let rows = rows.ok_or_else(|| {
            let kind = if setting.whole { "whole numbers" } else { "numbers" };
            let (least, most) = setting.range;
            wrong(format!("`{value}` does not fit"), format!("{kind} from {least} to {most}, as in {}", setting.usual))
        })?;
        given.push((setting.name, rows));
    }
    let value = |s: &'static Setting| {
        let given = given.iter().find(|(name, _)| *name == s.name).map(|(_, rows)| rows.clone());
        (s.name, given.or_else(|| parse(s.usual)).unwrap_or_default())
    };
    Ok(Values(settings.iter().map(value).collect()))
}

fn fits(setting: &Setting, value: f64) -> bool {
    let (least, most) = setting.range;
    value.is_finite() && value >= least && value <= most && (!setting.whole || value.fract() == 0.0)
}

/// `1,2/3,4`; at most 16 rows of 64 numbers, which a page can show.
fn parse(text: &str) -> Option<Vec<Vec<f64>>> {
    let row = |row: &str| row.split(',').map(|n| n.trim().parse::<f64>().ok()).collect::<Option<Vec<_>>>();
    let rows = text.split('/').map(row).collect::<Option<Vec<_>>>()?;
    (rows.len() <= 16 && rows.iter().all(|r| r.len() <= 64)).then_some(rows)
}

/// What holds between several settings of a topic.
fn check(topic: &str, v: &Values) -> Result<()> {
    let wrong = |what: String, hint: &str| Err(Error::new("--set", what, hint));
    let single = ["q", "k", "v"];
    for (name, rows) in v.0.iter().filter(|(name, _)| !single.contains(name)) {
        if rows.len() != 1 {
            return wrong(format!("{name} is one row"), "take the `/` out");
        }
        let lists = ["scores", "x"];
        if !lists.contains(name) && rows[0].len() != 1 {
            return wrong(format!("{name} is one number"), "take the commas out");
        }
    }
    match topic {
        "attention" => {
            let widths = |name: &str| v.rows(name).iter().map(Vec::len).collect::<Vec<_>>();
            let (q, k, values) = (widths("q"), widths("k"), widths("v"));
            if q.iter().chain(&k).any(|w| *w != q[0])
                || values.iter().any(|w| *w != values[0])
                || k.len() != values.len()
            {
                let what = "queries and keys must have one width, and there must be a value for each key".to_string();
                return wrong(what, "as in --set q=1,0/0,1 --set k=1,0/0,1 --set v=5/7");
            }
        }
        "heads" if !v.count("width").is_multiple_of(v.count("heads")) => {
            let what = format!("{} does not divide by {} heads", v.count("width"), v.count("heads"));
            return wrong(what, "every head gets the same share of the width");
        }
        "patches" if !v.count("image").is_multiple_of(v.count("patch")) => {
            let what = format!("{} pixels do not divide into patches of {}", v.count("image"), v.count("patch"));
            return wrong(what, "choose a patch that divides the picture");
        }
        "loss" if v.count("truth") as usize >= v.list("scores").len() || v.one("truth").fract() != 0.0 => {
            let what =
                format!("there are {} scores, counted from 0; truth is {}", v.list("scores").len(), v.one("truth"));
            return wrong(what, "name one of them by its number");
        }
        "positions" if v.count("width") % 2 == 1 => {
            return wrong("a width that is odd".into(), "sines and cosines come in pairs");
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::find;

    fn last_table(topic: &str, set: &[&str]) -> Vec<Vec<f64>> {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        let page = find(topic).unwrap().page_with(&set).unwrap();
        let table = page.tables().last().unwrap().clone();
        table.rows.iter().map(|r| r.cells.iter().filter_map(|c| c.value()).collect()).collect()
    }

    fn refused(topic: &str, set: &str) -> Error {
        find(topic).unwrap().page_with(&[set.to_string()]).unwrap_err()
    }

    #[test]
    fn every_setting_is_taken_and_has_its_effect() {
        for own in OWN {
            let topic = find(own.topic).unwrap();
            let set = |name: &str, value: &str| vec![format!("{name}={value}")];
            let usual = topic.page_with(&set(own.settings[0].name, own.settings[0].usual)).unwrap();
            for s in own.settings {
                let other = match (own.topic, s.name) {
                    ("attention", "v") => "1,2/3,4/5,7",
                    ("attention", _) => "1,0/0,1/1,2",
                    ("softmax" | "loss", "scores") => "3,1,0",
                    ("sampling", "scores") => "3,2,1,1",
                    ("loss", "truth") => "1",
                    ("sampling", "top_p") => "0.5",
                    ("norms", "x") => "1,3,7,5,4",
                    (_, "epsilon" | "smoothing") => "0.1",
                    ("patches", "image") => "64",
                    ("heads", "width") => "64",
                    _ => "2",
                };
                let page = topic.page_with(&set(s.name, other)).unwrap();
                let (a, b) = (serde_json::to_string(&page).unwrap(), serde_json::to_string(&usual).unwrap());
                let numbers = |text: &str| {
                    text[text.find("With your numbers").unwrap()..].split_once("},{").unwrap().1.to_string()
                };
                // What follows the line that repeats the settings: the numbers themselves.
                let rest = |text: &str| numbers(text).split_once("},{").unwrap().1.to_string();
                assert_ne!(rest(&a), rest(&b), "{} {}", own.topic, s.name);
            }
        }
    }

    #[test]
    fn numbers_by_hand() {
        let softmax = last_table("softmax", &["scores=0,0", "temperature=2"]);
        assert_eq!(softmax[0][3], 0.5);
        assert_eq!(last_table("heads", &["width=768", "heads=12"])[0], [64.0]);
        assert_eq!(last_table("lora", &["width=4096", "rank=16"])[1][0], 131_072.0);
        assert_eq!(last_table("patches", &["image=32", "patch=4", "channels=1"])[1], [65.0]);
        let drawn = last_table("sampling", &["scores=5,4,3,2", "top_k=2"]);
        assert_eq!((drawn[2][2], drawn[3][2]), (0.0, 0.0));
        assert!((drawn[0][2] + drawn[1][2] - 1.0).abs() < 1e-6);
        assert_eq!(last_table("feed-forward", &["width=512"])[0][0], 2_099_712.0);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_hint() {
        assert!(refused("softmax", "score=1").hint.contains("`scores`"));
        assert!(refused("softmax", "temperature=0").what.contains("does not fit"));
        assert!(refused("softmax", "scores=1,x").what.contains("does not fit"));
        assert!(refused("softmax", "scores").what.contains("key=value"));
        assert!(refused("softmax", "scores=1/2").what.contains("one row"));
        assert!(refused("heads", "heads=7").what.contains("does not divide"));
        assert!(refused("attention", "k=1,2,3").what.contains("one width"));
        assert!(refused("loss", "truth=9").what.contains("there are 3 scores"));
        assert!(refused("beam", "width=2").hint.contains("softmax, attention"));
    }
}
