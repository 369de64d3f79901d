//! Ways between clusters: for each pair of clusters one rank of each speaks with the other, so that all messages between the
//! two go together over the wide-area link. Which ranks these are differs from pair to pair, as far as there are enough.

/// Clusters of consecutive ranks.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// The first rank of each, and behind them all ranks.
    starts: Vec<u32>,
}

impl Clusters {
    /// So many ranks in each; nothing if these are not all.
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

    /// The rank of a cluster that speaks with another one.
    fn speaker(&self, of: usize, with: usize) -> u32 {
        self.starts[of] + with as u32 % (self.starts[of + 1] - self.starts[of])
    }

    pub(super) fn next(&self, from: u32, to: u32) -> u32 {
        let (here, there) = (self.cluster_of(from), self.cluster_of(to));
        if here == there {
            return to;
        }
        let speaker = self.speaker(here, there);
        if from == speaker { self.speaker(there, here) } else { speaker }
    }

    pub(super) fn neighbours(&self, rank: u32) -> Vec<u32> {
        let here = self.cluster_of(rank);
        let own = self.starts[here]..self.starts[here + 1];
        let others = (0..self.starts.len() - 1).filter(|there| *there != here && self.speaker(here, *there) == rank);
        own.chain(others.map(|there| self.speaker(there, here))).collect()
    }
}
