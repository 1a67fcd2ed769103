//! Times of the wall clock as text, to the millisecond, always in UTC.
//!
//! Written by hand because every line and every record has one, and a general formatter costs as much as the
//! rest of the line.

use jiff::Timestamp;
use jiff::tz::Offset;

/// `2025-10-09T09:03:04.123Z`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp([u8; 24]);

impl Stamp {
    pub(super) fn new(time: Timestamp) -> Self {
        let time = Offset::UTC.to_datetime(time);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        digits(&mut text[0..4], time.year().unsigned_abs());
        digits(&mut text[5..7], time.month().unsigned_abs().into());
        digits(&mut text[8..10], time.day().unsigned_abs().into());
        digits(&mut text[11..13], time.hour().unsigned_abs().into());
        digits(&mut text[14..16], time.minute().unsigned_abs().into());
        digits(&mut text[17..19], time.second().unsigned_abs().into());
        digits(&mut text[20..23], time.millisecond().unsigned_abs());
        Stamp(text)
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits and punctuation are always text.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// `09:03:04.123`.
    pub(super) fn time_of_day(&self) -> &str {
        &self.as_str()[11..23]
    }
}

fn digits(text: &mut [u8], mut number: u16) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stamp_is_what_the_library_would_write(millis in 0..253_402_207_200_000_i64) {
            let time = Timestamp::from_millisecond(millis).unwrap();
            let stamp = Stamp::new(time);
            let expected = format!("{time:.3}");
            prop_assert_eq!(stamp.as_str(), &expected);
            prop_assert_eq!(stamp.time_of_day(), &expected[11..23]);
        }
    }
}
