//! Parsing of arguments: operations, sweeps, lists of algorithms.

use std::str::FromStr;

use anyhow::Context;
use treepie_schedule::Operation;

use treepie_base::units::ByteCount;
use treepie_bench::diagnostics::did_you_mean;

/// The operation of this name, with this root if it has one.
pub(super) fn operation(name: &str, root: u32) -> anyhow::Result<Operation> {
    let refusal = || {
        let names = Operation::all(root).map(Operation::name);
        format!("there is no operation {name}; the operations are {}{}", names.join(", "), did_you_mean(name, names))
    };
    Operation::from_name(name, root).with_context(refusal)
}

/// Ids separated by commas. A part that names no algorithm is an argument of the preceding id, if that has arguments.
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

/// A range of sizes, doubling.
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
        let wrong = || "expected a sweep such as bytes=64..1M".to_owned();
        let (from, to) = text.strip_prefix("bytes=").and_then(|range| range.split_once("..")).ok_or_else(wrong)?;
        let (ByteCount(from), ByteCount(to)) = (from.parse()?, to.parse()?);
        if from == 0 || from > to {
            return Err("a sweep starts at 1 byte or more and does not decrease".to_owned());
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
        // After an id without arguments it is an unknown algorithm, and reported as such.
        assert_eq!(ids("ring,no_such"), ["ring", "no_such"]);
        assert_eq!(
            ids("bcast/flat:segments=4,bcast/chain:segments=2"),
            ["bcast/flat:segments=4", "bcast/chain:segments=2"]
        );
    }

    #[test]
    fn an_unknown_operation_is_an_error_that_lists_the_known() {
        let error = operation("walk", 0).unwrap_err().to_string();
        assert!(error.starts_with("there is no operation walk; the operations are barrier, bcast"), "{error}");
        assert_eq!(operation("bcast", 3).unwrap(), Operation::Bcast { root: 3 });
    }
}
