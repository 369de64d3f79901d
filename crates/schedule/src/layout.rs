//! From blocks to elements: how long blocks are, and where the parts of a buffer lie.

use std::ops::Range;
use std::sync::Arc;

use crate::op::{Buf, Part};
use crate::schedule::{Held, Run, Schedule, held};

/// How long the blocks are, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// So many elements, cut into blocks whose lengths differ by at most one.
    Even {
        /// Elements of all blocks together.
        total: usize,
        /// How many blocks.
        blocks: u32,
    },
    /// Where each block begins, and at last where the last one ends.
    Listed(Arc<[usize]>),
}

impl Layout {
    /// Blocks of `each` elements.
    pub fn uniform(each: usize, blocks: u32) -> Self {
        Layout::Even { total: each * blocks as usize, blocks }
    }

    /// Blocks of these lengths.
    pub fn of_counts(counts: &[usize]) -> Self {
        let mut at = 0;
        let begins = std::iter::once(0).chain(counts.iter().map(|count| {
            at += count;
            at
        }));
        Layout::Listed(begins.collect())
    }

    /// Where a block begins; for the number of blocks, where the last one ends.
    #[inline]
    pub fn offset(&self, block: u32) -> usize {
        match self {
            Layout::Even { total, blocks } => cut(*total, block, *blocks),
            Layout::Listed(begins) => begins[block as usize],
        }
    }

    /// Where consecutive blocks lie.
    #[inline]
    pub fn range(&self, block: u32, blocks: u32) -> Range<usize> {
        self.offset(block)..self.offset(block + blocks)
    }

    /// Elements of all blocks together.
    pub fn total(&self) -> usize {
        match self {
            Layout::Even { total, .. } => *total,
            Layout::Listed(begins) => begins.last().copied().unwrap_or(0),
        }
    }
}

/// Where segment `seg` of `of` begins in `len` elements.
#[inline]
fn cut(len: usize, seg: u32, of: u32) -> usize {
    match of {
        0 => 0,
        1 => len * seg as usize,
        of => match len.checked_mul(seg as usize) {
            Some(product) => product / of as usize,
            None => (len as u128 * u128::from(seg) / u128::from(of)) as usize,
        },
    }
}

/// The layouts of the two sides; they differ only for an all-to-all of unequal counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// Of `In`.
    pub input: Layout,
    /// Of `Out` and scratch memory.
    pub output: Layout,
}

impl Layouts {
    /// The same on both sides.
    pub fn both(layout: Layout) -> Self {
        Self { input: layout.clone(), output: layout }
    }

    fn of(&self, buf: Buf) -> &Layout {
        match buf {
            Buf::In => &self.input,
            Buf::Out | Buf::Tmp(_) => &self.output,
        }
    }
}

/// Where the parts of a rank's buffers lie.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// The schedule, for its views.
    pub schedule: &'a dyn Schedule,
    /// The lengths of blocks.
    pub layouts: &'a Layouts,
    /// The rank.
    pub rank: u32,
}

impl Places<'_> {
    /// Elements of a buffer.
    pub fn size(&self, buf: Buf) -> usize {
        let layout = self.layouts.of(buf);
        match held(self.schedule, self.rank, buf) {
            Held::Nothing => 0,
            Held::Own => layout.range(self.rank, 1).len(),
            Held::Positions { view: 0, lo, len } => layout.range(lo, len).len(),
            Held::Positions { view, lo, len } => self.length(layout, view, lo, len),
        }
    }

    /// Elements of whole blocks at positions of a view.
    fn length(&self, layout: &Layout, view: u8, lo: u32, len: u32) -> usize {
        let mut length = 0;
        self.schedule
            .runs(view, lo, len, &mut |run| self.segments(layout, run, 0, 1, &mut |range| length += range.len()));
        length
    }

    /// Calls `each` with the ranges of elements of a run, all in the layout's own order.
    fn segments(&self, layout: &Layout, run: Run, seg: u32, of: u32, each: &mut dyn FnMut(Range<usize>)) {
        if run.of * of == 1 {
            each(layout.range(run.block, run.blocks));
            return;
        }
        let (seg, of) = (run.seg * of + seg, run.of * of);
        for block in run.block..run.block + run.blocks {
            let Range { start, end } = layout.range(block, 1);
            each(start + cut(end - start, seg, of)..start + cut(end - start, seg + 1, of));
        }
    }

    /// Calls `each` with the ranges of elements that a part is, in the order of its positions; neighbours are joined.
    ///
    /// A part of a buffer that is ordered by a view must be given in that view.
    pub fn ranges(&self, part: Part, mut each: impl FnMut(Range<usize>)) {
        let layout = self.layouts.of(part.buf);
        let mut joined = 0..0;
        let mut join = |range: Range<usize>| {
            if range.is_empty() {
            } else if range.start == joined.end && !joined.is_empty() {
                joined.end = range.end;
            } else {
                if !joined.is_empty() {
                    each(joined.clone());
                }
                joined = range;
            }
        };
        match held(self.schedule, self.rank, part.buf) {
            Held::Nothing => assert!(part.len == 0, "rank {} has no {:?}", self.rank, part.buf),
            Held::Positions { view, lo, .. } if view != 0 => {
                assert!(part.view == view, "a buffer in the order of view {view} is asked for in view {}", part.view);
                let mut at = self.length(layout, view, lo, part.lo - lo);
                self.schedule.runs(view, part.lo, part.len, &mut |run| {
                    // In this memory the run lies at `at`, in blocks one after the other.
                    for block in run.block..run.block + run.blocks {
                        let len = layout.range(block, 1).len();
                        let (begin, end) = (cut(len, run.seg, run.of), cut(len, run.seg + 1, run.of));
                        let (seg, of) = (run.seg * part.of + part.seg, run.of * part.of);
                        join(at + cut(len, seg, of) - begin..at + cut(len, seg + 1, of) - begin);
                        at += end - begin;
                    }
                });
            }
            held => {
                let base = match held {
                    Held::Own => layout.offset(self.rank),
                    Held::Positions { lo, .. } => layout.offset(lo),
                    Held::Nothing => 0,
                };
                let mut shifted = |range: Range<usize>| join(range.start - base..range.end - base);
                if part.view == 0 {
                    self.segments(layout, Run::whole(part.lo, part.len), part.seg, part.of, &mut shifted);
                } else {
                    self.schedule.runs(part.view, part.lo, part.len, &mut |run| {
                        self.segments(layout, run, part.seg, part.of, &mut shifted);
                    });
                }
            }
        }
        if !joined.is_empty() {
            each(joined);
        }
    }

    /// Calls `each` with the blocks of a part and how many elements of each are in it.
    pub fn blocks(&self, part: Part, mut each: impl FnMut(u32, usize)) {
        let layout = self.layouts.of(part.buf);
        let mut run = |run: Run| {
            for block in run.block..run.block + run.blocks {
                let one = Run { block, blocks: 1, ..run };
                self.segments(layout, one, part.seg, part.of, &mut |range| each(block, range.len()));
            }
        };
        if part.view == 0 {
            run(Run::whole(part.lo, part.len));
        } else {
            self.schedule.runs(part.view, part.lo, part.len, &mut run);
        }
    }

    /// How many elements a part has.
    pub fn len(&self, part: Part) -> usize {
        let mut len = 0;
        self.ranges(part, |range| len += range.len());
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_blocks_differ_by_at_most_one() {
        let layout = Layout::Even { total: 17, blocks: 5 };
        let lengths: Vec<usize> = (0..5).map(|block| layout.range(block, 1).len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 17);
        assert!(lengths.iter().all(|len| (3..=4).contains(len)), "{lengths:?}");
        assert_eq!(Layout::Even { total: 0, blocks: 0 }.offset(0), 0);
    }

    #[test]
    fn listed_blocks_may_be_empty() {
        let layout = Layout::of_counts(&[2, 0, 3]);
        assert_eq!((layout.range(1, 1), layout.range(0, 3), layout.total()), (2..2, 0..5, 5));
    }
}
