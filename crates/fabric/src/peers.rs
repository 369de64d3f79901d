//! Flow-control state of the peers of a rank.
//!
//! On many ranks most programs have few peers, so these are in a table that grows: simulated worlds of 100,000 ranks would
//! need a hundred gigabytes otherwise.

use std::collections::HashMap;

use treepie_base::BuildNumberHasher;

/// Flow-control state of one peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Peer {
    /// Bytes of eager messages to the peer whose credit it has not returned.
    pub(crate) credit_used: u32,
    /// Bytes of received eager messages whose credit this rank has not returned.
    pub(crate) credit_owed: u32,
    /// Number of rendezvous transfers from the peer in progress.
    pub(crate) transfers: u32,
}

/// Worlds of up to this number of ranks have an array of all: 12 KB, without a hash for each message.
const MAX_ARRAY: u32 = 1024;

/// All peers of a rank.
pub(crate) struct Peers {
    size: u32,
    table: Table,
}

enum Table {
    Array(Box<[Peer]>),
    /// Those with which there have been messages.
    Map(HashMap<u32, Peer, BuildNumberHasher>),
}

impl Peers {
    pub(crate) fn new(size: u32) -> Self {
        let table = match size {
            0..=MAX_ARRAY => Table::Array(vec![Peer::default(); size as usize].into()),
            _ => Table::Map(HashMap::default()),
        };
        Self { size, table }
    }

    /// The number of ranks of the world.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, rank: u32) -> &mut Peer {
        debug_assert!(rank < self.size, "rank {rank} of {}", self.size);
        match &mut self.table {
            Table::Array(peers) => &mut peers[rank as usize],
            Table::Map(peers) => peers.entry(rank).or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_state() {
        for size in [1, 100, MAX_ARRAY, MAX_ARRAY + 1, 100_000] {
            let (mut peers, ranks) = (Peers::new(size), [0, size / 3, size / 2, size - 1]);
            for rank in ranks {
                peers.get_mut(rank).credit_used = rank + 1;
            }
            assert!(ranks.iter().all(|rank| peers.get_mut(*rank).credit_used == rank + 1), "{size} ranks");
            assert_eq!(peers.size(), size);
        }
    }
}
