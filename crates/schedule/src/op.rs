//! What a rank does in a round, in terms of blocks instead of bytes.

/// A buffer of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buf {
    /// What the caller gives.
    In,
    /// What the caller gets.
    Out,
    /// Scratch memory.
    Tmp(u8),
}

/// A part of a buffer: a range of positions in a view, and of each block in it one segment.
///
/// A view is an order of the blocks that the schedule defines; view 0 is their own order. So a set of blocks that is
/// scattered in memory, but consecutive in the order in which an algorithm collects them, is still one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The buffer.
    pub buf: Buf,
    /// The view that counts the positions.
    pub view: u8,
    /// The first position.
    pub lo: u32,
    /// How many positions.
    pub len: u32,
    /// Which segment of each block.
    pub seg: u32,
    /// Into how many segments each block is cut.
    pub of: u32,
}

impl Part {
    /// Whole blocks in their own order.
    pub const fn blocks(buf: Buf, lo: u32, len: u32) -> Self {
        Self { buf, view: 0, lo, len, seg: 0, of: 1 }
    }

    /// Whole blocks in the order of a view.
    pub const fn viewed(buf: Buf, view: u8, lo: u32, len: u32) -> Self {
        Self { buf, view, lo, len, seg: 0, of: 1 }
    }

    /// Nothing: for messages that carry no data.
    pub const NOTHING: Self = Self::blocks(Buf::Out, 0, 0);

    /// One segment of each block. Segments of segments are segments.
    pub const fn segment(self, seg: u32, of: u32) -> Self {
        Self { seg: self.seg * of + seg, of: self.of * of, ..self }
    }

    /// The same part of another buffer.
    pub const fn of_buf(self, buf: Buf) -> Self {
        Self { buf, ..self }
    }
}

/// On which side of what the rank has the received operand goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Received, then own: the sender's contributions come before.
    Left,
    /// Own, then received.
    Right,
}

impl Side {
    /// The side of a rank's contributions seen from another rank, where ranks hold intervals of ranks.
    pub const fn of(peer: u32, rank: u32) -> Self {
        if peer < rank { Side::Left } else { Side::Right }
    }
}

/// Something that a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Sends a part.
    Send {
        /// The receiver.
        to: u32,
        /// What.
        part: Part,
    },
    /// Receives a part.
    Recv {
        /// The sender.
        from: u32,
        /// Where to.
        part: Part,
    },
    /// Receives a part and combines it with what is there. Several into one part in a round are combined in the order
    /// in which they are listed.
    RecvReduce {
        /// The sender.
        from: u32,
        /// What it is combined with.
        part: Part,
        /// Where the received operand stands.
        side: Side,
    },
    /// Copies one part to another, position by position.
    Copy {
        /// What.
        from: Part,
        /// Where to.
        to: Part,
    },
    /// Combines one part with another.
    Reduce {
        /// The operand.
        from: Part,
        /// What it is combined with.
        into: Part,
        /// Where the operand stands.
        side: Side,
    },
}

/// The operations of some rounds, one round after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    ops: Vec<Op>,
    /// Where each round ends in `ops`.
    ends: Vec<u32>,
}

impl Rounds {
    /// No rounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation to the round that is being written.
    #[inline]
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Ends the round that is being written.
    #[inline]
    pub fn end(&mut self) {
        self.ends.push(self.ops.len() as u32);
    }

    /// Adds so many rounds in which there is nothing to do.
    #[inline]
    pub fn idle(&mut self, rounds: u32) {
        self.ends.resize(self.ends.len() + rounds as usize, self.ops.len() as u32);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.ends.clear();
    }

    /// How many rounds there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many operations all of them have.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The operations of one of them.
    pub fn round(&self, k: usize) -> &[Op] {
        let from = if k == 0 { 0 } else { self.ends[k - 1] as usize };
        &self.ops[from..self.ends[k] as usize]
    }

    /// The operations of one of them, none if there are not so many.
    pub fn round_or_none(&self, k: usize) -> &[Op] {
        if k < self.len() { self.round(k) } else { &[] }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[Op]> {
        (0..self.len()).map(|k| self.round(k))
    }

    /// Adds some rounds of another list.
    pub fn append(&mut self, other: &Rounds, rounds: std::ops::Range<u32>) {
        for k in rounds {
            self.ops.extend_from_slice(other.round(k as usize));
            self.end();
        }
    }

    /// How many operations have been written; to change those that follow.
    pub fn mark(&self) -> Mark {
        Mark { ops: self.ops.len(), rounds: self.ends.len() }
    }

    /// Replaces each operation written since then.
    pub fn map_since(&mut self, mark: Mark, mut change: impl FnMut(Op) -> Op) {
        for op in &mut self.ops[mark.ops..] {
            *op = change(*op);
        }
    }

    /// Turns what was written since then around: the last operation of the last round comes first.
    pub fn reverse_since(&mut self, mark: Mark) {
        self.ops[mark.ops..].reverse();
        // What lay before a round lies behind it now.
        let both = (mark.ops + self.ops.len()) as u32;
        if let Some((last, ends)) = self.ends[mark.rounds..].split_last_mut() {
            ends.reverse();
            ends.iter_mut().for_each(|end| *end = both - *end);
            *last = both - mark.ops as u32;
        }
    }
}

/// A place in [`Rounds`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    ops: usize,
    rounds: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_segments_cut_where_segments_do() {
        let part = Part::blocks(Buf::Out, 0, 1).segment(2, 3).segment(1, 4);
        assert_eq!((part.seg, part.of), (9, 12));
    }

    #[test]
    fn idle_rounds_have_no_operations() {
        let mut rounds = Rounds::new();
        rounds.push(Op::Send { to: 9, part: Part::NOTHING });
        rounds.end();
        rounds.idle(0);
        rounds.idle(2);
        let lengths: Vec<usize> = rounds.iter().map(<[_]>::len).collect();
        assert_eq!((lengths, rounds.operations()), (vec![1, 0, 0], 1));
    }

    #[test]
    fn reversing_turns_rounds_and_operations_around() {
        let send = |to| Op::Send { to, part: Part::NOTHING };
        let mut rounds = Rounds::new();
        rounds.push(send(9));
        rounds.end();
        let mark = rounds.mark();
        for round in [&[1, 2, 3][..], &[], &[4, 5]] {
            round.iter().for_each(|to| rounds.push(send(*to)));
            rounds.end();
        }
        rounds.reverse_since(mark);
        let expected: [&[u32]; 4] = [&[9], &[5, 4], &[], &[3, 2, 1]];
        let expected: Vec<Vec<Op>> = expected.iter().map(|round| round.iter().map(|to| send(*to)).collect()).collect();
        assert!(rounds.iter().eq(expected.iter().map(Vec::as_slice)));
    }
}
