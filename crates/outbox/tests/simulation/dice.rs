//! Chance, by a seed. Own arithmetic, so that a seed tells the same story whatever the version of a library is.

use std::time::Duration;

/// A sequence of numbers that its seed decides (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.roll() % (most - least + 1) as u64) as usize
    }

    /// Whether something happens that happens so often in a thousand times.
    pub(crate) fn happens(&mut self, per_mille: u64) -> bool {
        self.roll() % 1000 < per_mille
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() - 1)]
    }

    pub(crate) fn millis(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis(self.between(least, most) as u64)
    }

    /// In 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}
