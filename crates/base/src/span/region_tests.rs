//! Which spans and slices of a region may exist at once, and which not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::borrow_scope;

fn region() -> Region {
    Region::from(Bytes::from(vec![1u8, 2, 3, 4, 5, 6, 7, 8]))
}

/// Asserts that `what` panics with this message.
#[track_caller]
fn assert_panics(why: &str, what: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(what)).expect_err("it was not refused");
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    assert!(said.contains(why), "{said:?} instead of {why:?}");
}

#[test]
fn parts_of_a_region_are_read_written_and_returned() {
    let region = region();
    let mut part = region.span_mut(1..3);
    part.as_mut_slice()[0] = 9;
    drop(part);
    assert_eq!(region.read(0..4, <[u8]>::to_vec), [1, 9, 3, 4]);
    region.copy(2..4, &region.share(), 0..2);
    region.write_from(0..2, &region.share(), 2..4, |into, from| into[0] += from[1]);
    assert!(region.is_unique());
    assert_eq!(region.into_bytes().unwrap().into_vec::<u8>().unwrap(), [10, 9, 1, 9, 5, 6, 7, 8]);
}

#[test]
fn parts_for_reading_overlap_and_parts_for_writing_lie_beside_them() {
    let region = region();
    let all = [region.span(0..4), region.span(0..4), region.span(2..3), region.span_mut(4..6), region.span_mut(6..8)];
    assert_eq!(all[0].as_slice(), [1, 2, 3, 4]);
    assert_eq!(region.read(0..4, <[u8]>::len), 4);
    region.subregion(4..8).share().span_mut(1..1);
    assert!(!region.is_unique());
    drop(all);
    assert!(region.is_unique());
    region.span_mut(0..8);
}

#[test]
fn a_part_for_writing_overlaps_no_other() {
    let region = region();
    let held = region.span_mut(2..4);
    for range in [0..3, 3..8, 2..4, 0..8, 3..4] {
        assert_panics("one that is in use", || drop(region.span_mut(range.clone())));
        assert_panics("one that is written", || drop(region.span(range.clone())));
        assert_panics("one that is in use", || drop(region.subregion(1..8).span_mut(1..2)));
    }
    drop(held);
    let held = region.span(2..4);
    assert_panics("one that is in use", || drop(region.span_mut(3..5)));
    drop((held, region.span_mut(4..5)));
    drop(region.span_mut(0..8));
}

#[test]
fn what_is_in_parts_is_not_touched() {
    let region = region();
    let other = Region::from(Bytes::zeroed(8, 1));
    let writing = region.span_mut(2..4);
    assert_panics("where an operation writes", || region.read(0..3, |_| ()));
    assert_panics("where an operation writes", || other.copy(0..1, &region, 3..4));
    assert_panics("where an operation writes", || other.write_from(0..1, &region, 3..4, |_, _| ()));
    assert_panics("where an operation writes", || region.write_from(4..5, &region.share(), 3..4, |_, _| ()));
    assert_panics("where an operation uses it", || region.write(0..3, |_| ()));
    drop(writing);
    let reading = region.span(2..4);
    region.read(0..8, |_| ());
    assert_panics("where an operation uses it", || region.write(3..8, |_| ()));
    assert_panics("where an operation uses it", || region.copy(3..4, &other, 0..1));
    assert_panics("where an operation uses it", || region.write_from(3..4, &other, 0..1, |_, _| ()));
    assert_panics("where an operation uses it", || region.write_from(3..4, &region.share(), 0..1, |_, _| ()));
    region.write(4..8, |_| ());
    drop(reading);
    region.write(0..8, |_| ());
}

#[test]
fn no_part_is_made_while_a_slice_exists() {
    let region = region();
    let created = "created while a slice of it exists";
    assert_panics(created, || region.read(0..1, |_| drop(region.span_mut(0..1))));
    assert_panics(created, || region.read(0..1, |_| drop(region.span(5..6))));
    assert_panics(created, || region.write(0..1, |_| drop(region.span(0..1))));
    assert_panics(created, || region.write_from(0..1, &region.share(), 1..2, |_, _| drop(region.span(0..1))));
    assert_panics("used while a slice", || region.read(0..1, |_| region.write(0..1, |_| ())));
    // Each panic leaves the region unchanged.
    drop(region.span_mut(0..8));
}

/// Spans may be used while a slice of other bytes exists.
#[test]
fn parts_beside_a_slice_are_used() {
    let region = region();
    let (mut writing, reading) = (region.span_mut(2..4), region.span(0..2));
    region.read(0..2, |slice| {
        writing.as_mut_slice().copy_from_slice(slice);
        assert_eq!(reading.as_slice(), slice);
    });
    region.write(4..6, |slice| slice.copy_from_slice(writing.as_slice()));
    drop((writing, reading));
    assert_eq!(region.read(0..8, <[u8]>::to_vec), [1, 2, 1, 2, 1, 2, 7, 8]);
}

#[test]
fn a_truncated_span_leaves_the_rest() {
    let region = region();
    for len in [8, 3, 0] {
        let part = region.span_mut(0..8).truncated(len);
        assert_eq!(part.len(), len);
        region.write(len..8, |_| ());
        if len > 0 {
            assert_panics("where an operation writes", || region.read(len - 1..8, |_| ()));
        }
        // A second time, and longer than it is.
        drop(part.truncated(2).truncated(5));
        drop(region.span_mut(0..8));
    }
}

#[test]
fn a_part_for_reading_is_not_written() {
    let region = region();
    let mut part = region.span(0..4);
    assert!(!part.is_writable() && region.span_mut(4..8).is_writable());
    assert_panics("lent for reading", || part.as_mut_slice()[0] = 1);
}

#[test]
#[should_panic(expected = "overlap")]
fn a_part_is_not_changed_by_itself() {
    let region = region();
    region.write_from(0..3, &region.share(), 2..4, |_, _| ());
}

#[test]
fn a_region_lent_for_reading_is_not_written() {
    assert_panics("lent for reading", || borrow_scope(|scope, _| scope.region(b"abc").write(0..1, |_| ()), |_| {}));
    assert_panics("lent for reading", || borrow_scope(|scope, _| drop(scope.region(b"abc").span_mut(0..1)), |_| {}));
}

#[test]
fn a_borrow_scope_waits_for_its_regions() {
    let mut memory = [1u8; 4];
    let spans = std::cell::RefCell::new(Vec::new());
    borrow_scope(
        |scope, _| spans.borrow_mut().push(scope.region_mut(&mut memory).span_mut(1..2)),
        |_| spans.borrow_mut().clear(),
    );
    assert_eq!(memory, [1; 4]);
}
