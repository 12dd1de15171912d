//! Programs in the kernel: how they are loaded, become filters of a device, and count.

use std::io::ErrorKind;

use aya::maps::{Array, Map, MapData, PerCpuArray};
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader, Pod};

use crate::device::{Device, Filter};
use crate::{Error, Result, failed};

const LOAD: &str = "load the program (it needs root, and a kernel of 5.13 or later with BTF)";

/// Loads compiled programs into the kernel.
///
/// # Errors
///
/// The kernel refuses, or the object lacks one of the programs.
pub fn load(mut loader: EbpfLoader<'_>, object: &[u8], names: &[&str]) -> Result<Ebpf> {
    let mut programs = loader.load(object).map_err(failed(LOAD))?;
    for name in names {
        load_program(program(&mut programs, name)?)?;
    }
    Ok(programs)
}

/// Loads one program into the kernel, again if a signal interrupts the kernel's check of it.
///
/// # Errors
///
/// The kernel refuses.
pub fn load_program(program: &mut SchedClassifier) -> Result<()> {
    again_if_interrupted(|| program.load()).map_err(failed(LOAD))
}

type Loaded = std::result::Result<(), ProgramError>;

/// How often a program is loaded before a signal that interrupts it each time is an error.
const ATTEMPTS: u32 = 10;

/// The kernel gives up with `EAGAIN` when this thread gets a signal while the program is checked, which takes milliseconds. Any stop of
/// the process is such a signal: a debugger's, job control's or the freezer's.
fn again_if_interrupted(mut load: impl FnMut() -> Loaded) -> Loaded {
    for _ in 1..ATTEMPTS {
        match load() {
            Err(ProgramError::LoadError { io_error, .. }) if io_error.kind() == ErrorKind::WouldBlock => {}
            loaded => return loaded,
        }
    }
    load()
}

/// One of the programs of an object.
pub fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier> {
    programs.program_mut(name).ok_or_else(|| missing(name))?.try_into().map_err(failed("load the program"))
}

pub fn missing(name: &str) -> Error {
    Error::System(format!("the compiled program has no {name}"))
}

/// The priority of a filter that runs before those that the device has: the kernel chooses one.
pub const FIRST: u16 = 0;
/// The priority of a filter that runs after all others.
pub const LAST: u16 = u16::MAX;

/// Makes a program a filter of outgoing packets, in the place of another one if that is given. It stays when this process ends, and goes
/// with the device. The device has the qdisc clsact.
pub fn attach_filter(program: &mut SchedClassifier, device: &Device, priority: u16, instead: Option<Filter>) -> Result<()> {
    let attached = match instead {
        Some(Filter { priority, handle, .. }) => {
            let link = SchedClassifierLink::attached(&device.name, TcAttachType::Egress, priority, handle.into(), None);
            program.attach_to_link(link.map_err(failed("replace the program"))?)
        }
        None => {
            let filter = TcAttachOptions::Netlink(NlOptions { priority, ..NlOptions::default() });
            program.attach_with_options(&device.name, TcAttachType::Egress, filter)
        }
    };
    let id = attached.map_err(failed("attach the program"))?;
    // Dropping the link would remove the filter.
    program.take_link(id).map(std::mem::forget).map_err(failed("attach the program"))
}

/// Removes the filters of outgoing packets that are programs with this name, if there are any.
pub fn detach_filter(device: &Device, name: &str) -> Result<()> {
    match tc::qdisc_detach_program(&device.name, TcAttachType::Egress, name) {
        Err(tc::TcError::IoError(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed("detach the program")),
    }
}

/// Opens a map that has one entry.
pub fn array<V: Pod>(map: MapData) -> Result<Array<MapData, V>> {
    Map::from_map_data(map).and_then(Array::try_from).map_err(failed("open a map of the program"))
}

/// The sum of a map's first entry over all processors.
pub fn sum<const N: usize>(map: MapData) -> Result<[u64; N]> {
    let map: PerCpuArray<_, [u64; N]> =
        Map::from_map_data(map).and_then(PerCpuArray::try_from).map_err(failed("open the counters"))?;
    let mut total = [0; N];
    for words in map.get(&0, 0).map_err(failed("read the counters"))?.iter() {
        for (sum, word) in total.iter_mut().zip(words) {
            *sum += word;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::io;

    use aya_obj::VerifierLog;

    use super::*;

    /// How often a program is loaded whose check is interrupted this often before it ends with `last`, and how that ends.
    fn load_after(interruptions: u32, last: Option<ErrorKind>) -> (u32, Option<ErrorKind>) {
        let mut attempts = 0;
        let error = |kind: ErrorKind| ProgramError::LoadError {
            io_error: io::Error::from(kind),
            verifier_log: VerifierLog::new(String::new()),
        };
        let ended = again_if_interrupted(|| {
            attempts += 1;
            if attempts <= interruptions {
                Err(error(ErrorKind::WouldBlock))
            } else {
                last.map_or(Ok(()), |kind| Err(error(kind)))
            }
        });
        let kind = match ended {
            Ok(()) => None,
            Err(ProgramError::LoadError { io_error, .. }) => Some(io_error.kind()),
            Err(other) => panic!("{other}"),
        };
        (attempts, kind)
    }

    #[test]
    fn a_signal_does_not_keep_a_program_from_being_loaded() {
        assert_eq!(load_after(0, None), (1, None));
        assert_eq!(load_after(3, None), (4, None));
        assert_eq!(load_after(u32::MAX, None), (ATTEMPTS, Some(ErrorKind::WouldBlock)), "it ends whatever happens");
        assert_eq!(
            load_after(1, Some(ErrorKind::PermissionDenied)),
            (2, Some(ErrorKind::PermissionDenied)),
            "a refusal is final"
        );
    }
}
