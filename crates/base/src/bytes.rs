//! Owned memory whose element type is erased and can be recovered.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use bytemuck::Pod;

/// A vector of plain data as bytes. Turning a `Vec<T>` into it and back moves no data, so a nonblocking operation can
/// own a buffer of any element type.
pub struct Bytes {
    ptr: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: `Bytes` owns its memory alone, as the `Vec` that it came from did, and it holds plain data.
unsafe impl Send for Bytes {}
// SAFETY: a shared `Bytes` only reads.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `len` zero bytes that can become a `Vec` of any element aligned to at most `align`, a power of two.
    pub fn zeroed(len: usize, align: usize) -> Self {
        let layout = Layout::from_size_align(len, align).expect("a length that memory can have");
        Self::try_zeroed(len, align).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// The same, for a length that a peer has given: nothing if there is not enough memory.
    pub fn try_zeroed(len: usize, align: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len, align).ok()?;
        if len == 0 {
            return Some(Self { ptr: dangling(align), len, layout });
        }
        // SAFETY: the layout's size is not zero.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { ptr, len, layout })
    }

    /// A copy of these bytes that can become a `Vec` of any element aligned to at most `align`, a power of two.
    pub fn copy_of(bytes: &[u8], align: usize) -> Self {
        let len = bytes.len();
        let layout = Layout::from_size_align(len, align).expect("a length that memory can have");
        if len == 0 {
            return Self { ptr: dangling(align), len, layout };
        }
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { alloc(layout) };
        let ptr = NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: both are `len` bytes long, and the new memory is nobody else's.
        unsafe { ptr.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
        Self { ptr, len, layout }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `ptr` points to `len` initialized bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Truncates to the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The bytes as elements, or the bytes unchanged if they are not a whole number of elements.
    pub fn into_vec<T: Pod>(self) -> Result<Vec<T>, Self> {
        let size = size_of::<T>();
        if size == 0 || !self.len.is_multiple_of(size) {
            return if self.len == 0 { Ok(Vec::new()) } else { Err(self) };
        }
        let count = self.len / size;
        if self.layout.align() != align_of::<T>() || !self.layout.size().is_multiple_of(size) {
            let mut copy = vec![T::zeroed(); count];
            bytemuck::cast_slice_mut(&mut copy).copy_from_slice(self.as_slice());
            return Ok(copy);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the memory was allocated by the global allocator with `T`'s alignment and a whole number of `T`
        // (or is dangling with capacity 0), the first `count` are initialized, and any bytes are a valid `T: Pod`.
        Ok(unsafe { Vec::from_raw_parts(this.ptr.as_ptr().cast::<T>(), count, this.layout.size() / size) })
    }
}

impl<T: Pod> From<Vec<T>> for Bytes {
    fn from(vec: Vec<T>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        let size = size_of::<T>() * if size_of::<T>() == 0 { 0 } else { vec.capacity() };
        let layout = Layout::from_size_align(size, align_of::<T>()).expect("the layout of a vector that exists");
        let ptr = NonNull::new(vec.as_mut_ptr().cast::<u8>()).expect("vectors are never null");
        Self { ptr, len: size_of::<T>() * vec.len(), layout }
    }
}

impl Drop for Bytes {
    #[inline]
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: the memory was allocated by the global allocator with this layout and is freed once, here.
            unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
        }
    }
}

fn dangling(align: usize) -> NonNull<u8> {
    NonNull::without_provenance(std::num::NonZero::new(align).expect("an alignment is not zero"))
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_without_moving() {
        let mut v: Vec<u64> = Vec::with_capacity(7);
        v.extend([1, 2, 3]);
        let at = v.as_ptr();
        let bytes = Bytes::from(v);
        assert_eq!(bytes.as_slice().len(), 24);
        let v = bytes.into_vec::<u64>().unwrap();
        assert_eq!((v.as_ptr(), v.as_slice(), v.capacity()), (at, &[1, 2, 3][..], 7));
    }

    #[test]
    fn other_element_types_are_copied_or_refused() {
        assert_eq!(Bytes::from(vec![1u16, 2]).into_vec::<u8>().unwrap().len(), 4);
        assert_eq!(Bytes::from(vec![1u8; 6]).into_vec::<u16>().unwrap(), vec![0x0101; 3]);
        assert!(Bytes::from(vec![1u8; 7]).into_vec::<u16>().is_err());
    }

    #[test]
    fn empty_and_zero_sized() {
        assert_eq!(Bytes::zeroed(0, 8).into_vec::<u64>().unwrap(), Vec::<u64>::new());
        assert_eq!(Bytes::from(Vec::<u32>::new()).into_vec::<u32>().unwrap(), Vec::<u32>::new());
        assert_eq!(Bytes::from(vec![(); 9]).as_slice(), b"");
        let mut b = Bytes::zeroed(16, 8);
        b.as_mut_slice()[8] = 7;
        b.truncate(8);
        assert_eq!(b.into_vec::<u64>().unwrap(), vec![0]);
    }
}
