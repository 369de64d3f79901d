//! Asking for memory before it is needed.

/// Begins to bring the cache line where `place` begins close to this core, to be read and then perhaps written, and does
/// not wait for it. Says nothing about the value; where there is no such instruction it does nothing.
///
/// Close is the second cache, not the first: that has about a dozen places for lines on their way to it, which random accesses
/// keep full anyway, and the second has several times as many. Asked for so, 64 accesses ahead, random updates go 1.2 to 1.4
/// times as fast as 32 ahead and into the first; further ahead gains nothing more.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    let place = std::ptr::from_ref(place).cast::<i8>();
    #[cfg(target_arch = "x86_64")]
    // A line that no other core has is brought in such that it can also be written at once, which is the usual case: the
    // kind for writing would take lines away from those who only read them.
    // SAFETY: every x86_64 has the instruction, and it faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(place);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint: it faults at no address and changes neither registers, flags nor memory.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn any_place_may_be_asked_for() {
        let table = [1u64, 2, 3];
        prefetch(&table[1]);
        prefetch(&table[..]);
        prefetch("text");
        prefetch::<dyn std::fmt::Debug>(&table);
        // Where nothing lies: addresses that are only aligned.
        prefetch::<[u64]>(&[]);
        prefetch(&Vec::<u128>::new()[..]);
        prefetch(&());
        assert_eq!(table, [1, 2, 3]);
    }
}
