//! Links between clusters that are not all alike: each pair has its class, and not both directions the same.

use super::PLogP;
use crate::{Error, Result};

/// Links from each of some places to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    names: Vec<String>,
    classes: Vec<PLogP>,
    /// The class from one to another, row by row; that of a place with itself is its own network.
    class_of: Vec<usize>,
}

impl Links {
    /// Places by name, and the class of the link from each (row) to each (column).
    pub fn new(names: &[&str], classes: Vec<PLogP>, class_of: Vec<usize>) -> Result<Self> {
        let needed = names.len() * names.len();
        if class_of.len() != needed {
            return Err(Error::Shape { what: "the matrix of links", got: class_of.len(), needed });
        }
        if let Some(class) = class_of.iter().find(|class| **class >= classes.len()) {
            return Err(Error::Shape { what: "the list of link classes", got: classes.len(), needed: class + 1 });
        }
        Ok(Self { names: names.iter().map(|name| (*name).to_owned()).collect(), classes, class_of })
    }

    /// From a latency (microseconds) and a bandwidth (bytes a microsecond) of each link, row by row; `local` is the
    /// network within each place, and its overhead that of all links.
    pub fn measured(names: &[&str], local: PLogP, latency: &[f64], bandwidth: &[f64]) -> Result<Self> {
        let needed = names.len() * names.len();
        for (what, matrix) in [("the matrix of latencies", latency), ("the matrix of bandwidths", bandwidth)] {
            if matrix.len() != needed {
                return Err(Error::Shape { what, got: matrix.len(), needed });
            }
        }
        let overhead = local.send.at(0.0);
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

    /// How many places.
    pub fn places(&self) -> usize {
        self.names.len()
    }

    /// The name of a place.
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    /// The link from one to another.
    pub fn between(&self, from: usize, to: usize) -> &PLogP {
        &self.classes[self.class_of[from * self.places() + to]]
    }

    /// The link between different places over which a message of that size takes longest, for which a tree and segments
    /// are chosen if all links are to be taken alike. Nothing with less than two places.   [P-LogP paper 4]
    pub fn slowest(&self, bytes: f64) -> Option<(usize, usize)> {
        let all = (0..self.places()).flat_map(|from| (0..self.places()).map(move |to| (from, to)));
        let time = |&(from, to): &(usize, usize)| {
            let link = self.between(from, to);
            link.latency + link.gap.at(bytes)
        };
        all.filter(|(from, to)| from != to).max_by(|a, b| time(a).total_cmp(&time(b)))
    }
}
