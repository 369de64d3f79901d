//! Copies of the input that nobody needs.

use std::ops::Range;

use super::steps::{Bit, Memory, Step};

/// Takes copies of the input to the output out as far as the output is written before anybody reads it, and lets those
/// who only read what was copied read the input: a reduction that begins by copying its input everywhere then copies the
/// part that it combines, and no other.
pub(super) fn without_idle_copies(lists: &mut [Vec<Step>]) {
    for list in (0..lists.len()).rev() {
        for place in (0..lists[list].len()).rev() {
            let Step::Copy { from, to } = &lists[list][place] else { continue };
            if (from.memory, to.memory) != (Memory::Input, Memory::Output) {
                continue;
            }
            let copy = Copied { input: from.range.start, output: to.range.start };
            let mut fresh = Fresh { untouched: vec![to.range.clone()], needed: Vec::new() };
            let (own, later) = lists[list..].split_at_mut(1);
            let after = own[0][place + 1..].iter_mut().chain(later.iter_mut().flatten());
            after.for_each(|step| fresh.pass(step, &copy));
            let mut needed = [fresh.untouched, fresh.needed].concat();
            needed.sort_unstable_by_key(|range| range.start);
            let copies = needed.into_iter().map(|range| {
                let to = Bit { memory: Memory::Output, range };
                Step::Copy { from: copy.original(&to), to }
            });
            lists[list].splice(place..=place, copies.collect::<Vec<_>>());
        }
    }
}

/// What is known of a copy: which ranges of it nobody has read or written so far, and which somebody has read.
struct Fresh {
    untouched: Vec<Range<usize>>,
    needed: Vec<Range<usize>>,
}

impl Fresh {
    /// Goes on over a step, which may read the original instead.
    fn pass(&mut self, step: &mut Step, copy: &Copied) {
        match step {
            Step::Write { bit, .. } | Step::Show { bit, .. } | Step::Send { bit, .. } => {
                match self.untouched.iter().any(|range| bit.memory == Memory::Output && covers(range, bit)) {
                    true => *bit = copy.original(bit),
                    false => self.read(bit),
                }
            }
            Step::Copy { from, to } | Step::Reduce { from, into: to, .. } => {
                self.read(from);
                self.read(to);
            }
            Step::RecvReduce { bit, .. } | Step::ReadReduce { bit, .. } | Step::FetchReduce { bit, .. } => {
                self.read(bit)
            }
            Step::Recv { bit, .. } | Step::Read { bit, .. } | Step::Fetch { bit, .. } => drop(self.take(bit)),
            Step::Meet { .. } | Step::Wait { .. } => {}
        }
    }

    fn read(&mut self, bit: &Bit) {
        let read = self.take(bit);
        self.needed.extend(read);
    }

    /// Takes what a bit of the output has in common with the ranges out of them.
    fn take(&mut self, bit: &Bit) -> Vec<Range<usize>> {
        let mut taken = Vec::new();
        if bit.memory != Memory::Output {
            return taken;
        }
        for range in std::mem::take(&mut self.untouched) {
            let common = range.start.max(bit.range.start)..range.end.min(bit.range.end);
            if common.is_empty() {
                self.untouched.push(range);
                continue;
            }
            let rest = [range.start..common.start, common.end..range.end];
            self.untouched.extend(rest.into_iter().filter(|part| !part.is_empty()));
            taken.push(common);
        }
        taken
    }
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
