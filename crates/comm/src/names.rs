//! Names of communicators, for people who look for a fault.

use std::cell::RefCell;

use crate::comm::Comm;

/// What a communicator is called. It is kept with it, so all handles see it.
#[derive(Default)]
struct Name(RefCell<Option<String>>);

impl Comm {
    /// Gives the communicator a name on this rank, which `Debug` shows. All its handles see it; a [`dup`](Comm::dup) of it has
    /// none. No other rank is told.
    pub fn set_name(&self, name: impl Into<String>) {
        self.attachment::<Name>().0.replace(Some(name.into()));
    }

    /// The name that this rank has given the communicator.
    pub fn name(&self) -> Option<String> {
        self.attachment::<Name>().0.borrow().clone()
    }
}
