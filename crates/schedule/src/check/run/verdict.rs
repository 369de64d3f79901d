//! What is there when a run has come to its end.

use super::Run;
use crate::check::named::what;
use crate::check::value::{Set, Value};
use crate::check::{Fault, contract};
use crate::op::{Buf, Op};
use crate::schedule::Operation;

impl Run<'_> {
    /// Everybody must have come to the end. A message that nobody knows of explains more than those who wait because of
    /// it, so it is looked for first.
    pub(super) fn all_ended(&self) -> Result<(), Fault> {
        let mut deadlock = None;
        for (rank, this) in (0..).zip(&self.ranks) {
            for active in this.active.iter().filter(|active| active.going) {
                let waiting = active.ops.iter().find(|op| !op.done).expect("it waits for something");
                let (direction, peer) = match waiting.op {
                    Op::Send { to, .. } => ("to", to),
                    Op::Recv { from, .. } | Op::RecvReduce { from, .. } => ("from", from),
                    _ => unreachable!("only messages are waited for"),
                };
                let (at, what) = (active.at, what(self.places(rank), waiting.op));
                if self.ranks[peer as usize].active.iter().all(|active| !active.going) {
                    return Err(Fault::Unpaired { at, direction, peer, what });
                }
                deadlock.get_or_insert(Fault::Deadlock { at, direction, peer, what });
            }
        }
        deadlock.map_or(Ok(()), Err)
    }

    /// Compares what is there with what must be. Returns whether all was combined in order, and whether in the same way
    /// on all ranks.
    pub(super) fn results(&self) -> Result<(bool, bool), Fault> {
        let (mut ordered, mut same) = (true, true);
        let everybody = self.schedule.operation() == Operation::Allreduce;
        // How the first rank combined each element.
        let mut ways = Vec::new();
        for (rank, this) in (0..).zip(&self.ranks) {
            let places = self.places(rank);
            if self.schedule.operation() == Operation::Barrier
                && let Some(missing) = Set::below(self.schedule.ranks()).without(this.knows).first()
            {
                return Err(Fault::Early { rank, missing });
            }
            let mut fault = None;
            contract::expected(places, |expected| {
                let contract::Expected { block, at, len, first, set } = expected;
                let mut right = Value::NOTHING;
                for k in 0..len {
                    let value = this.memory.get(Buf::Out, at + k);
                    let whose = self.contributions.of(value);
                    if everybody && rank == 0 {
                        ways.push(whose.way);
                    } else if everybody {
                        same &= ways[at + k] == whose.way;
                    }
                    if value.item == first + k as u32 && value.whose == right.whose && !right.is_nothing() {
                        continue;
                    }
                    let what = if value.is_nothing() {
                        "nothing".to_owned()
                    } else if value.item != first + k as u32 {
                        "another element".to_owned()
                    } else if let Some(missing) = set.without(whose.set).first() {
                        format!("rank {missing}'s contribution missing")
                    } else if let Some(extra) = whose.set.without(set).first() {
                        format!("rank {extra}'s contribution, which does not belong there,")
                    } else {
                        ordered &= whose.is_ordered();
                        right = value;
                        continue;
                    };
                    fault.get_or_insert(Fault::Result { rank, block, what });
                }
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        Ok((ordered, same))
    }
}
