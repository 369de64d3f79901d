//! How long a measurement goes on.

use crate::Error;
use crate::error::positive;

/// Convergence criteria of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureConfig {
    /// epsilon: relative tolerance.
    pub tolerance: f64,
    /// k_m: sizes are at least 2^0 to 2^k_m.
    pub min_power: u32,
    /// While gaps are not linear, sizes grow up to this power of two.
    pub max_power: u32,
    /// Sizes that differ by at most this, or by the tolerance, are not bisected.
    pub min_size_step: u64,
    /// Minimum number of round trips of each size.
    pub min_trips: u32,
    /// The same of large messages.
    pub min_large_trips: u32,
    /// Maximum number of round trips of small messages.
    pub max_trips: u32,
    /// Maximum number of round trips of large messages.
    pub max_large_trips: u32,
    /// Size from which messages are large. The paper does not say.
    pub large_bytes: u64,
    /// Maximum number of messages in a row.
    pub max_messages: u64,
}

impl Default for MeasureConfig {
    /// The paper's criteria, with at least five trips, large messages from 64 KiB on, and an end to doubling.
    fn default() -> Self {
        Self {
            tolerance: 0.01,
            min_power: 18,
            max_power: 26,
            min_size_step: 32,
            min_trips: 5,
            min_large_trips: 5,
            max_trips: 60,
            max_large_trips: 15,
            large_bytes: 65_536,
            max_messages: 1 << 20,
        }
    }
}

impl MeasureConfig {
    /// Minimum and maximum number of round trips of a size.
    pub(super) fn trips(&self, bytes: u64) -> (u32, u32) {
        let (min, max) = match bytes >= self.large_bytes {
            true => (self.min_large_trips, self.max_large_trips),
            false => (self.min_trips, self.max_trips),
        };
        (min.min(max), max)
    }

    /// Refuses criteria by which nothing can be measured.
    pub fn validated(self) -> crate::Result<Self> {
        positive("the tolerance", self.tolerance)?;
        positive("the number of first round trips", self.min_trips.min(self.min_large_trips).into())?;
        positive("the number of round trips", self.max_trips.min(self.max_large_trips).into())?;
        let (what, value) = ("the largest power of two", self.min_power.max(self.max_power));
        if value > 40 {
            return Err(Error::Parameter { what, value: value.into(), needs: "at most 40" });
        }
        Ok(self)
    }
}
