//! Flow-control state of the peers of a rank.
//!
//! Most programs on many ranks have few peers, so peers are in blocks, which exist from the first message on: simulated worlds
//! of 100,000 ranks would need a hundred gigabytes otherwise.

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

const BLOCK_PEERS: usize = 64;

type Block = [Peer; BLOCK_PEERS];

/// All peers of a rank.
pub(crate) struct Peers {
    blocks: Box<[Option<Box<Block>>]>,
    size: u32,
}

impl Peers {
    pub(crate) fn new(size: u32) -> Self {
        Self { blocks: vec![None; (size as usize).div_ceil(BLOCK_PEERS)].into(), size }
    }

    /// The number of ranks of the world.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, rank: u32) -> &mut Peer {
        debug_assert!(rank < self.size, "rank {rank} of {}", self.size);
        let block = self.blocks[rank as usize / BLOCK_PEERS].get_or_insert_with(new_block);
        &mut block[rank as usize % BLOCK_PEERS]
    }
}

#[cold]
fn new_block() -> Box<Block> {
    Box::new([Peer::default(); BLOCK_PEERS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_exist_from_first_use_on() {
        let mut peers = Peers::new(100_000);
        for rank in [0, 63, 64, 99_999] {
            assert_eq!(peers.get_mut(rank).credit_used, 0);
            peers.get_mut(rank).credit_used = rank + 1;
        }
        for rank in [0, 63, 64, 99_999] {
            assert_eq!(peers.get_mut(rank).credit_used, rank + 1);
        }
        assert_eq!(peers.blocks.iter().flatten().count(), 3);
    }
}
