//! What the command line says: operations, sweeps, lists of algorithms.

use std::str::FromStr;

use anyhow::Context;
use treepie_schedule::Operation;

use super::super::bytes::Bytes;
use super::super::complaint::did_you_mean;

/// The operation of this name, with this root where it has any.
pub(super) fn operation(name: &str, root: u32) -> anyhow::Result<Operation> {
    let refusal = || {
        let names = Operation::all(root).map(Operation::name);
        format!("there is no operation {name}; there are {}{}", names.join(", "), did_you_mean(name, names))
    };
    Operation::named(name, root).with_context(refusal)
}

/// Ids with commas between. A part that names no algorithm belongs to the arguments of the id before it, if that has any.
pub(super) fn ids(list: &str, is_algorithm: impl Fn(&str) -> bool) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for part in list.split(',') {
        let name = part.split(':').next().unwrap_or_default();
        match ids.last_mut().filter(|last| last.contains(':') && !is_algorithm(name)) {
            Some(last) => {
                last.push(',');
                last.push_str(part);
            }
            None => ids.push(part.to_owned()),
        }
    }
    ids
}

/// Sizes from one to another, each twice the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    from: usize,
    to: usize,
}

impl Sweep {
    pub(super) fn sizes(&self) -> Vec<usize> {
        std::iter::successors(Some(self.from), |bytes| Some(bytes * 2)).take_while(|bytes| *bytes <= self.to).collect()
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not a sweep as bytes=64..1M".to_owned();
        let (from, to) = text.strip_prefix("bytes=").and_then(|range| range.split_once("..")).ok_or_else(wrong)?;
        let (Bytes(from), Bytes(to)) = (from.parse()?, to.parse()?);
        if from == 0 || from > to {
            return Err("a sweep goes from at least 1 byte up".to_owned());
        }
        Ok(Self { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_doubles() {
        assert_eq!("bytes=64..1K".parse::<Sweep>().unwrap().sizes(), [64, 128, 256, 512, 1024]);
        assert_eq!("bytes=3..7".parse::<Sweep>().unwrap().sizes(), [3, 6]);
        for bad in ["64..1K", "bytes=64", "bytes=0..4", "bytes=8..4", "ranks=1..4", "bytes=a..b"] {
            assert!(bad.parse::<Sweep>().is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_keep_the_arguments_of_ids_together() {
        let known = ["ring", "bruck", "kary", "flat", "bucket_k", "bcast/flat", "bcast/chain"];
        let ids = |list| ids(list, |name| known.contains(&name));
        assert_eq!(ids("ring,bruck"), ["ring", "bruck"]);
        assert_eq!(ids("kary:4,segments=8,window=2,flat"), ["kary:4,segments=8,window=2", "flat"]);
        assert_eq!(ids("bucket_k:6,moved,ring"), ["bucket_k:6,moved", "ring"]);
        // Without arguments it is a mistake, to be told as what it is.
        assert_eq!(ids("ring,no_such"), ["ring", "no_such"]);
        assert_eq!(
            ids("bcast/flat:segments=4,bcast/chain:segments=2"),
            ["bcast/flat:segments=4", "bcast/chain:segments=2"]
        );
    }

    #[test]
    fn an_unknown_operation_is_refused_with_those_there_are() {
        let error = operation("walk", 0).unwrap_err().to_string();
        assert!(error.starts_with("there is no operation walk; there are barrier, bcast"), "{error}");
        assert_eq!(operation("bcast", 3).unwrap(), Operation::Bcast { root: 3 });
    }
}
