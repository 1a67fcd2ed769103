//! A hash that is the same on every machine and in every release, because answers follow from it.
//!
//! Good enough to tell prompts apart; no defence against anybody who tries.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ MULTIPLIER))
    }

    /// Lengths are part of it, so that ("ab", "c") is not ("a", "bc").
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.0 = fold(self.0, u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut rest = [0; 8];
        rest[..words.remainder().len()].copy_from_slice(words.remainder());
        self.0 = fold(self.0, u64::from_le_bytes(rest));
        self.0 = fold(self.0, bytes.len() as u64);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0 = fold(self.0, number);
        self
    }

    pub(crate) fn finish(self) -> u64 {
        mix(self.0)
    }
}

fn fold(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(MULTIPLIER);
    // The low half alone would lose the high bits of the word.
    (product as u64) ^ ((product >> 64) as u64).rotate_left(32)
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `at`-th number of the sequence that belongs to `seed`.
pub(crate) fn draw(seed: u64, at: u64) -> u64 {
    mix(seed.wrapping_add(at.wrapping_add(1).wrapping_mul(MULTIPLIER)))
}

/// The same, from 0 to 1.
pub(crate) fn draw_fraction(seed: u64, at: u64) -> f64 {
    (draw(seed, at) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> u64 {
        Hash::new(0).text(text).finish()
    }

    #[test]
    fn stays_what_it_is() {
        assert_eq!(of("hello"), of("hello"));
        assert_eq!(of(""), 2_695_684_528_331_268_393);
    }

    #[test]
    fn tells_near_texts_apart() {
        let texts = ["", "\0", "a", "a\0", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaab", "baaaaaaa"];
        for (at, one) in texts.iter().enumerate() {
            for other in &texts[at + 1..] {
                assert_ne!(of(one), of(other), "{one:?} {other:?}");
            }
        }
        assert_ne!(Hash::new(0).text("ab").text("c").finish(), Hash::new(0).text("a").text("bc").finish());
    }

    #[test]
    fn fractions_fill_the_span() {
        let drawn: Vec<f64> = (0..1000).map(|at| draw_fraction(7, at)).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
