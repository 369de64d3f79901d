//! Adaptive caches: sampled from time to time, and used as long as they pay.
//!
//! A cache lookup costs more than a message on shared memory, and far less than one over a network or one with an
//! expensive handler. So a low hit rate shows that a cache does not pay, but a high one does not show that it does. For
//! that the time per message is measured, without the cache and with it, as far as epochs read the clock.

use std::time::Duration;

/// Time spent in bodies of epochs, from poll to poll. Time between epochs and after a body does not count: there are no
/// polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BodyClock {
    total: Duration,
    /// The last poll, if the clock is running.
    last_update: Option<Duration>,
}

impl BodyClock {
    /// Advances the clock to `now`, or stops it.
    pub(crate) fn update(&mut self, now: Option<Duration>) {
        let took = now.zip(self.last_update).map(|(now, before)| now.saturating_sub(before));
        self.total += took.unwrap_or_default();
        self.last_update = now;
    }

    #[inline]
    fn is_running(&self) -> bool {
        self.last_update.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CacheState {
    /// Off, for another `wait` buffers.
    Off { wait: u32 },
    /// Measures the hit rate of a few messages, while the cache warms up.
    Sample,
    /// On, and measures the time per message.
    On,
}

/// Decides whether an adaptive cache is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSampler {
    state: CacheState,
    /// Buffers to wait after the next unsuccessful sample.
    backoff: u32,
    /// Messages counted in this state, and those of them combined.
    messages: u64,
    combined: u64,
    /// Start of this state, and messages sent while the clock was running.
    begun: Duration,
    timed: u64,
    /// Seconds per message without the cache, if known.
    time_uncached: Option<f64>,
    /// Consecutive measurements in which the cache paid.
    wins: u32,
}

/// Messages of a sample per cache entry: the first ones only fill the cache.
const SAMPLES_PER_ENTRY: u64 = 4;

/// Messages of a time measurement per cache entry.
const TIMED_PER_ENTRY: u64 = 16;

/// Buffers between samples, initial and maximum. A sample of some thousand messages per thousand buffers of two
/// thousand costs less than 1%.
const BACKOFF: (u32, u32) = (16, 2048);

/// Below this hit rate a cache does not pay, whatever messages cost.
const MIN_HIT_PERCENT: u64 = 10;
/// Above this hit rate a cache is used if the time per message is unknown.
const UNTIMED_HIT_PERCENT: u64 = 30;

/// Accepted ratio of the time per message with the cache to that without, since some of the savings are on other ranks,
/// or later. It makes little difference there: 0.94 of the rate of the best fixed choice was measured with it, 0.93
/// without.
const MAX_SLOWDOWN: f64 = 1.1;

/// Consecutive wins after which the time without the cache is measured again.
const RESAMPLE_AFTER: u32 = 64;

impl CacheSampler {
    pub(crate) fn new() -> Self {
        Self {
            state: CacheState::Off { wait: BACKOFF.0 },
            backoff: BACKOFF.0,
            messages: 0,
            combined: 0,
            begun: Duration::ZERO,
            timed: 0,
            time_uncached: None,
            wins: 0,
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.state, CacheState::Off { .. })
    }

    /// Counts a buffer sent while the cache was off. Returns whether to use the cache from now on.
    pub(crate) fn on_sent_uncached(&mut self, messages: u64, is_full: bool, clock: &BodyClock) -> bool {
        let CacheState::Off { wait } = &mut self.state else { return true };
        *wait = wait.saturating_sub(u32::from(is_full));
        let starts = *wait == 0;
        self.messages += messages;
        self.timed += if clock.is_running() { messages } else { 0 };
        if starts {
            self.time_uncached = self.time_per_message(clock);
            self.transition(CacheState::Sample, clock);
        }
        starts
    }

    /// Counts a cache lookup. Returns whether to keep using the cache.
    #[inline]
    pub(crate) fn on_lookup(&mut self, combined: bool, entries: usize, clock: &BodyClock) -> bool {
        self.messages += 1;
        self.timed += u64::from(clock.is_running());
        self.combined += u64::from(combined);
        let limit = if self.state == CacheState::Sample { SAMPLES_PER_ENTRY } else { TIMED_PER_ENTRY };
        self.messages < limit * entries as u64 || self.decide(clock)
    }

    #[cold]
    fn decide(&mut self, clock: &BodyClock) -> bool {
        let with = if self.state == CacheState::On { self.time_per_message(clock) } else { None };
        let hits = 100 * self.combined;
        let pays = match (self.time_uncached, with) {
            (Some(without), Some(with)) => with < MAX_SLOWDOWN * without && hits >= MIN_HIT_PERCENT * self.messages,
            // Time is measured next.
            (Some(_), None) if self.state == CacheState::Sample => hits >= MIN_HIT_PERCENT * self.messages,
            _ => hits >= UNTIMED_HIT_PERCENT * self.messages,
        };
        if pays && self.wins < RESAMPLE_AFTER {
            if self.state == CacheState::On {
                (self.wins, self.backoff) = (self.wins + 1, BACKOFF.0);
            }
            self.transition(CacheState::On, clock);
        } else {
            let wait = if pays { BACKOFF.0 } else { self.backoff };
            self.backoff = if pays { BACKOFF.0 } else { (2 * self.backoff).min(BACKOFF.1) };
            self.transition(CacheState::Off { wait }, clock);
        }
        self.is_on()
    }

    fn transition(&mut self, state: CacheState, clock: &BodyClock) {
        if state != CacheState::On {
            self.wins = 0;
        }
        (self.state, self.begun) = (state, clock.total);
        (self.messages, self.combined, self.timed) = (0, 0, 0);
    }

    /// Seconds per message in this state, if most messages were timed.
    fn time_per_message(&self, clock: &BodyClock) -> Option<f64> {
        let took = clock.total.saturating_sub(self.begun);
        (2 * self.timed > self.messages && !took.is_zero()).then(|| took.as_secs_f64() / self.timed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: usize = 64;
    const BUFFER: u64 = 100;

    /// A stream of messages of an epoch, with or without clock.
    struct Stream {
        sampler: CacheSampler,
        clock: BodyClock,
        is_timed: bool,
        time: Duration,
        sent: u64,
    }

    impl Stream {
        fn new(is_timed: bool) -> Self {
            let clock = BodyClock::default();
            Self { sampler: CacheSampler::new(), clock, is_timed, time: Duration::ZERO, sent: 0 }
        }

        /// Sends one message: nanoseconds without and with the cache, and the percentage combined.
        fn message(&mut self, (without, with): (u64, u64), combined: u64) {
            self.time += Duration::from_nanos(if self.sampler.is_on() { with } else { without });
            if self.is_timed {
                self.clock.update(Some(self.time));
            }
            self.sent += 1;
            if self.sampler.is_on() {
                self.sampler.on_lookup(self.sent % 100 < combined, ENTRIES, &self.clock);
            } else if self.sent.is_multiple_of(BUFFER) {
                self.sampler.on_sent_uncached(BUFFER, true, &self.clock);
            }
        }

        /// The percentage of a million messages sent with the cache.
        fn cached_percent(&mut self, times: (u64, u64), combined: u64) -> u64 {
            let mut with = 0;
            (0..1_000_000).for_each(|_| {
                with += u64::from(self.sampler.is_on());
                self.message(times, combined);
            });
            with / 10_000
        }
    }

    #[test]
    fn unsuccessful_samples_back_off_exponentially() {
        let mut sampler = CacheSampler::new();
        let clock = BodyClock::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            let mut buffers = 1;
            while !sampler.on_sent_uncached(BUFFER, true, &clock) {
                buffers += 1;
            }
            waits.push(buffers);
            while sampler.on_lookup(false, ENTRIES, &clock) {}
        }
        assert_eq!(waits, [16, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048]);
    }

    #[test]
    fn the_hit_rate_decides_without_a_clock() {
        assert!(Stream::new(false).cached_percent((10, 50), 40) > 90);
        assert!(Stream::new(false).cached_percent((10, 1), 20) < 5);
    }

    #[test]
    fn time_decides_if_it_is_known() {
        assert!(
            Stream::new(true).cached_percent((10, 30), 60) < 5,
            "a cache that costs more than messages is not used"
        );
        assert!(
            Stream::new(true).cached_percent((200, 180), 15) > 90,
            "one that saves time is, even if it combines few"
        );
        assert!(Stream::new(true).cached_percent((200, 1), 5) < 5, "and not if it combines too few");
    }

    #[test]
    fn the_sampler_follows_a_changing_stream() {
        let mut stream = Stream::new(true);
        assert!(stream.cached_percent((10, 30), 60) < 5);
        assert!(stream.cached_percent((300, 200), 60) > 50);
        assert!(stream.cached_percent((300, 200), 60) > 90);
        assert!(stream.cached_percent((10, 30), 60) < 50);
        assert!(stream.cached_percent((10, 30), 60) < 5);
    }

    #[test]
    fn time_between_epochs_does_not_count() {
        let mut stream = Stream::new(true);
        let mut with = 0;
        for _ in 0..1000 {
            // Time of the program between two epochs, which must not count as time of messages.
            stream.clock.update(None);
            stream.time += Duration::from_millis(100);
            for _ in 0..1000 {
                with += u64::from(stream.sampler.is_on());
                stream.message((10, 30), 60);
            }
        }
        assert!(with < 50_000, "{with}");
    }

    #[test]
    fn buffers_that_are_not_full_count() {
        let (mut sampler, mut clock) = (CacheSampler::new(), BodyClock::default());
        clock.update(Some(Duration::ZERO));
        for sent in 1..=BACKOFF.0 {
            clock.update(Some(Duration::from_micros(sent.into())));
            assert!(!sampler.on_sent_uncached(900, false, &clock));
            assert_eq!(sampler.on_sent_uncached(100, true, &clock), sent == BACKOFF.0);
        }
        // A nanosecond each.
        assert!(
            sampler.time_uncached.is_some_and(|time| (0.9e-9..1.1e-9).contains(&time)),
            "{:?}",
            sampler.time_uncached
        );
    }
}
