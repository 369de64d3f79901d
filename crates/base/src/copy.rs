//! Copies of mostly short slices.

/// Copies a slice, up to 64 bytes without a call: a call of `memcpy` costs as much as the rest of forwarding a short
/// message. Panics if the lengths differ.
#[inline]
pub fn copy_short(into: &mut [u8], from: &[u8]) {
    assert!(into.len() == from.len(), "copies between slices of one length");
    match from.len() {
        8 => copy_ends::<8>(into, from),
        33..=64 => copy_ends::<32>(into, from),
        17..=32 => copy_ends::<16>(into, from),
        9..=16 => copy_ends::<8>(into, from),
        _ => into.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which may overlap.
#[inline]
fn copy_ends<const N: usize>(into: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(into) = into.first_chunk_mut::<N>() {
            *into = *first;
        }
        if let Some(into) = into.last_chunk_mut::<N>() {
            *into = *last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_short;

    #[test]
    fn every_length_is_copied_whole() {
        let from: Vec<u8> = (1..=200).collect();
        for len in 0..200 {
            let mut into = vec![0; len + 1];
            copy_short(&mut into[..len], &from[..len]);
            assert_eq!((&into[..len], into[len]), (&from[..len], 0));
        }
    }
}
