//! Simulated time: whole picoseconds since the beginning.
//!
//! A picosecond is fine enough that nothing is lost where a byte takes a fraction of a nanosecond: costs per byte are kept
//! as `f64` picoseconds, and only the product with the number of bytes is rounded, once. Time ends after 2^62 of them, 53 days,
//! so that a sum of a few durations never wraps: what happens later ends a simulation.

/// Picoseconds.
pub type Time = u64;

/// Picoseconds of a microsecond.
pub const MICROSECOND: f64 = 1e6;

/// Where time ends. No simulation goes beyond, and no duration is longer.
pub const END: Time = 1 << 62;

/// The nearest time to so many picoseconds, which must not be negative; at most [`END`].
#[inline]
pub fn rounded(picoseconds: f64) -> Time {
    debug_assert!(picoseconds >= 0.0, "time does not go backwards: {picoseconds}");
    ((picoseconds + 0.5) as Time).min(END)
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
    #[test]
    fn no_duration_is_longer_than_time() {
        assert_eq!([from_micros(1e13), rounded(1e300), rounded(f64::INFINITY)], [END; 3]);
        // A few of them still are no wrap.
        assert!(END.checked_mul(3).is_some());
    }
}
