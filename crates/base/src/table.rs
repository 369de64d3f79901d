//! Owned memory for large tables that are read and written here and there.
//!
//! With pages of 4 KiB nearly every access to a table of many megabytes also misses the TLB. With pages of 2 MiB it does
//! not, so a [`Table`] asks the kernel for those. It has to ask before a page is touched, which is why the memory does
//! not come from the allocator: that zeroes aligned memory by writing it.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use bytemuck::Pod;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page on x86_64, and on aarch64 with pages of 4 KiB. Elsewhere the kernel does what it can.
const HUGE: usize = 2 << 20;

/// A slice of plain data that owns its memory, in huge pages if the kernel has them to give.
///
/// Memory from 2 MiB on is rounded up to whole huge pages, and only what is touched is taken. Less lies in ordinary
/// memory, whichever way it was made.
pub struct Table<T: Pod> {
    first: NonNull<T>,
    len: usize,
    /// What the elements lie in, unless they are a boxed slice.
    mapping: Option<Mapping>,
}

// SAFETY: a table owns its memory alone, as a `Box<[T]>` does.
unsafe impl<T: Pod + Send> Send for Table<T> {}
// SAFETY: a shared table only reads.
unsafe impl<T: Pod + Sync> Sync for Table<T> {}

impl<T: Pod> Table<T> {
    /// `len` elements of zero bytes, in huge pages if there are any. Panics if there is not so much memory.
    pub fn zeroed(len: usize) -> Self {
        Self::with(len, Advice::LinuxHugepage)
    }

    /// `len` elements of zero bytes, in pages of the usual size, to see what huge ones are good for. Panics if there is
    /// not so much memory.
    pub fn plain(len: usize) -> Self {
        Self::with(len, Advice::LinuxNoHugepage)
    }

    /// `len` elements, each made from its index, in huge pages if there are any. Panics if there is not so much memory.
    pub fn from_fn(len: usize, mut f: impl FnMut(usize) -> T) -> Self {
        let mut table = Self::zeroed(len);
        for (index, element) in table.iter_mut().enumerate() {
            *element = f(index);
        }
        table
    }

    fn with(len: usize, pages: Advice) -> Self {
        const { assert!(align_of::<T>() <= HUGE, "elements of a table are aligned to 2 MiB at most") };
        let Ok(layout) = Layout::array::<T>(len) else {
            panic!("a table of {len} elements of {} bytes is larger than memory can be", size_of::<T>());
        };
        if layout.size() < HUGE {
            let elements = Box::leak(vec![T::zeroed(); len].into_boxed_slice());
            return Self { first: NonNull::from(elements).cast(), len, mapping: None };
        }
        let mapping = Mapping::new(layout.size(), pages);
        Self { first: mapping.aligned().cast(), len, mapping: Some(mapping) }
    }
}

impl<T: Pod> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` is aligned and begins `len` elements that live as long as `self`; they were written, or are
        // zero bytes of a new mapping, and any bytes are a valid `T: Pod`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T: Pod> Drop for Table<T> {
    fn drop(&mut self) {
        if self.mapping.is_none() {
            let elements = NonNull::slice_from_raw_parts(self.first, self.len);
            // SAFETY: without a mapping the elements are a boxed slice of this length, which is given back once, here.
            drop(unsafe { Box::from_raw(elements.as_ptr()) });
        }
    }
}

impl<T: Pod> std::fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.len)
    }
}

/// Pages of this process alone, zero at first, somewhat more than was asked for so that a huge page can begin in it.
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

impl Mapping {
    /// `bytes` is at least 1 and at most `isize::MAX`.
    fn new(bytes: usize, pages: Advice) -> Self {
        let used = bytes.next_multiple_of(HUGE);
        let len = used + HUGE;
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let start = start.unwrap_or_else(|error| panic!("no memory for a table of {bytes} bytes: {error}"));
        let mapping = Self { start: NonNull::new(start).expect("the kernel maps nothing at 0 unasked"), len };
        // A kernel that has no huge pages refuses; the table is then as good as any other memory.
        // SAFETY: the range lies in the new mapping, and this advice does not change what is in memory.
        let _ = unsafe { madvise(mapping.aligned().as_ptr(), used, pages) };
        mapping
    }

    /// The first address in it where a huge page can begin; at most `HUGE` bytes of it are not behind that.
    fn aligned(&self) -> NonNull<c_void> {
        let skipped = self.start.addr().get().next_multiple_of(HUGE) - self.start.addr().get();
        // SAFETY: less than `HUGE` bytes are skipped, and the mapping is longer.
        unsafe { self.start.byte_add(skipped) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and the only one who has it, the table, ends here.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping that exists can be given back: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    #[test]
    fn all_sizes_are_zero_and_can_be_written() {
        let words = HUGE / 8;
        for len in [0, 1, 7, words - 1, words, words + 1, 2 * words, 2 * words + 513] {
            for mut table in [Table::<u64>::zeroed(len), Table::plain(len)] {
                assert_eq!((table.len(), table.iter().max()), (len, (len > 0).then_some(&0)));
                table.fill(u64::MAX);
                assert!(table.iter().all(|word| *word == u64::MAX));
                assert_eq!(table.mapping.is_some(), len >= words);
                assert!(len < words || table.as_ptr().addr().is_multiple_of(HUGE));
            }
        }
    }

    #[test]
    fn elements_are_made_from_their_index() {
        for len in [3, HUGE] {
            let table = Table::from_fn(len, |index| [index as u8, 7, 9]);
            assert!(table.iter().enumerate().all(|(index, element)| *element == [index as u8, 7, 9]));
        }
    }

    #[test]
    fn elements_without_a_size() {
        assert_eq!(Table::<[u64; 0]>::zeroed(usize::MAX).len(), usize::MAX);
        assert_eq!(format!("{:?}", Table::<()>::plain(5)), "Table(5)");
    }

    #[test]
    fn too_long_is_one_clear_line() {
        let line = |make: fn() -> Table<u64>| {
            let panic = std::panic::catch_unwind(make).expect_err("there is no such memory");
            panic.downcast_ref::<String>().expect("a formatted line").clone()
        };
        let at = line(|| Table::zeroed(usize::MAX / 4));
        assert_eq!(at, format!("a table of {} elements of 8 bytes is larger than memory can be", usize::MAX / 4));
        // No address space has room for this, though a slice might be so long.
        let at = line(|| Table::plain(isize::MAX as usize / 8));
        assert!(at.starts_with(&format!("no memory for a table of {} bytes: ", isize::MAX as usize / 8 * 8)), "{at}");
    }

    #[test]
    fn memory_is_given_back() {
        let mapped = || {
            let status = read_to_string("/proc/self/status").expect("Linux");
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("what is mapped");
            size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        let before = mapped();
        for _ in 0..400 {
            drop(Table::<u8>::zeroed(256 << 20));
        }
        // Other tests go on at the same time, but have far less.
        assert!(mapped() < before + (50 << 30), "400 tables of 256 MiB are not all there any more");
    }

    #[test]
    fn the_kernel_was_asked() {
        if !std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap_or(false) {
            eprintln!("SKIPPED: this kernel has no transparent huge pages");
            return;
        }
        assert!(flags_of(&Table::<u8>::zeroed(HUGE + 1)).contains(&"hg".to_string()));
        assert!(flags_of(&Table::<u8>::plain(HUGE + 1)).contains(&"nh".to_string()));
    }

    /// The kernel's flags of the mapping that both the first and the last byte lie in.
    fn flags_of(table: &Table<u8>) -> Vec<String> {
        let (first, last) = (table.as_ptr().addr(), table.as_ptr().addr() + table.len() - 1);
        let smaps = read_to_string("/proc/self/smaps").expect("Linux");
        let mut lines = smaps.lines();
        let found = lines.find(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let Some((start, end)) = range else { return false };
            let address = |digits| usize::from_str_radix(digits, 16).unwrap_or(0);
            (address(start)..address(end)).contains(&first) && (address(start)..address(end)).contains(&last)
        });
        assert!(found.is_some(), "one mapping has all of the table");
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("each mapping has flags");
        flags.split_whitespace().map(str::to_string).collect()
    }
}
