//! Agreement on errors: if one rank fails, all fail.

use treepie_comm::Comm;

use crate::{EdgeWeight, Error, Graph, Result};

/// Returns this rank's result, unless some rank has an error: then all return the error of the lowest such rank. All
/// ranks call it.
pub fn agree<T>(comm: &Comm, outcome: Result<T>) -> Result<T> {
    let text = outcome.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
    let lengths = comm.allgather(&[text.len() as u64])?;
    let Some(first) = lengths.iter().position(|length| *length > 0) else { return outcome };
    let mut message = vec![0; lengths[first] as usize];
    if comm.rank() == first {
        message.copy_from_slice(text.as_bytes());
    }
    comm.bcast(&mut message, first)?;
    match outcome {
        Err(error) if comm.rank() == first => Err(error),
        _ => Err(Error::Input(String::from_utf8_lossy(&message).into_owned())),
    }
}

impl<W: EdgeWeight> Graph<W> {
    /// Refuses a result if some rank has found a fault in it. All ranks call it, and get the same error.
    pub(crate) fn refuse(&self, fault: Option<String>) -> Result<()> {
        agree(self.comm(), fault.map_or(Ok(()), |what| Err(Error::Verification(what))))
    }
}
