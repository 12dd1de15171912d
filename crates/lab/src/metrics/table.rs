//! The rows of flows as columns.

use flowloom_core::{Duration, Network, NodeId, Time};

use super::Row;

/// The values of one column. The variants are the types of `flows.parquet`.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    /// Small whole numbers.
    U16(Vec<u16>),
    /// Whole numbers.
    U32(Vec<u32>),
    /// Large whole numbers.
    U64(Vec<u64>),
    /// Whole numbers; -1 stands for none.
    I64(Vec<i64>),
    /// Numbers; NaN stands for none.
    F64(Vec<f64>),
    /// One of a few words; an empty text stands for none.
    Word(Vec<&'static str>),
}

/// The columns of `flows.parquet` by name, in order. Instants and spans are in seconds. In a run of an hour, a double holds an instant
/// to less than a picosecond. Flows are between the NICs of a network, of which there are columns if hosts have several.
pub fn columns(rows: &[Row], network: &Network) -> Vec<(&'static str, Column)> {
    fn column<T>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
    let host = |nic: NodeId| network.host_of(nic).0;
    let mut columns = vec![
        ("id", Column::U32(column(rows, |row| row.flow.id.0))),
        ("src", Column::U32(column(rows, |row| host(row.flow.src)))),
        ("dst", Column::U32(column(rows, |row| host(row.flow.dst)))),
        ("bytes", Column::U64(column(rows, |row| row.flow.size.get()))),
        ("start", Column::F64(column(rows, |row| row.flow.start.as_secs_f64()))),
        ("finish", Column::F64(column(rows, |row| seconds(row.finish)))),
        ("optimum", Column::F64(column(rows, |row| Duration::as_secs_f64(row.optimum)))),
        ("slowdown", Column::F64(column(rows, |row| row.slowdown().unwrap_or(f64::NAN)))),
        ("deadline", Column::F64(column(rows, |row| seconds(row.flow.deadline)))),
        ("tenant", Column::U16(column(rows, |row| row.flow.tenant))),
        ("coflow", Column::I64(column(rows, |row| row.flow.coflow.map_or(-1, |coflow| coflow.number.into())))),
        ("retransmissions", Column::U32(column(rows, |row| row.retransmissions))),
        ("timeouts", Column::U32(column(rows, |row| row.timeouts))),
        ("aborted", Column::Word(column(rows, |row| row.aborted.map_or("", |abort| abort.reason.name())))),
    ];
    if network.has_several_nics() {
        let mut numbers = vec![0; network.nics()];
        for nics in network.nics_by_host() {
            nics.iter().zip(1..).for_each(|(nic, number)| numbers[nic.index()] = number);
        }
        columns.push(("src_nic", Column::U16(column(rows, |row| numbers[row.flow.src.index()]))));
        columns.push(("dst_nic", Column::U16(column(rows, |row| numbers[row.flow.dst.index()]))));
    }
    columns
}
