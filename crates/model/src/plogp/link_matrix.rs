//! Links between clusters of different classes: each ordered pair of clusters has its class.

use super::PLogP;
use crate::{Error, Result};

/// P-LogP links from each cluster to each.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkMatrix {
    names: Vec<String>,
    classes: Vec<PLogP>,
    /// The class from one cluster to another, row-major; the diagonal is the network within a cluster.
    class_of: Vec<usize>,
}

impl LinkMatrix {
    /// Clusters by name, and the class of the link from each (row) to each (column).
    pub fn new(names: &[&str], classes: Vec<PLogP>, class_of: Vec<usize>) -> Result<Self> {
        let needed = names.len() * names.len();
        if class_of.len() != needed {
            return Err(Error::MatrixSize { what: "the matrix of links", got: class_of.len(), needed });
        }
        if let Some(class) = class_of.iter().find(|class| **class >= classes.len()) {
            return Err(Error::MatrixSize { what: "the list of link classes", got: classes.len(), needed: class + 1 });
        }
        Ok(Self { names: names.iter().map(|name| (*name).to_owned()).collect(), classes, class_of })
    }

    /// From a latency (microseconds) and a bandwidth (bytes per microsecond) of each link, row-major; `local` is the
    /// network within each cluster, and its overhead that of all links.
    pub fn from_latency_bandwidth(names: &[&str], local: PLogP, latency: &[f64], bandwidth: &[f64]) -> Result<Self> {
        let needed = names.len() * names.len();
        for (what, matrix) in [("the matrix of latencies", latency), ("the matrix of bandwidths", bandwidth)] {
            if matrix.len() != needed {
                return Err(Error::MatrixSize { what, got: matrix.len(), needed });
            }
        }
        let overhead = local.send_overhead.at(0.0);
        let (mut classes, mut class_of) = (vec![local], Vec::new());
        for at in 0..needed {
            if at / names.len() == at % names.len() {
                class_of.push(0);
            } else {
                class_of.push(classes.len());
                classes.push(PLogP::linear(latency[at], overhead, bandwidth[at])?);
            }
        }
        Self::new(names, classes, class_of)
    }

    /// The number of clusters.
    pub fn num_clusters(&self) -> usize {
        self.names.len()
    }

    /// The name of a cluster.
    pub fn name(&self, cluster: usize) -> &str {
        &self.names[cluster]
    }

    /// The link from one cluster to another.
    pub fn link(&self, from: usize, to: usize) -> &PLogP {
        &self.classes[self.class_of[from * self.num_clusters() + to]]
    }

    /// The link between different clusters over which a message of that size takes longest. A tree and segment size for
    /// all links are planned for it. None with fewer than two clusters.   [P-LogP paper 4]
    pub fn slowest_pair(&self, bytes: f64) -> Option<(usize, usize)> {
        let all = (0..self.num_clusters()).flat_map(|from| (0..self.num_clusters()).map(move |to| (from, to)));
        let time = |&(from, to): &(usize, usize)| {
            let link = self.link(from, to);
            link.latency + link.gap.at(bytes)
        };
        all.filter(|(from, to)| from != to).max_by(|a, b| time(a).total_cmp(&time(b)))
    }
}
