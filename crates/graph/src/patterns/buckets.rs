//! A wavefront that corrects labels: vertices wait in buckets by their label, and a bucket is one epoch.   [section 4.2]
//!
//! A label may get better several times. What it gets in the bucket that is being emptied is done in the same epoch: by the body
//! as long as it has something to do, and then by handlers. So a chain of corrections within a bucket needs no epoch of its own.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use treepie_am::{ActiveMessages, Context};
use treepie_comm::{Comm, Min};

use crate::Result;

/// So many buckets from the current one on have lists of their own. What is farther is sorted in when it comes nearer.
const NEAR: u64 = 1024;

/// The vertices of a rank that wait, by bucket.
#[derive(Debug, Default)]
pub struct Buckets {
    current: u64,
    /// Of the current bucket: those from `head` on.
    now: Vec<u32>,
    head: usize,
    /// Those behind it.
    near: VecDeque<Vec<u32>>,
    far: Vec<(u64, u32)>,
    /// The first bucket in which one of them waits.
    far_from: u64,
    /// The body has nothing more to do.
    is_idle: Rc<Cell<bool>>,
    in_body: bool,
}

impl Buckets {
    /// A vertex waits in a bucket, or in the current one if that is before it.
    #[inline]
    pub fn put(&mut self, bucket: u64, vertex: u32) {
        if bucket <= self.current {
            self.now.push(vertex);
        } else if bucket - self.current <= NEAR {
            let place = (bucket - self.current - 1) as usize;
            if place >= self.near.len() {
                self.near.resize_with(place + 1, Vec::new);
            }
            self.near[place].push(vertex);
        } else {
            self.far_from = if self.far.is_empty() { bucket } else { self.far_from.min(bucket) };
            self.far.push((bucket, vertex));
        }
    }

    /// The next vertex of the current bucket: first in, first out, so that labels that can still get better have time for it.
    #[inline]
    fn take(&mut self) -> Option<u32> {
        let vertex = self.now.get(self.head).copied();
        if vertex.is_some() {
            self.head += 1;
        } else {
            self.now.clear();
            self.head = 0;
        }
        vertex
    }

    /// The first bucket in which something waits.
    fn first(&self) -> Option<u64> {
        if self.head < self.now.len() {
            return Some(self.current);
        }
        let near = self.near.iter().position(|list| !list.is_empty()).map(|place| self.current + 1 + place as u64);
        near.or_else(|| (!self.far.is_empty()).then_some(self.far_from))
    }

    /// Goes on to a bucket: nothing waits before it.
    fn go_to(&mut self, bucket: u64) {
        let by = bucket - self.current;
        if by == 0 {
            return;
        }
        // Lists before that one are empty, and so is this one if there are fewer.
        let skipped = (by - 1).min(self.near.len() as u64);
        self.near.drain(..skipped as usize);
        (self.now, self.head) = (self.near.pop_front().unwrap_or_default(), 0);
        self.current = bucket;
        if self.far.is_empty() || self.far_from - bucket > NEAR {
            return;
        }
        let far = std::mem::take(&mut self.far);
        far.into_iter().for_each(|(bucket, vertex)| self.put(bucket, vertex));
    }

    /// Empties everything, for another search.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// State with buckets.
pub trait Correcting: Sized {
    /// The buckets.
    fn buckets(&mut self) -> &mut Buckets;

    /// Follows the arcs of a vertex whose label may have got better: sends, and puts own vertices into buckets.
    fn follow(&mut self, cx: &mut Context<Self>, vertex: u32);

    /// To be called by handlers at their end: follows what waits in the current bucket, if the body does not.
    #[inline]
    fn correct(&mut self, cx: &mut Context<Self>) {
        if self.buckets().in_body {
            return;
        }
        while let Some(vertex) = self.buckets().take() {
            self.follow(cx, vertex);
        }
    }
}

/// Empties buckets until nothing waits on any rank. Returns how many there were. All ranks call it.
pub fn correct<S: Correcting>(comm: &Comm, am: &mut ActiveMessages<S>, state: &mut S) -> Result<u64> {
    let mut count = 0;
    loop {
        let first = comm.all_reduce(&[state.buckets().first().unwrap_or(u64::MAX)], Min)?[0];
        if first == u64::MAX {
            return Ok(count);
        }
        state.buckets().go_to(first);
        let buckets = state.buckets();
        buckets.in_body = true;
        buckets.is_idle.set(false);
        let is_idle = Rc::clone(&buckets.is_idle);
        let items = std::iter::from_fn(move || (!is_idle.get()).then_some(()));
        am.epoch_for(state, items, |cx, state, ()| match state.buckets().take() {
            Some(vertex) => state.follow(cx, vertex),
            None => {
                let buckets = state.buckets();
                buckets.in_body = false;
                buckets.is_idle.set(true);
            }
        })?;
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_come_by_bucket_however_far() {
        let mut buckets = Buckets::default();
        let waiting =
            [(5, 50), (0, 1), (1_000_000, 7), (2000, 20), (1, 11), (0, 2), (1024, 3), (1025, 4), (999_999, 6)];
        waiting.iter().for_each(|(bucket, vertex)| buckets.put(*bucket, *vertex));
        let mut came = Vec::new();
        while let Some(bucket) = buckets.first() {
            buckets.go_to(bucket);
            while let Some(vertex) = buckets.take() {
                came.push((bucket, vertex));
            }
        }
        let mut right = waiting.to_vec();
        right.sort_by_key(|(bucket, _)| *bucket);
        assert_eq!(came, right);
    }

    #[test]
    fn what_is_too_early_waits_in_the_current_one() {
        let mut buckets = Buckets::default();
        buckets.put(9, 1);
        buckets.go_to(9);
        buckets.put(3, 2);
        assert_eq!(
            (buckets.first(), buckets.take(), buckets.take(), buckets.take()),
            (Some(9), Some(1), Some(2), None)
        );
        assert_eq!(buckets.first(), None);
    }
}
