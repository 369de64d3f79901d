//! What a message of a collective operation says about the call that it belongs to, in a few bits, so that ranks that have
//! called different operations notice it: by receives that take messages by context, source and tag alone, and then compare.

use treepie_base::Error;

/// The call of a collective operation that a message belongs to: nothing for messages of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Call {
    /// Which operation: its place among [`NAMES`], below 2^[`OPERATION_BITS`](Self::OPERATION_BITS).
    pub(crate) operation: u8,
    /// The root and the bytes that it is about: see [`Call::new`].
    pub(crate) size: u32,
}

/// What operations are called; the place of a name is its number, so new ones are added at the end.
const NAMES: &[&str] = &[
    "no collective operation",
    "barrier",
    "bcast",
    "scatter",
    "gather",
    "all_gather",
    "reduce",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "scan",
    "exscan",
    "any",
    "an epoch of active messages",
    "a comparison of calls in checked mode",
    "an exchange by store and forward",
    "exchange/pex",
    "exchange/pcx",
    "exchange/rsx",
    "exchange/nbx",
    "exchange/nbx:condition=1",
    "exchange/nbx:condition=2",
    "exchange/crystal",
    "split/merge",
    "split/parallel_sort",
    "split/distributed",
    "split/overlapped",
    "split/quick",
    "a collective operation on 8 KiB or more",
];

/// What is none of these.
const OTHER: &str = "another protocol";

/// Bits of [`Call::size`] for the root. Of roots above, their remainder is compared.
const ROOT_BITS: u32 = 7;
/// Bits for the number of bytes.
const BYTES_BITS: u32 = u32::BITS - ROOT_BITS;
/// The number of bytes is not the same on all ranks.
const UNKNOWN: u32 = (1 << BYTES_BITS) - 1;
/// Numbers of bytes below this stand for themselves; others are rounded down to so many bits.
const EXACT: u64 = 1 << (BYTES_BITS - 1);
const MANTISSA_BITS: u32 = BYTES_BITS - 1 - 6;

impl Call {
    /// Bits of the number of an operation.
    pub const OPERATION_BITS: u32 = 7;

    /// That of messages of programs.
    pub const NONE: Self = Self { operation: 0, size: 0 };

    /// An operation whose name is among those that are known, with a root, if it has one, on so many bytes, if all ranks know
    /// how many. Roots are compared as far as 7 bits go, and numbers of bytes from 16 MiB on by their first 18 bits.
    pub fn new(name: &str, root: u32, bytes: Option<u64>) -> Self {
        let bytes = bytes.map_or(UNKNOWN, pack);
        Self { size: (root % (1 << ROOT_BITS)) << BYTES_BITS | bytes, ..Self::named(name) }
    }

    /// A protocol, which is about no number of bytes. One that is not known is another one than all that are.
    pub fn named(name: &str) -> Self {
        let last = (1 << Self::OPERATION_BITS) - 1;
        let operation = NAMES.iter().position(|known| *known == name).unwrap_or(last) as u8;
        Self { operation, size: 0 }
    }

    /// Whether it is one.
    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.operation != 0
    }

    /// In words.
    fn words(self) -> String {
        let name = NAMES.get(usize::from(self.operation)).copied().unwrap_or(OTHER);
        let (root, bytes) = (self.size >> BYTES_BITS, self.size & ((1 << BYTES_BITS) - 1));
        let bytes = match bytes {
            UNKNOWN => "blocks of different lengths".to_owned(),
            exact if u64::from(exact) < EXACT => format!("{exact} bytes"),
            rounded => format!("about {} bytes", unpack(rounded)),
        };
        match name {
            "bcast" | "scatter" => format!("{name} from root {root} of {bytes}"),
            "gather" | "reduce" => format!("{name} to root {root} of {bytes}"),
            "all_gather" | "all_reduce" | "reduce_scatter" | "all_to_all" | "scan" | "exscan" => {
                format!("{name} of {bytes}")
            }
            _ => name.to_owned(),
        }
    }

    /// What a rank of the world is told that is in this call and has a message of another one.
    #[cold]
    pub fn differs(self, rank: u32, theirs: Self, source: u32) -> Error {
        let mut both = [(rank, self), (source, theirs)];
        both.sort_unstable_by_key(|(rank, _)| *rank);
        let [first, second] = both.map(|(rank, _)| rank as usize);
        let mut calls = Box::new(both.map(|(_, call)| call.words()));
        if self == theirs {
            calls[1] += " in another way: nonblocking and blocking, or by another algorithm";
        }
        Error::CallsDiffer { first, second, calls }
    }
}

/// A number of bytes in 25 bits: itself, or its length in bits and the first 18 bits after the highest.
fn pack(bytes: u64) -> u32 {
    if bytes < EXACT {
        return bytes as u32;
    }
    let exponent = bytes.ilog2();
    let mantissa = (bytes >> (exponent - MANTISSA_BITS)) as u32 & ((1 << MANTISSA_BITS) - 1);
    let packed = EXACT as u32 | exponent << MANTISSA_BITS | mantissa;
    // That one number means something else.
    packed.min(UNKNOWN - 1)
}

/// The smallest number that is packed to this.
fn unpack(packed: u32) -> u64 {
    let packed = packed & (EXACT as u32 - 1);
    let exponent = packed >> MANTISSA_BITS;
    (1 << MANTISSA_BITS | u64::from(packed & ((1 << MANTISSA_BITS) - 1))) << (exponent - MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        assert!(NAMES.len() < 1 << Call::OPERATION_BITS);
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn numbers_of_bytes_are_kept_up_to_the_bound_and_rounded_above() {
        for bytes in [0, 1, EXACT - 1] {
            assert_eq!(u64::from(pack(bytes)), bytes);
        }
        assert_eq!(unpack(pack(EXACT)), EXACT);
        // The last ones that differ, and those past it that do not.
        assert_ne!(pack(EXACT), pack(EXACT + (EXACT >> MANTISSA_BITS)));
        assert_eq!(pack(EXACT), pack(EXACT + 1));
        for bytes in [EXACT + 12345, 1 << 40, (1 << 50) + (1 << 33), u64::MAX] {
            let got = unpack(pack(bytes));
            assert!(got <= bytes && bytes - got <= (bytes >> MANTISSA_BITS) * 2, "{bytes}: {got}");
        }
        assert!(pack(u64::MAX) < UNKNOWN);
    }

    #[test]
    fn roots_are_compared_up_to_the_bound() {
        let bcast = |root| Call::new("bcast", root, Some(8));
        assert_ne!(bcast(0), bcast(127));
        assert_eq!(bcast(0), bcast(128), "one past it is not told apart");
    }

    #[test]
    fn both_calls_are_named() {
        let (one, other) = (Call::new("bcast", 1, Some(8)), Call::new("all_reduce", 0, Some(1 << 30)));
        let said = other.differs(3, one, 2).to_string();
        assert_eq!(
            said,
            "rank 2 calls bcast from root 1 of 8 bytes, rank 3 calls all_reduce of about 1073741824 bytes"
        );
        let said = Call::named("unheard of").differs(0, Call::new("gather", 0, None), 1).to_string();
        assert_eq!(said, "rank 0 calls another protocol, rank 1 calls gather to root 0 of blocks of different lengths");
    }
}
