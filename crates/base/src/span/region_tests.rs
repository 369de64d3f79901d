//! What parts and slices of a region may exist at once, and what not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::lending;

fn region() -> Region {
    Region::from(Bytes::from(vec![1u8, 2, 3, 4, 5, 6, 7, 8]))
}

/// That it panics and says this.
#[track_caller]
fn refused(why: &str, what: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(what)).expect_err("it was not refused");
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    assert!(said.contains(why), "{said:?} instead of {why:?}");
}

#[test]
fn parts_of_a_region_are_read_written_and_returned() {
    let region = region();
    let mut part = region.part_mut(1..3);
    part.as_mut_slice()[0] = 9;
    drop(part);
    assert_eq!(region.read(0..4, <[u8]>::to_vec), [1, 9, 3, 4]);
    region.copy(2..4, &region.share(), 0..2);
    region.write_by(0..2, &region.share(), 2..4, |into, from| into[0] += from[1]);
    assert!(region.is_alone());
    assert_eq!(region.into_bytes().unwrap().into_vec::<u8>().unwrap(), [10, 9, 1, 9, 5, 6, 7, 8]);
}

#[test]
fn parts_for_reading_overlap_and_parts_for_writing_lie_beside_them() {
    let region = region();
    let all = [region.part(0..4), region.part(0..4), region.part(2..3), region.part_mut(4..6), region.part_mut(6..8)];
    assert_eq!(all[0].as_slice(), [1, 2, 3, 4]);
    assert_eq!(region.read(0..4, <[u8]>::len), 4);
    region.sub(4..8).share().part_mut(1..1);
    assert!(!region.is_alone());
    drop(all);
    assert!(region.is_alone());
    region.part_mut(0..8);
}

#[test]
fn a_part_for_writing_overlaps_no_other() {
    let region = region();
    let held = region.part_mut(2..4);
    for range in [0..3, 3..8, 2..4, 0..8, 3..4] {
        refused("one that is in use", || drop(region.part_mut(range.clone())));
        refused("one that is written", || drop(region.part(range.clone())));
        refused("one that is in use", || drop(region.sub(1..8).part_mut(1..2)));
    }
    drop(held);
    let held = region.part(2..4);
    refused("one that is in use", || drop(region.part_mut(3..5)));
    drop((held, region.part_mut(4..5)));
    drop(region.part_mut(0..8));
}

#[test]
fn what_is_in_parts_is_not_touched() {
    let region = region();
    let other = Region::from(Bytes::zeroed(8, 1));
    let writing = region.part_mut(2..4);
    refused("where an operation writes", || region.read(0..3, |_| ()));
    refused("where an operation writes", || other.copy(0..1, &region, 3..4));
    refused("where an operation writes", || other.write_by(0..1, &region, 3..4, |_, _| ()));
    refused("where an operation writes", || region.write_by(4..5, &region.share(), 3..4, |_, _| ()));
    refused("where an operation uses it", || region.write(0..3, |_| ()));
    drop(writing);
    let reading = region.part(2..4);
    region.read(0..8, |_| ());
    refused("where an operation uses it", || region.write(3..8, |_| ()));
    refused("where an operation uses it", || region.copy(3..4, &other, 0..1));
    refused("where an operation uses it", || region.write_by(3..4, &other, 0..1, |_, _| ()));
    refused("where an operation uses it", || region.write_by(3..4, &region.share(), 0..1, |_, _| ()));
    region.write(4..8, |_| ());
    drop(reading);
    region.write(0..8, |_| ());
}

#[test]
fn no_part_is_made_while_a_slice_exists() {
    let region = region();
    let made = "made while a slice of it exists";
    refused(made, || region.read(0..1, |_| drop(region.part_mut(0..1))));
    refused(made, || region.read(0..1, |_| drop(region.part(5..6))));
    refused(made, || region.write(0..1, |_| drop(region.part(0..1))));
    refused(made, || region.write_by(0..1, &region.share(), 1..2, |_, _| drop(region.part(0..1))));
    refused("used while a slice", || region.read(0..1, |_| region.write(0..1, |_| ())));
    // All is as before after each of them.
    drop(region.part_mut(0..8));
}

/// What is in the parts of others may be used while a slice exists.
#[test]
fn parts_beside_a_slice_are_used() {
    let region = region();
    let (mut writing, reading) = (region.part_mut(2..4), region.part(0..2));
    region.read(0..2, |slice| {
        writing.as_mut_slice().copy_from_slice(slice);
        assert_eq!(reading.as_slice(), slice);
    });
    region.write(4..6, |slice| slice.copy_from_slice(writing.as_slice()));
    drop((writing, reading));
    assert_eq!(region.read(0..8, <[u8]>::to_vec), [1, 2, 1, 2, 1, 2, 7, 8]);
}

#[test]
fn a_narrowed_part_leaves_the_rest() {
    let region = region();
    for len in [8, 3, 0] {
        let part = region.part_mut(0..8).narrowed(len);
        assert_eq!(part.len(), len);
        region.write(len..8, |_| ());
        if len > 0 {
            refused("where an operation writes", || region.read(len - 1..8, |_| ()));
        }
        // A second time, and longer than it is.
        drop(part.narrowed(2).narrowed(5));
        drop(region.part_mut(0..8));
    }
}

#[test]
fn a_part_for_reading_is_not_written() {
    let region = region();
    let mut part = region.part(0..4);
    assert!(!part.is_writable() && region.part_mut(4..8).is_writable());
    refused("lent for reading", || part.as_mut_slice()[0] = 1);
}

#[test]
#[should_panic(expected = "overlap")]
fn a_part_is_not_changed_by_itself() {
    let region = region();
    region.write_by(0..3, &region.share(), 2..4, |_, _| ());
}

#[test]
fn a_region_lent_for_reading_is_not_written() {
    refused("lent for reading", || lending(|lending, _| lending.region(b"abc").write(0..1, |_| ()), |_| {}));
    refused("lent for reading", || lending(|lending, _| drop(lending.region(b"abc").part_mut(0..1)), |_| {}));
}

#[test]
fn a_lending_waits_for_its_regions() {
    let mut memory = [1u8; 4];
    let kept = std::cell::RefCell::new(Vec::new());
    lending(
        |lending, _| kept.borrow_mut().push(lending.region_mut(&mut memory).part_mut(1..2)),
        |_| kept.borrow_mut().clear(),
    );
    assert_eq!(memory, [1; 4]);
}
