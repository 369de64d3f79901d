//! Simulated time: whole picoseconds since the start.
//!
//! Costs per byte are `f64` picoseconds, and only the product with the number of bytes is rounded, once. So nothing is
//! lost where a byte takes a fraction of a nanosecond. Time ends at 2^62 ps, 53 days: sums of a few durations never
//! wrap, and a simulation with a later event fails.

/// Simulated time or duration in picoseconds.
pub type Time = u64;

/// Picoseconds per microsecond.
pub const MICROSECOND: f64 = 1e6;

/// The end of time: the latest event, and the longest duration.
pub const MAX_TIME: Time = 1 << 62;

/// Rounds non-negative picoseconds to the nearest [`Time`], at most [`MAX_TIME`].
#[inline]
pub fn from_picos(picoseconds: f64) -> Time {
    debug_assert!(picoseconds >= 0.0, "time does not go backwards: {picoseconds}");
    ((picoseconds + 0.5) as Time).min(MAX_TIME)
}

/// Converts microseconds to [`Time`], rounded to the nearest picosecond.
pub fn from_micros(micros: f64) -> Time {
    from_picos(micros * MICROSECOND)
}

/// Converts to microseconds.
pub fn to_micros(time: Time) -> f64 {
    time as f64 / MICROSECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_picosecond_per_byte_are_not_lost() {
        let per_byte = 1.0 / 375.0 * MICROSECOND;
        assert_eq!(from_picos(per_byte * 375_000_000.0), 1_000_000_000_000);
        assert_eq!(from_micros(6.29), 6_290_000);
        assert_eq!(to_micros(from_micros(0.25)), 0.25);
    }
    #[test]
    fn durations_saturate_at_max_time() {
        assert_eq!([from_micros(1e13), from_picos(1e300), from_picos(f64::INFINITY)], [MAX_TIME; 3]);
        // Sums of a few durations do not wrap.
        assert!(MAX_TIME.checked_mul(3).is_some());
    }
}
