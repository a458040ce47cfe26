//! The same arithmetic with a person's own numbers: `qkv explain softmax --set scores=3,1,0 --set temperature=0.5`.
//!
//! A topic that has settings names them here with what they are where nothing is set, and what it computes from them. The slide's part of
//! the page stays as it is: what is compared with a slide is the slide's.

use super::Topic;
use super::own_pages::*;
use super::setting::{Setting, SettingKind, Values};
use crate::page::Page;
use qkv_base::{Error, Result};

const fn whole(name: &'static str, about: &'static str, usual: &'static str, range: (f64, f64)) -> Setting {
    Setting { name, about, usual, kind: SettingKind::Whole(range.0, range.1) }
}

const fn real(name: &'static str, about: &'static str, usual: &'static str, range: (f64, f64)) -> Setting {
    Setting { name, about, usual, kind: SettingKind::Real(range.0, range.1) }
}

const fn list(name: &'static str, about: &'static str, usual: &'static str) -> Setting {
    Setting { name, about, usual, kind: SettingKind::List(-1e6, 1e6) }
}

const fn rows(name: &'static str, about: &'static str, usual: &'static str) -> Setting {
    Setting { name, about, usual, kind: SettingKind::Rows(-1e6, 1e6) }
}

/// What a topic computes from its settings.
pub(super) struct Own {
    topic: &'static str,
    settings: &'static [Setting],
    /// what holds between several of them
    fits: fn(&Values) -> Result<()>,
    make: fn(Page, &Values) -> Result<Page>,
}

/// Nothing has to hold between the settings.
fn any(_: &Values) -> Result<()> {
    Ok(())
}

const OWN: &[Own] = &[
    Own {
        topic: "softmax",
        settings: &[
            list("scores", "the scores, with commas", "2,1,0.1"),
            real("temperature", "what they are divided by", "1", (1e-3, 1e3)),
        ],
        fits: any,
        make: own_softmax,
    },
    Own {
        topic: "attention",
        settings: &[
            rows("q", "queries, rows with / between them", "1,0/0,1/1,1"),
            rows("k", "keys", "1,0/0,1/1,1"),
            rows("v", "values", "1,2/3,4/5,6"),
        ],
        fits: attention_fits,
        make: own_attention,
    },
    Own {
        topic: "scale",
        settings: &[
            whole("width", "numbers in a query", "64", (1.0, 1e9)),
            real("variance", "of each number", "1", (0.0, 1e6)),
        ],
        fits: any,
        make: own_scale,
    },
    Own {
        topic: "heads",
        settings: &[whole("width", "D", "512", (1.0, 1e6)), whole("heads", "H", "8", (1.0, 1e6))],
        fits: heads_fit,
        make: own_heads,
    },
    Own {
        topic: "positions",
        settings: &[
            whole("width", "numbers of a position", "6", (1.0, 64.0)),
            whole("count", "positions", "4", (1.0, 64.0)),
        ],
        fits: positions_fit,
        make: own_positions,
    },
    Own {
        topic: "norms",
        settings: &[
            list("x", "one row of features", "2,3,7,5,4"),
            real("epsilon", "added to the variance", "0", (0.0, 1.0)),
        ],
        fits: any,
        make: own_norms,
    },
    Own {
        topic: "feed-forward",
        settings: &[
            whole("width", "D", "512", (1.0, 1e6)),
            whole("factor", "how much wider it is inside", "4", (1.0, 1e3)),
        ],
        fits: any,
        make: own_feed_forward,
    },
    Own {
        topic: "loss",
        settings: &[
            list("scores", "what the model says for each class", "2,1,0.1"),
            whole("truth", "the right class, from 0", "0", (0.0, 1e6)),
            real("smoothing", "of the label", "0", (0.0, 0.999)),
        ],
        fits: truth_fits,
        make: own_loss,
    },
    Own {
        topic: "sampling",
        settings: &[
            list("scores", "what the model says for each token", "3,2,1,0"),
            real("temperature", "what they are divided by", "1", (1e-3, 1e3)),
            whole("top_k", "tokens that stay", "1000000", (1.0, 1e6)),
            real("top_p", "probability that stays", "1", (1e-9, 1.0)),
        ],
        fits: any,
        make: own_sampling,
    },
    Own {
        topic: "cost",
        settings: &[
            whole("width", "D", "1024", (1.0, 1e6)),
            whole("length", "T, tokens of the text", "37", (1.0, 1e9)),
            whole("layers", "L", "12", (1.0, 1e5)),
            whole("vocabulary", "V", "30000", (1.0, 1e8)),
        ],
        fits: any,
        make: own_cost,
    },
    Own {
        topic: "lora",
        settings: &[
            whole("width", "D of the square matrix", "512", (1.0, 1e6)),
            whole("rank", "r", "8", (1.0, 1e6)),
            real("alpha", "α: the change is scaled by α/r", "16", (0.0, 1e6)),
        ],
        fits: any,
        make: own_lora,
    },
    Own {
        topic: "patches",
        settings: &[
            whole("image", "pixels of a side", "224", (1.0, 1e5)),
            whole("patch", "pixels of a patch's side", "16", (1.0, 1e5)),
            whole("channels", "colours", "3", (1.0, 1e3)),
            whole("width", "D", "768", (1.0, 1e6)),
        ],
        fits: patches_fit,
        make: own_patches,
    },
];

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
        let values = Values::read(own.settings, set)?;
        (own.fits)(&values)?;
        (own.make)(page.section("With your numbers").text(values.in_words()), &values)
    }
}

fn wrong(what: String, hint: &str) -> Result<()> {
    Err(Error::new("--set", what, hint))
}

fn attention_fits(v: &Values) -> Result<()> {
    let (q, k, values) = (v.rows("q"), v.rows("k"), v.rows("v"));
    let one_width = |rows: &[Vec<f64>], like: &[Vec<f64>]| rows.iter().all(|row| row.len() == like[0].len());
    if one_width(q, q) && one_width(k, q) && one_width(values, values) && k.len() == values.len() {
        return Ok(());
    }
    let what = "queries and keys must have one width, and there must be a value for each key".to_string();
    wrong(what, "as in --set q=1,0/0,1 --set k=1,0/0,1 --set v=5/7")
}

fn heads_fit(v: &Values) -> Result<()> {
    match v.count("width").is_multiple_of(v.count("heads")) {
        true => Ok(()),
        false => wrong(
            format!("{} does not divide by {} heads", v.count("width"), v.count("heads")),
            "every head gets the same share of the width",
        ),
    }
}

fn patches_fit(v: &Values) -> Result<()> {
    match v.count("image").is_multiple_of(v.count("patch")) {
        true => Ok(()),
        false => wrong(
            format!("{} pixels do not divide into patches of {}", v.count("image"), v.count("patch")),
            "choose a patch that divides the picture",
        ),
    }
}

fn truth_fits(v: &Values) -> Result<()> {
    let scores = v.list("scores").len();
    match v.count("truth") < scores as u64 {
        true => Ok(()),
        false => wrong(
            format!("there are {scores} scores, counted from 0; truth is {}", v.count("truth")),
            "name one of them by its number",
        ),
    }
}

fn positions_fit(v: &Values) -> Result<()> {
    match v.count("width").is_multiple_of(2) {
        true => Ok(()),
        false => wrong("a width that is odd".into(), "sines and cosines come in pairs"),
    }
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
        assert!(refused("softmax", "temperature=1,2").what.contains("one number"));
        assert!(refused("loss", "truth=0.5").what.contains("does not fit"));
        assert!(refused("positions", "width=5").what.contains("odd"));
        assert!(refused("patches", "patch=5").what.contains("do not divide"));
        assert!(refused("heads", "heads=7").what.contains("does not divide"));
        assert!(refused("attention", "k=1,2,3").what.contains("one width"));
        assert!(refused("loss", "truth=9").what.contains("there are 3 scores"));
        assert!(refused("beam", "width=2").hint.contains("softmax, attention"));
    }
}
