//! What became of calls, as a gate tells: in the header of an answer, and in its metrics.

use std::fmt;
use std::ops::{AddAssign, Index};

use anyhow::{Context, Result};
use http::HeaderMap;

/// `x-sluicegate-cache`, and what the metrics know beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Miss,
    Joined,
    Hit,
    Bypass,
    Refused,
    /// None, as a relay's answers have, or one that nobody knows here.
    Other,
}

impl Fate {
    pub const ALL: [Self; 6] =
        [Self::Miss, Self::Joined, Self::Hit, Self::Bypass, Self::Refused, Self::Other];

    pub fn named(name: &str) -> Self {
        match name {
            "miss" => Self::Miss,
            "joined" => Self::Joined,
            "hit" => Self::Hit,
            "bypass" => Self::Bypass,
            "refused" => Self::Refused,
            _ => Self::Other,
        }
    }

    /// The fate that an answer's headers name.
    pub fn of(headers: &HeaderMap) -> Self {
        let value = headers.get("x-sluicegate-cache").and_then(|value| value.to_str().ok());
        value.map_or(Self::Other, Self::named)
    }

    /// Such a call is one of the upstream's.
    pub fn asks_upstream(self) -> bool {
        matches!(self, Self::Miss | Self::Bypass)
    }
}

/// How many calls had which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fates([u64; Fate::ALL.len()]);

impl Fates {
    pub fn count(&mut self, fate: Fate) {
        self.0[fate as usize] += 1;
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Calls that the upstream must have had.
    pub fn upstream(&self) -> u64 {
        let asking = Fate::ALL.into_iter().filter(|fate| fate.asks_upstream());
        asking.map(|fate| self[fate]).sum()
    }

    /// Those that a gate's metrics count: calls that are over.
    pub fn of_metrics(page: &str) -> Result<Self> {
        let mut fates = Self::default();
        for line in page.lines().filter(|line| line.starts_with("sluicegate_calls_total{")) {
            let (labels, value) = line.rsplit_once("} ").context("a sample without a value")?;
            let (_, fate) = labels.split_once("fate=\"").context("a call without a fate")?;
            let fate = Fate::named(fate.split('"').next().unwrap_or_default());
            fates.0[fate as usize] += value.trim().parse::<u64>()?;
        }
        Ok(fates)
    }
}

impl fmt::Display for Fates {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} calls", self.total())?;
        for fate in Fate::ALL.into_iter().filter(|fate| self[*fate] > 0) {
            write!(f, ", {} {}", self[fate], format!("{fate:?}").to_lowercase())?;
        }
        Ok(())
    }
}

impl Index<Fate> for Fates {
    type Output = u64;

    fn index(&self, fate: Fate) -> &u64 {
        &self.0[fate as usize]
    }
}

impl AddAssign for Fates {
    fn add_assign(&mut self, others: Self) {
        for (own, other) in self.0.iter_mut().zip(others.0) {
            *own += other;
        }
    }
}

/// A metric without labels; none where the page has no such metric.
pub fn metric(page: &str, name: &str) -> Result<Option<f64>> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.trim().parse().with_context(|| format!("{name} is no number"))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(
        "# TYPE sluicegate_calls counter\n",
        "sluicegate_calls_total{protocol=\"chat\",provider=\"p\",model=\"m\",fate=\"miss\",status=\"200\"} 7\n",
        "sluicegate_calls_total{protocol=\"chat\",provider=\"p\",model=\"m\",fate=\"miss\",status=\"499\"} 2\n",
        "sluicegate_calls_total{protocol=\"chat\",provider=\"p\",model=\"} 9\",fate=\"hit\",status=\"200\"} 3\n",
        "sluicegate_log_dropped_total 4\n",
        "sluicegate_log_dropped_total_of_another 5\n",
    );

    #[test]
    fn fates_are_summed_over_all_other_labels() {
        let fates = Fates::of_metrics(PAGE).unwrap();
        assert_eq!((fates[Fate::Miss], fates[Fate::Hit], fates.total(), fates.upstream()), (9, 3, 12, 9));
        assert_eq!(fates.to_string(), "12 calls, 9 miss, 3 hit");
        assert!(Fates::of_metrics("sluicegate_calls_total{protocol=\"chat\"} 7").is_err());
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        assert_eq!(metric(PAGE, "sluicegate_log_dropped_total").unwrap(), Some(4.0));
        assert_eq!(metric(PAGE, "sluicegate_log_dropped").unwrap(), None);
        assert!(metric("a b", "a").is_err());
    }

    #[test]
    fn an_answer_without_the_header_has_no_fate() {
        let mut headers = HeaderMap::new();
        assert_eq!(Fate::of(&headers), Fate::Other);
        headers.insert("x-sluicegate-cache", http::HeaderValue::from_static("joined"));
        assert_eq!(Fate::of(&headers), Fate::Joined);
    }
}
