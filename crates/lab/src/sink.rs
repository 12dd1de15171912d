//! What a run records over its course, as tables and files, and where they go.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Samples of one kind: columns of one length. It is a part of a file in `series`, whose further parts have the same columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The name of the file.
    pub name: &'static str,
    /// Each column's name and values.
    pub columns: Vec<(&'static str, Samples)>,
}

/// The values of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Samples {
    /// Numbers; NaN where nothing is known.
    Numbers(Vec<f64>),
    /// Counts.
    Counts(Vec<u64>),
    /// The numbers of flows.
    Ids(Vec<u32>),
    /// Names, as indices into a list.
    Names(Vec<u32>, Arc<[String]>),
}

impl Samples {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Samples::Numbers(values) => values.len(),
            Samples::Counts(values) => values.len(),
            Samples::Ids(values) | Samples::Names(values, _) => values.len(),
        }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The values as numbers; names are their indices.
    pub fn to_numbers(&self) -> Vec<f64> {
        match self {
            Samples::Numbers(values) => values.clone(),
            Samples::Counts(values) => values.iter().map(|value| *value as f64).collect(),
            Samples::Ids(values) | Samples::Names(values, _) => values.iter().map(|value| f64::from(*value)).collect(),
        }
    }
    fn append(&mut self, more: Samples) {
        match (self, more) {
            (Samples::Numbers(values), Samples::Numbers(more)) => values.extend(more),
            (Samples::Counts(values), Samples::Counts(more)) => values.extend(more),
            (Samples::Ids(values), Samples::Ids(more)) | (Samples::Names(values, _), Samples::Names(more, _)) => {
                values.extend(more);
            }
            _ => unreachable!("the parts of a table have the same columns"),
        }
    }
}

impl Table {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, samples)| samples.len())
    }
    /// The column of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn column(&self, name: &str) -> &Samples {
        let found = self.columns.iter().find(|(other, _)| *other == name);
        &found.unwrap_or_else(|| panic!("{} has no column {name}", self.name)).1
    }
}

/// A part of a file: its name, and the bytes that come next.
pub type FilePart = (&'static str, Vec<u8>);

/// Where samples go. A run gives tables away when they have reached some thousand rows, so that its memory is bounded.
pub trait Sink {
    /// Takes a part of the table of this name; the parts come in the order of time.
    ///
    /// # Errors
    /// If it cannot be kept: the sentence that the run ends with.
    fn take(&mut self, part: Table) -> Result<(), String>;
    /// Takes the next part of the file of this name, which is in the folder `trace`.
    ///
    /// # Errors
    /// If it cannot be kept: the sentence that the run ends with.
    fn write(&mut self, file: &'static str, bytes: Vec<u8>) -> Result<(), String>;
}

/// Drops everything.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: Table) -> Result<(), String> {
        Ok(())
    }
    fn write(&mut self, _: &'static str, _: Vec<u8>) -> Result<(), String> {
        Ok(())
    }
}

/// Keeps all tables and files in memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InMemory {
    /// Each table once.
    pub tables: Vec<Table>,
    /// Each file by its name.
    pub files: BTreeMap<&'static str, Vec<u8>>,
}

impl Sink for InMemory {
    fn take(&mut self, part: Table) -> Result<(), String> {
        match self.tables.iter_mut().find(|table| table.name == part.name) {
            None => self.tables.push(part),
            Some(table) => {
                let columns = table.columns.iter_mut().zip(part.columns);
                columns.for_each(|((_, samples), (_, more))| samples.append(more));
            }
        }
        Ok(())
    }
    fn write(&mut self, file: &'static str, bytes: Vec<u8>) -> Result<(), String> {
        self.files.entry(file).or_default().extend(bytes);
        Ok(())
    }
}
