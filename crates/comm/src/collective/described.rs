//! A call in words, for those who compare what ranks call.

use treepie_schedule::Operation;

use super::{Call, Lengths};
use crate::comm::Comm;

/// How an operation is called: at once, beside the program, or prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Blocking,
    Nonblocking,
    Prepared,
}

impl Comm {
    /// What of a call ranks must agree in, and nothing else. Left out is what cannot be said here: which algorithm a chooser
    /// names, and counts of which each rank knows its own part.
    pub(crate) fn describe(&self, call: &Call<'_>, form: Form) -> String {
        let mut words = match form {
            Form::Blocking => String::new(),
            Form::Nonblocking => "i".to_owned(),
            Form::Prepared => "a prepared ".to_owned(),
        };
        words += method(call.operation);
        if call.said_in_place {
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
            let what = match call.lengths {
                Lengths::Vector(elements) => elements.to_string(),
                Lengths::Each(elements) => format!("blocks of {elements}"),
                Lengths::Listed(counts) => format!("blocks of {counts:?}"),
                // Ranks know parts of these, each its own.
                Lengths::Private(..) => "blocks of any number of".to_owned(),
            };
            words += &format!(" of {what} elements of {} bytes", call.element);
        }
        if !call.commutes {
            words += " by an operator that does not commute";
        }
        words + &self.choice_in_words(&[call.operation])
    }
}

impl Call<'_> {
    /// What messages of it say that they belong to.
    pub(crate) fn signature(&self, ranks: u32) -> treepie_fabric::Call {
        let bytes = self.lengths.total(ranks).map(|elements| elements.saturating_mul(self.element) as u64);
        signature(self.operation, bytes)
    }
}

/// What messages say that they belong to, of an operation on so many bytes, if all ranks know how many.
pub(super) fn signature(operation: Operation, bytes: Option<u64>) -> treepie_fabric::Call {
    treepie_fabric::Call::new(method(operation), operation.root().unwrap_or(0), bytes)
}

/// As programs call it.
const fn method(operation: Operation) -> &'static str {
    match operation {
        Operation::Allgather => "all_gather",
        Operation::Allreduce => "all_reduce",
        Operation::Alltoall => "all_to_all",
        other => other.name(),
    }
}
