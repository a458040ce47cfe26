//! What a machine can do, measured in a few seconds, and what is in its way.
//!
//! Nothing here depends on the name of a processor: what is told is what it has (vector instructions, cores, memory) and what
//! it does (bytes read a second, operations a second of products of matrices, bytes written a second).

mod probe;

pub use probe::products;

use probe::{bandwidth, disk, extras, load, ticks, total_memory};
use qkv_base::format::scaled;
use qkv_kernels::simd::Level;
use serde::{Deserialize, Serialize};

/// How fast products are at a level of vector instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product {
    /// what the weights are kept in; `f32` is what training computes with
    pub precision: String,
    /// thousand million operations a second
    pub gflops: f64,
}

/// A level of vector instructions that the machine has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelSpeed {
    /// as `QKV_SIMD` calls it
    pub level: &'static str,
    /// whether it is the one in use
    pub used: bool,
    /// how fast products are with it
    pub products: Vec<Product>,
}

/// Something that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hindrance {
    /// what is so
    pub what: String,
    /// what to do
    pub hint: String,
}

/// Who used the processor while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// programs that wanted to run, on average of the last minute
    pub last_minute: Option<f64>,
    /// cores that other programs used meanwhile
    pub others: Option<f64>,
    /// cores that other machines on the same hardware took away meanwhile
    pub stolen: Option<f64>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examination {
    /// of qkv
    pub version: &'static str,
    /// built without optimisation
    pub debug: bool,
    /// `x86_64 linux`
    pub machine: String,
    /// vector instructions, narrowest first
    pub levels: Vec<LevelSpeed>,
    /// further instructions that products use
    pub extras: Vec<&'static str>,
    /// cores that this process may use
    pub cores: usize,
    /// threads that compute
    pub threads: usize,
    /// bytes of memory
    pub memory: Option<u64>,
    /// bytes of it that can be had
    pub available: Option<u64>,
    /// bytes that are read a second, all threads together
    pub bandwidth: f64,
    /// bytes that are written and synced a second in the current directory; none where nothing can be written
    pub disk: Option<f64>,
    /// who used the processor meanwhile
    pub load: Load,
    /// what is in the way
    pub findings: Vec<Hindrance>,
}

/// The levels that this machine has, narrowest first.
pub fn levels() -> &'static [(&'static str, Level)] {
    match Level::best() {
        Level::Avx512 => &[("scalar", Level::Scalar), ("avx2", Level::Avx2), ("avx512", Level::Avx512)],
        Level::Avx2 => &[("scalar", Level::Scalar), ("avx2", Level::Avx2)],
        Level::Neon => &[("scalar", Level::Scalar), ("neon", Level::Neon)],
        Level::Scalar => &[("scalar", Level::Scalar)],
    }
}

/// Those that are not in use.
pub fn unused_levels() -> impl Iterator<Item = &'static str> {
    levels().iter().filter(|(_, level)| *level != Level::current()).map(|(name, _)| *name)
}

/// Looks at this machine, of whose cores this process may use so many. A level is chosen when a program starts, so the [`products`]
/// of those that are not in use have to be measured by processes of their own; of those that are missing in `others` nothing is told.
pub fn examine(cores: usize, others: &[(&str, Vec<Product>)]) -> Examination {
    let before = ticks();
    let other =
        |name: &str| others.iter().find(|(level, _)| *level == name).map_or(vec![], |(_, products)| products.clone());
    let levels: Vec<LevelSpeed> = levels()
        .iter()
        .map(|(name, level)| {
            let used = *level == Level::current();
            LevelSpeed { level: name, used, products: if used { products() } else { other(name) } }
        })
        .collect();
    let mut found = Examination {
        version: env!("CARGO_PKG_VERSION"),
        debug: cfg!(debug_assertions),
        machine: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
        levels,
        extras: extras(),
        cores,
        threads: rayon::current_num_threads(),
        memory: total_memory(),
        available: qkv_base::memory::available(),
        bandwidth: bandwidth(),
        disk: disk(),
        load: Load::default(),
        findings: vec![],
    };
    found.load = load(before, found.cores);
    found.findings = findings(&found, std::env::var("QKV_SIMD").ok().as_deref());
    found
}

/// What is in the way.
fn findings(found: &Examination, forced: Option<&str>) -> Vec<Hindrance> {
    let mut all = vec![];
    let mut find = |is: bool, what: String, hint: &str| {
        if is {
            all.push(Hindrance { what, hint: hint.into() });
        }
    };
    find(found.debug, "this is a debug build".into(), "cargo build --release: ten times as fast and more");
    let best = found.levels.last().map_or("scalar", |level| level.level);
    let used = found.levels.iter().find(|level| level.used).map_or("scalar", |level| level.level);
    find(
        used != best,
        format!("QKV_SIMD={} asks for less than {best}, which is there", forced.unwrap_or(used)),
        "unset QKV_SIMD",
    );
    find(
        best == "scalar",
        "no vector instructions that qkv knows are there".into(),
        "a machine with AVX2, AVX-512 or NEON is many times as fast",
    );
    let (threads, cores) = (found.threads, found.cores);
    find(
        threads > cores,
        format!("{threads} threads share {cores} cores and wait for each other"),
        "leave --threads out, and RAYON_NUM_THREADS unset",
    );
    find(
        threads < cores,
        format!("{threads} of {cores} cores are used"),
        "leave --threads out, and RAYON_NUM_THREADS unset",
    );
    let others = found.load.others.unwrap_or(0.0);
    find(
        others > 0.25 * cores as f64,
        format!("other programs use {others:.1} of {cores} cores"),
        "wait for them, or stop them (top shows which)",
    );
    let stolen = found.load.stolen.unwrap_or(0.0);
    find(
        stolen > 0.1 * cores as f64,
        format!("{stolen:.1} of {cores} cores are taken away by other machines on the same hardware"),
        "times will wander; measure again later",
    );
    if let (Some(all), Some(free)) = (found.memory, found.available) {
        let few = free < (1 << 30) || free < all / 10;
        find(
            few,
            format!("{} of {} of memory can be had", bytes(free), bytes(all)),
            "end what holds the rest, or use smaller batches (train.rows, train.tokens)",
        );
    }
    let slow = found.disk.is_some_and(|speed| speed < 50e6);
    find(
        slow,
        format!("{} a second are written here", found.disk.map_or(String::new(), decimal)),
        "put runs on a faster disk (--out), or save less often (checkpoint.every)",
    );
    find(
        found.disk.is_none(),
        "nothing can be written in this directory".into(),
        "go where runs can be kept, or name a place with --out",
    );
    all
}

fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn decimal(n: f64) -> String {
    scaled(n, 1000.0, &[" B", " kB", " MB", " GB", " TB"])
}

impl Examination {
    /// What was found, for a person; what is in the way is [`findings`](Self::findings).
    pub fn lines(&self) -> Vec<String> {
        let build = if self.debug { "debug" } else { "release" };
        let levels: Vec<String> = self
            .levels
            .iter()
            .map(|level| if level.used { format!("{} (in use)", level.level) } else { level.level.to_string() })
            .chain(self.extras.iter().map(|extra| extra.to_string()))
            .collect();
        let mut lines = vec![
            format!("qkv {}, {build} build, {}", self.version, self.machine),
            format!("vector instructions: {}", levels.join(", ")),
            format!("cores: {}, threads: {}", self.cores, self.threads),
        ];
        let memory = match (self.memory, self.available) {
            (Some(all), Some(free)) => format!("{}, of which {} can be had; ", bytes(all), bytes(free)),
            _ => String::new(),
        };
        lines.push(format!("memory: {memory}read at {} a second", decimal(self.bandwidth)));
        lines.push("products of matrices in GFLOP/s (f32 is training; the others are answering):".into());
        let names: Vec<&str> = self.levels.iter().flat_map(|l| &l.products).fold(vec![], |mut names, product| {
            if !names.contains(&product.precision.as_str()) {
                names.push(&product.precision);
            }
            names
        });
        let row = |first: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("{cell:>8}")).collect();
            format!("  {first:<8}{cells}")
        };
        lines.push(row("", names.iter().map(|name| name.to_string()).collect()));
        for level in &self.levels {
            let of = |name: &&str| level.products.iter().find(|p| p.precision == **name);
            lines.push(row(
                level.level,
                names.iter().map(|name| of(name).map_or("–".into(), |p| format!("{:.1}", p.gflops))).collect(),
            ));
        }
        lines.extend(
            self.disk.map(|speed| format!("disk: {} a second written and synced in this directory", decimal(speed))),
        );
        let Load { last_minute, others, stolen } = self.load;
        let told = [
            last_minute.map(|load| format!("{load:.2} programs on average of the last minute")),
            others.map(|cores| format!("{cores:.1} cores used by others while this was measured")),
            stolen.map(|cores| format!("{cores:.1} taken away")),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        lines.extend((!told.is_empty()).then(|| format!("load: {}", told.join(", "))));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Examination {
        let product = |precision: &str, gflops| Product { precision: precision.into(), gflops };
        Examination {
            version: "0.1.0",
            debug: false,
            machine: "x86_64 linux".into(),
            levels: vec![
                LevelSpeed { level: "scalar", used: false, products: vec![] },
                LevelSpeed { level: "avx2", used: true, products: vec![product("f32", 180.0), product("int8", 250.5)] },
            ],
            extras: vec![],
            cores: 2,
            threads: 2,
            memory: Some(8 << 30),
            available: Some(6 << 30),
            bandwidth: 2e10,
            disk: Some(3e8),
            load: Load { last_minute: Some(0.1), others: Some(0.0), stolen: Some(0.0) },
            findings: vec![],
        }
    }

    #[test]
    fn a_healthy_machine_has_nothing_in_the_way_and_each_hindrance_is_named() {
        assert_eq!(findings(&healthy(), None), []);
        let names = |found: Examination| -> String { findings(&found, None).into_iter().map(|f| f.what).collect() };
        assert!(names(Examination { threads: 8, ..healthy() }).contains("8 threads share 2 cores"));
        assert!(names(Examination { threads: 1, ..healthy() }).contains("1 of 2 cores are used"));
        assert!(names(Examination { debug: true, ..healthy() }).contains("debug build"));
        assert!(names(Examination { available: Some(1 << 28), ..healthy() }).contains("256.0 MiB of 8.0 GiB"));
        assert!(names(Examination { disk: Some(1e6), ..healthy() }).contains("1.0 MB a second"));
        assert!(names(Examination { disk: None, ..healthy() }).contains("nothing can be written"));
        let busy = Load { others: Some(1.5), stolen: Some(0.5), ..Load::default() };
        let told = names(Examination { load: busy, ..healthy() });
        assert!(told.contains("use 1.5 of 2 cores") && told.contains("0.5 of 2 cores are taken away"), "{told}");
        let mut forced = healthy();
        (forced.levels[0].used, forced.levels[1].used) = (true, false);
        assert!(findings(&forced, Some("scalar"))[0].what.contains("QKV_SIMD=scalar asks for less than avx2"));
    }

    #[test]
    fn a_table_has_a_row_for_each_level() {
        let told = healthy().lines().join("\n");
        assert!(told.contains("  avx2       180.0   250.5") && told.contains("  scalar         –       –"), "{told}");
        assert!(told.contains("scalar, avx2 (in use)") && told.contains("read at 20.0 GB a second"), "{told}");
    }
}
