//! Freed memory that the allocator retains.

/// Returns freed memory to the system. To be called after a phase that needed much more than is still in use: it takes
/// milliseconds. Where the allocator cannot do that, it does nothing.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: a function of the C library that any thread may call at any time: it takes the locks that it needs,
        // and touches only free memory.
        unsafe { malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::trim_heap;

    #[test]
    fn live_memory_is_unchanged() {
        let live: Vec<Vec<u64>> = (0..1000).map(|length| vec![length; length as usize]).collect();
        drop((0..1000).map(|_| vec![1u8; 10_000]).collect::<Vec<_>>());
        trim_heap();
        assert!(
            (0..).zip(&live).all(|(length, of)| of.len() == length && of.iter().all(|each| *each == length as u64))
        );
    }
}
