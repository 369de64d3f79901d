//! From blocks to elements: block lengths, and the location of block ranges in buffers.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::op::{BlockRange, Buf};
use crate::schedule::{BlockRun, BufferBlocks, Schedule, buffer_blocks};

/// The lengths of blocks, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockLayout {
    /// Elements divided into blocks whose lengths differ by at most one.
    Even {
        /// Elements of all blocks together.
        total: usize,
        /// The number of blocks.
        blocks: u32,
    },
    /// The offset of each block, followed by the end of the last one.
    Offsets(Arc<[usize]>),
}

impl BlockLayout {
    /// Blocks of `each` elements.
    pub fn uniform(each: usize, blocks: u32) -> Self {
        BlockLayout::Even { total: each * blocks as usize, blocks }
    }

    /// Blocks of these lengths.
    pub fn from_counts(counts: &[usize]) -> Self {
        let mut end = 0;
        let offsets = std::iter::once(0).chain(counts.iter().map(|count| {
            end += count;
            end
        }));
        BlockLayout::Offsets(offsets.collect())
    }

    /// The offset of a block; for the number of blocks, the end of the last one.
    #[inline]
    pub fn offset(&self, block: u32) -> usize {
        match self {
            BlockLayout::Even { total, blocks } => segment_offset(*total, block, *blocks),
            BlockLayout::Offsets(offsets) => offsets[block as usize],
        }
    }

    /// The range of consecutive blocks.
    #[inline]
    pub fn range(&self, block: u32, blocks: u32) -> Range<usize> {
        self.offset(block)..self.offset(block + blocks)
    }

    /// As many elements to a block, in another number of blocks: those of a layout whose blocks have equal length.
    fn with_blocks(&self, number: u32) -> Self {
        match self {
            BlockLayout::Even { total, blocks } => {
                BlockLayout::Even { total: segment_offset(*total, number, *blocks), blocks: number }
            }
            BlockLayout::Offsets(offsets) => Self::uniform(offsets.get(1).map_or(0, |end| end - offsets[0]), number),
        }
    }

    /// Elements of all blocks together.
    pub fn total(&self) -> usize {
        match self {
            BlockLayout::Even { total, .. } => *total,
            BlockLayout::Offsets(offsets) => offsets.last().copied().unwrap_or(0),
        }
    }
}

/// The offset of segment `segment` of `segments` in `len` elements.
#[inline]
fn segment_offset(len: usize, segment: u32, segments: u32) -> usize {
    match segments {
        0 => 0,
        1 => len * segment as usize,
        segments => match len.checked_mul(segment as usize) {
            Some(product) => product / segments as usize,
            None => (len as u128 * u128::from(segment) / u128::from(segments)) as usize,
        },
    }
}

/// The layouts of input and output; they differ only for an all-to-all of unequal counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLayouts {
    /// Of `In`.
    pub input: BlockLayout,
    /// Of `Out` and scratch memory.
    pub output: BlockLayout,
}

impl BlockLayouts {
    /// The same layout for input and output.
    pub fn symmetric(layout: BlockLayout) -> Self {
        Self { input: layout.clone(), output: layout }
    }

    fn for_buf(&self, buf: Buf) -> &BlockLayout {
        match buf {
            Buf::In => &self.input,
            Buf::Out | Buf::Tmp(_) => &self.output,
        }
    }
}

/// Maps block ranges to elements of a rank's buffers.
#[derive(Clone, Copy)]
pub struct BufferMap<'a> {
    /// The schedule, for its views.
    pub schedule: &'a dyn Schedule,
    /// The lengths of blocks.
    pub layouts: &'a BlockLayouts,
    /// The rank.
    pub rank: u32,
}

impl<'a> BufferMap<'a> {
    /// The blocks of a buffer, and their lengths.
    fn blocks_and_layout(&self, buf: Buf) -> (BufferBlocks, Cow<'a, BlockLayout>) {
        let layout = self.layouts.for_buf(buf);
        match buffer_blocks(self.schedule, self.rank, buf) {
            BufferBlocks::Uniform { blocks } => (BufferBlocks::all(blocks), Cow::Owned(layout.with_blocks(blocks))),
            blocks => (blocks, Cow::Borrowed(layout)),
        }
    }

    /// The length of a buffer in elements.
    pub fn buffer_len(&self, buf: Buf) -> usize {
        let (blocks, layout) = self.blocks_and_layout(buf);
        let layout = &*layout;
        match blocks {
            BufferBlocks::Empty | BufferBlocks::Uniform { .. } => 0,
            BufferBlocks::OwnBlock => layout.range(self.rank, 1).len(),
            BufferBlocks::ViewRange { view: 0, lo, len } => layout.range(lo, len).len(),
            BufferBlocks::ViewRange { view, lo, len } => self.view_len(layout, view, lo, len),
        }
    }

    /// The number of elements of whole blocks at positions of a view.
    fn view_len(&self, layout: &BlockLayout, view: u8, lo: u32, len: u32) -> usize {
        let mut length = 0;
        self.schedule.resolve_view_on(self.rank, view, lo, len, &mut |run| {
            self.segment_ranges(layout, run, 0, 1, &mut |range| length += range.len())
        });
        length
    }

    /// Calls `each` with the element ranges of one segment of a run, relative to the layout.
    fn segment_ranges(
        &self,
        layout: &BlockLayout,
        run: BlockRun,
        segment: u32,
        segments: u32,
        each: &mut dyn FnMut(Range<usize>),
    ) {
        if run.segments * segments == 1 {
            each(layout.range(run.block, run.blocks));
            return;
        }
        let (segment, segments) = (run.segment * segments + segment, run.segments * segments);
        for block in run.block..run.block + run.blocks {
            let Range { start, end } = layout.range(block, 1);
            each(
                start + segment_offset(end - start, segment, segments)
                    ..start + segment_offset(end - start, segment + 1, segments),
            );
        }
    }

    /// Calls `each` with the element ranges of a block range, in the order of its positions; adjacent ones are merged.
    ///
    /// For a buffer in the order of a view, the block range must be in that view.
    pub fn ranges(&self, part: BlockRange, mut each: impl FnMut(Range<usize>)) {
        let (blocks, layout) = self.blocks_and_layout(part.buf);
        let layout = &*layout;
        let mut merged = 0..0;
        let mut merge = |range: Range<usize>| {
            if range.is_empty() {
            } else if range.start == merged.end && !merged.is_empty() {
                merged.end = range.end;
            } else {
                if !merged.is_empty() {
                    each(merged.clone());
                }
                merged = range;
            }
        };
        match blocks {
            BufferBlocks::Empty => assert!(part.len == 0, "rank {} has no {:?}", self.rank, part.buf),
            BufferBlocks::ViewRange { view, lo, .. } if view != 0 => {
                assert!(part.view == view, "a buffer in the order of view {view} is accessed in view {}", part.view);
                let mut at = self.view_len(layout, view, lo, part.lo - lo);
                self.schedule.resolve_view_on(self.rank, view, part.lo, part.len, &mut |run| {
                    // In this buffer the run begins at `at`, its blocks back to back.
                    for block in run.block..run.block + run.blocks {
                        let len = layout.range(block, 1).len();
                        let (start, end) = (
                            segment_offset(len, run.segment, run.segments),
                            segment_offset(len, run.segment + 1, run.segments),
                        );
                        let (segment, segments) =
                            (run.segment * part.segments + part.segment, run.segments * part.segments);
                        merge(
                            at + segment_offset(len, segment, segments) - start
                                ..at + segment_offset(len, segment + 1, segments) - start,
                        );
                        at += end - start;
                    }
                });
            }
            blocks => {
                let base = match blocks {
                    BufferBlocks::OwnBlock => layout.offset(self.rank),
                    BufferBlocks::ViewRange { lo, .. } => layout.offset(lo),
                    BufferBlocks::Empty | BufferBlocks::Uniform { .. } => 0,
                };
                let mut shifted = |range: Range<usize>| merge(range.start - base..range.end - base);
                if part.view == 0 {
                    self.segment_ranges(
                        layout,
                        BlockRun::whole_blocks(part.lo, part.len),
                        part.segment,
                        part.segments,
                        &mut shifted,
                    );
                } else {
                    self.schedule.resolve_view_on(self.rank, part.view, part.lo, part.len, &mut |run| {
                        self.segment_ranges(layout, run, part.segment, part.segments, &mut shifted);
                    });
                }
            }
        }
        if !merged.is_empty() {
            each(merged);
        }
    }

    /// Calls `each` with the blocks of a block range, and the number of elements of each in it.
    pub fn blocks(&self, part: BlockRange, mut each: impl FnMut(u32, usize)) {
        let (_, layout) = self.blocks_and_layout(part.buf);
        let layout = &*layout;
        let mut run = |run: BlockRun| {
            for block in run.block..run.block + run.blocks {
                let one = BlockRun { block, blocks: 1, ..run };
                self.segment_ranges(layout, one, part.segment, part.segments, &mut |range| each(block, range.len()));
            }
        };
        if part.view == 0 {
            run(BlockRun::whole_blocks(part.lo, part.len));
        } else {
            self.schedule.resolve_view_on(self.rank, part.view, part.lo, part.len, &mut run);
        }
    }

    /// The number of elements of a block range.
    pub fn range_len(&self, part: BlockRange) -> usize {
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
        let layout = BlockLayout::Even { total: 17, blocks: 5 };
        let lengths: Vec<usize> = (0..5).map(|block| layout.range(block, 1).len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 17);
        assert!(lengths.iter().all(|len| (3..=4).contains(len)), "{lengths:?}");
        assert_eq!(BlockLayout::Even { total: 0, blocks: 0 }.offset(0), 0);
    }

    #[test]
    fn blocks_may_be_empty() {
        let layout = BlockLayout::from_counts(&[2, 0, 3]);
        assert_eq!((layout.range(1, 1), layout.range(0, 3), layout.total()), (2..2, 0..5, 5));
    }
}
