//! The file system of BPF objects, in which taggers stay attached when the program ends.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use rustix::mount::MountFlags;

use crate::{Error, Result, failed};

const ROOT: &str = "/sys/fs/bpf";
/// The magic number of the file system (linux/magic.h).
const MAGIC: u64 = 0xcafe_4a11;

/// The folder of all taggers.
pub fn folder() -> PathBuf {
    Path::new(ROOT).join("flowloom")
}

/// The folder of the tagger of a device in this network namespace. Names of devices are no names here, since they may have dots.
pub fn folder_of(index: u32) -> Result<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(failed("read the network namespace"))?;
    Ok(folder().join(format!("{}-{index}", namespace.ino())))
}

/// The number of the network namespace of a tagger's device, from the tagger's folder.
pub fn namespace_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.split_once('-')?.0.parse().ok()
}

/// Mounts the file system, if it is not.
pub fn mount() -> Result<()> {
    if is_mounted()? {
        return Ok(());
    }
    // What is mounted in a mount namespace of few processes vanishes with them, and so would the tagger.
    if let Some(why) = hidden() {
        return Err(Error::Input(why));
    }
    rustix::mount::mount("bpf", ROOT, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"mode=0700")
        .map_err(failed("mount the file system of BPF objects in /sys/fs/bpf"))
}

fn is_mounted() -> Result<bool> {
    let mounted = rustix::fs::statfs(ROOT).map_err(failed("find the file system of BPF objects in /sys/fs/bpf"))?;
    Ok(mounted.f_type as u64 == MAGIC)
}

/// Why this process may not see taggers that there are, if it may not: `ip netns exec` gives it a mount namespace of its own.
pub fn hidden() -> Option<String> {
    if is_mounted().unwrap_or(false) || !is_apart() {
        return None;
    }
    let right = "use --netns NAME instead of `ip netns exec NAME`, or mount it first: mount -t bpf bpf /sys/fs/bpf";
    Some(format!("/sys/fs/bpf has no BPF file system in this mount namespace; {right}"))
}

/// Whether a program from which this one descends is in another mount namespace. It need not be the parent: `ip netns exec` may have run a script, or Python.
fn is_apart() -> bool {
    let of = |process: u32| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mine = of(std::process::id());
    iter::successors(Some(std::process::id()), |process| parent(*process)).any(|process| {
        let theirs = of(process);
        theirs.is_some() && theirs != mine
    })
}

/// The parent of a process; none if it is unknown, or of another namespace of processes.
fn parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have blanks; proc(5) counts the parent as field 4.
    let parent = text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

/// Makes a folder, which must belong to this user: in a file system that everybody may write to, somebody else could have made it.
pub fn make(folder: &Path) -> Result<()> {
    let failed = failed("make a folder for the tagger in /sys/fs/bpf");
    // Of two that attach a tagger at once, only one makes the folder.
    fs::create_dir_all(self::folder()).and_then(|()| fs::create_dir(folder)).map_err(failed)?;
    for made in folder.ancestors().take(2) {
        let owner = fs::metadata(made).map_err(crate::failed("read the tagger's folder"))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::System(format!("{} belongs to user {owner}; remove it first", made.display())));
        }
    }
    Ok(())
}

/// Removes a tagger's folder, and that of all taggers if it was the last one.
pub fn remove(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(failed("read the tagger's folder"))? {
        let path = entry.map_err(failed("read the tagger's folder"))?.path();
        fs::remove_file(&path).map_err(failed(&format!("remove {}", path.display())))?;
    }
    fs::remove_dir(folder).map_err(failed(&format!("remove {}", folder.display())))?;
    if let Some(above) = folder.parent() {
        // Other taggers may be in it.
        let _ = fs::remove_dir(above);
    }
    Ok(())
}
