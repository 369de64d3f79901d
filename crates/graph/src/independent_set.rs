//! A maximal independent set: no two of its vertices are neighbors, and each other vertex has a neighbor in it.
//!
//! The set is that of the greedy algorithm, which takes vertices in a pseudo-random order unless a neighbor was taken. A vertex is
//! decided as soon as those of its neighbors are that come before it; with a random order that takes O(log^2 n) rounds with high
//! probability [Blelloch, Fineman, Shun, Greedy sequential maximal independent set and matching are parallel on average, 2012].
//! The order is by a hash of external ids, so the set depends neither on the number of ranks nor on the distribution. Cost: an
//! update of ghosts for each round.

use treepie_base::memory::collected;
use treepie_comm::Sum;

use crate::csr::VALUES_PURPOSE;
use crate::hash::splitmix64;
use crate::{EdgeWeight, Graph, PropertyMap, Result};

const WHAT: &str = "a maximal independent set";

const UNDECIDED: u8 = 0;
const IN: u8 = 1;
const OUT: u8 = 2;

/// A maximal independent set.
#[derive(Clone, Debug)]
pub struct IndependentSet<'g, W: EdgeWeight = ()> {
    /// 1 for each vertex of the set, 0 for others.
    pub members: PropertyMap<'g, u8, W>,
    /// The number of rounds.
    pub rounds: u32,
}

impl<W: EdgeWeight> Graph<W> {
    /// A maximal independent set of an undirected graph; self-loops do not count. All ranks call it.
    ///
    /// # Errors
    /// [`Error::Input`](crate::Error::Input) if the graph is directed, or has split hubs.
    pub fn independent_set(&self) -> Result<IndependentSet<'_, W>> {
        self.require_undirected(WHAT)?;
        let external_ids = self.with_ghosts(self.local_vertices().map(|vertex| self.external_id(vertex)))?;
        let order = |index: u32| {
            let id = external_ids[index as usize];
            (splitmix64(id), id)
        };
        let first = self.view().local_range().start;
        let mut status = self.with_ghosts(self.local_vertices().map(|_| UNDECIDED))?;
        let mut undecided: Vec<u32> = collected(self.local_vertices().map(|vertex| vertex as u32), VALUES_PURPOSE)?;
        // In this order, local neighbors that come before a vertex are mostly decided in the same sweep.
        undecided.sort_unstable_by_key(|vertex| order(first as u32 + vertex));
        let mut rounds = 0;
        while self.comm().any(!undecided.is_empty())? {
            rounds += 1;
            undecided.retain(|vertex| {
                let own = order(first as u32 + vertex);
                let mut decision = IN;
                for neighbor in self.simple_neighbors(*vertex as usize) {
                    match status[neighbor as usize] {
                        IN => {
                            decision = OUT;
                            break;
                        }
                        UNDECIDED if order(neighbor) < own => decision = UNDECIDED,
                        _ => {}
                    }
                }
                status[first + *vertex as usize] = decision;
                decision == UNDECIDED
            });
            self.update_ghosts(&mut status)?;
        }
        let members = status[self.view().local_range()].iter().map(|status| u8::from(*status == IN));
        let members = collected(members, VALUES_PURPOSE)?;
        Ok(IndependentSet { members: PropertyMap::new(self, members)?, rounds })
    }
}

impl<W: EdgeWeight> IndependentSet<'_, W> {
    /// The number of vertices in the set. All ranks call it.
    pub fn size(&self) -> Result<u64> {
        let local = self.members.local().iter().filter(|is_member| **is_member == 1).count() as u64;
        Ok(self.members.graph().comm().allreduce_one(local, Sum)?)
    }

    /// Verifies that the set is independent and maximal. All ranks call it, and get the same error.
    pub fn verify(&self) -> Result<()> {
        let graph = self.members.graph();
        let of_view = graph.with_ghosts(self.members.local().iter().copied())?;
        let fault = graph.local_vertices().find_map(|vertex| {
            let is_member = self.members[vertex] == 1;
            let has_member = graph.simple_neighbors(vertex).any(|neighbor| of_view[neighbor as usize] == 1);
            let id = graph.external_id(vertex);
            match (is_member, has_member) {
                (true, true) => Some(format!("vertex {id} and a neighbor of it are in the independent set")),
                (false, false) => Some(format!("neither vertex {id} nor a neighbor is in the independent set")),
                _ => None,
            }
        });
        graph.refuse(fault)
    }
}
