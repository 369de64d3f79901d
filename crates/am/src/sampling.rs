//! Whether an adaptive cache is in use: it is tried now and then, and kept as long as it pays.
//!
//! To look into a cache costs more than to send a message to a neighbour in the same memory, and far less than to send one over a
//! network, or one whose handler has much to do. So what share of messages is combined tells when a cache does not pay, but not
//! when it does: for that the time of a message is taken, without the cache and with it, as far as epochs look at a clock.

use std::time::Duration;

/// How long bodies of epochs have taken so far, from look to look. What is between epochs does not count, nor what comes after a
/// body: nobody looks then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    total: Duration,
    /// The last look, while it is looked.
    looked: Option<Duration>,
}

impl Clock {
    /// It is looked now; nothing: from now on nobody looks.
    pub(crate) fn look(&mut self, now: Option<Duration>) {
        let took = now.zip(self.looked).map(|(now, before)| now.saturating_sub(before));
        self.total += took.unwrap_or_default();
        self.looked = now;
    }

    #[inline]
    fn runs(&self) -> bool {
        self.looked.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    /// Off, for so many buffers more.
    Off { wait: u32 },
    /// A few messages are offered to see how many of them are combined. Meanwhile the cache is filled.
    Sample,
    /// On, and timed.
    On,
}

/// Whether an adaptive cache is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    uses: Use,
    /// How long to wait after the next trial in vain.
    patience: u32,
    /// Messages that were counted, and of them those that were combined.
    messages: u64,
    combined: u64,
    /// The time when that began, and how many of them were sent while time was taken.
    begun: Duration,
    timed: u64,
    /// Seconds a message without the cache, if that is known.
    without: Option<f64>,
    /// How often in turn it was found to pay.
    paid: u32,
}

/// Messages of a sample: four times the cache's entries, as the first ones only fill it.
const SAMPLE_OF_ENTRIES: u64 = 4;

/// Messages that are timed: four times as many again.
const TIMED_OF_ENTRIES: u64 = 16;

/// Buffers between trials, at first and at most. Some thousand messages in a thousand buffers of two thousand cost less than a
/// hundredth.
const WAIT: (u32, u32) = (16, 2048);

/// Where fewer of a hundred messages are combined, looking for them is not worth while, whatever they cost; where more are and
/// what they cost is not known, it is.
const HARDLY: u64 = 10;
const WORTH: u64 = 30;

/// So many times as long a message may take with the cache, since some of what it saves is saved on other ranks, or later. Where that
/// is so, it makes little difference: with it 0.94 of the rate of the best fixed choice was seen, without it 0.93.
const DEARER: f64 = 1.1;

/// After so many times in turn it is looked again how it would be without.
const AGAIN: u32 = 64;

impl Sampling {
    pub(crate) fn new() -> Self {
        Self {
            uses: Use::Off { wait: WAIT.0 },
            patience: WAIT.0,
            messages: 0,
            combined: 0,
            begun: Duration::ZERO,
            timed: 0,
            without: None,
            paid: 0,
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.uses, Use::Off { .. })
    }

    /// A buffer of so many messages was sent while the cache was off. True: use it from now on.
    pub(crate) fn sent_without(&mut self, messages: u64, is_full: bool, clock: &Clock) -> bool {
        let Use::Off { wait } = &mut self.uses else { return true };
        *wait = wait.saturating_sub(u32::from(is_full));
        let is_over = *wait == 0;
        self.messages += messages;
        self.timed += if clock.runs() { messages } else { 0 };
        if is_over {
            self.without = self.price(clock);
            self.go_to(Use::Sample, clock);
        }
        is_over
    }

    /// A message was offered to the cache. False: stop using it.
    #[inline]
    pub(crate) fn offered(&mut self, combined: bool, entries: usize, clock: &Clock) -> bool {
        self.messages += 1;
        self.timed += u64::from(clock.runs());
        self.combined += u64::from(combined);
        let most = if self.uses == Use::Sample { SAMPLE_OF_ENTRIES } else { TIMED_OF_ENTRIES };
        self.messages < most * entries as u64 || self.judge(clock)
    }

    #[cold]
    fn judge(&mut self, clock: &Clock) -> bool {
        let with = if self.uses == Use::On { self.price(clock) } else { None };
        let share = 100 * self.combined;
        let pays = match (self.without, with) {
            (Some(without), Some(with)) => with < DEARER * without && share >= HARDLY * self.messages,
            // It is timed next.
            (Some(_), None) if self.uses == Use::Sample => share >= HARDLY * self.messages,
            _ => share >= WORTH * self.messages,
        };
        if pays && self.paid < AGAIN {
            if self.uses == Use::On {
                (self.paid, self.patience) = (self.paid + 1, WAIT.0);
            }
            self.go_to(Use::On, clock);
        } else {
            let wait = if pays { WAIT.0 } else { self.patience };
            self.patience = if pays { WAIT.0 } else { (2 * self.patience).min(WAIT.1) };
            self.go_to(Use::Off { wait }, clock);
        }
        self.is_on()
    }

    fn go_to(&mut self, uses: Use, clock: &Clock) {
        if uses != Use::On {
            self.paid = 0;
        }
        (self.uses, self.begun) = (uses, clock.total);
        (self.messages, self.combined, self.timed) = (0, 0, 0);
    }

    /// Seconds a message since they are counted, if time was taken of most of them.
    fn price(&self, clock: &Clock) -> Option<f64> {
        let took = clock.total.saturating_sub(self.begun);
        (2 * self.timed > self.messages && !took.is_zero()).then(|| took.as_secs_f64() / self.timed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: usize = 64;
    const BUFFER: u64 = 100;

    /// Messages one after the other, of an epoch that may look at its clock.
    struct Stream {
        sampling: Sampling,
        clock: Clock,
        looks: bool,
        time: Duration,
        sent: u64,
    }

    impl Stream {
        fn new(looks: bool) -> Self {
            let clock = Clock::default();
            Self { sampling: Sampling::new(), clock, looks, time: Duration::ZERO, sent: 0 }
        }

        /// One message: it takes so many nanoseconds without and with the cache, and so many of a hundred are combined.
        fn message(&mut self, (without, with): (u64, u64), combined: u64) {
            self.time += Duration::from_nanos(if self.sampling.is_on() { with } else { without });
            if self.looks {
                self.clock.look(Some(self.time));
            }
            self.sent += 1;
            if self.sampling.is_on() {
                self.sampling.offered(self.sent % 100 < combined, ENTRIES, &self.clock);
            } else if self.sent.is_multiple_of(BUFFER) {
                self.sampling.sent_without(BUFFER, true, &self.clock);
            }
        }

        /// The share of a million messages that were sent with the cache, in hundredths.
        fn share(&mut self, times: (u64, u64), combined: u64) -> u64 {
            let mut with = 0;
            (0..1_000_000).for_each(|_| {
                with += u64::from(self.sampling.is_on());
                self.message(times, combined);
            });
            with / 10_000
        }
    }

    #[test]
    fn what_is_not_combined_is_tried_ever_more_seldom() {
        let mut sampling = Sampling::new();
        let clock = Clock::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            let mut buffers = 1;
            while !sampling.sent_without(BUFFER, true, &clock) {
                buffers += 1;
            }
            waits.push(buffers);
            while sampling.offered(false, ENTRIES, &clock) {}
        }
        assert_eq!(waits, [16, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048]);
    }

    #[test]
    fn the_share_tells_where_nobody_looks_at_a_clock() {
        assert!(Stream::new(false).share((10, 50), 40) > 90);
        assert!(Stream::new(false).share((10, 1), 20) < 5);
    }

    #[test]
    fn time_tells_where_it_is_known() {
        assert!(Stream::new(true).share((10, 30), 60) < 5, "a cache that costs more than messages is not used");
        assert!(Stream::new(true).share((200, 180), 15) > 90, "one that saves time is, even if it combines few");
        assert!(Stream::new(true).share((200, 1), 5) < 5, "and not if it combines hardly any");
    }

    #[test]
    fn a_stream_that_changes_is_seen_to() {
        let mut stream = Stream::new(true);
        assert!(stream.share((10, 30), 60) < 5);
        assert!(stream.share((300, 200), 60) > 50);
        assert!(stream.share((300, 200), 60) > 90);
        assert!(stream.share((10, 30), 60) < 50);
        assert!(stream.share((10, 30), 60) < 5);
    }

    #[test]
    fn time_between_epochs_is_nobodys() {
        let mut stream = Stream::new(true);
        let mut with = 0;
        for _ in 0..1000 {
            // The work of the program between two epochs, which would look as if messages were dear.
            stream.clock.look(None);
            stream.time += Duration::from_millis(100);
            for _ in 0..1000 {
                with += u64::from(stream.sampling.is_on());
                stream.message((10, 30), 60);
            }
        }
        assert!(with < 50_000, "{with}");
    }

    #[test]
    fn buffers_that_are_not_full_count() {
        let (mut sampling, mut clock) = (Sampling::new(), Clock::default());
        clock.look(Some(Duration::ZERO));
        for sent in 1..=WAIT.0 {
            clock.look(Some(Duration::from_micros(sent.into())));
            assert!(!sampling.sent_without(900, false, &clock));
            assert_eq!(sampling.sent_without(100, true, &clock), sent == WAIT.0);
        }
        // A nanosecond each.
        assert!(sampling.without.is_some_and(|price| (0.9e-9..1.1e-9).contains(&price)), "{:?}", sampling.without);
    }
}
