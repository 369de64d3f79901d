//! Names of communicators, for debugging.

use std::cell::RefCell;

use crate::comm::Comm;

/// The name of a communicator. It is an attribute, so all handles share it.
#[derive(Default)]
struct Name(RefCell<Option<String>>);

impl Comm {
    /// Sets the name of the communicator on this rank, which `Debug` prints (`MPI_Comm_set_name`). All its handles
    /// share it; a [`dup`](Comm::dup) has none. Local.
    pub fn set_name(&self, name: impl Into<String>) {
        self.attribute::<Name>().0.replace(Some(name.into()));
    }

    /// The name set on this rank.
    pub fn name(&self) -> Option<String> {
        self.attribute::<Name>().0.borrow().clone()
    }
}
