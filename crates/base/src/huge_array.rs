//! Owned memory for large arrays with random access.
//!
//! With pages of 4 KiB nearly every access to an array of many megabytes also misses the TLB. With pages of 2 MiB it
//! does not, so a [`HugeArray`] asks the kernel for those. It has to ask before a page is touched, which is why the
//! memory does not come from the allocator: that zeroes aligned memory by writing it.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use bytemuck::Pod;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page on x86_64, and on aarch64 with pages of 4 KiB. Elsewhere the kernel does what it can.
const HUGE_PAGE: usize = 2 << 20;

/// A slice of plain data that owns its memory, in huge pages if the kernel provides them.
///
/// Memory from 2 MiB on is rounded up to whole huge pages, and only touched pages are allocated. Smaller arrays come
/// from the allocator, however they are constructed.
pub struct HugeArray<T: Pod> {
    first: NonNull<T>,
    len: usize,
    /// The mapping of the elements, unless they are a boxed slice.
    mapping: Option<Mapping>,
}

// SAFETY: a `HugeArray` owns its memory alone, as a `Box<[T]>` does.
unsafe impl<T: Pod + Send> Send for HugeArray<T> {}
// SAFETY: a shared `HugeArray` only reads.
unsafe impl<T: Pod + Sync> Sync for HugeArray<T> {}

impl<T: Pod> HugeArray<T> {
    /// `len` zeroed elements, in huge pages if there are any. Panics if there is not enough memory.
    pub fn zeroed(len: usize) -> Self {
        Self::with_advice(len, Advice::LinuxHugepage)
    }

    /// `len` zeroed elements, in pages of the usual size, to measure the effect of huge ones. Panics if there is not
    /// enough memory.
    pub fn zeroed_base_pages(len: usize) -> Self {
        Self::with_advice(len, Advice::LinuxNoHugepage)
    }

    /// `len` elements, each made from its index, in huge pages if there are any. Panics if there is not enough memory.
    pub fn from_fn(len: usize, mut f: impl FnMut(usize) -> T) -> Self {
        let mut array = Self::zeroed(len);
        for (index, element) in array.iter_mut().enumerate() {
            *element = f(index);
        }
        array
    }

    /// `len` zeroed elements, in huge pages or in those of the usual size, if there is enough address space for them.
    pub fn try_zeroed(len: usize, huge_pages: bool) -> Option<Self> {
        Self::try_with_advice(len, if huge_pages { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage }).ok()
    }

    fn with_advice(len: usize, pages: Advice) -> Self {
        Self::try_with_advice(len, pages).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_with_advice(len: usize, pages: Advice) -> Result<Self, String> {
        const { assert!(align_of::<T>() <= HUGE_PAGE, "elements are aligned to 2 MiB at most") };
        let Ok(layout) = Layout::array::<T>(len) else {
            let element = size_of::<T>();
            return Err(format!("an array of {len} elements of {element} bytes is larger than the address space"));
        };
        if layout.size() < HUGE_PAGE {
            let elements = Box::leak(vec![T::zeroed(); len].into_boxed_slice());
            return Ok(Self { first: NonNull::from(elements).cast(), len, mapping: None });
        }
        let bytes = layout.size();
        let mapping = Mapping::new(bytes, pages);
        let mapping = mapping.map_err(|error| format!("no memory for an array of {bytes} bytes: {error}"))?;
        Ok(Self { first: mapping.aligned().cast(), len, mapping: Some(mapping) })
    }
}

impl<T: Pod> Deref for HugeArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` is aligned and begins `len` elements that live as long as `self`; they were written, or are
        // zero bytes of a new mapping, and any bytes are a valid `T: Pod`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for HugeArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T: Pod> Drop for HugeArray<T> {
    fn drop(&mut self) {
        if self.mapping.is_none() {
            let elements = NonNull::slice_from_raw_parts(self.first, self.len);
            // SAFETY: without a mapping the elements are a boxed slice of this length, which is freed once, here.
            drop(unsafe { Box::from_raw(elements.as_ptr()) });
        }
    }
}

impl<T: Pod> std::fmt::Debug for HugeArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HugeArray({})", self.len)
    }
}

/// A private anonymous mapping, larger than requested so that it contains an aligned huge page.
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

impl Mapping {
    /// `bytes` is at least 1 and at most `isize::MAX`.
    fn new(bytes: usize, pages: Advice) -> rustix::io::Result<Self> {
        let used = bytes.next_multiple_of(HUGE_PAGE);
        let len = used + HUGE_PAGE;
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let start = start?;
        let mapping = Self { start: NonNull::new(start).expect("the kernel maps nothing at 0 unasked"), len };
        // A kernel without huge pages refuses; the array then has ordinary pages.
        // SAFETY: the range lies in the new mapping, and this advice does not change the contents of memory.
        let _ = unsafe { madvise(mapping.aligned().as_ptr(), used, pages) };
        Ok(mapping)
    }

    /// The first address in it where a huge page can begin; less than `HUGE_PAGE` bytes precede it.
    fn aligned(&self) -> NonNull<c_void> {
        let skipped = self.start.addr().get().next_multiple_of(HUGE_PAGE) - self.start.addr().get();
        // SAFETY: less than `HUGE_PAGE` bytes are skipped, and the mapping is longer.
        unsafe { self.start.byte_add(skipped) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and its only owner, the `HugeArray`, ends here.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok(), "an existing mapping can be unmapped: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    #[test]
    fn all_sizes_are_zero_and_can_be_written() {
        let words = HUGE_PAGE / 8;
        for len in [0, 1, 7, words - 1, words, words + 1, 2 * words, 2 * words + 513] {
            for mut array in [HugeArray::<u64>::zeroed(len), HugeArray::zeroed_base_pages(len)] {
                assert_eq!((array.len(), array.iter().max()), (len, (len > 0).then_some(&0)));
                array.fill(u64::MAX);
                assert!(array.iter().all(|word| *word == u64::MAX));
                assert_eq!(array.mapping.is_some(), len >= words);
                assert!(len < words || array.as_ptr().addr().is_multiple_of(HUGE_PAGE));
            }
        }
    }

    #[test]
    fn elements_are_made_from_their_index() {
        for len in [3, HUGE_PAGE] {
            let array = HugeArray::from_fn(len, |index| [index as u8, 7, 9]);
            assert!(array.iter().enumerate().all(|(index, element)| *element == [index as u8, 7, 9]));
        }
    }

    #[test]
    fn elements_without_a_size() {
        assert_eq!(HugeArray::<[u64; 0]>::zeroed(usize::MAX).len(), usize::MAX);
        assert_eq!(format!("{:?}", HugeArray::<()>::zeroed_base_pages(5)), "HugeArray(5)");
    }

    #[test]
    fn too_long_is_one_clear_line() {
        let line = |make: fn() -> HugeArray<u64>| {
            let panic = std::panic::catch_unwind(make).expect_err("there is no such memory");
            panic.downcast_ref::<String>().expect("a formatted line").clone()
        };
        let at = line(|| HugeArray::zeroed(usize::MAX / 4));
        assert_eq!(at, format!("an array of {} elements of 8 bytes is larger than the address space", usize::MAX / 4));
        // No address space fits this, though a slice might be so long.
        let at = line(|| HugeArray::zeroed_base_pages(isize::MAX as usize / 8));
        assert!(at.starts_with(&format!("no memory for an array of {} bytes: ", isize::MAX as usize / 8 * 8)), "{at}");
    }

    #[test]
    fn memory_is_unmapped() {
        let mapped = || {
            let status = read_to_string("/proc/self/status").expect("Linux");
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("what is mapped");
            size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        let before = mapped();
        for _ in 0..400 {
            drop(HugeArray::<u8>::zeroed(256 << 20));
        }
        // Other tests run at the same time, but use far less.
        assert!(mapped() < before + (50 << 30), "400 arrays of 256 MiB are not all still mapped");
    }

    #[test]
    fn the_kernel_was_asked() {
        if !std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap_or(false) {
            eprintln!("SKIPPED: this kernel has no transparent huge pages");
            return;
        }
        assert!(flags_of(&HugeArray::<u8>::zeroed(HUGE_PAGE + 1)).contains(&"hg".to_string()));
        assert!(flags_of(&HugeArray::<u8>::zeroed_base_pages(HUGE_PAGE + 1)).contains(&"nh".to_string()));
    }

    /// The kernel's flags of the mapping that contains both the first and the last byte.
    fn flags_of(array: &HugeArray<u8>) -> Vec<String> {
        let (first, last) = (array.as_ptr().addr(), array.as_ptr().addr() + array.len() - 1);
        let smaps = read_to_string("/proc/self/smaps").expect("Linux");
        let mut lines = smaps.lines();
        let found = lines.find(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let Some((start, end)) = range else { return false };
            let address = |digits| usize::from_str_radix(digits, 16).unwrap_or(0);
            (address(start)..address(end)).contains(&first) && (address(start)..address(end)).contains(&last)
        });
        assert!(found.is_some(), "one mapping has all of the array");
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("each mapping has flags");
        flags.split_whitespace().map(str::to_string).collect()
    }
}
