//! The rows of the papers' numbers that the tests of this crate assert, by the file in which they are.
//!
//! | file | rows |
//! |---|---|
//! | `oracles_loggp.rs` | A01 to A24 |
//! | `oracles_applications.rs` | B01 to B08, B10 to B15, B17, B21, D31 to D39, G04 |
//! | `oracles_plogp.rs` | C06 to C09, C13 to C18, C20 to C22 |
//! | `oracles_measurement.rs` | C09 to C12, C24 |
//! | `oracles_pipelines.rs` | C19 |
//! | `oracles_congestion.rs` | E01 to E07, E09 to E33, E38, E40 |
//! | `oracles_figures.rs` | E37 |
//!
//! Of the measurements A19 to A23 only orderings are asserted, of C24 and D38 a part; the heads of the files say which.
//! A test compares this table with the ids in the names and messages of the tests, and prints how many rows there are.
//! An id in parentheses there is only referred to.

use std::collections::BTreeSet;

const FILES: [(&str, &str); 7] = [
    ("oracles_loggp.rs", include_str!("oracles_loggp.rs")),
    ("oracles_applications.rs", include_str!("oracles_applications.rs")),
    ("oracles_plogp.rs", include_str!("oracles_plogp.rs")),
    ("oracles_measurement.rs", include_str!("oracles_measurement.rs")),
    ("oracles_pipelines.rs", include_str!("oracles_pipelines.rs")),
    ("oracles_congestion.rs", include_str!("oracles_congestion.rs")),
    ("oracles_figures.rs", include_str!("oracles_figures.rs")),
];

/// All ids in a text, and those between two with `to` between them.
fn ids(text: &str, into: &mut BTreeSet<(char, u32)>) {
    let mut before: Option<(char, u32)> = None;
    let mut to = false;
    for word in text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '(') {
        let id = word.chars().next().filter(|letter| matches!(letter.to_ascii_uppercase(), 'A'..='E' | 'G'));
        let number = word.get(1..).filter(|digits| digits.len() == 2).and_then(|digits| digits.parse().ok());
        match (id, number) {
            (Some(letter), Some(number)) => {
                let letter = letter.to_ascii_uppercase();
                let first = before.filter(|before| to && before.0 == letter).map_or(number, |before| before.1);
                into.extend((first..=number).map(|number| (letter, number)));
                (before, to) = (Some((letter, number)), false);
            }
            _ => to = word == "to",
        }
    }
}

#[test]
fn the_list_is_complete() {
    let mut all = BTreeSet::new();
    for (file, source) in FILES {
        let row = include_str!("rows.rs").lines().find(|line| line.starts_with(&format!("//! | `{file}`"))).unwrap();
        let mut listed = BTreeSet::new();
        ids(row.split('|').nth(2).unwrap(), &mut listed);
        // In names of tests, and between quotation marks; comments only refer to rows.
        let mut asserted = BTreeSet::new();
        for line in source.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some(name) = line.strip_prefix("fn ") {
                ids(&name.replace('_', " "), &mut asserted);
            }
            line.split('"').skip(1).step_by(2).for_each(|text| ids(text, &mut asserted));
        }
        assert_eq!(listed, asserted, "rows of {file}");
        all.extend(listed);
    }
    println!("{} rows are asserted", all.len());
}
