//! One rank's failure is everybody's.

use treepie_comm::Comm;

use crate::{Error, Result};

/// Returns what this rank has, unless some rank has an error: then all return that of the first of them. All ranks call it.
pub fn agree<T>(comm: &Comm, outcome: Result<T>) -> Result<T> {
    let text = outcome.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
    let lengths = comm.all_gather(&[text.len() as u64])?;
    let Some(first) = lengths.iter().position(|length| *length > 0) else { return outcome };
    let mut said = vec![0; lengths[first] as usize];
    if comm.rank() == first {
        said.copy_from_slice(text.as_bytes());
    }
    comm.bcast(&mut said, first)?;
    match outcome {
        Err(error) if comm.rank() == first => Err(error),
        _ => Err(Error::Input(String::from_utf8_lossy(&said).into_owned())),
    }
}
