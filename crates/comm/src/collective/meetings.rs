//! A schedule over a board: what a round sends is written where all can read it, or all are told where it lies, and a
//! meeting takes the place of messages.
//!
//! *Written*: each rank copies what it sends to its place on the board, once, whoever reads it, and goes on; readers copy
//! or combine from there. *Shown*: each rank writes the addresses of what it sends, and readers fetch it from its memory;
//! all wait for all at each meeting and at one more at the end, so that nothing is changed while others read it.

use treepie_fabric::{Room, SHOWN};
use treepie_schedule::{Op, Operation, Part, Places, Rounds, Side};

use super::cost::Rooms;
use super::idle_copies::without_idle_copies;
use super::job::Job;
use super::steps::{Bit, Bits, MOST_ALIGN, Step, single};
use super::straight::{MOST_STEPS, Pieces, Straight};

/// One piece, of any length.
const WHOLE: (usize, usize) = (1, usize::MAX);

/// What data beside a word is aligned to.
const LINE_ALIGN: usize = align_of::<u64>();

impl Straight {
    /// The list over a board: one lane, parts that are single ranges, and messages that are received in the round in
    /// which they are sent. All ranks come to the same answer, so what must hold for one is asked of all.
    pub(crate) fn over_board(job: &Job, in_place: bool, rooms: &Rooms, manner: Manner) -> Option<Self> {
        let schedule = &*job.schedule;
        let ranks = schedule.ranks();
        let bits = Bits::new(job, in_place)?;
        // Lists of steps, and for each how many pieces of which length it is run for.
        let (mut lists, mut pieces) = (Vec::new(), Vec::new());
        let mut most_steps = 0;
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
                // Each operation of a rank is at most two steps, and there is a meeting. What is asked of the rank that has
                // most is asked of all.
                most_steps += 1 + 2 * round.iter().map(|ops| ops.len()).max().unwrap_or(0);
                if most_steps > MOST_STEPS {
                    return None;
                }
                let round = Round::new(job, rooms, manner, &round)?;
                lists.extend([round.copies(&bits)?, round.steps(&bits)?]);
                pieces.extend([WHOLE, (round.pieces, round.piece)]);
            }
        }
        if manner == Manner::Showing {
            lists.push(vec![Step::Meet { room: Room::Line, all: true }]);
            pieces.push(WHOLE);
        }
        without_idle_copies(&mut lists);
        let (mut runs, mut begin) = (Vec::new(), 0);
        for (list, (count, len)) in lists.iter().zip(pieces) {
            runs.push(Pieces { steps: begin..begin + list.len(), count, len });
            begin += list.len();
        }
        runs.retain(|run| !run.steps.is_empty());
        let steps = lists.concat();
        // If it were so, it would be for other ranks, too, but not for all.
        assert!(!changes_what_is_shown(&steps), "an algorithm whose ranks write what they send cannot be shown");
        Some(Self::of(job, &bits, steps, runs))
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

    /// Where the part of this number lies on the board, for each piece.
    fn place(&self, writing: &Writing, part: usize) -> usize {
        if self.pieces == 1 { writing.parts[part].1 } else { part * self.piece }
    }

    /// This rank's copies. Nobody reads what a copy writes in its round, so they come first.
    fn copies(&self, bits: &Bits<'_>) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        for op in self.ops[self.job.rank as usize].iter().filter(|op| matches!(op, Op::Copy { .. })) {
            steps.extend(bits.local(*op)?);
        }
        Some(steps)
    }

    /// This rank's other steps, which are run for each piece.
    fn steps(&self, bits: &Bits<'_>) -> Option<Vec<Step>> {
        let (rank, room) = (self.job.rank, self.room);
        let (mine, ops) = (&self.writings[rank as usize], self.ops[rank as usize]);
        let mut steps = Vec::new();
        for (number, (part, _)) in mine.parts.iter().enumerate() {
            let (at, bit) = (self.place(mine, number), bits.bit(*part)?);
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
            let (at, bit) = (self.place(writing, number), bits.bit(part)?);
            steps.push(match (self.manner, side) {
                // Who gets nothing of a rank need not wait for it, unless waiting is all there is to do.
                _ if bit.range.is_empty() => match self.job.schedule.operation() {
                    Operation::Barrier => Step::Wait { from },
                    _ => continue,
                },
                (Manner::Showing, None) => Step::Fetch { from, room, at, bit },
                (Manner::Showing, Some(side)) => Step::FetchReduce { from, room, at, bit, left: side == Side::Left },
                (_, None) => Step::Read { from, room, at, bit },
                (_, Some(side)) => Step::ReadReduce { from, room, at, bit, left: side == Side::Left },
            });
        }
        Some(steps)
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
                    let len = if showing { SHOWN } else { places.len(part) * job.element };
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
