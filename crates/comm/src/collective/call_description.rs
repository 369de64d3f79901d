//! Descriptions of calls, which ranks compare in checked mode.

use treepie_schedule::Operation;

use super::{BlockCounts, CollectiveCall};
use crate::comm::Comm;

/// Whether a call is blocking, nonblocking or persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    Blocking,
    Nonblocking,
    Persistent,
}

impl Comm {
    /// The part of a call in which ranks must agree, as text. It leaves out what a rank cannot state: the algorithm
    /// that a selector returns, and counts of which each rank knows only its part.
    pub(crate) fn describe(&self, call: &CollectiveCall<'_>, mode: CallMode) -> String {
        let mut words = match mode {
            CallMode::Blocking => String::new(),
            CallMode::Nonblocking => "i".to_owned(),
            CallMode::Persistent => "a persistent ".to_owned(),
        };
        words += call.operation.name();
        if call.user_in_place {
            words += " in place";
        }
        if let Some(root) = call.operation.root() {
            let preposition = match call.operation {
                Operation::Gather { .. } | Operation::Reduce { .. } => "to",
                _ => "from",
            };
            words += &format!(" {preposition} root {root}");
        }
        if call.operation != Operation::Barrier {
            let what = match call.counts {
                BlockCounts::Vector(elements) => elements.to_string(),
                BlockCounts::Uniform(elements) => format!("blocks of {elements}"),
                BlockCounts::PerRank(counts) => format!("blocks of {counts:?}"),
                // Each rank knows only its part of these.
                BlockCounts::LocalOnly(..) => "blocks of any number of".to_owned(),
            };
            words += &format!(" of {what} elements of {} bytes", call.element);
        }
        if !call.commutative {
            words += " by a non-commutative operator";
        }
        words + &self.describe_choice(&[call.operation])
    }
}

impl CollectiveCall<'_> {
    /// The signature that messages of this call carry.
    pub(crate) fn signature(&self, ranks: u32) -> treepie_fabric::CallSignature {
        let bytes = self.counts.total(ranks).map(|elements| elements.saturating_mul(self.element) as u64);
        signature(self.operation, bytes)
    }
}

/// The signature of an operation; `bytes` if all ranks know them.
pub(super) fn signature(operation: Operation, bytes: Option<u64>) -> treepie_fabric::CallSignature {
    treepie_fabric::CallSignature::new(operation.name(), operation.root().unwrap_or(0), bytes)
}
