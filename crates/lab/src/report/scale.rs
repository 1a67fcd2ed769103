//! From numbers to places on an axis, and the round numbers that are written beside it.

/// Where the largest number is so many times the smallest, the axis is logarithmic.
const WIDE: f64 = 20.0;
const MOST_TICKS: f64 = 8.0;
/// Of a logarithmic axis: three decades with all of 1, 2 and 5.
const MOST_STEPS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero to this.
    Linear(f64),
    /// Both are positive.
    Log(f64, f64),
}

impl Scale {
    /// From zero to a little more than the largest number.
    pub(super) fn linear(most: f64) -> Scale {
        Scale::Linear(if most > 0.0 && most.is_finite() { most * 1.02 } else { 1.0 })
    }

    /// As the numbers ask for: linear if they are near each other.
    pub(super) fn over(numbers: impl Iterator<Item = f64>) -> Scale {
        let positive = numbers.filter(|number| *number > 0.0 && number.is_finite());
        let (least, most) = positive
            .fold((f64::INFINITY, 0.0_f64), |(least, most), number| (least.min(number), most.max(number)));
        match most > least * WIDE {
            true => Scale::Log(below(least), above(most)),
            false => Scale::linear(most),
        }
    }

    /// In per cent of the axis; what lies beyond its ends is put there.
    pub(super) fn place(self, number: f64) -> f64 {
        let share = match self {
            Scale::Linear(most) => number / most,
            Scale::Log(least, most) => (number.max(least) / least).ln() / (most / least).ln(),
        };
        100.0 * share.clamp(0.0, 1.0)
    }

    /// Round numbers, ascending, not too many.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear(most) => {
                let step = above(most / MOST_TICKS);
                (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= most).collect()
            }
            Scale::Log(least, most) => {
                let inside: Vec<f64> = steps(least, most).collect();
                match inside.len() > MOST_STEPS {
                    true => inside.into_iter().filter(|tick| is_power(*tick)).collect(),
                    false => inside,
                }
            }
        }
    }
}

/// The next of 1, 2, 5, 10, …, or the number itself if it is one.
fn above(number: f64) -> f64 {
    steps(number, number * 10.0).next().unwrap_or(number)
}

fn below(number: f64) -> f64 {
    steps(number / 10.0, number).last().unwrap_or(number)
}

/// All of 1, 2, 5, 10, … between two numbers.
fn steps(least: f64, most: f64) -> impl Iterator<Item = f64> {
    let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
    // A rounding error must not cost the step at an end.
    let (least, most) = (least * (1.0 - 1e-9), most * (1.0 + 1e-9));
    decades
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)))
        .filter(move |step| (least..=most).contains(step))
}

fn is_power(number: f64) -> bool {
    (number.log10() - number.log10().round()).abs() < 1e-6
}

/// With the unit that reads best: `0`, `50 µs`, `1.5 ms`, `20 s`.
pub(super) fn time(ms: f64) -> String {
    match ms {
        0.0 => "0".to_owned(),
        ms if ms < 0.9995 => format!("{} µs", digits(ms * 1e3)),
        ms if ms < 999.5 => format!("{} ms", digits(ms)),
        ms => format!("{} s", digits(ms / 1e3)),
    }
}

/// Three that matter, without zeros at the end.
pub(super) fn digits(number: f64) -> String {
    let places = match number.abs() {
        number if number >= 100.0 => 0,
        number if number >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(time).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Scale::linear(1600.0)), ["0", "500 ms", "1 s", "1.5 s"]);
        assert_eq!(labels(Scale::linear(0.0)).len(), 6);
        assert_eq!(labels(Scale::linear(12_000.0)), ["0", "2 s", "4 s", "6 s", "8 s", "10 s", "12 s"]);
        assert_eq!(labels(Scale::linear(0.4)), ["0", "100 µs", "200 µs", "300 µs", "400 µs"]);
    }

    #[test]
    fn numbers_far_apart_are_on_a_logarithmic_axis_that_holds_them() {
        let scale = Scale::over([3.0, 900.0].into_iter());
        assert_eq!(scale, Scale::Log(2.0, 1000.0));
        assert_eq!(labels(scale).first().map(String::as_str), Some("2 ms"));
        let scale = Scale::over([0.03, 40_000.0].into_iter());
        assert_eq!(labels(scale), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!((scale.place(0.0), scale.place(1e9)), (0.0, 100.0));
        assert_eq!(Scale::over([90.0, 100.0].into_iter()), Scale::linear(100.0));
        assert_eq!(Scale::over(std::iter::empty()), Scale::Linear(1.0));
    }

    #[test]
    fn places_are_in_per_cent() {
        assert!((Scale::Linear(200.0).place(50.0) - 25.0).abs() < 1e-9);
        assert!((Scale::Log(1.0, 100.0).place(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        assert_eq!(
            ["0", "50 µs", "1.5 ms", "999 ms", "1 s", "12.3 s"],
            [0.0, 0.05, 1.5, 999.0, 999.9, 12_345.0].map(time).each_ref().map(String::as_str)
        );
    }
}
