//! Fallible allocation, for sizes that a program, a file or a peer has given: too large a size is an error and does not
//! end the process.

use bytemuck::Zeroable;

use crate::{Error, Result};

/// `len` zeroed elements, for `what`. Pages are allocated when they are touched.
pub fn zeroed<T: Zeroable>(len: usize, what: &'static str) -> Result<Vec<T>> {
    bytemuck::allocation::try_zeroed_vec(len).map_err(|()| out_of_memory::<T>(len, what))
}

/// `len` clones of an element, for `what`.
pub fn filled<T: Clone>(element: T, len: usize, what: &'static str) -> Result<Vec<T>> {
    let mut elements = with_capacity(len, what)?;
    elements.resize(len, element);
    Ok(elements)
}

/// The elements of an iterator, for `what`.
pub fn collected<T>(elements: impl ExactSizeIterator<Item = T>, what: &'static str) -> Result<Vec<T>> {
    let mut vec = with_capacity(elements.len(), what)?;
    vec.extend(elements);
    Ok(vec)
}

/// An empty vector with capacity for `len` elements, for `what`.
pub fn with_capacity<T>(len: usize, what: &'static str) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(len).map_err(|_| out_of_memory::<T>(len, what))?;
    Ok(elements)
}

#[cold]
fn out_of_memory<T>(len: usize, what: &'static str) -> Error {
    Error::OutOfMemory { what, bytes: (len as u64).saturating_mul(size_of::<T>() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_is_given() {
        assert_eq!(zeroed::<u32>(3, "three"), Ok(vec![0; 3]));
        assert_eq!(filled(7, 3, "three"), Ok(vec![7; 3]));
        assert_eq!(collected(0..3, "three"), Ok(vec![0, 1, 2]));
        assert_eq!((zeroed::<u8>(0, "none"), zeroed::<[u8; 0]>(5, "none")), (Ok(vec![]), Ok(vec![[]; 5])));
    }

    #[test]
    fn what_there_is_not_is_an_error() {
        // More than the address space of a process, and more than `isize::MAX`.
        for len in [1 << 60, usize::MAX] {
            let refused = |bytes| Error::OutOfMemory { what: "too much", bytes };
            assert_eq!(zeroed::<u8>(len, "too much"), Err(refused(len as u64)));
            assert_eq!(filled(1_u8, len, "too much"), Err(refused(len as u64)));
            assert_eq!(zeroed::<u64>(len, "too much"), Err(refused((len as u64).saturating_mul(8))));
        }
        let text = zeroed::<u64>(1 << 40, "the vertices").map(|_| ()).unwrap_err().to_string();
        assert!(text.starts_with("not enough memory for the vertices: 8796093022208 bytes"), "{text}");
    }
}
