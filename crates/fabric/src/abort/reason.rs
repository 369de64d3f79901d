//! Why a rank has aborted an operation.

use treepie_base::Error;

/// Why a rank has aborted an operation, as announced to its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbortReason {
    /// A local error.
    #[default]
    Unspecified,
    /// This rank was lost.
    PeerLost(u32),
    /// This rank aborted the operation first.
    AbortedBy(u32),
    /// A rank has called another operation, so this one cannot complete.
    CallMismatch,
}

impl AbortReason {
    /// The reason to announce for an error.
    pub fn from_error(error: &Error) -> Self {
        match error {
            Error::PeerLost { rank } => Self::PeerLost(*rank as u32),
            Error::Aborted { rank } => Self::AbortedBy(*rank as u32),
            Error::CollectiveMismatch { .. } | Error::LengthMismatch { .. } | Error::CollectiveOrderMismatch { .. } => {
                Self::CallMismatch
            }
            _ => Self::Unspecified,
        }
    }

    /// The reason that `rank` announces: names the rank where the abort originated, and whether that rank was lost.
    pub(crate) fn originating_at(self, rank: u32) -> Self {
        if let Self::PeerLost(_) | Self::AbortedBy(_) = self { self } else { Self::AbortedBy(rank) }
    }

    /// The error of operations that depend on rank `by`: names the rank where the abort originated, not the one that
    /// forwarded it.
    pub fn to_error(self, by: u32) -> Error {
        match self {
            Self::PeerLost(rank) => Error::PeerLost { rank: rank as usize },
            Self::AbortedBy(rank) => Error::Aborted { rank: rank as usize },
            Self::Unspecified | Self::CallMismatch => Error::Aborted { rank: by as usize },
        }
    }

    /// Encodes the reason in the high and the rank in the low 32 bits.
    pub fn encode(self) -> u64 {
        let (reason, rank) = match self {
            Self::Unspecified => (0, 0),
            Self::PeerLost(rank) => (1, rank),
            Self::AbortedBy(rank) => (2, rank),
            Self::CallMismatch => (3, 0),
        };
        reason << 32 | u64::from(rank)
    }

    /// Decodes a reason.
    pub fn decode(word: u64) -> Self {
        match (word >> 32, word as u32) {
            (1, rank) => Self::PeerLost(rank),
            (2, rank) => Self::AbortedBy(rank),
            (3, _) => Self::CallMismatch,
            _ => Self::Unspecified,
        }
    }
}
