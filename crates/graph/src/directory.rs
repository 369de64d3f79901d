//! Numbers for vertices whose names are few and far between.
//!
//! The rank that a name is hashed to has that vertex, and numbers those it has in the order of their names. Everybody asks for the
//! names that its edges have.

use treepie_base::Rank;
use treepie_comm::Comm;
use treepie_sparse::SparseExchange;

use crate::mix::mixed;
use crate::{Edge, Layout, Result};

/// The numbers of some names.
pub(crate) struct Numbers {
    /// In order of the names.
    names: Vec<u64>,
    numbers: Vec<u64>,
}

impl Numbers {
    pub(crate) fn get(&self, name: u64) -> Option<u64> {
        self.names.binary_search(&name).ok().map(|place| self.numbers[place])
    }
}

fn owner(name: u64, ranks: usize) -> Rank {
    (mixed(name) % ranks as u64) as Rank
}

/// A layout of the vertices that edges have, and the numbers of those that this rank's edges have. All ranks call it.
pub(crate) fn list(comm: &Comm, edges: &[Edge]) -> Result<(Layout, Numbers)> {
    let ranks = comm.size();
    let mut names: Vec<u64> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
    names.sort_unstable();
    names.dedup();
    let mut asked = vec![Vec::new(); ranks];
    names.iter().for_each(|name| asked[owner(*name, ranks)].push(*name));
    let questions = asked.iter().enumerate().filter(|(_, names)| !names.is_empty());
    let came = comm.exchange(questions.map(|(to, names)| (to, names.clone())))?;

    let mut own: Vec<u64> = came.iter().flat_map(|(_, names)| names).copied().collect();
    own.sort_unstable();
    own.dedup();
    let counts = comm.all_gather(&[own.len() as u64])?;
    let first: u64 = counts[..comm.rank()].iter().sum();
    let number = |name: &u64| first + own.binary_search(name).expect("it was asked for") as u64;
    let answers = came.iter().map(|(from, names)| (*from, names.iter().map(number).collect::<Vec<u64>>()));
    let mut numbers = vec![0; names.len()];
    for (from, answers) in comm.exchange(answers.collect::<Vec<_>>())? {
        for (name, number) in asked[from].iter().zip(answers) {
            numbers[names.binary_search(name).expect("it is one of them")] = number;
        }
    }
    Ok((Layout::listed(comm.rank(), &counts, own), Numbers { names, numbers }))
}
