//! What communicators and windows need of collectives to come into being.

use treepie_base::{Bytes, MAX_TAG, Result, Span};
use treepie_fabric::{Address, Select, Started};

use crate::comm::Comm;

impl Comm {
    /// One word of each rank, by rank. Bruck's algorithm: the known part doubles in each of ceil(log2 P) rounds.
    pub(crate) fn all_gather_words(&self, mine: u64) -> Result<Vec<u64>> {
        let (rank, size) = (self.rank(), self.size());
        // Those of the ranks from this one on, going around.
        let mut known = vec![mine];
        while known.len() < size {
            let distance = known.len();
            let count = distance.min(size - distance);
            let (to, from) = ((rank + size - distance) % size, (rank + distance) % size);
            let mut more = vec![0u64; count];
            let (context, tag) = (self.own_context(), MAX_TAG);
            let mut endpoint = self.endpoint();
            let address = Address { context, to: to as u32, tag, synchronous: false };
            // Both sides of each pair send first: short messages are buffered, and long ones make progress.
            let words: Vec<u64> = known[..count].to_vec();
            let send = endpoint.start_send(address, Span::from(Bytes::from(words)))?;
            let select = Select { context, source: Some(from as u32), tag: Some(tag) };
            endpoint.recv(select, bytemuck::cast_slice_mut(&mut more))?;
            if let Started::Pending(id) = send {
                endpoint.wait(id)?;
            }
            known.extend_from_slice(&more);
        }
        known.rotate_right(rank);
        debug_assert_eq!(known[rank], mine);
        Ok(known)
    }
}
