//! Numbers for vertices of which no formula says whose they are: some rank knows, and everybody asks it for the names
//! that its edges have.
//!
//! Vertices whose names are few and far between are those of the rank that a name is hashed to, which numbers them in
//! the order of their names.

use treepie_base::Rank;
use treepie_comm::Comm;
use treepie_sparse::{Received, SparseExchange};

use crate::mix::mixed;
use crate::{Layout, Result};

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

/// Names that ranks have asked each other for.
pub(crate) struct Questions {
    /// Those of this rank, in order.
    names: Vec<u64>,
    /// The same, by the rank that was asked.
    asked: Vec<Vec<u64>>,
    came: Received<u64>,
}

impl Questions {
    /// Asks for names, which may be there several times, those who know of each. All ranks call it.
    pub(crate) fn ask(comm: &Comm, mut names: Vec<u64>, knows: impl Fn(u64) -> Rank) -> Result<Self> {
        names.sort_unstable();
        names.dedup();
        let mut asked = vec![Vec::new(); comm.size()];
        names.iter().for_each(|name| asked[knows(*name)].push(*name));
        let questions = asked.iter().enumerate().filter(|(_, names)| !names.is_empty());
        let came = comm.exchange(questions.map(|(to, names)| (to, names.clone())))?;
        Ok(Self { names, asked, came })
    }

    /// Answers what others ask. Returns what they have answered. All ranks call it.
    pub(crate) fn answer(self, comm: &Comm, number: impl Fn(&u64) -> u64) -> Result<Numbers> {
        let answers = self.came.iter().map(|(from, names)| (*from, names.iter().map(&number).collect::<Vec<u64>>()));
        let mut numbers = vec![0; self.names.len()];
        for (from, answers) in comm.exchange(answers.collect::<Vec<_>>())? {
            for (name, number) in self.asked[from].iter().zip(answers) {
                numbers[self.names.binary_search(name).expect("it is one of them")] = number;
            }
        }
        Ok(Numbers { names: self.names, numbers })
    }
}

/// A layout of the vertices that ranks have names of, and the numbers of those of this rank. All ranks call it.
pub(crate) fn list(comm: &Comm, names: Vec<u64>) -> Result<(Layout, Numbers)> {
    let questions = Questions::ask(comm, names, |name| (mixed(name) % comm.size() as u64) as Rank)?;
    let mut own: Vec<u64> = questions.came.iter().flat_map(|(_, names)| names).copied().collect();
    own.sort_unstable();
    own.dedup();
    let counts = comm.all_gather(&[own.len() as u64])?;
    let first: u64 = counts[..comm.rank()].iter().sum();
    let number = |name: &u64| first + own.binary_search(name).expect("it was asked for") as u64;
    let numbers = questions.answer(comm, number)?;
    Ok((Layout::listed(comm.rank(), &counts, own), numbers))
}
