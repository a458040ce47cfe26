//! Tags within tags: how many of those that are open are closed, each in its turn.
//!
//! ```
//! use qkv_metric::Closed;
//! let given = "<note>the <b>dog";
//! assert_eq!(Closed::of(given, " sleeps</b></note>"), Closed { right: 2, wrong: 0, open: 0 });
//! assert_eq!(Closed::of(given, "</note></b>"), Closed { right: 1, wrong: 1, open: 1 }); // only `</b>` in its turn
//! ```

/// The tags that whoever goes on with a text had to close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// closed in their turn
    pub right: usize,
    /// closing tags of something that was not open, or not the innermost
    pub wrong: usize,
    /// never closed
    pub open: usize,
}

/// What is open after a text, the innermost last; a closing tag that closes nothing is counted and passed over.
#[derive(Clone, Debug, Default)]
struct Walk<'a> {
    open: Vec<&'a str>,
    right: usize,
    wrong: usize,
}

impl<'a> Walk<'a> {
    fn over(&mut self, text: &'a str) {
        // What stands behind the last `<` without a `>` is no tag yet.
        for tag in text.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(tag, _)| tag) {
            match tag.strip_prefix('/') {
                None => self.open.push(tag),
                Some(name) if self.open.last() == Some(&name) => {
                    self.open.pop();
                    self.right += 1;
                }
                Some(_) => self.wrong += 1,
            }
        }
    }
}

impl Closed {
    /// What became of the tags that `given` leaves open and `written` opens. A tag may begin in one and end in the other.
    pub fn of(given: &str, written: &str) -> Self {
        let cut = given.rfind('<').filter(|at| !given[*at..].contains('>')).unwrap_or(given.len());
        let rest = format!("{}{written}", &given[cut..]);
        let mut walk = Walk::default();
        walk.over(&given[..cut]);
        let mut walk = Walk { right: 0, wrong: 0, ..walk };
        walk.over(&rest);
        Self { right: walk.right, wrong: walk.wrong, open: walk.open.len() }
    }

    /// All counts together.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |a, b| Self {
            right: a.right + b.right,
            wrong: a.wrong + b.wrong,
            open: a.open + b.open,
        })
    }

    /// Of the tags that had to be closed the share that was, in percent; a wrong closing tag counts as one more.
    pub fn share(self) -> f64 {
        100.0 * self.right as f64 / (self.right + self.wrong + self.open).max(1) as f64
    }
}

/// Whether a text has tags, and every one is closed in its turn.
pub fn nests(text: &str) -> bool {
    let all = Closed::of("", text);
    all.right > 0 && all.wrong == 0 && all.open == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_counted_once_and_in_their_turn() {
        assert!(nests("<a>x<b>y</b></a>") && !nests("<a><b></a></b>") && !nests("no tags") && !nests("<a>"));
        // A tag that is cut in two belongs to whoever ends it.
        assert_eq!(Closed::of("<a>x</", "a>"), Closed { right: 1, wrong: 0, open: 0 });
        // What was closed before is no merit of the writer.
        assert_eq!(Closed::of("<a><b>x</b>", "</a>"), Closed { right: 1, wrong: 0, open: 0 });
        // New tags are to be closed too; what comes without an end is left open.
        assert_eq!(Closed::of("<a>", "<i>x</i><b>"), Closed { right: 1, wrong: 0, open: 2 });
        assert_eq!(Closed::of("<a>", "</b></a"), Closed { right: 0, wrong: 1, open: 1 });
        let sum = Closed::sum([Closed { right: 3, wrong: 1, open: 0 }, Closed { right: 0, wrong: 0, open: 2 }]);
        assert_eq!(sum.share(), 50.0);
        assert_eq!(Closed::default().share(), 0.0);
    }
}
