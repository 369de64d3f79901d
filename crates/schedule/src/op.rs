//! The operations of a round, on blocks instead of bytes.

/// A buffer of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buf {
    /// The caller's send buffer.
    In,
    /// The caller's receive buffer.
    Out,
    /// Scratch memory.
    Tmp(u8),
}

/// A range of positions in a view of a buffer, and one segment of each block in it.
///
/// A view is an order of the blocks that the schedule defines; view 0 is the order of block numbers. So blocks that are
/// scattered in memory, but consecutive in the order in which an algorithm collects them, are still one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// The buffer.
    pub buf: Buf,
    /// The view of the positions.
    pub view: u8,
    /// The first position.
    pub lo: u32,
    /// The number of positions.
    pub len: u32,
    /// The segment of each block.
    pub segment: u32,
    /// The number of segments of each block.
    pub segments: u32,
}

impl BlockRange {
    /// Whole blocks in the order of block numbers.
    pub const fn new(buf: Buf, lo: u32, len: u32) -> Self {
        Self { buf, view: 0, lo, len, segment: 0, segments: 1 }
    }

    /// Whole blocks in the order of a view.
    pub const fn in_view(buf: Buf, view: u8, lo: u32, len: u32) -> Self {
        Self { buf, view, lo, len, segment: 0, segments: 1 }
    }

    /// The empty range, for messages without data.
    pub const EMPTY: Self = Self::new(Buf::Out, 0, 0);

    /// One segment of each block. A segment of a segment is a segment.
    pub const fn segment(self, segment: u32, segments: u32) -> Self {
        Self { segment: self.segment * segments + segment, segments: self.segments * segments, ..self }
    }

    /// The same range of another buffer.
    pub const fn with_buf(self, buf: Buf) -> Self {
        Self { buf, ..self }
    }
}

/// The side of the received operand in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandSide {
    /// received op local: the sender's contributions come first.
    Left,
    /// local op received.
    Right,
}

impl OperandSide {
    /// The side of a peer's contributions, where each rank has combined an interval of ranks.
    pub const fn of_peer(peer: u32, rank: u32) -> Self {
        if peer < rank { OperandSide::Left } else { OperandSide::Right }
    }
}

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleOp {
    /// Sends a range.
    Send {
        /// The receiver.
        to: u32,
        /// The data.
        part: BlockRange,
    },
    /// Receives into a range.
    Recv {
        /// The sender.
        from: u32,
        /// The destination.
        part: BlockRange,
    },
    /// Receives an operand and combines it with the contents of a range. Several into one range in a round are combined
    /// in the order in which they are listed.
    RecvReduce {
        /// The sender.
        from: u32,
        /// The local operand and result.
        part: BlockRange,
        /// The side of the received operand.
        side: OperandSide,
    },
    /// Copies one range to another, position by position.
    Copy {
        /// The source.
        from: BlockRange,
        /// The destination.
        to: BlockRange,
    },
    /// Combines one range with another.
    Reduce {
        /// The operand.
        from: BlockRange,
        /// The other operand and result.
        into: BlockRange,
        /// The side of the operand `from`.
        side: OperandSide,
    },
}

/// The operations of consecutive rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundList {
    ops: Vec<ScheduleOp>,
    /// The end of each round in `ops`.
    ends: Vec<u32>,
}

impl RoundList {
    /// No rounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation to the current round.
    #[inline]
    pub fn push(&mut self, op: ScheduleOp) {
        self.ops.push(op);
    }

    /// Ends the current round.
    #[inline]
    pub fn end_round(&mut self) {
        self.ends.push(self.ops.len() as u32);
    }

    /// Adds rounds without operations.
    #[inline]
    pub fn push_idle(&mut self, rounds: u32) {
        self.ends.resize(self.ends.len() + rounds as usize, self.ops.len() as u32);
    }

    /// Removes all rounds but retains the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.ends.clear();
    }

    /// The number of rounds.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of operations of all rounds.
    pub fn num_ops(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are no rounds.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The operations of round `k`.
    pub fn round(&self, k: usize) -> &[ScheduleOp] {
        let from = if k == 0 { 0 } else { self.ends[k - 1] as usize };
        &self.ops[from..self.ends[k] as usize]
    }

    /// The operations of round `k`; none if there is no such round.
    pub fn round_or_empty(&self, k: usize) -> &[ScheduleOp] {
        if k < self.len() { self.round(k) } else { &[] }
    }

    /// Iterates over the rounds.
    pub fn iter(&self) -> impl Iterator<Item = &[ScheduleOp]> {
        (0..self.len()).map(|k| self.round(k))
    }

    /// Appends some rounds of another list.
    pub fn append(&mut self, other: &RoundList, rounds: std::ops::Range<u32>) {
        for k in rounds {
            self.ops.extend_from_slice(other.round(k as usize));
            self.end_round();
        }
    }

    /// The current end of the list, to change what is written after it.
    pub fn mark(&self) -> RoundListMark {
        RoundListMark { ops: self.ops.len(), rounds: self.ends.len() }
    }

    /// Replaces each operation written since the mark.
    pub fn map_since(&mut self, mark: RoundListMark, mut change: impl FnMut(ScheduleOp) -> ScheduleOp) {
        for op in &mut self.ops[mark.ops..] {
            *op = change(*op);
        }
    }

    /// Reverses what was written since the mark: the last operation of the last round comes first.
    pub fn reverse_since(&mut self, mark: RoundListMark) {
        self.ops[mark.ops..].reverse();
        // The operations that preceded a round now follow it.
        let both = (mark.ops + self.ops.len()) as u32;
        if let Some((last, ends)) = self.ends[mark.rounds..].split_last_mut() {
            ends.reverse();
            ends.iter_mut().for_each(|end| *end = both - *end);
            *last = both - mark.ops as u32;
        }
    }
}

/// A mark in a [`RoundList`].
#[derive(Clone, Copy, Debug)]
pub struct RoundListMark {
    ops: usize,
    rounds: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_segments_are_segments() {
        let part = BlockRange::new(Buf::Out, 0, 1).segment(2, 3).segment(1, 4);
        assert_eq!((part.segment, part.segments), (9, 12));
    }

    #[test]
    fn idle_rounds_have_no_operations() {
        let mut rounds = RoundList::new();
        rounds.push(ScheduleOp::Send { to: 9, part: BlockRange::EMPTY });
        rounds.end_round();
        rounds.push_idle(0);
        rounds.push_idle(2);
        let lengths: Vec<usize> = rounds.iter().map(<[_]>::len).collect();
        assert_eq!((lengths, rounds.num_ops()), (vec![1, 0, 0], 1));
    }

    #[test]
    fn reversing_reverses_rounds_and_operations() {
        let send = |to| ScheduleOp::Send { to, part: BlockRange::EMPTY };
        let mut rounds = RoundList::new();
        rounds.push(send(9));
        rounds.end_round();
        let mark = rounds.mark();
        for round in [&[1, 2, 3][..], &[], &[4, 5]] {
            round.iter().for_each(|to| rounds.push(send(*to)));
            rounds.end_round();
        }
        rounds.reverse_since(mark);
        let expected: [&[u32]; 4] = [&[9], &[5, 4], &[], &[3, 2, 1]];
        let expected: Vec<Vec<ScheduleOp>> =
            expected.iter().map(|round| round.iter().map(|to| send(*to)).collect()).collect();
        assert!(rounds.iter().eq(expected.iter().map(Vec::as_slice)));
    }
}
