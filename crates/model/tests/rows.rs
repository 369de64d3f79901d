//! The rows of the papers' numbers that the tests of `model` and `sim`, and of two files of other crates, assert, by file.
//!
//! | file | rows |
//! |---|---|
//! | `model/tests/oracles_loggp.rs` | A01 to A24 |
//! | `model/tests/oracles_applications.rs` | B01 to B15, B17, B21, B23, G04 |
//! | `model/tests/oracles_split.rs` | D32 to D39 |
//! | `model/tests/oracles_plogp.rs` | C06 to C09, C13 to C18, C20 to C22 |
//! | `model/tests/oracles_measurement.rs` | C09 to C12, C24 |
//! | `model/tests/oracles_pipelines.rs` | C19 |
//! | `model/tests/oracles_congestion.rs` | E01 to E07, E09 to E33, E38, E40 |
//! | `model/tests/oracles_figures.rs` | E37 |
//! | `sim/tests/oracles.rs` | A05, A07 to A10, C01 to C05, C07, E01 to E03, E05, E06, E09, E11, E12, E14 to E17, E21, E26 to E32, E36, E38, E40 |
//! | `sim/tests/oracles_blue_gene.rs` | E04, E05, E10, E18, E19, E22, E23 |
//! | `sim/tests/oracles_figures.rs` | E08, E24, E25, E34, E35, E37, E38 |
//! | `sim/tests/oracles_messages.rs` | A11 to A13, B13 to B15 |
//! | `sim/tests/oracles_wide_area.rs` | C20, C21, C23 |
//! | `sim/tests/memory.rs` | G03 |
//! | `graph/src/generate/balanced.rs` | A25 |
//! | `treepie/tests/programs/randomaccess.rs` | B13 to B15, B21, B22 |
//!
//! Some are asserted in part, and others not at all: `docs/models.md` has which, and why. Tests compare this table with
//! the ids in the names and messages of the tests, and the tables there with all rows that there are. An id in
//! parentheses, in a comment or in what is only printed refers to a row, and does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Rows = BTreeSet<(char, u32)>;

/// How many rows each of the tables of the papers' numbers has.
const ALL: [(char, u32); 6] = [('A', 27), ('B', 23), ('C', 24), ('D', 39), ('E', 42), ('G', 4)];

/// Minimum number of asserted rows.
const MIN_ASSERTED: usize = 110;

const DOCUMENT: &str = include_str!("../docs/models.md");

/// Collects all row ids in a text, and ranges written with `to`.
fn ids(text: &str, into: &mut Rows) {
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

/// Row ids in test names and string literals.
fn asserted(source: &str) -> Rows {
    let mut rows = Rows::new();
    let mut printing = false;
    for line in source.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        printing |= line.starts_with("println!");
        if let Some(name) = line.strip_prefix("fn ") {
            ids(&name.replace('_', " "), &mut rows);
        }
        if !printing {
            line.split('"').skip(1).step_by(2).for_each(|text| ids(text, &mut rows));
        }
        printing &= !line.ends_with(");");
    }
    rows
}

/// The rows in a column of a Markdown table, by its first column.
fn table<'a>(lines: impl Iterator<Item = &'a str>, column: usize) -> Vec<(&'a str, Rows)> {
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() > column).map(|cells| {
        let mut rows = Rows::new();
        ids(cells[column], &mut rows);
        (cells[1], rows)
    });
    rows.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// The rows by file, as listed above.
fn listed() -> BTreeMap<String, Rows> {
    let head = include_str!("rows.rs").lines().map_while(|line| line.strip_prefix("//!"));
    table(head, 2).into_iter().map(|(file, rows)| (file.trim_matches('`').to_owned(), rows)).collect()
}

fn union(all: impl IntoIterator<Item = Rows>) -> Rows {
    all.into_iter().flatten().collect()
}

/// The rows in the document's table below a line that begins with this text.
fn documented(begins: &str) -> Rows {
    let mut lines = DOCUMENT.lines().skip_while(|line| !line.starts_with(begins));
    assert!(lines.next().is_some(), "the document has no line that begins with {begins}");
    let lines = lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows = table(lines, 1);
    let all = union(rows.iter().map(|(_, rows)| rows.clone()));
    assert_eq!(all.len(), rows.iter().map(|(_, rows)| rows.len()).sum::<usize>(), "{begins}: none is there twice");
    all
}

#[test]
fn the_list_is_complete() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in a folder");
    let mut found = BTreeMap::new();
    for name in ["model", "sim"] {
        for file in std::fs::read_dir(crates.join(name).join("tests")).unwrap().map(|file| file.unwrap().path()) {
            let file_name = file.file_name().unwrap().to_str().unwrap();
            if file_name.ends_with(".rs") && file_name != "rows.rs" {
                let rows = asserted(&std::fs::read_to_string(&file).unwrap());
                found.insert(format!("{name}/tests/{file_name}"), rows);
            }
        }
    }
    for elsewhere in ["graph/src/generate/balanced.rs", "treepie/tests/programs/randomaccess.rs"] {
        found.insert(elsewhere.to_owned(), asserted(&std::fs::read_to_string(crates.join(elsewhere)).unwrap()));
    }
    found.retain(|_, rows| !rows.is_empty());
    let listed = listed();
    for file in listed.keys().chain(found.keys()) {
        assert_eq!(listed.get(file), found.get(file), "listed, and found in {file}");
    }
    let all = union(found.into_values());
    println!("{} rows are asserted", all.len());
    assert!(all.len() >= MIN_ASSERTED, "{} rows are asserted", all.len());
}

#[test]
fn the_document_has_the_others() {
    let asserted = union(listed().into_values());
    let all = union(ALL.map(|(letter, last)| (1..=last).map(|number| (letter, number)).collect()));
    assert!(asserted.is_subset(&all), "{:?}", asserted.difference(&all));
    let others: Rows = all.difference(&asserted).copied().collect();
    assert_eq!(documented("No test asserts"), others);
    let in_part = documented("Asserted in part");
    assert!(in_part.is_subset(&asserted), "{:?}", in_part.difference(&asserted));
}
