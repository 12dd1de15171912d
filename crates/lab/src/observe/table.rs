//! Samples that have not been given away.

use std::sync::Arc;

use flowloom_core::{Duration, Time};

use crate::sink::{Samples, Table};

/// Rows that have not been given away. A file has columns even if it has no row, so the first part is given away without rows, too.
#[derive(Debug)]
pub(super) struct Rows<C> {
    pub columns: C,
    /// The names of what is sampled, which rows refer to by their indices.
    names: Arc<[String]>,
    begun: bool,
}

/// What every sample has: when it was taken, over which time, and what it is of.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    time: Vec<f64>,
    span: Vec<f64>,
    /// A flow's number, or an index into the names of the table.
    pub of: Vec<u32>,
}

impl Stamps {
    pub fn push(&mut self, at: Time, span: Duration, of: u32) {
        self.time.push(at.as_secs_f64());
        self.span.push(span.as_secs_f64());
        self.of.push(of);
    }

    /// The first three columns of a table, the third of which has this name.
    pub fn into_columns(self, name: &'static str, of: impl FnOnce(Vec<u32>) -> Samples) -> Vec<(&'static str, Samples)> {
        vec![("time", Samples::Numbers(self.time)), ("span", Samples::Numbers(self.span)), (name, of(self.of))]
    }
}

/// The columns of one kind of samples.
pub(super) trait Columns: Default {
    /// How many rows there are.
    fn rows(&self) -> usize;
    /// The rows as a table, with the names that they refer to.
    fn into_table(self, names: &Arc<[String]>) -> Table;
}

impl<C: Columns> Rows<C> {
    pub fn new(names: Arc<[String]>) -> Rows<C> {
        Rows { columns: C::default(), names, begun: false }
    }

    /// The rows, if there are at least `least` of them, or none were given away before.
    pub fn give_away(&mut self, least: usize) -> Option<Table> {
        let rows = self.columns.rows();
        if self.begun && (rows == 0 || rows < least) {
            return None;
        }
        self.begun = true;
        Some(std::mem::take(&mut self.columns).into_table(&self.names))
    }
}
