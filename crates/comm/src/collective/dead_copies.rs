//! Elimination of dead copies of the input.

use std::ops::Range;

use super::steps::{BufferKind, BufferRange, Step};

/// Removes copies of the input to the output where the output is overwritten before it is read, and redirects steps
/// that only read the copy to the input: a reduction that starts by copying its whole input then copies only the part
/// that it reduces.
pub(super) fn eliminate_dead_copies(lists: &mut [Vec<Step>]) {
    for list in (0..lists.len()).rev() {
        for index in (0..lists[list].len()).rev() {
            let Step::Copy { from, to } = &lists[list][index] else { continue };
            if (from.buffer, to.buffer) != (BufferKind::Input, BufferKind::Output) {
                continue;
            }
            let copy = CopyOrigin { input: from.range.start, output: to.range.start };
            let mut liveness = CopyLiveness { untouched: vec![to.range.clone()], needed: Vec::new() };
            let (first_list, later) = lists[list..].split_at_mut(1);
            let after = first_list[0][index + 1..].iter_mut().chain(later.iter_mut().flatten());
            after.for_each(|step| liveness.pass(step, &copy));
            let mut needed = [liveness.untouched, liveness.needed].concat();
            needed.sort_unstable_by_key(|range| range.start);
            let copies = needed.into_iter().map(|range| {
                let to = BufferRange { buffer: BufferKind::Output, range };
                Step::Copy { from: copy.original(&to), to }
            });
            lists[list].splice(index..=index, copies.collect::<Vec<_>>());
        }
    }
}

/// Liveness of a copy: ranges neither read nor written so far, and ranges that were read.
struct CopyLiveness {
    untouched: Vec<Range<usize>>,
    needed: Vec<Range<usize>>,
}

impl CopyLiveness {
    /// Accounts for a step, redirecting its read to the original where possible.
    fn pass(&mut self, step: &mut Step, copy: &CopyOrigin) {
        match step {
            Step::Write { data, .. } | Step::Expose { data, .. } | Step::Send { data, .. } => {
                match self.untouched.iter().any(|range| data.buffer == BufferKind::Output && covers(range, data)) {
                    true => *data = copy.original(data),
                    false => self.read(data),
                }
            }
            Step::Copy { from, to } | Step::Reduce { from, into: to, .. } => {
                self.read(from);
                self.read(to);
            }
            Step::RecvReduce { data, .. } | Step::ReadReduce { data, .. } | Step::SingleCopyReduce { data, .. } => {
                self.read(data)
            }
            Step::Recv { data, .. } | Step::Read { data, .. } | Step::SingleCopyRead { data, .. } => {
                drop(self.take(data))
            }
            Step::Publish { .. } | Step::Wait { .. } => {}
        }
    }

    fn read(&mut self, data: &BufferRange) {
        let read = self.take(data);
        self.needed.extend(read);
    }

    /// Removes the part of the output range from the untouched ranges and returns it.
    fn take(&mut self, data: &BufferRange) -> Vec<Range<usize>> {
        let mut taken = Vec::new();
        if data.buffer != BufferKind::Output {
            return taken;
        }
        for range in std::mem::take(&mut self.untouched) {
            let common = range.start.max(data.range.start)..range.end.min(data.range.end);
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

/// Start of a copy in the input and in the output.
struct CopyOrigin {
    input: usize,
    output: usize,
}

impl CopyOrigin {
    /// The range of the input from which a part was copied.
    fn original(&self, data: &BufferRange) -> BufferRange {
        let begin = data.range.start - self.output + self.input;
        BufferRange { buffer: BufferKind::Input, range: begin..begin + data.range.len() }
    }
}

fn covers(range: &Range<usize>, data: &BufferRange) -> bool {
    range.start <= data.range.start && data.range.end <= range.end
}
