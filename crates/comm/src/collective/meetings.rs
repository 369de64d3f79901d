//! A schedule over a board: what a round sends is written where all can read it, or all are told where it lies, and a
//! meeting takes the place of messages.
//!
//! *Written*: each rank copies what it sends to its place on the board, once, whoever reads it, and goes on; readers copy
//! or combine from there. *Shown*: each rank writes the addresses of what it sends, and readers fetch it from its memory;
//! all wait for all at each meeting and at one more at the end, so that nothing is changed while others read it.

use std::ops::Range;

use treepie_fabric::Room;
use treepie_schedule::{Op, Operation, Part, Places, Rounds, Side};

use super::cost::Rooms;
use super::executor::Job;
use super::steps::{Bit, Bits, MOST_ALIGN, Memory, Step, single};
use super::straight::{MOST_STEPS, Straight};

/// What data beside a word is aligned to.
const LINE_ALIGN: usize = align_of::<u64>();

impl Straight {
    /// The list over a board: one lane, parts that are single ranges, and messages that are received in the round in
    /// which they are sent. All ranks come to the same answer, so what must hold for one is asked of all.
    pub(crate) fn over_board(job: &Job, in_place: bool, rooms: &Rooms, manner: Manner) -> Option<Self> {
        let schedule = &*job.schedule;
        let ranks = schedule.ranks();
        let bits = Bits::new(job, in_place)?;
        let mut steps = Vec::new();
        for phase in 0..schedule.phases() {
            if schedule.phase(phase).lanes != 1 {
                return None;
            }
            let of_ranks: Vec<Rounds> = (0..ranks)
                .map(|rank| {
                    let mut rounds = Rounds::new();
                    schedule.emit(rank, phase, 0, 0..schedule.rounds(rank, phase, 0), &mut rounds);
                    rounds
                })
                .collect();
            let most = of_ranks.iter().map(Rounds::len).max().unwrap_or(0);
            for k in 0..most {
                let round: Vec<&[Op]> = of_ranks.iter().map(|rounds| rounds.round_or_none(k)).collect();
                Round::new(job, rooms, manner, &round)?.add_to(&mut steps, &bits)?;
            }
        }
        if manner == Manner::Showing {
            steps.push(Step::Meet { room: Room::Line, all: true });
        }
        let steps = without_idle_copies(steps);
        // If it were so, it would be for other ranks, too, but not for all.
        assert!(!changes_what_is_shown(&steps), "an algorithm whose ranks write what they send cannot be shown");
        Some(Self::of(job, &bits, steps))
    }
}

/// How data gets to those who read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It is written on the board, as a whole.
    Writing,
    /// It is written in as many pieces as it takes. Only for algorithms whose ranks do not write what they send in the
    /// same round.
    WritingPieces,
    /// It is told where it lies. For the same algorithms.
    Showing,
}

/// A round of all ranks.
struct Round<'a> {
    job: &'a Job,
    ops: &'a [&'a [Op]],
    writings: Vec<Writing>,
    manner: Manner,
    room: Room,
    /// Bytes of a piece of a part, and how many pieces the longest part has; everything in one if there is one.
    piece: usize,
    pieces: usize,
}

impl<'a> Round<'a> {
    fn new(job: &'a Job, rooms: &Rooms, manner: Manner, ops: &'a [&'a [Op]]) -> Option<Self> {
        let writings: Vec<Writing> =
            (0..).zip(ops).map(|(rank, ops)| Writing::new(job, rank, ops, manner == Manner::Showing)).collect();
        let is_straight = (0..).zip(ops).all(|(rank, ops)| ops.iter().all(|op| is_single(job, rank, *op)));
        if !is_straight || !all_meet(&writings, ops) {
            return None;
        }
        let most = writings.iter().map(|writing| writing.bytes).max().unwrap_or(0);
        let mut round = Self { job, ops, writings, manner, room: Room::Line, piece: usize::MAX, pieces: 1 };
        match rooms.for_bytes(most) {
            Some(room) if room != Room::Line || job.align <= LINE_ALIGN => round.room = room,
            Some(_) => round.room = Room::Page,
            None if manner == Manner::WritingPieces => round.cut(rooms)?,
            None => return None,
        }
        Some(round)
    }

    /// Cuts all parts into pieces, as many at a time as a hall holds.
    fn cut(&mut self, rooms: &Rooms) -> Option<()> {
        // A combination within a rank has its place among those with what comes, which is another one for each piece.
        if self.ops.iter().any(|ops| ops.iter().any(|op| matches!(op, Op::Reduce { .. }))) {
            return None;
        }
        let parts = self.writings.iter().map(|writing| writing.parts.len()).max()?;
        let unit = self.job.element.checked_mul(MOST_ALIGN)?;
        self.piece = rooms.hall / parts / unit * unit;
        if self.piece == 0 {
            return None;
        }
        let longest = self.writings.iter().map(|writing| writing.longest).max()?;
        (self.room, self.pieces) = (Room::Hall, longest.div_ceil(self.piece));
        Some(())
    }

    /// Where the part of this number lies on the board, and which of its bytes, if any, for a piece.
    fn place(&self, writing: &Writing, part: usize, bit: &Bit, piece: usize) -> (usize, Bit) {
        if self.pieces == 1 {
            return (writing.parts[part].1, bit.clone());
        }
        let Range { start, end } = bit.range;
        let cut = |at: usize| (start + at * self.piece).min(end);
        (part * self.piece, Bit { memory: bit.memory, range: cut(piece)..cut(piece + 1) })
    }

    /// Adds this rank's steps.
    fn add_to(&self, steps: &mut Vec<Step>, bits: &Bits<'_>) -> Option<()> {
        let (rank, room) = (self.job.rank, self.room);
        let (mine, ops) = (&self.writings[rank as usize], self.ops[rank as usize]);
        // Nobody reads what a copy writes in its round, so it need not wait.
        for op in ops.iter().filter(|op| matches!(op, Op::Copy { .. })) {
            steps.extend(bits.local(*op)?);
        }
        for piece in 0..self.pieces {
            for (number, (part, _)) in mine.parts.iter().enumerate() {
                let (at, bit) = self.place(mine, number, &bits.bit(*part)?, piece);
                match self.manner {
                    _ if bit.range.is_empty() => {}
                    Manner::Showing => steps.push(Step::Show { room, at, bit }),
                    _ => steps.push(Step::Write { room, at, bit }),
                }
            }
            if self.writings.iter().any(|writing| !writing.sends.is_empty()) {
                steps.push(Step::Meet { room, all: self.manner == Manner::Showing });
            }
            let mut taken = vec![0usize; self.ops.len()];
            for op in ops {
                let (from, part, side) = match *op {
                    Op::Recv { from, part } => (from, part, None),
                    Op::RecvReduce { from, part, side } => (from, part, Some(side)),
                    Op::Copy { .. } => continue,
                    op => {
                        steps.extend(bits.local(op)?);
                        continue;
                    }
                };
                let writing = &self.writings[from as usize];
                let number = writing.sent_to(rank).nth(taken[from as usize])?;
                taken[from as usize] += 1;
                let (at, bit) = self.place(writing, number, &bits.bit(part)?, piece);
                // Who gets nothing of a rank need not wait for it, unless waiting is all there is to do.
                if bit.range.is_empty() && self.job.schedule.operation() != Operation::Barrier {
                    continue;
                }
                steps.push(match (self.manner, side) {
                    (Manner::Showing, None) => Step::Fetch { from, room, at, bit },
                    (Manner::Showing, Some(side)) => {
                        Step::FetchReduce { from, room, at, bit, left: side == Side::Left }
                    }
                    (_, None) => Step::Read { from, room, at, bit },
                    (_, Some(side)) => Step::ReadReduce { from, room, at, bit, left: side == Side::Left },
                });
            }
        }
        (steps.len() <= MOST_STEPS).then_some(())
    }
}

/// Whether a range is written after it was shown and before the meeting after that for which it was: by then all have
/// read it.
fn changes_what_is_shown(steps: &[Step]) -> bool {
    let (mut coming, mut last): (Vec<&Bit>, Vec<&Bit>) = (Vec::new(), Vec::new());
    steps.iter().any(|step| {
        let written = match step {
            Step::Show { bit, .. } => {
                coming.push(bit);
                return false;
            }
            Step::Meet { .. } => {
                last = std::mem::take(&mut coming);
                return false;
            }
            Step::Fetch { bit, .. } | Step::FetchReduce { bit, .. } => bit,
            Step::Copy { to, .. } | Step::Reduce { into: to, .. } => to,
            _ => return false,
        };
        coming.iter().chain(&last).any(|shown| {
            shown.memory == written.memory
                && shown.range.start < written.range.end
                && written.range.start < shown.range.end
        })
    })
}

/// What a rank writes on the board in a round: each part once, whoever reads it.
struct Writing {
    /// The parts, and where they lie if they are not cut.
    parts: Vec<(Part, usize)>,
    /// To whom, and the number of the part.
    sends: Vec<(u32, usize)>,
    /// Bytes of all, and of the longest.
    bytes: usize,
    longest: usize,
}

impl Writing {
    fn new(job: &Job, rank: u32, ops: &[Op], showing: bool) -> Self {
        let places = Places { rank, ..job.places() };
        let mut writing = Self { parts: Vec::new(), sends: Vec::new(), bytes: 0, longest: 0 };
        for op in ops {
            let Op::Send { to, part } = *op else { continue };
            let number = match writing.parts.iter().rposition(|(other, _)| *other == part) {
                Some(number) => number,
                None => {
                    let len = if showing { size_of::<u64>() } else { places.len(part) * job.element };
                    let at = writing.bytes.next_multiple_of(job.align.max(size_of::<u64>()));
                    writing.bytes = at + len;
                    writing.longest = writing.longest.max(len);
                    writing.parts.push((part, at));
                    writing.parts.len() - 1
                }
            };
            writing.sends.push((to, number));
        }
        writing
    }

    /// The parts for a rank, in order.
    fn sent_to(&self, rank: u32) -> impl Iterator<Item = usize> + '_ {
        self.sends.iter().filter(move |(to, _)| *to == rank).map(|(_, number)| *number)
    }
}

/// Whether the parts of an operation are single ranges.
fn is_single(job: &Job, rank: u32, op: Op) -> bool {
    let single = |part: Part| single(Places { rank, ..job.places() }, part).is_some();
    match op {
        Op::Send { part, .. } | Op::Recv { part, .. } | Op::RecvReduce { part, .. } => single(part),
        Op::Copy { from, to } | Op::Reduce { from, into: to, .. } => single(from) && single(to),
    }
}

/// Whether all messages of a round are received in it.
fn all_meet(writings: &[Writing], ops: &[&[Op]]) -> bool {
    (0..).zip(ops).all(|(rank, ops)| {
        let mut expected = vec![0usize; writings.len()];
        for op in *ops {
            if let Op::Recv { from, .. } | Op::RecvReduce { from, .. } = op {
                expected[*from as usize] += 1;
            }
        }
        expected.iter().zip(writings).all(|(count, writing)| *count == writing.sent_to(rank).count())
    })
}

/// Takes copies of the input to the output out as far as the output is written before anybody reads it, and lets those
/// who only read what was copied read the input: a reduction that begins by copying its input everywhere then copies the
/// part that it combines, and no other.
fn without_idle_copies(mut steps: Vec<Step>) -> Vec<Step> {
    for place in (0..steps.len()).rev() {
        let Step::Copy { from, to } = &steps[place] else { continue };
        if (from.memory, to.memory) != (Memory::Input, Memory::Output) {
            continue;
        }
        let copy = Copied { input: from.range.start, output: to.range.start };
        let mut fresh = vec![to.range.clone()];
        let mut needed = Vec::new();
        for step in &mut steps[place + 1..] {
            match step {
                Step::Write { bit, .. } | Step::Show { bit, .. } | Step::Send { bit, .. } => {
                    match fresh.iter().find(|fresh| bit.memory == Memory::Output && covers(fresh, bit)) {
                        Some(_) => *bit = copy.original(bit),
                        None => take(&mut fresh, bit, Some(&mut needed)),
                    }
                }
                Step::Copy { from, to } | Step::Reduce { from, into: to, .. } => {
                    take(&mut fresh, from, Some(&mut needed));
                    take(&mut fresh, to, Some(&mut needed));
                }
                Step::RecvReduce { bit, .. } | Step::ReadReduce { bit, .. } | Step::FetchReduce { bit, .. } => {
                    take(&mut fresh, bit, Some(&mut needed));
                }
                Step::Recv { bit, .. } | Step::Read { bit, .. } | Step::Fetch { bit, .. } => {
                    take(&mut fresh, bit, None);
                }
                Step::Meet { .. } => {}
            }
        }
        needed.append(&mut fresh);
        needed.sort_unstable_by_key(|range| range.start);
        let copies = needed.into_iter().map(|range| {
            let to = Bit { memory: Memory::Output, range };
            Step::Copy { from: copy.original(&to), to }
        });
        steps.splice(place..=place, copies.collect::<Vec<_>>());
    }
    steps
}

/// Where a copy begins in the input and in the output.
struct Copied {
    input: usize,
    output: usize,
}

impl Copied {
    /// What a part of the copy was copied from.
    fn original(&self, bit: &Bit) -> Bit {
        let begin = bit.range.start - self.output + self.input;
        Bit { memory: Memory::Input, range: begin..begin + bit.range.len() }
    }
}

fn covers(range: &Range<usize>, bit: &Bit) -> bool {
    range.start <= bit.range.start && bit.range.end <= range.end
}

/// Takes what a bit of the output has in common with the ranges out of them, and into `into`.
fn take(ranges: &mut Vec<Range<usize>>, bit: &Bit, mut into: Option<&mut Vec<Range<usize>>>) {
    if bit.memory != Memory::Output {
        return;
    }
    let mut rest = Vec::new();
    for range in ranges.drain(..) {
        let common = range.start.max(bit.range.start)..range.end.min(bit.range.end);
        if common.is_empty() {
            rest.push(range);
            continue;
        }
        rest.extend([range.start..common.start, common.end..range.end].into_iter().filter(|part| !part.is_empty()));
        if let Some(into) = &mut into {
            into.push(common);
        }
    }
    *ranges = rest;
}
