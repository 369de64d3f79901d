//! Label-correcting wavefront: vertices are queued in buckets by label, and each bucket is one epoch.   [active
//! messages paper, section 4.2]
//!
//! A label may improve several times. Vertices inserted into the current bucket are processed in the same epoch: by the
//! epoch's body while it has work, then by handlers. So a chain of corrections within a bucket needs no further epoch.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use treepie_am::{ActiveMessages, Context};
use treepie_comm::{Comm, Min};

use crate::Result;

/// The number of buckets after the current one that have lists. Vertices of later buckets are in the overflow list.
const WINDOW: u64 = 1024;

/// The queued vertices of a rank, by bucket.
#[derive(Debug, Default)]
pub struct Buckets {
    current: u64,
    /// The current bucket: its vertices from `head` on.
    current_vertices: Vec<u32>,
    head: usize,
    /// The buckets after the current one.
    window: VecDeque<Vec<u32>>,
    overflow: Vec<(u64, u32)>,
    /// The lowest bucket in the overflow list.
    overflow_min: u64,
    /// The epoch's body has no more work.
    is_idle: Rc<Cell<bool>>,
    in_body: bool,
}

impl Buckets {
    /// Inserts a vertex into a bucket, or into the current one if that is later.
    #[inline]
    pub fn insert(&mut self, bucket: u64, vertex: u32) {
        if bucket <= self.current {
            self.current_vertices.push(vertex);
        } else if bucket - self.current <= WINDOW {
            let slot = (bucket - self.current - 1) as usize;
            if slot >= self.window.len() {
                self.window.resize_with(slot + 1, Vec::new);
            }
            self.window[slot].push(vertex);
        } else {
            self.overflow_min = if self.overflow.is_empty() { bucket } else { self.overflow_min.min(bucket) };
            self.overflow.push((bucket, vertex));
        }
    }

    /// The next vertex of the current bucket. FIFO, so that labels have time to improve.
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let vertex = self.current_vertices.get(self.head).copied();
        if vertex.is_some() {
            self.head += 1;
        } else {
            self.current_vertices.clear();
            self.head = 0;
        }
        vertex
    }

    /// The lowest bucket that is not empty.
    fn min_bucket(&self) -> Option<u64> {
        if self.head < self.current_vertices.len() {
            return Some(self.current);
        }
        let in_window = self.window.iter().position(|list| !list.is_empty()).map(|slot| self.current + 1 + slot as u64);
        in_window.or_else(|| (!self.overflow.is_empty()).then_some(self.overflow_min))
    }

    /// Advances to a bucket; all before it must be empty.
    fn advance_to(&mut self, bucket: u64) {
        let by = bucket - self.current;
        if by == 0 {
            return;
        }
        // All lists before that one are empty.
        let skipped = (by - 1).min(self.window.len() as u64);
        self.window.drain(..skipped as usize);
        (self.current_vertices, self.head) = (self.window.pop_front().unwrap_or_default(), 0);
        self.current = bucket;
        if self.overflow.is_empty() || self.overflow_min - bucket > WINDOW {
            return;
        }
        let overflow = std::mem::take(&mut self.overflow);
        overflow.into_iter().for_each(|(bucket, vertex)| self.insert(bucket, vertex));
    }

    /// Removes all vertices, for another search.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// State with buckets.
pub trait LabelCorrecting: Sized {
    /// The buckets.
    fn buckets(&mut self) -> &mut Buckets;

    /// Relaxes the arcs of a vertex whose label may have improved: sends messages, and inserts local vertices into
    /// buckets.
    fn relax_edges(&mut self, cx: &mut Context<Self>, vertex: u32);

    /// Processes the current bucket, unless the body does. Handlers call it at their end.
    #[inline]
    fn drain_bucket(&mut self, cx: &mut Context<Self>) {
        if self.buckets().in_body {
            return;
        }
        while let Some(vertex) = self.buckets().pop() {
            self.relax_edges(cx, vertex);
        }
    }
}

/// Processes buckets until they are empty on all ranks. Returns their number. All ranks call it.
pub fn process_buckets<S: LabelCorrecting>(comm: &Comm, am: &mut ActiveMessages<S>, state: &mut S) -> Result<u64> {
    let mut count = 0;
    loop {
        let first = comm.allreduce(&[state.buckets().min_bucket().unwrap_or(u64::MAX)], Min)?[0];
        if first == u64::MAX {
            return Ok(count);
        }
        state.buckets().advance_to(first);
        let buckets = state.buckets();
        buckets.in_body = true;
        buckets.is_idle.set(false);
        let is_idle = Rc::clone(&buckets.is_idle);
        let items = std::iter::from_fn(move || (!is_idle.get()).then_some(()));
        am.epoch_for(state, items, |cx, state, ()| match state.buckets().pop() {
            Some(vertex) => state.relax_edges(cx, vertex),
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
        let inserted =
            [(5, 50), (0, 1), (1_000_000, 7), (2000, 20), (1, 11), (0, 2), (1024, 3), (1025, 4), (999_999, 6)];
        inserted.iter().for_each(|(bucket, vertex)| buckets.insert(*bucket, *vertex));
        let mut popped = Vec::new();
        while let Some(bucket) = buckets.min_bucket() {
            buckets.advance_to(bucket);
            while let Some(vertex) = buckets.pop() {
                popped.push((bucket, vertex));
            }
        }
        let mut expected = inserted.to_vec();
        expected.sort_by_key(|(bucket, _)| *bucket);
        assert_eq!(popped, expected);
    }

    #[test]
    fn what_is_too_early_waits_in_the_current_one() {
        let mut buckets = Buckets::default();
        buckets.insert(9, 1);
        buckets.advance_to(9);
        buckets.insert(3, 2);
        assert_eq!(
            (buckets.min_bucket(), buckets.pop(), buckets.pop(), buckets.pop()),
            (Some(9), Some(1), Some(2), None)
        );
        assert_eq!(buckets.min_bucket(), None);
    }
}
