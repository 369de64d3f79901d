//! Whether all ranks have registered the same types.

use std::hash::{DefaultHasher, Hash, Hasher};

use treepie_base::{Error, Result};
use treepie_comm::Comm;

/// An error on all ranks if their lists differ: with that of the first rank and of the first that differs from it.
pub(crate) fn agree(comm: &Comm, list: &[String]) -> Result<()> {
    let text = list.join(", ");
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // The digest, and how long the list is, should all need to see it.
    let all = comm.all_gather(&[hasher.finish(), text.len() as u64])?;
    let (digests, lengths): (Vec<u64>, Vec<usize>) = all.chunks(2).map(|rank| (rank[0], rank[1] as usize)).unzip();
    let Some(second) = digests.iter().position(|digest| *digest != digests[0]) else { return Ok(()) };
    // Only those two are asked for.
    let is_shown = |rank: usize| rank == 0 || rank == second;
    let counts: Vec<usize> = lengths.iter().enumerate().map(|(rank, n)| if is_shown(rank) { *n } else { 0 }).collect();
    let own = if is_shown(comm.rank()) { text.as_bytes() } else { &[] };
    let mut shown = vec![0_u8; counts.iter().sum()];
    comm.all_gatherv(own, &counts, &mut shown)?;
    let (first_list, second_list) = shown.split_at(counts[0]);
    let lists = [first_list, second_list].map(|list| String::from_utf8_lossy(list).into_owned());
    Err(Error::TypesDiffer { first: 0, second, lists: Box::new(lists) })
}
