//! Scratch buffers in the order of a core's views, one per view.

use treepie_schedule::{AllgatherCore, BlockRange, Buf, BufferBlocks, ScheduleOp};

/// Scratch buffers in the order of a core's views.
pub(crate) struct ViewBuffers {
    segments: u32,
    /// The number of positions of each view, without empty ones at the end.
    view_lengths: Vec<u32>,
    /// The positions of each rank's segments, rank by rank.
    own_positions: Vec<u32>,
}

impl ViewBuffers {
    /// For a core that is not shuffled, and whose views, one per segment, have each block once.
    pub(crate) fn new(core: &dyn AllgatherCore) -> Self {
        let (ranks, segments) = (core.ranks(), core.segments());
        let mut own_positions = vec![0; (ranks * segments) as usize];
        let mut view_lengths = Vec::new();
        for segment in 0..segments {
            let (mut found, mut position) = (0, 0);
            while found < ranks {
                core.resolve_view(segment as u8 + 1, position, 1, &mut |run| {
                    assert_eq!(core.owner(run.block, segment), run.block, "shuffled blocks are already in order");
                    own_positions[(run.block * segments + segment) as usize] = position;
                    found += 1;
                });
                position += 1;
            }
            view_lengths.push(position);
        }
        Self { segments, view_lengths, own_positions }
    }

    /// The number of buffers.
    pub(crate) fn count(&self) -> u8 {
        self.segments as u8
    }

    /// The blocks of a buffer.
    pub(crate) fn blocks(&self, tmp: u8) -> BufferBlocks {
        BufferBlocks::ViewRange { view: tmp + 1, lo: 0, len: self.view_lengths[tmp as usize] }
    }

    /// For each buffer, the segment of a rank's block in it, and the same segment in another buffer.
    pub(crate) fn own_segments(&self, rank: u32, other: Buf) -> impl Iterator<Item = (BlockRange, BlockRange)> + '_ {
        let own = &self.own_positions[(rank * self.segments) as usize..][..self.segments as usize];
        own.iter().zip(0..).map(move |(position, segment)| {
            let part = BlockRange::new(other, rank, 1).segment(segment, self.segments);
            (BlockRange::in_view(Buf::Tmp(segment as u8), segment as u8 + 1, *position, 1), part)
        })
    }

    /// For each buffer, its whole view, and the same view of another buffer.
    pub(crate) fn whole_views(&self, other: Buf) -> impl Iterator<Item = (BlockRange, BlockRange)> + '_ {
        self.view_lengths.iter().zip(0..).map(move |(positions, tmp)| {
            let part = BlockRange::in_view(Buf::Tmp(tmp), tmp + 1, 0, *positions);
            (part, part.with_buf(other))
        })
    }
}

/// The same operation on the scratch buffer of its view.
pub(crate) fn to_view_buffer(op: ScheduleOp) -> ScheduleOp {
    let in_view_buffer = |part: BlockRange| part.with_buf(Buf::Tmp(part.view - 1));
    match op {
        ScheduleOp::Send { to, part } => ScheduleOp::Send { to, part: in_view_buffer(part) },
        ScheduleOp::Recv { from, part } => ScheduleOp::Recv { from, part: in_view_buffer(part) },
        ScheduleOp::RecvReduce { from, part, side } => {
            ScheduleOp::RecvReduce { from, part: in_view_buffer(part), side }
        }
        local => local,
    }
}
