//! A network without structure: each node has one link in and one link out, and nothing else can be busy.

use crate::error::link_count;
use crate::{Result, tree};

/// Nodes on a full crossbar: the thesis's model without congestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    places: u32,
}

impl Flat {
    pub(crate) fn new(places: u32) -> Result<Self> {
        link_count(tree::links(places, 0))?;
        Ok(Flat { places })
    }

    /// Number of places, 0 if it is open.
    pub fn places(&self) -> u32 {
        self.places
    }

    pub(crate) fn links(&self) -> u32 {
        2 * self.places
    }

    pub(crate) fn route(&self, from: u32, to: u32, link: impl FnMut(u32)) {
        tree::route(self.places, (from, 0), (to, 0), link);
    }
}
