//! What happens next: a priority queue for times that never go back.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): bucket b > 0 holds what differs from the current time first in bit
//! b - 1, bucket 0 what is now. Taking the next time moves the lowest bucket that has anything into those below it, in order,
//! and those are empty then. So each bucket is always in the order in which things were put in, and things of the same time
//! come out in that order without a number that says so.
//!
//! What would happen after the end of time is never taken: with it the queue is over. Bits from that of the end on can only
//! differ then, so the bucket says so.

use crate::time::{END, Time};

/// A queue of things with their times.
#[derive(Debug)]
pub struct Queue<T> {
    now: Time,
    /// What is now, from `taken` on; when the queue is over, `taken` is beyond any.
    current: Vec<T>,
    taken: usize,
    buckets: [Vec<(Time, T)>; 64],
    /// Bit b is set if bucket b has anything.
    filled: u64,
    len: usize,
}

impl<T: Copy> Queue<T> {
    /// Empty, at time 0.
    pub fn new() -> Self {
        let buckets = std::array::from_fn(|_| Vec::new());
        Self { now: 0, current: Vec::new(), taken: 0, buckets, filled: 0, len: 0 }
    }

    /// The time of what was taken last.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many things wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something was put in that would happen after the end of time. Then it is that time, and nothing comes out.
    pub fn is_over(&self) -> bool {
        self.now >= END
    }

    #[cold]
    fn end(&mut self) {
        (self.now, self.taken) = (END, usize::MAX);
    }

    /// Puts something in.
    ///
    /// # Panics
    /// If its time is over, in builds with debug assertions; otherwise it happens now.
    #[inline]
    pub fn push(&mut self, time: Time, thing: T) {
        debug_assert!(time >= self.now || self.is_over(), "time {time} is over, it is {}", self.now);
        self.len += 1;
        if time <= self.now {
            self.current.push(thing);
        } else {
            let bucket = 63 - (time ^ self.now).leading_zeros() as usize;
            self.buckets[bucket].push((time, thing));
            self.filled |= 1 << bucket;
            if bucket >= END.trailing_zeros() as usize {
                self.end();
            }
        }
    }

    /// Takes what happens at the present time; nothing if time would have to go on.
    #[inline]
    pub fn pop_now(&mut self) -> Option<T> {
        let thing = *self.current.get(self.taken)?;
        self.taken += 1;
        self.len -= 1;
        Some(thing)
    }

    /// Takes what happens next.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        if self.taken == self.current.len() && !self.advance() {
            return None;
        }
        self.pop_now().map(|thing| (self.now, thing))
    }

    /// Goes to the next time at which something happens.
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
        for &(time, thing) in &bucket {
            if time == self.now {
                self.current.push(thing);
            } else {
                let below = 63 - (time ^ self.now).leading_zeros() as usize;
                self.buckets[below].push((time, thing));
                self.filled |= 1 << below;
            }
        }
        bucket.clear();
        // The bucket keeps its memory; nothing can have been put into it meanwhile.
        self.buckets[lowest] = bucket;
        true
    }

    /// Bytes that it occupies.
    pub fn memory(&self) -> usize {
        let waiting: usize = self.buckets.iter().map(Vec::capacity).sum();
        waiting * size_of::<(Time, T)>() + self.current.capacity() * size_of::<T>()
    }
}

impl<T: Copy> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Random;

    #[test]
    fn comes_out_in_the_order_of_time_and_then_of_putting_in() {
        let mut random = Random::new(7);
        let mut queue = Queue::new();
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
    fn what_is_now_is_taken_without_going_on() {
        let mut queue = Queue::new();
        queue.push(5, 'a');
        assert_eq!(queue.pop_now(), None);
        assert_eq!(queue.pop(), Some((5, 'a')));
        queue.push(5, 'b');
        queue.push(6, 'c');
        assert_eq!((queue.pop_now(), queue.pop_now(), queue.len()), (Some('b'), None, 1));
    }
    #[test]
    fn nothing_comes_out_after_the_end_of_time() {
        let mut queue = Queue::new();
        queue.push(3, 'a');
        queue.push(3, 'b');
        queue.push(END - 1, 'c');
        assert_eq!((queue.pop(), queue.is_over()), (Some((3, 'a')), false));
        queue.push(END, 'd');
        assert!(queue.is_over());
        // Whoever has not looked yet may still put things in.
        queue.push(4, 'e');
        queue.push(Time::MAX, 'f');
        assert_eq!((queue.pop_now(), queue.pop(), queue.now()), (None, None, END));
    }
}
