//! Memory that was freed, and that the allocator keeps.

/// Gives memory that was freed, and is in no use, back to the system. To be called after something that has needed much more
/// than is kept of it: it takes milliseconds. Where the allocator cannot do that, it does nothing.
pub fn give_back_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: a function of the C library that any thread may call at any time: it takes the locks that it needs, and
        // touches only memory that nobody has.
        unsafe { malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::give_back_free_memory;

    #[test]
    fn what_is_kept_stays() {
        let kept: Vec<Vec<u64>> = (0..1000).map(|length| vec![length; length as usize]).collect();
        drop((0..1000).map(|_| vec![1u8; 10_000]).collect::<Vec<_>>());
        give_back_free_memory();
        assert!(
            (0..).zip(&kept).all(|(length, of)| of.len() == length && of.iter().all(|each| *each == length as u64))
        );
    }
}
