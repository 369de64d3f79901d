//! Event queue: a monotone priority queue.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): bucket b > 0 holds the events whose time differs from the
//! current time first in bit b - 1, bucket 0 those of the current time. Advancing redistributes the lowest non-empty
//! bucket, in order, into the empty buckets below it. So every bucket stays in insertion order, and events of equal
//! time pop in insertion order without a sequence number.
//!
//! An event beyond [`MAX_TIME`] exhausts the queue: nothing pops any more. Only such times differ in the bit of
//! `MAX_TIME` or above, so the bucket tells.

use crate::time::{MAX_TIME, Time};

/// A queue of events by time.
#[derive(Debug)]
pub struct EventQueue<T> {
    now: Time,
    /// Events of the current time, popped up to `taken`; an exhausted queue has `taken` beyond all of them.
    current: Vec<T>,
    taken: usize,
    buckets: [Vec<(Time, T)>; 64],
    /// Bit b is set if bucket b is not empty.
    filled: u64,
    len: usize,
}

impl<T: Copy> EventQueue<T> {
    /// An empty queue at time 0.
    pub fn new() -> Self {
        let buckets = std::array::from_fn(|_| Vec::new());
        Self { now: 0, current: Vec::new(), taken: 0, buckets, filled: 0, len: 0 }
    }

    /// The time of the last popped event.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of queued events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is queued.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an event beyond [`MAX_TIME`] was pushed. Then `now` is `MAX_TIME`, and nothing pops.
    pub fn is_exhausted(&self) -> bool {
        self.now >= MAX_TIME
    }

    #[cold]
    fn end(&mut self) {
        (self.now, self.taken) = (MAX_TIME, usize::MAX);
    }

    /// Pushes an event.
    ///
    /// # Panics
    /// With debug assertions, if its time is in the past; otherwise such an event happens now.
    #[inline]
    pub fn push(&mut self, time: Time, event: T) {
        debug_assert!(time >= self.now || self.is_exhausted(), "time {time} is in the past, it is {}", self.now);
        self.len += 1;
        if time <= self.now {
            self.current.push(event);
        } else {
            let bucket = 63 - (time ^ self.now).leading_zeros() as usize;
            self.buckets[bucket].push((time, event));
            self.filled |= 1 << bucket;
            if bucket >= MAX_TIME.trailing_zeros() as usize {
                self.end();
            }
        }
    }

    /// Pops an event of the current time, if any.
    #[inline]
    pub fn pop_now(&mut self) -> Option<T> {
        let event = *self.current.get(self.taken)?;
        self.taken += 1;
        self.len -= 1;
        Some(event)
    }

    /// Pops the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        if self.taken == self.current.len() && !self.advance() {
            return None;
        }
        self.pop_now().map(|event| (self.now, event))
    }

    /// Advances to the time of the next event. Returns whether there is one.
    fn advance(&mut self) -> bool {
        self.current.clear();
        self.taken = 0;
        if self.filled == 0 {
            return false;
        }
        let lowest = self.filled.trailing_zeros() as usize;
        let mut bucket = std::mem::take(&mut self.buckets[lowest]);
        self.filled &= !(1 << lowest);
        self.now = bucket.iter().map(|(time, _)| *time).min().unwrap_or(self.now);
        for &(time, event) in &bucket {
            if time == self.now {
                self.current.push(event);
            } else {
                let below = 63 - (time ^ self.now).leading_zeros() as usize;
                self.buckets[below].push((time, event));
                self.filled |= 1 << below;
            }
        }
        bucket.clear();
        // Reuse the bucket's allocation; nothing was pushed into it meanwhile.
        self.buckets[lowest] = bucket;
        true
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let waiting: usize = self.buckets.iter().map(Vec::capacity).sum();
        waiting * size_of::<(Time, T)>() + self.current.capacity() * size_of::<T>()
    }
}

impl<T: Copy> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::SplitMix64;

    #[test]
    fn pops_by_time_and_then_by_insertion() {
        let mut random = SplitMix64::new(7);
        let mut queue = EventQueue::new();
        let mut expected = std::collections::BTreeSet::new();
        let mut number = 0u64;
        for step in 0..20_000 {
            if step % 3 < 2 {
                let spread = [1, 2, 10, 1000, 1 << 40][random.below(5) as usize];
                let time = queue.now() + random.below(spread);
                queue.push(time, number);
                expected.insert((time, number));
                number += 1;
            } else {
                assert_eq!(queue.pop(), expected.pop_first());
            }
        }
        while let Some(next) = queue.pop() {
            assert_eq!(Some(next), expected.pop_first());
        }
        assert!(expected.is_empty() && queue.is_empty());
    }

    #[test]
    fn pop_now_does_not_advance_time() {
        let mut queue = EventQueue::new();
        queue.push(5, 'a');
        assert_eq!(queue.pop_now(), None);
        assert_eq!(queue.pop(), Some((5, 'a')));
        queue.push(5, 'b');
        queue.push(6, 'c');
        assert_eq!((queue.pop_now(), queue.pop_now(), queue.len()), (Some('b'), None, 1));
    }
    #[test]
    fn nothing_pops_beyond_max_time() {
        let mut queue = EventQueue::new();
        queue.push(3, 'a');
        queue.push(3, 'b');
        queue.push(MAX_TIME - 1, 'c');
        assert_eq!((queue.pop(), queue.is_exhausted()), (Some((3, 'a')), false));
        queue.push(MAX_TIME, 'd');
        assert!(queue.is_exhausted());
        // A caller that has not checked yet may still push.
        queue.push(4, 'e');
        queue.push(Time::MAX, 'f');
        assert_eq!((queue.pop_now(), queue.pop(), queue.now()), (None, None, MAX_TIME));
    }
}
