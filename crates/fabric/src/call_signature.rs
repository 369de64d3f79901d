//! Call signatures: a few bits in each message of a collective operation that identify the call, so that ranks detect
//! mismatched calls. Receives match by context, source and tag alone, and then compare signatures.

use treepie_base::Error;

use crate::protocol_family::ProtocolFamily;

/// The signature of the collective call that a message belongs to; [`NONE`](Self::NONE) for point-to-point messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallSignature {
    /// The operation: its index in [`NAMES`], or the number of a protocol, below
    /// 2^[`OPERATION_BITS`](Self::OPERATION_BITS).
    pub(crate) operation: u8,
    /// The root and the number of bytes: see [`CallSignature::new`].
    pub(crate) size: u32,
}

/// Names of collective operations; those of protocols follow ([`ProtocolFamily`]).
const NAMES: &[&str] = &[
    "no collective operation",
    "barrier",
    "bcast",
    "scatter",
    "gather",
    "allgather",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "alltoall",
    "scan",
    "exscan",
    "any",
    "a collective operation on 8 KiB or more",
];

/// The name of operations that are not known.
const OTHER: &str = "another protocol";

/// Bits of [`CallSignature::size`] for the root. Larger roots are compared modulo 2^7.
const ROOT_BITS: u32 = 7;
/// Bits for the number of bytes.
const BYTES_BITS: u32 = u32::BITS - ROOT_BITS;
/// The number of bytes differs between ranks.
const UNKNOWN: u32 = (1 << BYTES_BITS) - 1;
/// Numbers of bytes below this are exact; others are rounded down to [`MANTISSA_BITS`] bits.
const EXACT: u64 = 1 << (BYTES_BITS - 1);
const MANTISSA_BITS: u32 = BYTES_BITS - 1 - 6;

impl CallSignature {
    /// Bits of an operation number.
    pub const OPERATION_BITS: u32 = 7;

    /// The signature of point-to-point messages.
    pub const NONE: Self = Self { operation: 0, size: 0 };

    /// The signature of an operation: its name, its root (0 if it has none), and the number of bytes if all ranks know
    /// it. Roots are compared modulo 2^7, and numbers of bytes from 16 MiB on by their first 18 bits.
    pub fn new(name: &str, root: u32, bytes: Option<u64>) -> Self {
        let bytes = bytes.map_or(UNKNOWN, pack);
        Self { size: (root % (1 << ROOT_BITS)) << BYTES_BITS | bytes, ..Self::from_name(name) }
    }

    /// The signature of a protocol, without a number of bytes. All unknown names share one signature.
    pub fn from_name(name: &str) -> Self {
        let last = (1 << Self::OPERATION_BITS) - 1;
        let number = NAMES.iter().position(|known| *known == name).or_else(|| ProtocolFamily::number_of(name));
        Self { operation: number.unwrap_or(last) as u8, size: 0 }
    }

    /// Whether the message belongs to a collective operation.
    #[inline]
    pub(crate) fn is_collective(self) -> bool {
        self.operation != 0
    }

    /// A description for error messages.
    fn describe(self) -> String {
        let number = usize::from(self.operation);
        let name = NAMES.get(number).copied().or_else(|| ProtocolFamily::name_of(number)).unwrap_or(OTHER);
        let (root, bytes) = (self.size >> BYTES_BITS, self.size & ((1 << BYTES_BITS) - 1));
        let bytes = match bytes {
            UNKNOWN => "blocks of different lengths".to_owned(),
            exact if u64::from(exact) < EXACT => format!("{exact} bytes"),
            rounded => format!("about {} bytes", unpack(rounded)),
        };
        match name {
            "bcast" | "scatter" => format!("{name} from root {root} of {bytes}"),
            "gather" | "reduce" => format!("{name} to root {root} of {bytes}"),
            "allgather" | "allreduce" | "reduce_scatter" | "alltoall" | "scan" | "exscan" => {
                format!("{name} of {bytes}")
            }
            _ => name.to_owned(),
        }
    }

    /// The error on a rank of the world that is in this call and has a message of another one.
    #[cold]
    pub fn mismatch_error(self, rank: u32, theirs: Self, source: u32) -> Error {
        let mut both = [(rank, self), (source, theirs)];
        both.sort_unstable_by_key(|(rank, _)| *rank);
        let [first, second] = both.map(|(rank, _)| rank as usize);
        let mut calls = Box::new(both.map(|(_, call)| call.describe()));
        if self == theirs {
            calls[1] += " with a different algorithm, or one is blocking and the other nonblocking";
        }
        Error::CollectiveMismatch { first, second, calls }
    }
}

/// Packs a number of bytes into 25 bits: exact, or its exponent and the first 18 bits of its mantissa.
fn pack(bytes: u64) -> u32 {
    if bytes < EXACT {
        return bytes as u32;
    }
    let exponent = bytes.ilog2();
    let mantissa = (bytes >> (exponent - MANTISSA_BITS)) as u32 & ((1 << MANTISSA_BITS) - 1);
    let packed = EXACT as u32 | exponent << MANTISSA_BITS | mantissa;
    // `UNKNOWN` is reserved.
    packed.min(UNKNOWN - 1)
}

/// The smallest number with this packed form.
fn unpack(packed: u32) -> u64 {
    let packed = packed & (EXACT as u32 - 1);
    let exponent = packed >> MANTISSA_BITS;
    (1 << MANTISSA_BITS | u64::from(packed & ((1 << MANTISSA_BITS) - 1))) << (exponent - MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol_family::FAMILY_SIZE;

    #[test]
    fn names_fit_and_differ() {
        assert!(NAMES.len() <= FAMILY_SIZE);
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn numbers_of_bytes_are_exact_up_to_the_bound_and_rounded_above() {
        for bytes in [0, 1, EXACT - 1] {
            assert_eq!(u64::from(pack(bytes)), bytes);
        }
        assert_eq!(unpack(pack(EXACT)), EXACT);
        // The smallest difference that shows, and one that rounding hides.
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
        let bcast = |root| CallSignature::new("bcast", root, Some(8));
        assert_ne!(bcast(0), bcast(127));
        assert_eq!(bcast(0), bcast(128), "the next root is not distinguished");
    }

    #[test]
    fn mismatch_errors_name_both_calls() {
        let (one, other) = (CallSignature::new("bcast", 1, Some(8)), CallSignature::new("allreduce", 0, Some(1 << 30)));
        let message = other.mismatch_error(3, one, 2).to_string();
        assert_eq!(
            message,
            "rank 2 calls bcast from root 1 of 8 bytes, rank 3 calls allreduce of about 1073741824 bytes"
        );
        let message =
            CallSignature::from_name("unknown").mismatch_error(0, CallSignature::new("gather", 0, None), 1).to_string();
        assert_eq!(
            message,
            "rank 0 calls another protocol, rank 1 calls gather to root 0 of blocks of different lengths"
        );
    }
}
