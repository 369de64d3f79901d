//! Prefetching of memory.

/// Prefetches the cache line at the address of `value`, to be read and then perhaps written, without waiting for it. It
/// does not read the value; without such an instruction it does nothing.
///
/// It prefetches into the L2 cache, not L1: L1 has about a dozen fill buffers, which random accesses keep full anyway,
/// and L2 has several times as many. Prefetched so, 64 accesses ahead, random updates are 1.2 to 1.4 times as fast as
/// 32 ahead and into L1; further ahead gains nothing more.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    let address = std::ptr::from_ref(value).cast::<i8>();
    #[cfg(target_arch = "x86_64")]
    // A line that no other core has is fetched such that it can also be written at once, which is the usual case: a
    // prefetch for writing would take lines away from their readers.
    // SAFETY: every x86_64 has the instruction, and it faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint: it faults at no address and changes neither registers, flags nor memory.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn any_address_may_be_prefetched() {
        let table = [1u64, 2, 3];
        prefetch(&table[1]);
        prefetch(&table[..]);
        prefetch("text");
        prefetch::<dyn std::fmt::Debug>(&table);
        // Empty values: addresses that are only aligned.
        prefetch::<[u64]>(&[]);
        prefetch(&Vec::<u128>::new()[..]);
        prefetch(&());
        assert_eq!(table, [1, 2, 3]);
    }
}
