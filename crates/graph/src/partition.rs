//! Vertices spread over ranks as a file says: part p to rank p modulo the number of ranks.
//!
//! Each rank reads a share of the lines, and tells owners which vertices they have. They answer with the numbers that
//! these vertices have inside, so afterwards the reader of a line can tell everybody who needs that vertex. Nobody has
//! a table of all vertices.

use std::path::Path;

use treepie_base::Rank;
use treepie_comm::Comm;
use treepie_sparse::SparseExchange;

use crate::agree::agree;
use crate::directory::{Numbers, Questions};
use crate::read::{parts_of_vertices, wrong_count};
use crate::{Layout, Result};

/// A layout of so many vertices, and the numbers of those with some names. Names of other vertices are left out. All
/// ranks call it.
pub(crate) fn place(comm: &Comm, file: &Path, vertices: u64, mut names: Vec<u64>) -> Result<(Layout, Numbers)> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let parts = agree(comm, parts_of_vertices(file, rank, ranks))?;
    let lines = comm.all_gather(&[parts.len() as u64])?;
    let starts: Vec<u64> = (0..=ranks).map(|of| lines[..of].iter().sum()).collect();
    if starts[ranks] != vertices {
        return Err(wrong_count(file, starts[ranks], vertices));
    }

    let mut told = vec![Vec::new(); ranks];
    let owners: Vec<u32> = parts.into_iter().map(|part| (part % ranks as u64) as u32).collect();
    (starts[rank]..).zip(&owners).for_each(|(vertex, owner)| told[*owner as usize].push(vertex));
    let messages = told.into_iter().enumerate().filter(|(_, vertices)| !vertices.is_empty());
    // From lower ranks come lower vertices, so they are in order.
    let came = comm.exchange(messages)?;
    let own: Vec<u64> = came.iter().flat_map(|(_, vertices)| vertices).copied().collect();
    let counts = comm.all_gather(&[own.len() as u64])?;
    let mut next: u64 = counts[..rank].iter().sum();
    // The first number is enough: a rank's vertices have consecutive ones, and so have those of one message.
    let answers: Vec<(Rank, Vec<u64>)> = came
        .iter()
        .map(|(from, vertices)| {
            let first = next;
            next += vertices.len() as u64;
            (*from, vec![first])
        })
        .collect();
    let mut first_of = vec![0; ranks];
    comm.exchange(answers)?.into_iter().for_each(|(from, first)| first_of[from] = first[0]);
    let number = |owner: &u32| {
        let number = &mut first_of[*owner as usize];
        *number += 1;
        *number - 1
    };
    let numbers: Vec<u64> = owners.iter().map(number).collect();

    names.retain(|name| *name < vertices);
    let knows = |name: u64| starts.partition_point(|start| *start <= name) - 1;
    let questions = Questions::ask(comm, names, knows)?;
    let asked = questions.answer(comm, |name| numbers[(name - starts[rank]) as usize])?;
    Ok((Layout::listed(rank, &counts, own), asked))
}
