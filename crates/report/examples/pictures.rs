//! Writes a report and an event file of made-up numbers into the directory given, to be looked at.

use std::path::Path;

use qkv_metric::{EventFile, curve};
use qkv_report::{Chart, Report, Sample, Scale, Series, Table};

fn main() -> qkv_base::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "pictures".into());
    let noise = qkv_base::Key::new(1, 0, 0).normals(2000);
    let loss = |i: usize| 0.35 + 5.0 / (1.0 + i as f64 / 60.0) + 0.08 * f64::from(noise[i]);
    let train: Vec<(f64, f64)> = (1..2000).map(|i| (i as f64, loss(i))).collect();
    let valid: Vec<(f64, f64)> = (1..20).map(|i| (100.0 * i as f64, loss(100 * i) + 0.15)).collect();
    let rate = (1..2000).map(|i| (i as f64, 1e-3 * (i as f64 / 200.0).min((200.0 / i as f64).sqrt()))).collect();
    let series = |name: &str, points: Vec<(f64, f64)>| Series { name: name.into(), points };
    let losses = vec![series("train", train.clone()), series("validation", valid)];
    let row = |cells: &[&str]| cells.iter().map(|c| c.to_string()).collect::<Vec<_>>();
    let sample = |source: &str, expected: Option<&str>, got: &str| Sample {
        source: source.into(),
        expected: expected.map(str::to_string),
        got: got.into(),
    };
    let page = Report {
        kind: "qkv train".into(),
        title: "Translation en→it (made-up numbers)".into(),
        summary: "A picture to look at: none of these numbers was measured.".into(),
        facts: [("BLEU", "93.41"), ("loss", "0.412"), ("parameters", "1.2 M"), ("time", "3 min 12 s")]
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .to_vec(),
        charts: vec![
            Chart { title: "Loss".into(), series: losses.clone(), scale: Scale::Linear, ..Chart::default() },
            Chart { title: "Loss, logarithmic".into(), series: losses, scale: Scale::Log, ..Chart::default() },
            Chart {
                title: "Learning rate".into(),
                series: vec![series("lr", rate)],
                scale: Scale::Linear,
                ..Chart::default()
            },
        ],
        tables: vec![Table {
            title: "Test".into(),
            head: row(&["score", "value", "95 % interval", "signature"]),
            rows: vec![
                row(&[
                    "BLEU",
                    "93.41",
                    "92.10 – 94.62",
                    "nrefs:1|bs:1000|seed:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0",
                ]),
                row(&[
                    "chrF2++",
                    "96.02",
                    "95.31 – 96.70",
                    "nrefs:1|bs:1000|seed:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:qkv-0.1.0",
                ]),
            ],
        }],
        samples: vec![
            sample("The red cat sleeps.", Some("Il gatto rosso dorme."), "Il gatto rosso dorme."),
            sample("Two dogs see the house.", Some("Due cani vedono la casa."), "Due cani vede la casa."),
            sample("घर कहाँ है?", None, "Dov'è la casa?"),
        ],
        recipe: "[model]\nwidth = 128        # d_model\nlayers = 3\n\n[train]\nsteps = 2000\n".into(),
    };
    let dir = Path::new(&dir);
    let mut file = EventFile::create(dir, 1_700_000_000.0, "host")?;
    for (step, value) in &train {
        file.scalar(*step as i64, 1_700_000_000.0 + step, "train/loss", *value as f32)?;
    }
    file.text(0, 1_700_000_000.0, "recipe", &page.recipe)?;
    file.flush()?;
    let wrong = |e: std::io::Error| qkv_base::Error::new("report.html", e.to_string(), "is the directory writable?");
    std::fs::write(dir.join("report.html"), page.html()).map_err(wrong)?;
    curve(&train, 78, 10).iter().for_each(|line| println!("{line}"));
    Ok(())
}
