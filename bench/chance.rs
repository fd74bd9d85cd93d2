//! Dice that fall the same way again.

/// A sequence of numbers without a pattern; the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// A number below this one; none below nothing.
    pub(crate) fn below(&mut self, limit: usize) -> Option<usize> {
        let limit = u64::try_from(limit).ok()?;
        usize::try_from(self.next().checked_rem(limit)?).ok()
    }

    /// Whether the one in so many came.
    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == Some(0)
    }

    /// Puts these into another order.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            if let Some(other) = self.below(last + 1) {
                list.swap(last, other);
            }
        }
    }
}
