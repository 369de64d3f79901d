//! A schedule over a board: what a round sends is written where all can read it, or all are told where it lies, and a
//! meeting takes the place of messages.
//!
//! *Written*: each rank copies what it sends to its place on the board, once, whoever reads it, and goes on; readers copy
//! or combine from there. *Shown*: each rank writes the addresses of what it sends, and readers fetch it from its memory;
//! all wait for all at each meeting and at one more at the end, so that nothing is changed while others read it.

use treepie_fabric::Room;
use treepie_schedule::{Op, Part, Places, Rounds, Side};

use super::cost::Rooms;
use super::executor::Job;
use super::steps::{Bit, Bits, MOST_ALIGN, Memory, Step, single};
use super::straight::Straight;

impl Straight {
    /// The list over a board: one lane, parts that are single ranges, and messages that are received in the round in
    /// which they are sent. All ranks come to the same answer, so what must hold for one is asked of all.
    pub(crate) fn over_board(job: &Job, in_place: bool, rooms: &Rooms, showing: bool) -> Option<Self> {
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
                let ops = |rank: u32| of_ranks[rank as usize].round_or_none(k);
                let writings: Vec<Writing> =
                    (0..ranks).map(|rank| Writing::new(job, rank, ops(rank), showing)).collect();
                let is_straight = (0..ranks).all(|rank| ops(rank).iter().all(|op| is_single(job, rank, *op)));
                if !is_straight || !all_meet(&writings, ranks, ops) {
                    return None;
                }
                let room = rooms.for_bytes(writings.iter().map(|writing| writing.bytes).max().unwrap_or(0))?;
                for (part, at) in &writings[job.rank as usize].parts {
                    let (at, bit) = (*at, bits.bit(*part)?);
                    steps.push(if showing { Step::Show { room, at, bit } } else { Step::Write { room, at, bit } });
                }
                let mut after = Vec::new();
                let mut taken = vec![0usize; ranks as usize];
                let mut next = |from: u32| {
                    taken[from as usize] += 1;
                    writings[from as usize].sent_to(job.rank).nth(taken[from as usize] - 1)
                };
                for op in ops(job.rank) {
                    match *op {
                        Op::Recv { from, part } => {
                            let (at, bit) = (next(from)?, bits.bit(part)?);
                            after.push(if showing {
                                Step::Fetch { from, room, at, bit }
                            } else {
                                Step::Read { from, room, at, bit }
                            });
                        }
                        Op::RecvReduce { from, part, side } => {
                            let (at, bit, left) = (next(from)?, bits.bit(part)?, side == Side::Left);
                            after.push(if showing {
                                Step::FetchReduce { from, room, at, bit, left }
                            } else {
                                Step::ReadReduce { from, room, at, bit, left }
                            });
                        }
                        // Nobody reads what a copy writes in its round, so it need not wait; a combination comes in order.
                        op @ Op::Copy { .. } => steps.extend(bits.local(op)?),
                        op => after.extend(bits.local(op)?),
                    }
                }
                if writings.iter().any(|writing| !writing.sends.is_empty()) {
                    steps.push(Step::Meet { room, all: showing });
                }
                steps.append(&mut after);
            }
        }
        if showing {
            steps.push(Step::Meet { room: Room::Line, all: true });
        }
        let steps = without_idle_copies(steps);
        // If it were so, it would be for other ranks, too, but not for all.
        assert!(!changes_what_is_shown(&steps), "an algorithm whose ranks write what they send cannot be shown");
        Some(Self::of(job, &bits, steps))
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
    parts: Vec<(Part, usize)>,
    /// To whom, and where it lies.
    sends: Vec<(u32, usize)>,
    bytes: usize,
}

impl Writing {
    fn new(job: &Job, rank: u32, ops: &[Op], showing: bool) -> Self {
        let places = Places { rank, ..job.places() };
        let mut writing = Self { parts: Vec::new(), sends: Vec::new(), bytes: 0 };
        for op in ops {
            let Op::Send { to, part } = *op else { continue };
            let at = match writing.parts.iter().rev().find(|(other, _)| *other == part) {
                Some((_, at)) => *at,
                None => {
                    let at = if showing { writing.bytes } else { writing.bytes.next_multiple_of(MOST_ALIGN) };
                    writing.bytes = at + if showing { size_of::<u64>() } else { places.len(part) * job.element };
                    writing.parts.push((part, at));
                    at
                }
            };
            writing.sends.push((to, at));
        }
        writing
    }

    /// Where the messages to a rank lie, in order.
    fn sent_to(&self, rank: u32) -> impl Iterator<Item = usize> + '_ {
        self.sends.iter().filter(move |(to, _)| *to == rank).map(|(_, at)| *at)
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
fn all_meet<'a>(writings: &[Writing], ranks: u32, ops: impl Fn(u32) -> &'a [Op]) -> bool {
    (0..ranks).all(|rank| {
        let mut expected = vec![0usize; ranks as usize];
        for op in ops(rank) {
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

fn covers(range: &std::ops::Range<usize>, bit: &Bit) -> bool {
    range.start <= bit.range.start && bit.range.end <= range.end
}

/// Takes what a bit of the output has in common with the ranges out of them, and into `into`.
fn take(ranges: &mut Vec<std::ops::Range<usize>>, bit: &Bit, mut into: Option<&mut Vec<std::ops::Range<usize>>>) {
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
