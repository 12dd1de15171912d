//! How much memory a run needs for its flows, how much there is, and how much a run took.
//!
//! The kernel kills a process that uses more memory than there is, and an allocation beyond a limit of the process aborts it. Either takes a
//! notebook's kernel along. So the need is compared with what is available before the flows are made.

use flowloom_core::Flow;
use flowloom_fabric::FlowRecord;
use rustix::process::{Resource, getrlimit};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::ScenarioError;
use crate::row::Row;

/// What a run holds for each flow at its end, whatever the transport: the flow, its record, and its row.
pub(crate) const BYTES_PER_FLOW: u64 = (size_of::<Flow>() + size_of::<FlowRecord>() + size_of::<Row>()) as u64;
/// Fewer flows than these need no check: they fit into any memory in which the program itself runs.
const FEW_FLOWS: u64 = 1_000_000;

/// Checks that there is memory for so many flows, of which this many have been made.
///
/// # Errors
/// With the number of flows, what they need, and what is available.
pub(crate) fn check(flows: u64, made: usize) -> Result<(), ScenarioError> {
    if flows < FEW_FLOWS {
        return Ok(());
    }
    within(flows, available().saturating_add((made * size_of::<Flow>()) as u64))
}

fn within(flows: u64, available: u64) -> Result<(), ScenarioError> {
    let need = flows.saturating_mul(BYTES_PER_FLOW);
    if need <= available {
        return Ok(());
    }
    let message = format!("{} flows need at least {}, and {} are available", grouped(flows), size(need), size(available));
    Err(ScenarioError::at_key("workload", format!("{message}; take fewer flows")))
}

/// A vector with room for so many elements.
///
/// # Errors
/// If the system refuses the memory.
pub(crate) fn room_for<T>(flows: u64) -> Result<Vec<T>, ScenarioError> {
    let mut room = Vec::new();
    let reserved = usize::try_from(flows).is_ok_and(|flows| room.try_reserve_exact(flows).is_ok());
    if reserved { Ok(room) } else { within(flows, 0).map(|()| room) }
}

/// The bytes that this process can still take: the memory that is free or can be freed, within the limits of its control group and of its
/// address space. The number may be wrong soon, since other processes take memory, too.
fn available() -> u64 {
    let mut system = System::new();
    system.refresh_memory();
    let machine = system.available_memory().saturating_add(system.free_swap());
    // What the group has in memory includes files, which the kernel drops when it needs the room.
    let group = system.cgroup_limits().map_or(u64::MAX, |group| group.total_memory.saturating_sub(group.rss));
    let address_space = getrlimit(Resource::As).current.map_or(u64::MAX, |limit| {
        let pid = Pid::from_u32(std::process::id());
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            false,
            ProcessRefreshKind::nothing().with_memory().without_tasks(),
        );
        limit.saturating_sub(system.process(pid).map_or(0, sysinfo::Process::virtual_memory))
    });
    machine.min(group).min(address_space)
}

/// The largest memory that this process has held, if the system reports it.
pub(crate) fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// As `100,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

fn size(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_told_beside_what_is_available() {
        let flows = 100_000_000;
        assert!(within(flows, flows * BYTES_PER_FLOW).is_ok());
        let error = within(flows, 8_000_000_000).unwrap_err().to_string();
        let need = BYTES_PER_FLOW as f64 / 10.0;
        let expected = format!("100,000,000 flows need at least {need:.1} GB, and 8.0 GB are available; take fewer flows");
        assert!(error.contains(&expected), "{error}");
        assert!(within(u64::MAX, u64::MAX - 1).is_err(), "no overflow");
    }

    #[test]
    fn some_memory_is_available() {
        let available = available();
        assert!((1 << 20..1 << 50).contains(&available), "{available}");
        assert!(check(u64::MAX, 0).is_err());
        assert!(room_for::<[u8; 1 << 40]>(1 << 20).is_err(), "2^60 bytes");
    }
}
