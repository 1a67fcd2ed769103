//! Medians, percentiles and spreads of small samples. No smoothing, nothing thrown away.

/// The smallest value that at least `share` (0 to 1) of the sample does not exceed; 0 for no sample.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied().unwrap_or(0.0)
}

pub fn sorted(sample: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sample: Vec<f64> = sample.into_iter().collect();
    sample.sort_by(f64::total_cmp);
    sample
}

/// The middle of a sample of rounds, with how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Middle {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Middle {
    pub fn of(sample: impl IntoIterator<Item = f64>) -> Self {
        let sample = sorted(sample);
        let (Some(&low), Some(&high)) = (sample.first(), sample.last()) else {
            return Self { median: 0.0, low: 0.0, high: 0.0 };
        };
        let (left, right) = (sample[(sample.len() - 1) / 2], sample[sample.len() / 2]);
        Self { median: f64::midpoint(left, right), low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let hundred = sorted((1..=100).rev().map(f64::from));
        assert_eq!(percentile(&hundred, 0.50), 50.0);
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred, 0.999), 100.0);
        assert_eq!(percentile(&hundred, 0.0), 1.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_median_lies_in_the_middle_and_knows_its_spread() {
        assert_eq!(Middle::of([3.0, 1.0, 2.0]), Middle { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Middle::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Middle::of([]).median, 0.0);
    }
}
