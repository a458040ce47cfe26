//! Networks side by side: several recipes, or variations of one, under one budget; and the lectures' own arguments, ready to be
//! run ([`ready`]). Each ends with tables, curves, and one sentence that follows from the numbers.
//!
//! ```no_run
//! use qkv::compare::{Budget, Setup, variations};
//! use std::sync::atomic::AtomicBool;
//!
//! let entries = variations(&qkv::Recipe::named("char-gpt")?, &["model.position=none,learned,rope,alibi".into()])?;
//! let setup = Setup::new("runs/compare-positions").budget(Budget::parse("300 steps")?).seeds(3);
//! let compared = qkv::compare::compare("positions", &entries, &setup, &AtomicBool::new(false), &mut ())?;
//! println!("{}", compared.finding());
//! # Ok::<(), qkv::Error>(())
//! ```

mod budget;
mod finding;
mod finished;
pub mod ready;
mod table;
mod variation;

pub use budget::Budget;
pub use finished::{Finished, OneExample};
pub use variation::{Entry, Setup, run_all, variations};

use crate::Result;
use qkv_insight::page::{Block, Page};
use qkv_insight::render::csv;
use qkv_report::{Chart, Report, Sample, Table};
use qkv_runs::observe::Observer;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    page: Page,
    /// the curves of its page
    pub charts: Vec<Chart>,
    /// texts side by side
    pub samples: Vec<Sample>,
}

impl Compared {
    /// A comparison that says `finding` of the tables of `page`.
    pub fn new(page: Page, finding: impl Into<String>) -> Self {
        let page = page.verdict(qkv_insight::page::Verdict::Note, finding);
        Self { page, charts: vec![], samples: vec![] }
    }

    /// With these curves.
    pub fn charts(self, charts: Vec<Chart>) -> Self {
        Self { charts, ..self }
    }

    /// The tables and the sentence, as data.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// The one sentence.
    pub fn finding(&self) -> String {
        let said = |block: &Block| match block {
            Block::Verdict { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.page.blocks.iter().filter_map(said).next_back().unwrap_or_default()
    }

    /// Its tables for a spreadsheet.
    pub fn csv(&self) -> Result<String> {
        csv::page(&self.page)
    }

    /// One file that loads nothing: the sentence, the curves, the tables, the texts.
    pub fn html(&self) -> String {
        let page = &self.page;
        let table = |table: &qkv_insight::page::Table| Table {
            title: table.title.clone(),
            head: std::iter::once(table.corner.clone()).chain(table.columns.iter().cloned()).collect(),
            rows: table
                .rows
                .iter()
                .map(|row| std::iter::once(row.label.clone()).chain(row.cells.iter().map(|c| c.shown())).collect())
                .collect(),
        };
        Report {
            kind: format!("qkv compare {}", page.topic),
            title: page.title.clone(),
            summary: format!("{} {}", page.idea, self.finding()),
            facts: vec![],
            charts: self.charts.clone(),
            tables: page.tables().map(table).collect(),
            samples: self.samples.clone(),
            recipe: String::new(),
        }
        .html()
    }

    /// Writes `compare.html`, `compare.json` and `compare.csv` into a directory.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let fail = |e: std::io::Error| qkv_base::Error::write(dir.display().to_string(), &e, "is the place writable?");
        std::fs::create_dir_all(dir).map_err(fail)?;
        let json = serde_json::to_vec_pretty(&self.page)
            .map_err(|e| qkv_base::Error::internal("compare.json", e.to_string()))?;
        qkv_weights::write_atomically(&dir.join("compare.json"), &json)?;
        qkv_weights::write_atomically(&dir.join("compare.csv"), self.csv()?.as_bytes())?;
        qkv_weights::write_atomically(&dir.join("compare.html"), self.html().as_bytes())
    }
}

/// Runs every entry that has not been run, and puts them side by side.
pub fn compare(
    name: &str,
    entries: &[Entry],
    setup: &Setup,
    stop: &AtomicBool,
    observer: &mut (dyn Observer + Send),
) -> Result<Compared> {
    let metric = table::metric_of(entries)?; // before anything is run
    let all = run_all(entries, setup, stop, observer)?;
    let names: Vec<&str> = entries.iter().map(|e| e.label.as_str()).collect();
    let title = format!("{name}: {}", names.join(", "));
    let idea = format!("One corpus, {}, judged by {} on the unseen test.", setup.budget_in_words(), metric.name());
    let mut page = Page::new(name, &title, &idea).table(table::scores(&all, metric));
    page = table::sides(&all, metric).into_iter().fold(page, Page::table);
    let by_length = table::by_length(&all, metric);
    if let Some((table, _)) = &by_length {
        page = page.table(table.clone());
    }
    let compared = Compared::new(page, finding::sentence(&all, metric)?);
    let charts = table::curves(&all)?.into_iter().chain(by_length.map(|(_, chart)| chart)).collect();
    Ok(Compared { samples: table::samples(&all), ..compared.charts(charts) })
}
