//! Simulated time: whole picoseconds since the beginning.
//!
//! A picosecond is fine enough that nothing is lost where a byte takes a fraction of a nanosecond: costs per byte are kept
//! as `f64` picoseconds, and only the product with the number of bytes is rounded, once. 2^64 picoseconds are 213 days.

/// Picoseconds.
pub type Time = u64;

/// Picoseconds of a microsecond.
pub const MICROSECOND: f64 = 1e6;

/// The nearest time to so many picoseconds, which must not be negative.
#[inline]
pub fn rounded(picoseconds: f64) -> Time {
    debug_assert!(picoseconds >= 0.0, "time does not go backwards: {picoseconds}");
    (picoseconds + 0.5) as Time
}

/// The nearest time to so many microseconds.
pub fn from_micros(micros: f64) -> Time {
    rounded(micros * MICROSECOND)
}

/// Microseconds.
pub fn micros(time: Time) -> f64 {
    time as f64 / MICROSECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_picosecond_are_not_lost_per_byte() {
        let per_byte = 1.0 / 375.0 * MICROSECOND;
        assert_eq!(rounded(per_byte * 375_000_000.0), 1_000_000_000_000);
        assert_eq!(from_micros(6.29), 6_290_000);
        assert_eq!(micros(from_micros(0.25)), 0.25);
    }
}
