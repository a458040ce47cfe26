//! What it costs to learn on several machines, on paper: before any of them is there.
//!
//! Each of p ranks holds the whole network and a part of the batch; after the backward the gradients, n bytes, are summed by a
//! ring (Patarasuk and Yuan 2009). Every rank sends and receives 2(p−1) messages of n/p bytes, so with a latency of α seconds
//! and B bytes a second
//!
//! ```text
//! T = 2(p−1)·α + 2(p−1)/p · n/B        efficiency = step / (step + T)
//! ```
//!
//! Nothing is assumed to overlap with the backward. bf16 on the wire halves n. With H steps between two exchanges (DiLoCo,
//! Douillard et al. 2023) the ranks learn by themselves and T is paid once in H steps; what that costs in quality is not said
//! here.

use qkv_base::{Error, Result};
use serde::Serialize;

/// Steps between two exchanges, where the ranks learn by themselves.
pub const EVERY: u64 = 30;

/// What of a link's bits is payload: TCP in Ethernet frames of 1500 bytes carries 1448 of the 1538 that each takes.
pub const PAYLOAD: f64 = 1448.0 / 1538.0;

/// The latency that is assumed where none is said: a switch and two kernels between two machines of one room.
pub const LATENCY: f64 = 100e-6;

/// What lies between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkLink {
    /// bytes a second as it is sold; [`PAYLOAD`] of them arrive
    pub bytes_per_second: f64,
    /// seconds that a message takes, however short
    pub latency: f64,
}

impl NetworkLink {
    /// `100Mbit`, `1Gbit`, `10Gbit`, `25GB`: bits, or bytes with a capital B, a second.
    ///
    /// ```
    /// use qkv_runs::cost::NetworkLink;
    /// assert_eq!(NetworkLink::parse("1Gbit")?.bytes_per_second, 125e6);
    /// assert_eq!(NetworkLink::parse("25GB")?.bytes_per_second, 25e9);
    /// assert!(NetworkLink::parse("fast").unwrap_err().hint.contains("1Gbit"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |what: &str| {
            Error::new(format!("--link {text}"), what, "write bits or bytes a second: 100Mbit, 1Gbit, 10Gbit or 25GB")
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(|| fail("has no unit"))?;
        let number: f64 = text[..end].parse().map_err(|_| fail("is not a speed"))?;
        let unit = text[end..].trim().trim_end_matches("/s").trim_end_matches("ps");
        let (scale, unit) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1e3, &unit[1..]),
            Some(b'M') => (1e6, &unit[1..]),
            Some(b'G') => (1e9, &unit[1..]),
            Some(b'T') => (1e12, &unit[1..]),
            _ => (1.0, unit),
        };
        let bytes = match unit {
            "bit" | "b" => number * scale / 8.0,
            "B" | "byte" | "bytes" => number * scale,
            _ => return Err(fail("is not a speed")),
        };
        match bytes > 0.0 && bytes.is_finite() {
            true => Ok(Self { bytes_per_second: bytes, latency: LATENCY }),
            false => Err(fail("carries nothing")),
        }
    }

    /// The same with a latency of so many seconds.
    pub fn with_latency(self, seconds: f64) -> Self {
        Self { latency: seconds, ..self }
    }

    /// Seconds that a ring of `ranks` needs to sum `bytes`.
    pub fn all_reduce(&self, ranks: usize, bytes: f64) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let p = ranks as f64;
        2.0 * (p - 1.0) * self.latency + 2.0 * (p - 1.0) / p * bytes / (self.bytes_per_second * PAYLOAD)
    }
}

impl std::fmt::Display for NetworkLink {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let bits = qkv_base::format::scaled(
            8.0 * self.bytes_per_second,
            1000.0,
            &[" bit", " kbit", " Mbit", " Gbit", " Tbit"],
        );
        write!(f, "{bits}/s with a latency of {} ms", 1e3 * self.latency)
    }
}

/// What a way of exchanging comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exchange {
    /// seconds of exchanging for each step, on average
    pub exchange: f64,
    /// the share of a step that is computing
    pub efficiency: f64,
}

/// What the ways of exchanging come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// p
    pub ranks: usize,
    /// seconds of computing in a step, on each rank
    pub compute: f64,
    /// f32 gradients at every step
    pub f32: Exchange,
    /// the same, bf16 on the wire
    pub bf16: Exchange,
    /// f32 at every [`EVERY`] steps
    pub seldom: Exchange,
}

/// What `ranks` machines come to that exchange `bytes` bytes of f32 gradients over `link`, with `step_seconds` of computing
/// in a step on each of them.
///
/// ```
/// use qkv_runs::cost::{NetworkLink, efficiency};
/// let it = efficiency(8, 4 * 13_900_000, 0.9, &NetworkLink::parse("1Gbit")?);
/// assert_eq!((100.0 * it.f32.efficiency).round(), 52.0);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn efficiency(ranks: usize, bytes: u64, step_seconds: f64, link: &NetworkLink) -> Efficiency {
    let way = |exchange: f64| Exchange { exchange, efficiency: step_seconds / (step_seconds + exchange).max(1e-12) };
    let whole = link.all_reduce(ranks, bytes as f64);
    Efficiency {
        ranks,
        compute: step_seconds,
        f32: way(whole),
        bf16: way(link.all_reduce(ranks, bytes as f64 / 2.0)),
        seldom: way(whole / EVERY as f64),
    }
}

/// What `ranks` machines make of a step that takes `step_seconds` on one: as lines for a person. Data parallel; with the same
/// batch shared among them each computes a p-th of it, and with a batch of its own for each the batch is p times as large.
pub fn lines(ranks: usize, bytes: u64, step_seconds: f64, link: &NetworkLink) -> Vec<String> {
    let shared = efficiency(ranks, bytes, step_seconds / ranks.max(1) as f64, link);
    let own = efficiency(ranks, bytes, step_seconds, link);
    let size = qkv_base::format::scaled(bytes as f64, 1000.0, &[" B", " kB", " MB", " GB", " TB"]);
    let mut lines = vec![
        format!(
            "{ranks} machines over {link}, on paper: a ring moves 2(p−1)/p of {size} of gradients, {:.0} % of the link is payload, \
             nothing overlaps",
            100.0 * PAYLOAD
        ),
        format!(
            "  exchange             a step   one batch shared ({:.3} s each)   a batch for each ({:.3} s each)",
            shared.compute, own.compute
        ),
    ];
    let ways = [
        ("f32 at every step", shared.f32, own.f32),
        ("bf16 at every step", shared.bf16, own.bf16),
        ("f32 at every 30 steps", shared.seldom, own.seldom),
    ];
    lines.extend(ways.map(|(name, shared, own)| {
        let told = |way: Exchange| {
            format!("{:3.0} %, {:.1} × one machine", 100.0 * way.efficiency, ranks as f64 * way.efficiency)
        };
        format!("  {name:<21}{:>6.3} s  {:<31}  {}", shared.exchange, told(shared), told(own))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 13.9 M parameters, 8 machines, a step of 0.9 s on each: 52, 68 and 97 % over 1 Gbit/s, 10 and 76 % over 100 Mbit/s.
    #[test]
    fn eight_machines_over_common_links() {
        let at = |link: &str| efficiency(8, 4 * 13_900_000, 0.9, &NetworkLink::parse(link).expect("a link"));
        let (gigabit, slow) = (at("1Gbit"), at("100Mbit"));
        for (way, percent) in
            [(gigabit.f32, 52.0), (gigabit.bf16, 68.0), (gigabit.seldom, 97.0), (slow.f32, 10.0), (slow.seldom, 76.0)]
        {
            let got = 100.0 * way.efficiency;
            assert!((got - percent).abs() < 0.6, "{got} instead of {percent}");
        }
    }

    #[test]
    fn one_machine_waits_for_nobody_and_latency_counts() {
        let link = NetworkLink::parse("10Gbit").expect("a link");
        assert_eq!(efficiency(1, 1 << 30, 0.5, &link).f32, Exchange { exchange: 0.0, efficiency: 1.0 });
        // With nothing to carry only the messages are left: 14 of 1 ms.
        let slow = link.with_latency(1e-3);
        assert!((slow.all_reduce(8, 0.0) - 0.014).abs() < 1e-12);
        assert!(efficiency(8, 0, 0.1, &slow).f32.efficiency < efficiency(8, 0, 0.1, &link).f32.efficiency);
    }

    #[test]
    fn links_are_read_as_they_are_sold() {
        let speed = |text: &str| NetworkLink::parse(text).map(|l| l.bytes_per_second);
        assert_eq!(speed("100Mbit").ok(), Some(12.5e6));
        assert_eq!((speed("100 Gbit/s").ok(), speed("2.5Gbps").ok()), (Some(12.5e9), Some(312.5e6)));
        assert_eq!(speed("400kB").ok(), Some(4e5));
        for wrong in ["", "10", "Gbit", "1Gfit", "0Gbit", "-1Gbit", "1.2.3Gbit", "é"] {
            assert!(NetworkLink::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(NetworkLink::parse("1Gbit").expect("a link").to_string(), "1.0 Gbit/s with a latency of 0.1 ms");
    }

    #[test]
    fn a_person_is_told_both_ways_of_sharing() {
        let told = lines(8, 4 * 13_900_000, 0.9, &NetworkLink::parse("1Gbit").expect("a link")).join("\n");
        assert!(told.contains("52 %, 4.2 × one machine") && told.contains("0.113 s each"), "{told}");
    }
}
