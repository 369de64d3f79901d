//! Packed edges of Graph 500: 12 bytes for the endpoints, and in another file 4 bytes for the weight.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | lower 32 bits of the first endpoint |
//! | 4..8 | lower 32 bits of the second endpoint |
//! | 8..10 | bits 32..48 of the first endpoint |
//! | 10..12 | bits 32..48 of the second endpoint |
//!
//! All numbers are little-endian.

/// Packs an edge between two vertices, whose ids are below 2^48.
pub fn pack(from: u64, to: u64) -> [u8; 12] {
    let (from, to) = (from.to_le_bytes(), to.to_le_bytes());
    let mut bytes = [0; 12];
    bytes[0..4].copy_from_slice(&from[0..4]);
    bytes[4..8].copy_from_slice(&to[0..4]);
    bytes[8..10].copy_from_slice(&from[4..6]);
    bytes[10..12].copy_from_slice(&to[4..6]);
    bytes
}

/// The endpoints of a packed edge.
pub fn unpack(bytes: [u8; 12]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, from4, from5, to4, to5] = bytes;
    (u64::from_le_bytes([a, b, c, d, from4, from5, 0, 0]), u64::from_le_bytes([e, f, g, h, to4, to5, 0, 0]))
}

/// Packs a weight.
pub fn pack_weight(weight: f64) -> [u8; 4] {
    (weight as f32).to_le_bytes()
}

/// The value of a packed weight.
pub fn unpack_weight(bytes: [u8; 4]) -> f64 {
    f64::from(f32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_come_back() {
        assert_eq!(pack(0x6655_4433_2211, 0xCCBB_AA99_8877), *b"\x11\x22\x33\x44\x77\x88\x99\xAA\x55\x66\xBB\xCC");
        for (from, to) in [(0, 0), (1, 2), (0x6655_4433_2211, 0xCCBB_AA99_8877), ((1 << 48) - 1, 1 << 47)] {
            assert_eq!(unpack(pack(from, to)), (from, to));
        }
    }

    #[test]
    fn weights_come_back() {
        assert_eq!(pack_weight(0.5), [0, 0, 0, 0x3F]);
        for weight in [0.0, 1.0, f64::from(0.490_170_42_f32)] {
            assert_eq!(unpack_weight(pack_weight(weight)), weight);
        }
    }
}
