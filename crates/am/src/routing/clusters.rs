//! Cluster routing: for each pair of clusters one rank of each is the gateway to the other, so that all messages
//! between the two are coalesced over the wide-area link. The gateways differ from pair to pair, as far as there are
//! enough ranks.

/// Clusters of consecutive ranks.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// The first rank of each cluster, then P.
    starts: Vec<u32>,
}

impl Clusters {
    /// Clusters of these sizes; nothing if they do not add up to `ranks`.
    pub(super) fn new(sizes: &[u32], ranks: u32) -> Option<Self> {
        let mut starts = vec![0_u32];
        for size in sizes {
            starts.push(starts.last().expect("there is one").checked_add(*size)?);
        }
        (starts.last() == Some(&ranks) && sizes.iter().all(|size| *size > 0)).then_some(Self { starts })
    }

    fn cluster_of(&self, rank: u32) -> usize {
        self.starts.partition_point(|start| *start <= rank) - 1
    }

    /// The gateway of a cluster to another one.
    fn gateway(&self, of: usize, with: usize) -> u32 {
        self.starts[of] + with as u32 % (self.starts[of + 1] - self.starts[of])
    }

    pub(super) fn next_hop(&self, from: u32, to: u32) -> u32 {
        let (here, there) = (self.cluster_of(from), self.cluster_of(to));
        if here == there {
            return to;
        }
        let gateway = self.gateway(here, there);
        if from == gateway { self.gateway(there, here) } else { gateway }
    }

    pub(super) fn neighbors(&self, rank: u32) -> Vec<u32> {
        let here = self.cluster_of(rank);
        let cluster = self.starts[here]..self.starts[here + 1];
        let others = (0..self.starts.len() - 1).filter(|there| *there != here && self.gateway(here, *there) == rank);
        cluster.chain(others.map(|there| self.gateway(there, here))).collect()
    }
}
