//! Checks that all ranks have registered the same message types.

use std::hash::{DefaultHasher, Hash, Hasher};

use treepie_base::{Error, Result};
use treepie_comm::{Comm, Min};

/// Returns an error on all ranks if their lists differ, with the lists of rank 0 and of the first rank that differs.
pub(crate) fn verify_same_types(comm: &Comm, list: &[String]) -> Result<()> {
    let text = list.join(", ");
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let digest = hasher.finish();
    // The least digest, and the complement of the greatest one.
    let extremes = comm.allreduce(&[digest, !digest], Min)?;
    if extremes[0] == !extremes[1] {
        return Ok(());
    }
    // The lengths of the lists, too.
    let all = comm.allgather(&[digest, text.len() as u64])?;
    let (digests, lengths): (Vec<u64>, Vec<usize>) = all.chunks(2).map(|rank| (rank[0], rank[1] as usize)).unzip();
    let second = digests.iter().position(|digest| *digest != digests[0]).expect("the digests differ");
    // Only these two lists are sent.
    let is_shown = |rank: usize| rank == 0 || rank == second;
    let counts: Vec<usize> = lengths.iter().enumerate().map(|(rank, n)| if is_shown(rank) { *n } else { 0 }).collect();
    let contribution = if is_shown(comm.rank()) { text.as_bytes() } else { &[] };
    let mut shown = vec![0_u8; counts.iter().sum()];
    comm.allgatherv(contribution, &counts, &mut shown)?;
    let (first_list, second_list) = shown.split_at(counts[0]);
    let lists = [first_list, second_list].map(|list| String::from_utf8_lossy(list).into_owned());
    Err(Error::MessageTypeMismatch { first: 0, second, lists: Box::new(lists) })
}
